package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// srtNetwork translates the lists of domains, of Claude Code's sandbox too.
func (im *importer) srtNetwork(r *reading) {
	n := im.net()
	for _, s := range r.texts("allowedDomains") {
		im.domain(event.ActionAllow, s, r.path("allowedDomains"))
	}
	denied := r.texts("deniedDomains")
	for _, s := range denied {
		im.domain(event.ActionDeny, s, r.path("deniedDomains"))
	}
	for _, s := range r.texts("deniedResolvedAddresses") {
		im.address(event.ActionDeny, s.text, s, r.path("deniedResolvedAddresses"))
	}
	if r.yes("allowAllDomains") {
		n.enabled = true
		if len(denied) == 0 {
			n.mode = "full"
		} else {
			put(&n.domains, importSpot{"", "*"}.act(event.ActionAllow, r.t.index["allowAllDomains"].val.pos, "allowAllDomains"))
		}
	}
	n.bind = "none"
	if r.yes("allowLocalBinding") {
		n.bind = "loopback"
	}
	if n.mode == "" {
		n.mode = "limited"
	}
	n.socketsOfProjects = event.ActionDeny
	r.set(FidelityStricter, notOpened, "allowAllUnixSockets")
	for _, s := range r.texts("allowUnixSockets") {
		im.say(FidelityStricter, s.pos, r.path("allowUnixSockets")+" "+s.text, "has no effect on Linux there, and none here: open it in [permissions.%s.network.unix_sockets]", im.name)
	}
	r.about(FidelityStricter, otherProxy, "httpProxyPort", "socksProxyPort", "mitmProxy", "parentProxy", "filterRequest")
	r.about(FidelityExact, ofHost, "deniedDomainReasons", "strictAllowlist", "tlsTerminate", "allowManagedDomainsOnly", "stripResponseHeaders", "allowPlaintextHeaderSet")
	r.about(FidelityStricter, "is about the content of requests, which is not looked at: what else allows them decides", "refuseOpaqueTunnels", "requireHostMatch")
	r.about(FidelityExact, ofMac, "allowMachLookup")
	r.rest()
}

// domain translates a name with or without a port; an address goes where
// addresses are.
func (im *importer) domain(action event.Action, s said, what string) {
	n := im.net()
	host, port := strings.ToLower(s.text), ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && (strings.Count(host, ":") == 1 || strings.HasPrefix(host, "[") && strings.HasSuffix(host[:i], "]")) {
		host, port = host[:i], host[i+1:]
	}
	bare := strings.Trim(host, "[]")
	if _, err := netip.ParseAddr(bare); err == nil {
		im.address(action, s.text, s, what)
		return
	}
	if host == "localhost" {
		for _, a := range []string{"127.0.0.1", "[::1]"} {
			if port != "" {
				a += ":" + port
			}
			im.address(action, strings.Trim(a, "[]"), s, what)
		}
		return
	}
	if !isDomain(host) {
		im.say(worse(action), s.pos, what+" "+s.text, "is not a name that can be told here%s", instead(action))
		return
	}
	if port != "" && action == event.ActionAllow {
		im.say(FidelityStricter, s.pos, what+" "+s.text, "is left out, and stays denied: a name has no port here, and without it every port would be open")
		return
	}
	switch {
	case port != "" && host == "*":
		im.say(FidelityOpen, s.pos, what+" "+s.text, "holds for addresses; names that are allowed are so on every port")
		im.address(action, s.text, s, what)
		return
	case port != "":
		im.say(FidelityStricter, s.pos, what+" "+s.text, "holds for every port")
	}
	if action == event.ActionDeny { // it wins there, also over a more specific name
		n.domains = slices.DeleteFunc(n.domains, func(r draftRule) bool { return coversDomain(host, r.pattern) && r.action != event.ActionDeny })
	}
	n.enabled = n.enabled || action != event.ActionDeny
	if action == event.ActionAllow {
		im.say(FidelityStricter, s.pos, what+" "+s.text, "names are not enforced yet: what only a name allows is denied")
	}
	put(&n.domains, importSpot{"", host}.act(action, s.pos, what+" "+s.text))
}

// coversDomain reports whether a pattern is about all names that another is about.
func coversDomain(pattern, name string) bool {
	suffix, wild := strings.CutPrefix(pattern, "*")
	return pattern == name || pattern == "*" || wild && len(name) > len(suffix) && strings.HasSuffix(name, suffix)
}

// worse is how it is called when a rule of an action is left out.
func worse(action event.Action) Fidelity {
	if action == event.ActionAllow {
		return FidelityStricter
	}
	return FidelityOpen
}

func instead(action event.Action) string {
	if action == event.ActionAllow {
		return ": it stays closed"
	}
	return ""
}

// isDomain reports whether a name can be a key of a table of domains.
func isDomain(name string) bool {
	if name == "*" {
		return true
	}
	rest := strings.TrimPrefix(name, "*.")
	return rest != "" && len(rest) < 254 && !strings.ContainsAny(rest, "*/:@ \t\n\\[]{}?") && !strings.Contains(rest, "..") && !strings.HasPrefix(rest, ".")
}

// address translates ADDR, ADDR/BITS, each with or without a port.
func (im *importer) address(action event.Action, text string, s said, what string) {
	if strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") {
		if addr, bits, ok := strings.Cut(text, "/"); ok {
			text = "[" + addr + "]/" + bits
		} else {
			text = "[" + text + "]"
		}
	}
	if _, _, ok := parseAddr(text); !ok {
		im.say(worse(action), s.pos, what+" "+s.text, "is not an address that can be told here%s", instead(action))
		return
	}
	n := im.net()
	n.enabled = n.enabled || action != event.ActionDeny
	put(&n.addresses, importSpot{"", text}.act(action, s.pos, what+" "+s.text))
}
