package policy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
)

// Explanation says how a decision came about.
type Explanation struct {
	// Decision is what Decide answers.
	Decision event.Decision
	// Pos is where the deciding rule stands and Layer in which layer; both are
	// empty when no rule decided.
	Pos   Pos
	Layer string
	// Enforced is "floor", "gate", or "floor and gate"; of a session whose plan has hooks,
	// "hook", "gate and hook", or one of these.
	Enforced string
	// Layers are what each layer says of each path, in their order.
	Layers []LayerVerdict
}

// LayerVerdict is what one layer says of one path or address.
type LayerVerdict struct {
	Path, Layer, Rule, Word string
	Pos                     Pos
	Action                  event.Action
	Note                    string
}

// Explain answers a request as Decide does, and says why. Who enforces it is said of the
// engine unotify.
func (p *Policy) Explain(req *event.Request) Explanation {
	return p.explain(req, p.enforcer(req, p.handling()))
}

// ExplainUnder is Explain for a session with a plan, of [Policy.Lower] or
// [Policy.LowerHooks].
func (p *Policy) ExplainUnder(req *event.Request, plan *tracer.Plan) Explanation {
	if plan.Hooks == nil {
		return p.explain(req, p.enforcer(req, plan.Handling))
	}
	return p.explain(req, p.hookEnforcer(req, plan))
}

func (p *Policy) explain(req *event.Request, enforced string) Explanation {
	e := Explanation{Decision: p.Decide(req), Enforced: enforced}
	for _, t := range p.targets(req) {
		e.Layers = append(e.Layers, p.explainPath(&t)...)
	}
	if req.Op == event.OpExec {
		e.Layers = append(e.Layers, p.explainCommand(req)...)
	}
	if a, err := netip.ParseAddr(req.Object.Addr); err == nil && req.Object.Kind == event.ObjectAddr {
		for i := range p.net {
			v := p.net[i].judge(req, plain(a))
			e.Layers = append(e.Layers, LayerVerdict{
				Path: req.Object.Addr, Layer: "profile " + p.net[i].name, Rule: v.rule, Pos: v.pos, Action: v.action, Note: v.reason,
			})
		}
	}
	if strings.HasPrefix(e.Decision.Rule, commandRule) {
		e.Enforced = "gate" // the floor knows no words
	}
	e.place()
	return e
}

// place finds the layer that the decision's rule belongs to.
func (e *Explanation) place() {
	for _, l := range e.Layers {
		sameSide := l.Action > event.ActionAllow == (e.Decision.Action > event.ActionAllow)
		decisive := l.Rule == e.Decision.Rule && sameSide
		special := l.Action == event.ActionAllow && strings.HasPrefix(l.Rule, e.Decision.Rule+" (")
		if decisive || special && e.Decision.Rule != "" {
			e.Pos, e.Layer = l.Pos, l.Layer
			return
		}
	}
}

// targets are the paths that a request touches, as Decide judges them.
func (p *Policy) targets(req *event.Request) []target {
	obj := newTarget(req, &req.Object, event.AccessWrite, roleUse)
	switch req.Op {
	case event.OpOpen, event.OpCreate:
		obj.need, obj.role = openNeeds(req)
	case event.OpExec:
		obj.need = event.AccessExec
	case event.OpDelete, event.OpRmdir:
		obj.role = roleRemove
	case event.OpMkdir, event.OpMknod, event.OpBind:
		obj.role = roleMake
	case event.OpRename, event.OpLink, event.OpSymlink:
		obj.role = roleFrom
		to := newTarget(req, &req.Target, event.AccessWrite, roleTo)
		if to.kind = req.Object.Kind; req.Op == event.OpSymlink {
			to.kind, to.role = event.ObjectSymlink, roleLink
			return []target{to}
		}
		if req.Op == event.OpLink {
			obj.need = event.AccessRead
		}
		return []target{obj, to}
	case event.OpTruncate, event.OpChmod, event.OpChown, event.OpSetxattr, event.OpUtime, event.OpConnect, event.OpSend, event.OpListen:
	default:
		return nil
	}
	if obj.anonymous() || obj.kind == event.ObjectAddr || obj.kind == event.ObjectAbstract {
		return nil
	}
	return []target{obj}
}

// explainPath is what each layer says of one path.
func (p *Policy) explainPath(t *target) []LayerVerdict {
	var out []LayerVerdict
	for _, s := range append(p.planes, &p.sockets) {
		isSocket := s == &p.sockets
		if isSocket && t.req.Op != event.OpConnect && t.req.Op != event.OpSend && t.req.Op != event.OpBind {
			continue
		}
		winners := s.match(t)
		for i := range s.layers {
			w := winner(winners, i)
			v := s.layerVerdict(i, w)
			if w < 0 && !s.layers[i].closed {
				continue
			}
			lv := LayerVerdict{Path: t.path, Layer: s.layers[i].describe(), Action: v.of(t.need)}
			if isSocket {
				lv.Action = v.exec
			}
			if w >= 0 {
				lv.Action = t.softened(&s.rules[w], lv.Action)
				s.rules[w].explain(t, &lv)
			} else {
				lv.Note = reasonUnnamed
			}
			out = append(out, lv)
		}
	}
	return out
}

// explain fills in what the rule itself says.
func (r *rule) explain(t *target, lv *LayerVerdict) {
	lv.Rule, lv.Word, lv.Pos = r.label(), r.word.String(), r.pos
	if r.by != "" {
		lv.Layer = r.by
	}
	if r.action != event.ActionNone {
		lv.Word = r.action.String()
	}
	if lv.Action <= event.ActionAllow {
		return
	}
	lv.Note = r.reason
	if r.born == bornFile && t.kind != event.ObjectDir && t.need&event.AccessExec == 0 {
		lv.Note += ", unless the session itself made the file"
	}
	if excused, guarded := t.excused(r); excused {
		lv.Action, lv.Note = event.ActionAllow, "excepted: the file is new, made by the session, or in a repository that the session made"
		if guarded {
			lv.Note += "; its content is checked when it is moved there, and nothing else can write it"
		}
	}
}

func (l *layer) describe() string {
	if l.origin == BuiltIn && !l.profile {
		return l.name + " (built in)"
	}
	return fmt.Sprintf("%s (%s)", l.name, l.origin)
}

// classOf is the gate's class of a request.
func classOf(req *event.Request) gate.Class {
	switch req.Op {
	case event.OpOpen, event.OpCreate:
		if need, _ := openNeeds(req); need&event.AccessWrite != 0 {
			return gate.Write
		}
		return gate.Read
	case event.OpDelete, event.OpRmdir, event.OpRename, event.OpLink, event.OpSymlink, event.OpMkdir, event.OpMknod:
		return gate.Tree
	case event.OpTruncate, event.OpChmod, event.OpChown, event.OpSetxattr, event.OpUtime:
		return gate.Meta
	case event.OpExec:
		return gate.Exec
	case event.OpConnect:
		return gate.Connect
	case event.OpBind, event.OpListen:
		return gate.Bind
	case event.OpSend:
		return gate.Send
	case event.OpSocket:
		return gate.Socket
	case event.OpSignal:
		return gate.Signal
	case event.OpCreds:
		return gate.Creds
	case event.OpMemfd:
		return gate.Memfd
	}
	return gate.Kernel
}

// hookEnforcer is enforcer for a plan with hooks: what the gate has judged, the hooks
// of files, programs and signals judge once more.
func (p *Policy) hookEnforcer(req *event.Request, plan *tracer.Plan) string {
	class := classOf(req)
	behind := false
	switch class {
	case gate.Read, gate.Write, gate.Exec:
		behind = true
	case gate.Tree, gate.Meta:
		behind = plan.Hooks.Names
	case gate.Signal:
		behind = !plan.Hooks.AnySignal
	}
	switch h := plan.Handling[class]; {
	case h == gate.Hook:
		return "hook"
	case h == gate.Untrapped, h == gate.Refuse:
		return "floor"
	case behind && !p.recordOnly:
		return "gate and hook"
	}
	return "gate"
}

// enforcer says who holds a request's decision.
func (p *Policy) enforcer(req *event.Request, handling gate.Table) string {
	class := classOf(req)
	switch handling[class] {
	case gate.Untrapped, gate.Refuse:
		return "floor"
	case gate.Continue:
		if p.recordOnly || class == gate.Socket || class == gate.Memfd {
			return "gate"
		}
		return "floor and gate"
	}
	return "gate"
}
