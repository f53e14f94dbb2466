package policy

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
	"github.com/reeve-audit/reeve/tracer/event"
)

// wants are what a profile would have to say for a request to pass.
type wants struct {
	needs []need
	// never says why no profile can allow it, sensitive why none should lightly.
	never, sensitive string
}

func (w *wants) add(t learnTable, key string, word word) {
	if n := (need{table: t, key: key, word: word}); !slices.Contains(w.needs, n) {
		w.needs = append(w.needs, n)
	}
}

func (w *wants) join(o wants) {
	w.needs = append(w.needs, o.needs...)
	if w.never == "" {
		w.never = o.never
	}
	if w.sensitive == "" {
		w.sensitive = o.sensitive
	}
}

const (
	neverRule    = "no rule can allow it: "
	surfaceClass = "a surface of the kernel, by which much can be got around"
)

// wants finds what stands against a request that the policy does not allow.
func (p *Policy) wants(req *event.Request, d event.Decision) wants {
	var w wants
	switch {
	case harmless(&d):
		return wants{never: "it exists already, so making it fails in any case"}
	case req.Op == event.OpSocket:
		p.wantFamily(&w, &req.Object)
	case req.Object.Kind == event.ObjectAddr:
		p.wantAddress(&w, req)
	case (req.Op == event.OpConnect || req.Op == event.OpSend) && req.Object.Kind != event.ObjectAbstract:
		p.wantSocket(&w, req)
	case d.Rule == memoryKey:
		w.sensitive = "a program without a file, which nobody can know"
		w.add(learnMemory, memoryKey, 0)
	case d.Rule == "signals":
		w.sensitive = "signals to tasks outside the session"
		w.add(learnSignals, "any", 0)
	case d.Rule == "kernel.allow" && slices.Contains(surfaceNames, req.Op.String()):
		w.sensitive = surfaceClass
		w.add(learnKernel, req.Op.String(), 0)
	default:
		for _, t := range p.targets(req) {
			p.wantPath(&w, &t)
		}
		if req.Op == event.OpExec {
			p.wantCommand(&w, req)
		}
	}
	if w.needs == nil && w.never == "" {
		w.never = neverRule + d.Reason
	}
	return w
}

// meaning says that a rule about commands is not to be got around by a path.
func meaning(rule string) string {
	return "it is what the command means that counts (" + rule + "): say what is allowed in [permissions.NAME.commands]"
}

// grave are the classes of which a command is not proposed without being asked for.
var grave = []command.Class{command.Destructive, command.Privileged, command.Publish}

// wantCommand adds the rule by which just this command would pass, where a rule
// about commands refuses it.
func (p *Policy) wantCommand(w *wants, req *event.Request) {
	for _, v := range p.judgeCommand(req, surroundings{}) {
		if v.action <= event.ActionAllow || p.recordOnly {
			continue
		}
		c := &p.commands[v.layer]
		x, err := p.exactOf(req)
		switch {
		case c.name != p.name || c.origin == Project || c.origin == Envelope:
			w.never = "profile " + origin(c.name, c.origin) + " refuses what it means, and no other layer can widen that"
		case v.program:
			w.never = meaning(v.label())
		case err != nil:
			w.never = meaning(v.label()) + ": " + err.Error()
		case req.Task.ArgvLen != 0:
			w.never = meaning(v.label()) + ": its arguments were recorded in part"
		case v.own && v.action == event.ActionDeny:
			w.sensitive = "the profile denies it by name: " + v.label()
		case slices.Contains(grave, v.class):
			w.sensitive = "what the command means: " + v.label()
		}
		if w.never == "" {
			w.add(learnCommands, exactLines(x), 0)
		}
	}
}

// wantPath adds what each layer that refuses a path would have to say.
func (p *Policy) wantPath(w *wants, t *target) {
	for _, s := range p.planes {
		if s.need&t.need == 0 {
			continue
		}
		winners := s.match(t)
		for i := range s.layers {
			at := winner(winners, i)
			if s.layerVerdict(i, at).of(t.need) <= event.ActionAllow {
				continue
			}
			var by *rule
			if at >= 0 {
				by = &s.rules[at]
				if excused, _ := t.excused(by); excused {
					continue
				}
			}
			p.wantRule(w, t, s, i, by)
		}
	}
}

// wantRule adds what a layer would have to say instead of the rule by, or of
// nothing.
func (p *Policy) wantRule(w *wants, t *target, s *ruleSet, layer int, by *rule) {
	path := t.judged()
	switch {
	case s == &p.fence && layer == selfLayer:
		w.never = "reeve's own files are closed to every session"
	case s == &p.fence, s == &p.secrets:
		w.sensitive = by.reason
		w.add(learnSecrets, path, t.exemption())
	case s == &p.guard:
		w.sensitive = by.reason
		w.add(learnProtected, path, wordWrite)
	case !p.extendable(layer):
		w.never = "the " + s.layers[layer].describe() + " denies it, and no other layer can widen that"
	case s == &p.program:
		w.named(by, s, layer)
		w.add(learnExec, path, wordRead)
	default:
		w.named(by, s, layer)
		word := p.wordFor(t)
		if t.kind == event.ObjectDir && word != wordList && p.host.tooWide(path) {
			w.never = "a rule for it would open all that is below " + path
		}
		w.needs = append(w.needs, need{learnFiles, path, word, t.kind == event.ObjectDir || t.req.Op == event.OpMkdir})
	}
}

// named makes a denial by name a sensitive one: somebody meant it.
func (w *wants) named(by *rule, s *ruleSet, layer int) {
	if by != nil && (by.word == wordDeny || by.word == wordHide || by.action == event.ActionDeny) {
		w.sensitive = "the " + s.layers[layer].describe() + " denies it by name: " + by.label()
	}
}

// exemption is the word of an exception from the secret files.
func (t *target) exemption() word {
	if t.need&event.AccessWrite != 0 {
		return wordWrite
	}
	return wordRead
}

// wordFor is the least word by which a table of files allows what t needs. Where
// changes ask they go on asking.
func (p *Policy) wordFor(t *target) word {
	switch {
	case t.need&event.AccessWrite != 0:
		return wordWrite
	case p.verdictOf(t).write == event.ActionAsk:
		return wordAskWrite
	case t.kind == event.ObjectDir && t.need == event.AccessRead && t.role == roleUse:
		return wordList
	}
	return wordRead
}

// extendable reports whether a layer of the profiles' tables is the profile that
// is extended: what lies over it narrows the proposal as well.
func (p *Policy) extendable(layer int) bool {
	s := &p.stack[layer]
	return s.name == p.name && s.origin != Project && s.origin != Envelope
}

func addressKey(addr string, port uint16) string {
	if port == 0 {
		return addr
	}
	return net.JoinHostPort(addr, strconv.Itoa(int(port)))
}

// wantAddress adds what the network tables would have to say of an address.
func (p *Policy) wantAddress(w *wants, req *event.Request) {
	obj := &req.Object
	a, err := netip.ParseAddr(obj.Addr)
	if err != nil && req.Op == event.OpListen && obj.Addr == "" && obj.Family != 0 {
		a, err = netip.IPv4Unspecified(), nil
	}
	if err != nil {
		if obj.Family != syscall.AF_INET && obj.Family != syscall.AF_INET6 {
			p.wantFamily(w, obj)
		}
		return
	}
	a = plain(a)
	for i := range p.net {
		n := &p.net[i]
		v := n.judge(req, a)
		if v.action <= event.ActionAllow {
			continue
		}
		if n.name != p.name || n.origin == Project || n.origin == Envelope {
			w.never = "profile " + n.name + " (" + n.origin.String() + ") denies it, and no other layer can widen that"
			return
		}
		if req.Op == event.OpBind || req.Op == event.OpListen {
			word := "any"
			if a.IsLoopback() {
				word = "loopback"
			}
			w.add(learnBind, word, 0)
			continue
		}
		if r := find(n.addresses, a, obj.Port); n.on() && r != nil && r.action == event.ActionDeny {
			w.sensitive = "profile " + n.name + " denies it by name: " + r.text
		}
		if classify(a) == addrMetadata {
			w.sensitive = "a cloud's metadata service, which hands out credentials"
		}
		w.add(learnAddresses, addressKey(a.String(), obj.Port), 0)
	}
}

// powerful are families of sockets that go round the rules about addresses.
var powerful = []string{"packet", "raw", "vsock", "bluetooth", "can"}

// wantFamily adds the family or protocol of a socket.
func (p *Policy) wantFamily(w *wants, obj *event.Object) {
	name := familyName(obj)
	if obj.Family == syscall.AF_INET || obj.Family == syscall.AF_INET6 {
		if name = obj.Proto; name == "icmpv6" || name == "ping" {
			name = "icmp"
		}
	}
	switch {
	case name == "*" || !slices.Contains(familyNames, name):
		return
	case slices.Contains(powerful, name):
		w.sensitive = "sockets of family " + name + " go round the rules about addresses"
	}
	w.add(learnFamilies, name, 0)
}

// masters are how names begin of sockets, or of the directories that they stand
// in, whose service does as root, or as the user, whatever it is asked to.
var masters = []string{
	"docker", "podman", "containerd", "crio", "buildkit", "libvirt", "lxd", "incus", "snapd", "systemd", "dbus", "system_bus_socket",
	"ssh-", "agent.", "gpg-agent", "S.gpg-agent", "keyring", ".X11-unix", "wayland-", "pipewire-", "tmux-", "screen",
}

func isMaster(path string) bool {
	for _, part := range []string{last(path), last(parent(path))} {
		if part == "bus" || slices.ContainsFunc(masters, func(m string) bool { return strings.HasPrefix(part, m) }) {
			return true
		}
	}
	return false
}

// wantSocket adds a unix socket that is reached by path.
func (p *Policy) wantSocket(w *wants, req *event.Request) {
	t := newTarget(req, &req.Object, event.AccessWrite, roleUse)
	if t.anonymous() {
		return
	}
	sockets, files := p.sockets.match(&t), p.files.match(&t)
	for i, s := range p.stack {
		at := winner(sockets, i)
		closed := at < 0 && s.closed && p.files.layerVerdict(i, winner(files, i)).write > event.ActionAllow
		if !closed && (at < 0 || p.sockets.rules[at].action <= event.ActionAllow) {
			continue
		}
		if !p.extendable(i) {
			w.never = "the " + p.files.layers[i].describe() + " denies it, and no other layer can widen that"
		} else if at >= 0 {
			w.named(&p.sockets.rules[at], &p.sockets, i)
		}
	}
	if p.sealed(&t) {
		w.never = "reeve's own files are closed to every session"
	}
	for _, s := range []*ruleSet{&p.fence, &p.secrets} {
		for i, at := range s.match(&t) {
			if at >= 0 && s.layerVerdict(i, at).write > event.ActionAllow && w.never == "" {
				w.sensitive = s.rules[at].reason
			}
		}
	}
	if isMaster(t.path) {
		w.sensitive = "a service that acts for whoever reaches its socket"
	}
	w.add(learnSockets, t.path, wordRead)
}
