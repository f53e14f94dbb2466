package policy

import (
	"net/netip"
	"strconv"

	"github.com/reeve-audit/reeve/tracer/event"
)

// addrClass is what kind of place an address is.
type addrClass uint8

const (
	addrPublic addrClass = iota
	addrLoopback
	addrPrivate
	addrMetadata
)

// metadataAddrs are where clouds hand out machines' credentials.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("169.254.170.2"), netip.MustParseAddr("169.254.170.23"),
	netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd00:ec2::23"), netip.MustParseAddr("fd20:ce::254"),
}

// sharedSpace is the carriers' address space (RFC 6598), private to a network.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// nat64 and sixToFour carry an IPv4 address that the packet will go to.
var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// plain is the address that a packet really goes to: without a zone, and IPv4
// where it is mapped or translated.
func plain(a netip.Addr) netip.Addr {
	a = a.WithZone("").Unmap()
	b := a.As16()
	switch {
	case a.Is4():
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6]))
	case [12]byte(b[:12]) == [12]byte{} && a != netip.IPv6Loopback() && !a.IsUnspecified():
		return netip.AddrFrom4([4]byte(b[12:16])) // the old IPv4-compatible form
	}
	return a
}

// classify says what a plain address is. The kernel takes the unspecified
// address for loopback when it connects.
func classify(a netip.Addr) addrClass {
	for _, m := range metadataAddrs {
		if a == m {
			return addrMetadata
		}
	}
	switch {
	case a.IsLoopback(), a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return addrLoopback
	case a.IsPrivate(), a.IsLinkLocalUnicast(), a.IsMulticast(), sharedSpace.Contains(a), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return addrPrivate
	}
	return addrPublic
}

// matches reports whether the rule speaks of an address and port.
func (r *addrRule) matches(a netip.Addr, port uint16) bool {
	return (r.port == 0 || r.port == port) && (r.prefix == anywhere || r.prefix.Contains(a))
}

// specific orders rules: the longer prefix, then the named port.
func (r *addrRule) specific() int {
	n := 2 * (r.prefix.Bits() + 1)
	if r.prefix == anywhere {
		n = 0
	} else if r.prefix.Addr().Is4() {
		n += 2 * 96
	}
	if r.port != 0 {
		n++
	}
	return n
}

// find is the rule that speaks of an address, the most specific, at a tie the
// stricter; nil without one.
func find(rules []addrRule, a netip.Addr, port uint16) *addrRule {
	var best *addrRule
	for i := range rules {
		r := &rules[i]
		if !r.matches(a, port) {
			continue
		}
		if best == nil || r.specific() > best.specific() || r.specific() == best.specific() && r.action > best.action {
			best = r
		}
	}
	return best
}

// netLayer is what one profile says about the network.
type netLayer struct {
	*network
	name   string
	origin Layer
	closed bool
}

// on reports whether the profile opens the network at all.
func (n *netLayer) on() bool { return n.enabled != nil && *n.enabled }

// reach is the mode the rules amount to: full, limited to what is listed, or
// asking for the rest. Names are not enforced yet, so where there are some, only
// listed addresses pass.
func (n *netLayer) reach() string {
	if n.mode == "full" && len(n.domains) > 0 {
		return "limited"
	}
	if n.mode != "" {
		return n.mode
	}
	if len(n.domains) > 0 {
		return "limited"
	}
	for _, r := range n.addresses {
		if r.action == event.ActionAllow {
			return "limited"
		}
	}
	return "full"
}

// netVerdict is what one layer says about a destination.
type netVerdict struct {
	action       event.Action
	rule, reason string
	pos          Pos
}

// silent reports whether the profile, not being the ground, speaks only of what
// it lists.
func (n *netLayer) silent() bool { return !n.closed && n.enabled == nil }

// decide says what the profile thinks of one destination.
func (n *netLayer) decide(a netip.Addr, port uint16, own bool) netVerdict {
	class := classify(a)
	if n.silent() {
		if r := find(n.addresses, a, port); r != nil {
			return netVerdict{r.action, r.text, "the address is listed", r.pos}
		}
		return netVerdict{action: event.ActionAllow}
	}
	loop := class == addrLoopback && own
	if !n.on() {
		if r := find(n.addresses, a, port); loop && r != nil && r.action > event.ActionAllow {
			return netVerdict{r.action, r.text, "the address is listed", r.pos}
		}
		if loop {
			return netVerdict{event.ActionAllow, "own loopback port", "", n.pos}
		}
		return netVerdict{event.ActionDeny, "network.enabled = false", "the network is closed but for the session's own loopback ports", n.pos}
	}
	if r := find(n.addresses, a, port); r != nil {
		return netVerdict{r.action, r.text, "the address is listed", r.pos}
	}
	if loop {
		return netVerdict{event.ActionAllow, "own loopback port", "", n.pos}
	}
	return n.unlisted(class)
}

// unlisted decides about a destination that no rule names.
func (n *netLayer) unlisted(class addrClass) netVerdict {
	say := func(a event.Action, fallback event.Action, word, reason string) netVerdict {
		if a == event.ActionNone {
			a = fallback
		}
		return netVerdict{a, "network." + word + " = " + strconv.Quote(a.String()), reason, n.pos}
	}
	mode := n.reach()
	rest := map[string]event.Action{"full": event.ActionAllow, "limited": event.ActionDeny, "ask": event.ActionAsk}[mode]
	switch class {
	case addrMetadata:
		return say(n.metadata, event.ActionDeny, "metadata", "a cloud's metadata service, which hands out credentials")
	case addrLoopback:
		return say(n.local, event.ActionDeny, "local", "a local service that is not the session's own")
	case addrPrivate:
		if n.private != event.ActionNone {
			return say(n.private, rest, "private", "an address of a private network")
		}
	}
	v := netVerdict{rest, "network.mode = " + strconv.Quote(mode), "the address is not listed", n.pos}
	if len(n.domains) > 0 && rest == event.ActionDeny {
		v.reason = "the address is not listed, and rules about domains are not enforced yet"
	}
	return v
}
