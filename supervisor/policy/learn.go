package policy

import (
	"cmp"
	"slices"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Learner collects what recorded sessions were denied or asked about under a
// profile, and proposes what a profile that extends it would have to add. It is
// for one goroutine.
type Learner struct {
	cfg   LearnConfig
	hosts []*Policy // the profile on each session's host
	roots map[root]*spot
	other map[need]*Proof
	left  map[leftKey]*LeftOut
	named map[leftKey]bool // what left speaks of, without the reasons
}

// LearnConfig says what may be proposed.
type LearnConfig struct {
	// Sensitive also proposes what is closed on purpose: secret files, protected
	// configuration, what a profile denies by name, surfaces of the kernel.
	Sensitive bool
}

// NewLearner has seen nothing.
func NewLearner(cfg LearnConfig) *Learner {
	return &Learner{cfg: cfg, roots: map[root]*spot{}, other: map[need]*Proof{}, left: map[leftKey]*LeftOut{}, named: map[leftKey]bool{}}
}

// Proof is the recorded operations behind a rule.
type Proof struct {
	Count   int
	Samples []Sample // the first few
}

// Sample is one recorded operation.
type Sample struct {
	Session string
	Seq     uint64
	Op      event.Op
	Access  event.Access
	// Object is a path or an address, Exe the program that asked: bytes.
	Object, Exe string
}

const maxSamples = 8

func (p *Proof) add(o *Proof) {
	p.Count += o.Count
	p.Samples = append(p.Samples, o.Samples[:min(len(o.Samples), maxSamples-len(p.Samples))]...)
}

// LeftOut is what is not proposed.
type LeftOut struct {
	Why, Object string
	Op          event.Op
	// Sensitive says that LearnConfig.Sensitive would propose it.
	Sensitive bool
	Proof     Proof
}

type leftKey struct {
	op          event.Op
	object, why string
}

// need is one entry of a table that would let an operation pass.
type need struct {
	table learnTable
	// key is a path, an address with port, or a name.
	key string
	// word is what a table of paths would have to say.
	word word
	// dir is set where a file's path is a directory's.
	dir bool
}

// learnTable is a table of a profile.
type learnTable uint8

const (
	learnFiles learnTable = iota
	learnExec
	learnSecrets
	learnProtected
	learnAddresses
	learnSockets
	learnBind
	learnFamilies
	learnKernel
	learnSignals
	learnMemory
	learnCommands
)

// Add takes the next record of a session. base is its review by the profile that
// is to be extended, on the session's host.
func (l *Learner) Add(e *event.Event, base *Review) {
	r := base.Reconsider(e)
	proof := proofOf(e)
	switch {
	case !r.Asked:
		if e.Kind == event.KindRequest && e.Action == event.ActionDeny {
			l.leave(e, proof, "not the policy's to allow: decided by the "+cmp.Or(e.By, "gate")+", "+e.Reason)
		}
		return
	case r.Open != "":
		l.leave(e, proof, r.Open)
		return
	case r.To == event.ActionAllow:
		return
	case refusedByPerson(e):
		l.leave(e, proof, "an approver said no ("+strings.TrimPrefix(e.By, byApprover)+")")
		return
	}
	p := base.other.stack.Own()
	if !slices.Contains(l.hosts, p) {
		l.hosts = append(l.hosts, p)
	}
	all, outside := base.other.wants(e.Request())
	if all.never == "" && len(all.needs) == 0 {
		all.never = neverRule + cmp.Or(r.Decision.Reason, r.Decision.Rule)
		if strings.HasPrefix(r.Decision.Rule, commandRule) {
			all.never = meaning(r.Decision.Rule)
		}
	}
	switch {
	case outside:
		l.leave(e, proof, "a session outside of this one denies it, or asks")
	case all.never != "":
		l.leave(e, proof, all.never)
	case all.sensitive != "" && !l.cfg.Sensitive:
		l.leave(e, proof, all.sensitive).Sensitive = true
	default:
		for _, n := range all.needs {
			l.take(p, n, proof)
		}
	}
}

// wants are what the session's own profile would have to say for a request to
// pass, and whether a session outside does not let it pass. Of all that is judged
// for one request, what is not allowed is of interest.
func (r *rerun) wants(req event.Request) (all wants, outside bool) {
	own := len(r.stack) - 1
	for _, one := range judged(&req) {
		for i := range own {
			outside = outside || rulingOf(r.look(i, &one)).action != event.ActionAllow
		}
		if d := r.look(own, &one); rulingOf(d).action != event.ActionAllow {
			all.join(r.stack[own].wants(&one, d))
		}
	}
	return all, outside
}

// refusedByPerson reports whether somebody, and not a deadline, refused.
func refusedByPerson(e *event.Event) bool {
	who, answered := strings.CutPrefix(e.By, byApprover)
	return answered && e.Action == event.ActionDeny && who != "deadline" && who != "approval"
}

func proofOf(e *event.Event) *Proof {
	object := e.Object.Path
	switch {
	case e.Object.Addr != "":
		object = addressKey(e.Object.Addr, e.Object.Port)
	case e.Op == event.OpSymlink, object == "":
		object = cmp.Or(e.Target.Path, e.Object.Raw)
	}
	return &Proof{1, []Sample{{e.Session, e.Seq, e.Op, e.Access, object, e.Task.Exe}}}
}

func (l *Learner) leave(e *event.Event, proof *Proof, why string) *LeftOut {
	key := leftKey{e.Op, anyTasks(proof.Samples[0].Object), why}
	if l.left[key] == nil {
		l.left[key] = &LeftOut{Why: why, Object: key.object, Op: e.Op}
	}
	l.left[key].Proof.add(proof)
	l.named[leftKey{op: key.op, object: key.object}] = true
	return l.left[key]
}

// take notes a need: files in the tree of their place, all else as it is.
func (l *Learner) take(base *Policy, n need, proof *Proof) {
	if n.table == learnFiles {
		at, parts := base.host.place(n.key)
		if l.roots[at] == nil {
			l.roots[at] = &spot{}
		}
		l.roots[at].want(parts, &n, proof)
		return
	}
	if n.table == learnExec || n.table == learnSockets || n.table == learnSecrets || n.table == learnProtected {
		at, parts := base.host.place(n.key)
		n.key = string(at) + "\x00" + strings.Join(parts, "/")
	}
	if l.other[n] == nil {
		l.other[n] = &Proof{}
	}
	l.other[n].add(proof)
}

// Check holds a proposal against the next record of a session: learned is its
// review by the base with the proposal over it. What it still refuses is noted as
// left out. It reports an operation that the base allows and the proposal does
// not, which would be a mistake.
func (l *Learner) Check(e *event.Event, base, learned *Review) (worse bool) {
	is, will := base.Reconsider(e), learned.Reconsider(e)
	if !will.Asked || will.Open != "" || is.Open != "" || will.To == event.ActionAllow {
		return false
	}
	// What more is allowed counts as one of many, where that is limited.
	if is.To == event.ActionAllow && !strings.HasPrefix(will.Decision.Rule, bulkRule) {
		return true
	}
	proof := proofOf(e)
	if l.named[leftKey{op: e.Op, object: anyTasks(proof.Samples[0].Object)}] {
		return false
	}
	l.leave(e, proof, "the proposal does not reach it: "+cmp.Or(will.Decision.Reason, will.Decision.Rule))
	return false
}

// LeftOut is what is not proposed, the most frequent first.
func (l *Learner) LeftOut() []LeftOut {
	var out []LeftOut
	for _, o := range l.left {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.Why, b.Why), cmp.Compare(b.Proof.Count, a.Proof.Count), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Op, b.Op))
	})
	return out
}

// harmless reports a denial that only says what the kernel would.
func harmless(d *event.Decision) bool { return d.Errno == int32(syscall.EEXIST) }
