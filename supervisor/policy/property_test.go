package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

var pathParts = []string{
	"home", "u", "ws", "usr", "bin", "lib", "etc", "tmp", "reeve-01S", "proc", "77", "1", "self", ".git", "hooks", "config", "config.lock", "x.git", "modules",
	"refs", "heads", ".env", ".env.example", "a.key", "id_rsa", ".ssh", ".aws", "node_modules", "src", "main.go", ".github", ".claude", "data", "secret-x", ".local",
	"state", "reeve", "environ", "comm", "x", "worktrees", "commondir", ".pyenv", "go", "pkg", "mod", "dev", "null", "shadow", "*", "a b", "\xff",
}

func randomPath(r *rand.Rand) string {
	var b strings.Builder
	heads := []string{"", "/home/u", "/home/u/ws", "/usr", "/home/u/ws/.git", "/proc/77", "/tmp", "/home/u/ws/x.git"}
	b.WriteString(heads[r.IntN(len(heads))])
	for range 1 + r.IntN(4) {
		b.WriteString("/" + pathParts[r.IntN(len(pathParts))])
	}
	return b.String()
}

func randomRequest(r *rand.Rand) *event.Request {
	verbs := []string{"read", "write", "make", "update", "probe", "exec", "delete", "mkdir", "chmod"}
	req := ask(verbs[r.IntN(len(verbs))] + " " + randomPath(r))
	req.Born = r.IntN(3) == 0
	switch r.IntN(6) {
	case 0:
		req.Op, req.Target = event.OpRename, event.Object{Path: randomPath(r), Kind: event.ObjectMissing}
	case 1:
		req.Op, req.Target = event.OpLink, event.Object{Path: randomPath(r), Kind: event.ObjectMissing}
	case 2:
		req.Op, req.Target = event.OpSymlink, event.Object{Path: randomPath(r), Kind: event.ObjectMissing}
	}
	if r.IntN(4) == 0 && req.Object.Kind == event.ObjectFile {
		req.Object.Kind = event.ObjectDir
	}
	return req
}

// TestExplainMatchesDecide: what the layers are said to say amounts to what is
// decided. Explanations find their rules by trying the patterns one by one, and
// decisions by the automaton's tables.
func TestExplainMatchesDecide(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	src := source(Session, strings.Replace(poorText, "\"/\" = \"read\"", "\"/srv\" = \"read\"", 1))
	for _, p := range []*Policy{load(t, ""), load(t, "privileged-manual"), load(t, "read-only"), load(t, "", src), load(t, "", source(Project, designText))} {
		for range 3000 {
			req := randomRequest(r)
			d, e := p.Decide(req), p.Explain(req)
			if e.Decision != d {
				t.Fatalf("%s: %v: explained %+v, decided %+v", p.Name(), req, e.Decision, d)
			}
			worst := event.ActionNone
			for _, l := range naive(p, req) {
				worst = max(worst, l)
			}
			allowed := d.Action == event.ActionAllow
			if worst > event.ActionAllow && allowed || worst <= event.ActionAllow && !allowed && !byNames(req, d) {
				t.Fatalf("%s: %v %s %s born=%v: naive %v, decided %+v\n%+v", p.Name(), req.Op, req.Object.Path, req.Target.Path, req.Born, worst, d, e.Layers)
			}
			if !allowed && d.Rule != "" && e.Layer == "" {
				t.Fatalf("%s: %v %s: no layer for rule %q\n%+v", p.Name(), req.Op, req.Object.Path, d.Rule, e.Layers)
			}
		}
	}
}

// byNames reports whether a denial is about how two names relate, which no layer
// says of one path.
func byNames(req *event.Request, d event.Decision) bool {
	return req.Op == event.OpLink || d.Reason == reasonWidens || d.Reason == reasonTree || d.Reason == reasonPlants ||
		d.Reason == reasonRepository || d.Reason == reasonSocket || d.Reason == reasonOwn
}

// naive is what each layer says of each path of a request, found by trying every
// pattern.
func naive(p *Policy, req *event.Request) []event.Action {
	var out []event.Action
	for _, t := range p.targets(req) {
		if req.Op == event.OpLink && t.role == roleFrom {
			continue // judged against the new name, not by itself
		}
		for _, s := range p.planes {
			first := make([]int32, len(s.layers))
			for i := range first {
				first[i] = -1
			}
			if s.auto != nil {
				for _, hit := range s.auto.Explain(s.temp.alias(t.judged())) {
					if first[hit.Layer] < 0 {
						first[hit.Layer] = int32(hit.Rule)
					}
				}
			}
			for i, w := range first {
				a := s.layerVerdict(i, w).of(t.need & s.need)
				if w >= 0 && a > event.ActionAllow {
					if excused, _ := t.excused(&s.rules[w]); excused {
						a = event.ActionAllow
					}
				}
				out = append(out, a)
			}
		}
	}
	return out
}

// TestRenamesNeverWiden: after an allowed rename or link no name lets the session
// do to an object what it could not do before.
func TestRenamesNeverWiden(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	p := load(t, "")
	moved := 0
	for range 20000 {
		req := randomRequest(r)
		if req.Op != event.OpRename && req.Op != event.OpLink || req.Object.Kind == event.ObjectMissing {
			continue
		}
		d := p.Decide(req)
		if d.Action != event.ActionAllow {
			continue
		}
		suffix := ""
		if req.Object.Kind == event.ObjectDir {
			for range r.IntN(3) {
				suffix += "/" + pathParts[r.IntN(len(pathParts))]
			}
		}
		req.Object.Path, req.Target.Path = req.Object.Path+suffix, req.Target.Path+suffix
		from, to := newTarget(req, &req.Object, 0, roleFrom), newTarget(req, &req.Target, 0, roleTo)
		moved++
		if p.verdictOf(&to).widens(p.verdictOf(&from)) {
			t.Fatalf("%v %s → %s widens", req.Op, from.path, to.path)
		}
		if req.Object.Kind == event.ObjectDir && strictness(p.verdictOf(&to).write) > strictness(p.verdictOf(&from).write) && suffix != "" {
			t.Fatalf("%v %s → %s plants", req.Op, from.path, to.path)
		}
	}
	if moved < 100 {
		t.Errorf("only %d renames were allowed", moved)
	}
}
