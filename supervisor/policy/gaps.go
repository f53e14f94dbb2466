package policy

import (
	"fmt"
	"slices"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// gaps are what no plan made from the policy can hold, one sentence each.
func (p *Policy) gaps() []string {
	var out []string
	if p.recordOnly {
		out = append(out, "record_only: operations are recorded, not held; reeve's own files are denied by decision only, which a racing task can get past")
	}
	if p.hides() {
		out = append(out, "hide: the names of hidden files are still seen by stat, access and readlink, which are not trapped")
	}
	for _, n := range p.net {
		if len(n.domains) > 0 {
			out = append(out, fmt.Sprintf("network.domains of profile %s: names are not enforced yet; what only they allow is denied", n.name))
		}
	}
	if l := p.Limits(); l != (Limits{}) {
		out = append(out, "limits: parsed, not enforced yet")
	}
	if p.recordOnly {
		return out
	}
	if p.judgesWords() {
		out = append(out, "commands: without a witness, and for vectors of more than 1024 bytes, the words of an exec are compared with those that were judged at the new program's first trapped call, for a static program not before its first instruction")
	}
	return append(out, p.execGaps()...)
}

// judgesWords reports whether the words of a command can decide.
func (p *Policy) judgesWords() bool {
	for _, l := range p.commands {
		for class, c := range l.classes {
			if class != command.Interpreter && c.action > event.ActionAllow {
				return true
			}
		}
		if slices.ContainsFunc(l.own, func(r ownRule) bool { return r.action > event.ActionAllow }) {
			return true
		}
	}
	return false
}

func (p *Policy) hides() bool {
	for i := range p.files.rules {
		if p.files.rules[i].word == wordHide {
			return true
		}
	}
	return false
}

// execGaps names what may not run inside ground that the floor has to grant in
// whole: there only the gate, and as root the witness, stand against it.
func (p *Policy) execGaps() []string {
	return p.openGround("the gate and the witness only", p.execPlanes()...)
}

// needWitness is that for programs that a rule of the exec table denies: where no
// witness stands against them, a race with the gate runs them. Files that are
// closed as such are not meant: running one is not reading it.
func (p *Policy) needWitness() []string {
	return p.openGround("the witness, which needs root", &p.program)
}

func (p *Policy) openGround(who string, sets ...*ruleSet) []string {
	var out []string
	ground, holes := p.execGround()
	for _, dir := range ground {
		example, found := execHoleBelow(dir, sets)
		known := false
		for _, h := range holes {
			known = known || isBelow(example, h)
		}
		if found && !known {
			out = append(out, fmt.Sprintf("exec: the floor lets programs run anywhere below %s, so %s is kept from running by %s", dir, example, who))
		}
	}
	return out
}

// execHoleBelow is a path below dir that may not run.
func execHoleBelow(dir string, sets []*ruleSet) (example string, found bool) {
	for _, s := range sets {
		if s.auto == nil {
			continue
		}
		if example, found = s.auto.Hole(s.temp.alias(dir), s.execClosed); found {
			return example, true
		}
	}
	return "", false
}
