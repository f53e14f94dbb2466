package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// Amendment is a change of the user's policy file that allows one operation.
type Amendment struct {
	// Text is the whole text of the file afterwards.
	Text []byte
	// Lines are what changes, with the tables it stands in; empty when the file
	// allows the operation already.
	Lines string
}

// Amend finds the narrowest change of the user's own policy file that makes a
// session of these sources, profile and host allow what it asks about. user is
// that file, whose Text may be empty; it takes the place of the user's source.
//
// The change is proved by loading it: the request is allowed afterwards, and of
// all paths, addresses and other planes of the policy nothing else is decided
// otherwise than before, save what an access word says about that very path (read
// is reading and running, write is everything). An error says why there is no
// such rule: a layer asks that the user's file cannot widen, the operation has no
// name that a file can hold, or a rule would reach further than the question.
func Amend(sources []Source, profile string, host Host, user Source, req *event.Request, cache Cache) (Amendment, error) {
	a := amender{profile: profile, host: host, cache: cache, user: user}
	for _, s := range sources {
		if s.Layer != User {
			a.others = append(a.others, s)
		}
	}
	before, err := a.load(user.Text)
	if err != nil {
		return Amendment{}, err
	}
	p, text, made := before, user.Text, []edit(nil)
	for p.Decide(req).Action != event.ActionAllow {
		edits, err := p.editsFor(req)
		if err != nil {
			return Amendment{}, err
		}
		fresh := slices.DeleteFunc(edits, func(e edit) bool { return slices.ContainsFunc(made, e.same) })
		if len(fresh) == 0 {
			d := p.Decide(req)
			return Amendment{}, fmt.Errorf("no rule of a policy file would allow just this (%s%s)", quoted(d.Rule), d.Reason)
		}
		if made, text, err = a.apply(made, fresh, text); err != nil {
			return Amendment{}, err
		}
		if p, err = a.load(text); err != nil {
			return Amendment{}, fmt.Errorf("no rule can be added to %s as it is written: %w", user.Name, err)
		}
	}
	if err := unchanged(before, p, made); err != nil {
		return Amendment{}, err
	}
	return Amendment{Text: text, Lines: describe(made)}, nil
}

func quoted(rule string) string {
	if rule == "" {
		return ""
	}
	return "rule " + tomlString(rule) + ": "
}

type amender struct {
	others  []Source
	user    Source
	profile string
	host    Host
	cache   Cache
}

// load is the policy with another text of the user's file, the layers in the
// order in which they are found.
func (a *amender) load(text []byte) (*Policy, error) {
	var sources []Source
	at := 0
	for at < len(a.others) && a.others[at].Layer == Envelope {
		at++
	}
	sources = append(sources, a.others[:at]...)
	if len(bytes.TrimSpace(text)) > 0 {
		sources = append(sources, Source{Name: a.user.Name, Layer: User, Text: text})
	}
	sources = append(sources, a.others[at:]...)
	return LoadCached(sources, a.profile, a.host, a.cache)
}

func (a *amender) apply(made, edits []edit, text []byte) ([]edit, []byte, error) {
	var err error
	for _, e := range edits {
		if text, err = e.splice(a.user.Name, text); err != nil {
			return nil, nil, fmt.Errorf("add a rule to %s: %w", a.user.Name, err)
		}
		made = append(made, e)
	}
	if len(text) > MaxSource {
		return nil, nil, fmt.Errorf("add a rule to %s: it would have more than %d bytes", a.user.Name, MaxSource)
	}
	return made, text, nil
}

// edit is one line of the user's file.
type edit struct {
	// profile and table say where: permissions.PROFILE.TABLE…
	profile string
	table   []string
	// key and value are as they mean, not as they are quoted.
	key, value string
	// old is where a rule about the same stands, to be replaced; was is that rule.
	old Pos
	was string
	// founds is set when the profile is made with it, as an extension of the
	// built-in one of its name.
	founds bool
	// path is what the rule is about, and below that what is below it is, too;
	// addr is that of a rule about an address.
	path  string
	below bool
	addr  *addrRule
	// exact is the command that a rule about it allows.
	exact *command.Exact
}

func (e edit) same(o edit) bool {
	return e.profile == o.profile && slices.Equal(e.table, o.table) && e.key == o.key
}

// writable is the error of a layer that the user's file cannot widen.
func writable(l *layer, rule, pos string) error {
	if l.origin == User || l.origin == BuiltIn {
		return nil
	}
	where := l.describe()
	if pos != "" {
		where += ", " + pos
	}
	return fmt.Errorf("it is %s%s that asks, and of several layers the stricter counts: only a change there can allow this for good", quoted(rule), where)
}

var errNever = errors.New("reeve's own files are opened by no policy")
