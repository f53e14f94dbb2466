package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/reeve-audit/reeve/tracer/event"
)

// editsFor are the lines that would take away what asks about a request.
func (p *Policy) editsFor(req *event.Request) ([]edit, error) {
	obj := &req.Object
	switch req.Op {
	case event.OpConnect, event.OpSend, event.OpBind, event.OpListen:
		if obj.Kind == event.ObjectAddr {
			return p.addressEdits(req)
		}
		if obj.Kind == event.ObjectAbstract || obj.Path == "" {
			return nil, errors.New("whoever knows an abstract name can take it: there are no rules for them")
		}
		t := newTarget(req, obj, event.AccessWrite, roleUse)
		return p.socketEdits(&t)
	}
	targets := p.targets(req)
	if len(targets) == 0 && req.Op != event.OpExec {
		return nil, fmt.Errorf("there are no rules about %s: allow it once, or for the session", req.Op)
	}
	var out []edit
	for i := range targets {
		edits, err := p.pathEdits(&targets[i])
		if err != nil {
			return nil, err
		}
		out = append(out, edits...)
	}
	if req.Op == event.OpExec {
		edits, err := p.commandEdits(req)
		return append(out, edits...), err
	}
	return out, nil
}

// pathEdits are the lines for one path, one for each plane that asks.
func (p *Policy) pathEdits(t *target) ([]edit, error) {
	var out []edit
	for _, s := range p.planes {
		winners := s.match(t)
		for i := range s.layers {
			w := winner(winners, i)
			action := s.layerVerdict(i, w).of(t.need)
			if s.need&t.need == 0 || action <= event.ActionAllow {
				continue
			}
			var by *rule
			if w >= 0 {
				by = &s.rules[w]
				if excused, _ := t.excused(by); excused {
					continue
				}
			}
			e, err := p.pathEdit(s, i, by, action, t)
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
	}
	return out, nil
}

// pathEdit is the line that makes one layer of one plane allow what t needs.
func (p *Policy) pathEdit(s *ruleSet, at int, by *rule, action event.Action, t *target) (edit, error) {
	l := &s.layers[at]
	label, pos := "", ""
	if by != nil {
		label, pos = by.label(), by.pos.String()
	}
	switch {
	case s == &p.fence && at == selfLayer:
		return edit{}, errNever
	case action == event.ActionDeny:
		return edit{}, fmt.Errorf("%s%s denies it: there is nothing to ask", quoted(label), l.describe())
	}
	if err := writable(l, label, pos); err != nil {
		return edit{}, err
	}
	if err := p.nameable(t); err != nil {
		return edit{}, err
	}
	word, err := accessWord(t)
	if err != nil {
		return edit{}, err
	}
	e := edit{path: t.path, below: t.kind != event.ObjectDir, key: quote(t.path), value: word}
	switch s {
	case &p.files:
		e.table = []string{"filesystem"}
	case &p.program:
		e.table, e.value = []string{"exec"}, "allow"
	case &p.guard:
		e.table, e.value = []string{"protected"}, "write"
	default:
		e.table = []string{"secrets"}
	}
	if l.profile {
		e.profile = p.stack[at].name
	} else {
		p.exceptionOwner(&e)
	}
	if by != nil && by.glob == e.key {
		e.old = by.pos
	}
	return e, nil
}

// exceptionOwner chooses the profile for an exception from a built-in layer: the
// user's own, or the built-in one that is the ground.
func (p *Policy) exceptionOwner(e *edit) {
	for _, s := range p.stack {
		if s.origin == User || s.origin == BuiltIn && e.profile == "" {
			e.profile = s.name
		}
	}
}

// nameable says why a policy file cannot speak of a path for good.
func (p *Policy) nameable(t *target) error {
	switch own := append(one(p.host.Tmp), one(p.host.Cache)...); {
	case t.ownProc, strings.HasPrefix(t.path, "/proc/") && t.path[len("/proc/")] >= '0' && t.path[len("/proc/")] <= '9':
		return errors.New("the number of a process means another one next time")
	case isBelowAny(t.path, own):
		return errors.New("the session's temporary directory goes with the session")
	case !utf8.ValidString(t.path):
		return errors.New("a policy file cannot hold a path that is not UTF-8")
	}
	return nil
}

func isBelowAny(path string, dirs []string) bool {
	for _, d := range dirs {
		if isBelow(path, d) {
			return true
		}
	}
	return false
}

// accessWord is the narrowest word that allows what is needed. What a rule says of
// a directory holds for all that is in it, but for the word that lists.
func accessWord(t *target) (string, error) {
	dir := t.kind == event.ObjectDir || t.req.Op == event.OpMkdir || t.req.Op == event.OpRmdir
	switch {
	case dir && t.need == event.AccessRead:
		return "list", nil
	case dir:
		return "", errors.New("a rule about a directory would hold for everything in it: allow it once, or for the session")
	case t.need&event.AccessWrite != 0:
		return "write", nil
	}
	return "read", nil
}

// socketEdits are the lines that let a unix socket be reached.
func (p *Policy) socketEdits(t *target) ([]edit, error) {
	if err := p.nameable(t); err != nil {
		return nil, err
	}
	if p.sealed(t) {
		return nil, errNever
	}
	var out []edit
	sockets, files := p.sockets.match(t), p.files.match(t)
	for at, s := range p.stack {
		e := edit{table: []string{"network", "unix_sockets"}, path: t.path, below: true, key: quote(t.path), value: "allow"}
		action, label, pos := event.ActionNone, "", ""
		if w := winner(sockets, at); w >= 0 {
			r := &p.sockets.rules[w]
			action, label, pos = r.action, r.label(), r.pos.String()
			if r.glob == e.key {
				e.old = r.pos
			}
		} else if s.closed {
			action = p.files.layerVerdict(at, winner(files, at)).write
		}
		if action <= event.ActionAllow {
			continue
		}
		l := &p.files.layers[at]
		if action == event.ActionDeny {
			return nil, fmt.Errorf("%s%s denies it: there is nothing to ask", quoted(label), l.describe())
		}
		if err := writable(l, label, pos); err != nil {
			return nil, err
		}
		e.profile = p.stack[at].name
		out = append(out, e)
	}
	return out, nil
}

// addressEdits are the lines that let an internet address be reached.
func (p *Policy) addressEdits(req *event.Request) ([]edit, error) {
	a, err := netip.ParseAddr(req.Object.Addr)
	switch {
	case err != nil:
		return nil, fmt.Errorf("there are no rules about addresses of this family: %w", err)
	case req.Op != event.OpConnect && req.Op != event.OpSend:
		return nil, errors.New(`there are no rules about single addresses to listen on: network.bind is for all of them`)
	case req.Object.Port == 0:
		return nil, errors.New("a rule without a port would hold for all of them")
	}
	a = plain(a)
	where := netip.AddrPortFrom(a, req.Object.Port).String()
	var out []edit
	for i := range p.net {
		n := &p.net[i]
		v := n.judge(req, a)
		if v.action <= event.ActionAllow {
			continue
		}
		l := layer{name: "profile " + n.name, origin: n.origin, profile: true}
		if v.action == event.ActionDeny {
			return nil, fmt.Errorf("%s%s denies it: there is nothing to ask", quoted(v.rule), l.describe())
		}
		if err := writable(&l, v.rule, v.pos.String()); err != nil {
			return nil, err
		}
		e := edit{profile: n.name, table: []string{"network", "addresses"}, key: where, value: "allow"}
		e.addr = &addrRule{prefix: netip.PrefixFrom(a, a.BitLen()), port: req.Object.Port}
		if r := find(n.addresses, a, req.Object.Port); r != nil && r.prefix == e.addr.prefix && r.port == e.addr.port {
			e.old = r.pos
		}
		if n.mode == "" && n.reach() == "full" {
			// Where something is allowed by name, all else would be closed.
			out = append(out, edit{profile: e.profile, table: []string{"network"}, key: "mode", value: "full"})
		}
		out = append(out, e)
	}
	return out, nil
}
