package policy

import (
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// reasons that belong to no rule.
const (
	reasonUnnamed  = "no rule of the profile allows it"
	reasonMissing  = "does not exist, and would be denied"
	reasonExists   = "exists already, and would be denied"
	reasonProgram  = "the program may not run, so it may not be read for another loader to run it"
	reasonLong     = "the path is too long to be judged"
	reasonRelative = "the path is not absolute, so it cannot be judged"
)

// verdictOf is what all layers together say of a path.
func (p *Policy) verdictOf(t *target) verdict {
	var v verdict
	for _, s := range p.planes {
		v = v.and(s.verdicts[s.accept(t)])
	}
	return v
}

// verdictOn is what all layers together say of the object that stands at a path: of
// a file that the session made no secret's name stands against it.
func (p *Policy) verdictOn(t *target) verdict {
	if !t.made {
		return p.verdictOf(t)
	}
	var v verdict
	for _, s := range p.planes {
		winners := s.match(t)
		for i := range s.layers {
			w := winner(winners, i)
			if w < 0 || s.rules[w].born != bornFile {
				v = v.and(s.layerVerdict(i, w))
			}
		}
	}
	return v
}

// judge decides about one path.
func (p *Policy) judge(t *target) event.Decision {
	rule := ""
	for _, s := range p.planes {
		if s.need&t.need == 0 {
			continue
		}
		accept := s.accept(t)
		if s.verdicts[accept].of(t.need) > event.ActionAllow {
			return p.refuse(t)
		}
		if s == &p.files {
			rule = s.allowedBy[accept]
		}
	}
	return event.Decision{Action: event.ActionAllow, Rule: rule, By: p.by}
}

// refusal is the layer and the rule that stand against a target.
type refusal struct {
	set     *ruleSet
	layer   int
	rule    *rule // nil when a closed layer does not name the path
	verdict event.Action
	hide    bool
	// askBorn is set when all that stands against it is protected configuration
	// that a repository of the session's own might change, or a secret's name that a
	// file of its own might have.
	askBorn bool
	// askContent is set when all that stands against it asks what a settings file would
	// say.
	askContent bool
	// guarded is set when nothing stands against it but content has to be checked,
	// secret when only a secret's name did, which was excused.
	guarded, secret bool
}

// refuse finds what stands against a target that the verdict does not allow, and
// whether it has an excuse. Where nothing denies, what asks is asked.
func (p *Policy) refuse(t *target) event.Decision {
	r := p.refusal(t)
	if r.set == nil {
		d := event.Decision{Action: event.ActionAllow, Rule: p.files.allowedBy[p.files.accept(t)], By: p.by, GuardContent: r.guarded, Secret: r.secret}
		if r.secret && t.made {
			d.Rule = ruleMade
		}
		return d
	}
	d := event.Decision{Action: r.verdict, By: p.by, Reason: p.reason(&r, t), AskBorn: r.askBorn, AskContent: r.askContent, Errno: int32(syscall.EACCES)}
	if r.rule != nil {
		d.Rule = r.rule.label()
	}
	switch {
	case r.hide:
		d.Errno = int32(syscall.ENOENT)
	// What fails anyhow is no question.
	case t.missing && t.role != roleMake && t.role != roleTo && t.role != roleLink:
		d.Action, d.Errno, d.Reason = event.ActionDeny, int32(syscall.ENOENT), reasonMissing
	case t.role == roleMake && !t.missing && t.req.Op == event.OpMkdir:
		d.Action, d.Errno, d.Reason = event.ActionDeny, int32(syscall.EEXIST), reasonExists
	}
	return d
}

// reason says in one clause why a refusal stands.
func (p *Policy) reason(r *refusal, t *target) string {
	switch {
	case r.rule == nil:
		return reasonUnnamed
	case r.set == &p.program && t.need&event.AccessExec == 0:
		return reasonProgram
	}
	return r.rule.reason
}

// refusal looks through the layers, the built-in ones first. Of several that
// stand against the target it names a denying one before an asking one.
func (p *Policy) refusal(t *target) refusal {
	var found refusal
	onlyBorn, onlyContent := true, true
	for _, s := range p.planes {
		if s.need&t.need == 0 {
			continue
		}
		winners := s.match(t)
		for i := range s.layers {
			w := winner(winners, i)
			v := s.layerVerdict(i, w)
			a := v.of(t.need)
			if a <= event.ActionAllow {
				continue
			}
			var by *rule
			if w >= 0 {
				by = &s.rules[w]
				a = t.softened(by, a)
				excused, guarded := t.excused(by)
				if excused {
					found.guarded = found.guarded || guarded
					found.secret = found.secret || by.guard == guardSecret
					continue
				}
			}
			onlyBorn, onlyContent = onlyBorn && t.mayBeBorn(by), onlyContent && a == event.ActionAsk && t.byLock(by)
			// Of equals a rule that names the path says more than that none does.
			if a > found.verdict || a == found.verdict && found.rule == nil && by != nil {
				found.set, found.layer, found.rule, found.verdict, found.hide = s, i, by, a, v.hide
			}
		}
	}
	found.askBorn, found.askContent = found.set != nil && onlyBorn, found.set != nil && onlyContent
	return found
}
