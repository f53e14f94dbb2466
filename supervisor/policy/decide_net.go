package policy

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// decideNetwork judges sockets and where they lead.
func (p *Policy) decideNetwork(req *event.Request) event.Decision {
	if req.Op == event.OpSocket {
		return p.decideSocket(req)
	}
	obj := &req.Object
	switch {
	case obj.Kind == event.ObjectAbstract:
		return p.decideAbstract(req)
	case obj.Kind == event.ObjectAddr && obj.Family == syscall.AF_UNSPEC && req.Op == event.OpConnect:
		return p.allow("disconnect")
	case obj.Kind == event.ObjectAddr && (obj.Family == syscall.AF_INET || obj.Family == syscall.AF_INET6):
		return p.decideInet(req)
	case obj.Kind == event.ObjectAddr:
		return p.decideFamily(obj)
	case obj.Family == syscall.AF_UNIX || obj.Kind == event.ObjectSocket || obj.Kind == event.ObjectMissing || obj.Kind == event.ObjectFile:
		return p.decideUnix(req)
	}
	return p.deny(syscall.EACCES, "", "an address of an unknown kind")
}

// decideInet judges an address of the internet families.
func (p *Policy) decideInet(req *event.Request) event.Decision {
	a, err := netip.ParseAddr(req.Object.Addr)
	if err != nil {
		if req.Op == event.OpListen && req.Object.Addr == "" {
			a = netip.IPv4Unspecified() // listen(2) without bind takes any address
		} else {
			return p.deny(syscall.EACCES, "", "an address that cannot be read")
		}
	}
	a = plain(a)
	worst := netVerdict{action: event.ActionAllow, rule: "network"}
	for i := range p.net {
		v := p.net[i].judge(req, a)
		if i == 0 || v.action > worst.action {
			worst = v
		}
	}
	return p.netDecision(worst)
}

// judge is what one layer says about a request with an internet address.
func (n *netLayer) judge(req *event.Request, a netip.Addr) netVerdict {
	if req.Op == event.OpBind || req.Op == event.OpListen {
		return n.judgeBind(a)
	}
	return n.decide(a, req.Object.Port, req.Object.Own)
}

func (n *netLayer) judgeBind(a netip.Addr) netVerdict {
	mode := n.bind
	if mode == "" && n.silent() {
		return netVerdict{action: event.ActionAllow}
	}
	if mode == "" || mode == "any" && !n.on() {
		mode = "loopback"
	}
	v := netVerdict{event.ActionDeny, "network.bind = \"" + mode + "\"", "bind 127.0.0.1 or ::1 instead of an address that others can reach", n.pos}
	switch {
	case mode == "any", mode == "loopback" && a.IsLoopback():
		v.action, v.reason = event.ActionAllow, ""
	case mode == "none":
		v.reason = "nothing may listen"
	}
	return v
}

func (p *Policy) netDecision(v netVerdict) event.Decision {
	switch v.action {
	case event.ActionAllow:
		return p.allow(v.rule)
	case event.ActionAsk:
		return event.Decision{Action: event.ActionAsk, Rule: v.rule, Reason: v.reason, By: p.by, Errno: int32(syscall.EACCES)}
	}
	return p.deny(syscall.EACCES, v.rule, v.reason)
}

// decideAbstract judges abstract unix sockets: whoever knows the name can take
// it, so only the session's own are reached.
func (p *Policy) decideAbstract(req *event.Request) event.Decision {
	switch {
	case req.Op == event.OpBind, req.Op == event.OpListen, req.Object.Own:
		return p.allow("abstract socket of the session")
	case p.recordOnly:
		return p.allow("record_only")
	}
	return p.deny(syscall.ECONNREFUSED, "", "an abstract socket of another program")
}

// decideUnix judges unix sockets by path: those of the session itself, those in
// the workspaces, and those that a profile lists.
func (p *Policy) decideUnix(req *event.Request) event.Decision {
	obj := &req.Object
	if obj.Path == "" {
		if req.Op == event.OpBind || req.Op == event.OpListen {
			return p.allow("unnamed socket")
		}
		return p.deny(syscall.EACCES, "", reasonRelative)
	}
	if d, bad := p.malformed(obj); bad {
		return d
	}
	as := roleUse
	if req.Op == event.OpBind {
		as = roleMake
	}
	t := newTarget(req, obj, event.AccessWrite, as)
	d := p.judge(&t)
	if listed, rule := p.listedSocket(&t); listed != event.ActionNone {
		if listed == event.ActionAllow && p.kept(&t) {
			return d
		}
		reason := "the socket is listed"
		if rule == "" {
			reason = "a profile over the one that lists the socket does not"
		}
		return p.netDecision(netVerdict{action: listed, rule: rule, reason: reason})
	}
	if d.Action == event.ActionDeny {
		return d
	}
	if p.unlisted(&t) {
		return d
	}
	return p.deny(syscall.EACCES, d.Rule, "a socket outside the workspaces that the session did not make")
}

// listedSocket is what the tables of sockets say: the strictest of those that
// speak of the path. A profile that does not speak of it goes by its files, and if
// it is closed lets only such sockets be reached as need not be listed. What only
// a project's file allows is not allowed.
func (p *Policy) listedSocket(t *target) (event.Action, string) {
	if p.sockets.auto == nil {
		return event.ActionNone, ""
	}
	action, rule, trusted := event.ActionNone, "", false
	sockets, files := p.sockets.match(t), p.files.match(t)
	for i, s := range p.stack {
		w := winner(sockets, i)
		if w < 0 {
			v := p.files.layerVerdict(i, winner(files, i)).write
			if s.closed && !p.unlisted(t) {
				v = event.ActionDeny
			}
			if v > action {
				action, rule = v, ""
			}
			continue
		}
		r := &p.sockets.rules[w]
		trusted = trusted || s.origin != Project || r.action != event.ActionAllow
		if r.action >= action {
			action, rule = r.action, r.label()
		}
	}
	if !trusted {
		return event.ActionNone, ""
	}
	return action, rule
}

// sealed reports whether a path is reeve's own, which no profile opens.
func (p *Policy) sealed(t *target) bool {
	w := winner(p.fence.match(t), selfLayer)
	return w >= 0 && p.fence.rules[w].word == wordDeny
}

// socketStood reports whether a path is in a workspace, where sockets that the
// session did not make may be reached: programs of the project listen there. In
// the temporary directories, the session's own included, they are other
// programs', even where one of them is, or is in, a workspace.
func (p *Policy) socketStood(path string) bool {
	shared := p.tables.grounds[":tmp"].write
	return slices.ContainsFunc(p.host.Workspaces, func(ws string) bool {
		temporary := func(dir string) bool { return isBelow(path, dir) && isBelow(dir, ws) }
		return isBelow(path, ws) && !slices.ContainsFunc(shared, temporary)
	}) && !slices.ContainsFunc(append(one(p.host.Tmp), one(p.host.Cache)...), func(dir string) bool { return isBelow(path, dir) })
}

// socketDirs are the directories in which sockets are made to be reached.
func (p *Policy) socketDirs() []string {
	return append(append(slices.Clone(p.host.Workspaces), one(p.host.Tmp)...), one(p.host.Cache)...)
}

// Numbers of socket families and protocols that this package tells apart.
const (
	afNetlink = syscall.AF_NETLINK
	afPacket  = syscall.AF_PACKET
	afCAN     = 29
	afBT      = 31
	afALG     = 38
	afVsock   = 40
)

// familyOf names the families that a profile can open by name.
var familyOf = map[uint16]string{
	afNetlink: "netlink", afPacket: "packet", afVsock: "vsock", afALG: "alg", afCAN: "can", afBT: "bluetooth",
}

// familyName is the family of a socket as families names it. By netlink's
// NETLINK_USERSOCK anybody sends to other programs: it is no word for a profile, so
// that only "*" opens it. It is the one protocol of the kernel's own by which who may
// not administer the network reaches anything but the kernel (NL_CFG_F_NONROOT_SEND).
func familyName(obj *event.Object) string {
	if obj.Family == afNetlink && obj.Proto == event.ProtoUsersock {
		return event.ProtoUsersock
	}
	return familyOf[obj.Family]
}

// decideSocket judges the making of a socket. Where it may lead is judged when
// it is connected, bound or sent from.
func (p *Policy) decideSocket(req *event.Request) event.Decision {
	obj := &req.Object
	switch obj.Family {
	case syscall.AF_UNIX:
		return p.allow("unix socket")
	case syscall.AF_INET, syscall.AF_INET6:
		switch obj.Proto {
		case "", "tcp", "udp":
			return p.allow("internet socket")
		case "raw":
			return p.family("raw", syscall.EPERM)
		case "icmp", "icmpv6", "ping":
			return p.family("icmp", syscall.EACCES)
		}
		return p.family(obj.Proto, syscall.EPROTONOSUPPORT)
	case afPacket:
		return p.family("packet", syscall.EPERM)
	}
	return p.decideFamily(obj)
}

func (p *Policy) decideFamily(obj *event.Object) event.Decision {
	return p.family(familyName(obj), syscall.EAFNOSUPPORT)
}

// family allows what every profile opens by name.
func (p *Policy) family(name string, errno syscall.Errno) event.Decision {
	for i := range p.net {
		n := &p.net[i]
		if n.silent() && n.families == nil {
			continue
		}
		named := slices.Contains(n.families, name) || slices.Contains(n.families, "*")
		if !named || !n.on() && !slices.Contains(kernelFamilies, name) {
			return p.deny(errno, "network.families", "sockets of this family or protocol are not for ordinary programs")
		}
	}
	if len(p.net) == 0 {
		return p.deny(errno, "network.families", reasonUnnamed)
	}
	return p.allow("network.families")
}
