package policy

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/reeve-audit/reeve/tracer/event"
)

func parseAction(s string) event.Action {
	a, ok := event.ParseAction(s)
	if !ok {
		return event.ActionNone
	}
	return a
}

func parseEnv(s *section) *envRules {
	r := &envRules{privateCaches: s.yes("private_caches")}
	r.inherit, _, _ = s.texts("inherit")
	r.deny, _, _ = s.texts("deny")
	r.mask, _, _ = s.texts("mask")
	if set := s.sub("set"); set != nil {
		for _, e := range set.table.entries {
			if e.val.kind != unstable.String {
				s.faults.add(e.val.pos, "expected a text in quotes", "%s.set.%s is %s", s.what, e.name, kindName(e.val.kind))
				continue
			}
			if e.name == "" || strings.ContainsAny(e.name, "=\x00") || strings.Contains(e.val.str, "\x00") {
				s.faults.add(e.pos, "", "%q cannot be an environment variable", e.name)
				continue
			}
			r.set = append(r.set, envSet{e.name, e.val.str, e.pos})
		}
	}
	for _, list := range [][]string{r.inherit, r.deny, r.mask} {
		for _, pattern := range list {
			if named := strings.HasPrefix(pattern, ":"); strings.ContainsAny(pattern, "=[]{}\\\x00") || named && !contains(envLists, pattern) {
				s.faults.add(s.table.pos, "expected names of variables with * and ?, or one of "+strings.Join(envLists, ", "),
					"%q in %s is not a pattern of names", pattern, s.what)
			}
		}
	}
	s.finish()
	return r
}

func parseNetwork(s *section) *network {
	n := &network{pos: s.table.pos}
	n.enabled = s.yes("enabled")
	n.mode = s.choice("mode", "full", "limited", "ask")
	n.bind = s.choice("bind", "none", "loopback", "any")
	n.local = parseAction(s.choice("local", ruleWords...))
	n.private = parseAction(s.choice("private", ruleWords...))
	n.metadata = parseAction(s.choice("metadata", ruleWords...))
	n.families, _, _ = s.texts("families")
	for _, f := range n.families {
		if !contains(familyNames, f) {
			s.faults.add(s.table.pos, expected(f, familyNames), "%s.families holds %q", s.what, f)
		}
	}
	if t := s.sub("domains"); t != nil {
		n.domains = parseDomains(t)
	}
	if t := s.sub("addresses"); t != nil {
		n.addresses = parseAddresses(t)
	}
	if t := s.sub("unix_sockets"); t != nil {
		n.sockets = parsePaths(t, ruleWords, specialPlaces)
	}
	s.finish()
	return n
}

func parseDomains(s *section) []pathRule {
	var out []pathRule
	for _, e := range s.table.entries {
		name := strings.TrimPrefix(strings.TrimPrefix(e.name, "*"), "*.")
		if name = strings.TrimPrefix(name, "."); e.name != "*" && (name == "" || strings.ContainsAny(name, "*/:@ \t") || strings.Contains(name, "..")) {
			s.faults.add(e.pos, `expected a name such as "example.com" or "*.example.com"; addresses go to the table addresses`,
				"%q in %s is not a domain", e.name, s.what)
			continue
		}
		out = append(out, parsePath(s, "", e, ruleWords)...)
	}
	return out
}

func parseAddresses(s *section) []addrRule {
	var out []addrRule
	for _, e := range s.table.entries {
		rules := parsePath(s, "", e, ruleWords)
		if len(rules) == 0 {
			continue
		}
		prefix, port, ok := parseAddr(e.name)
		if !ok {
			s.faults.add(e.pos, `expected "192.0.2.1", "192.0.2.0/24", "192.0.2.1:443", "[2001:db8::]/32", "[2001:db8::1]:443", "*" or "*:53"`,
				"%q in %s is not an address", e.name, s.what)
			continue
		}
		out = append(out, addrRule{prefix, port, rules[0].action, e.name, e.pos})
	}
	return out
}

// anywhere is the prefix of "*": both families, see addrRule.matches.
var anywhere = netip.Prefix{}

// parseAddr reads ADDR[/BITS][:PORT]; an IPv6 address with a port is in brackets.
func parseAddr(text string) (prefix netip.Prefix, port uint16, ok bool) {
	host := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && (strings.HasPrefix(text, "[") && i > strings.IndexByte(text, ']') || strings.Count(text, ":") == 1) {
		n, err := strconv.ParseUint(text[i+1:], 10, 16)
		if err != nil || n == 0 {
			return prefix, 0, false
		}
		host, port = text[:i], uint16(n)
	}
	if host == "*" {
		return anywhere, port, true
	}
	host = strings.Replace(strings.TrimPrefix(host, "["), "]", "", 1)
	if strings.Contains(host, "/") {
		p, err := netip.ParsePrefix(host)
		if err != nil || p.Addr().Is4In6() {
			return prefix, 0, false
		}
		return p.Masked(), port, true
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" {
		return prefix, 0, false
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), port, true
}

func parseLimits(s *section) *Limits {
	l := &Limits{pos: s.table.pos}
	l.Processes = s.count("processes")
	l.OpenFiles = s.count("open_files")
	l.Memory = s.size("memory")
	l.FileSize = s.size("file_size")
	l.CPU = s.duration("cpu")
	l.Wall = s.duration("wall")
	s.finish()
	return l
}

func parseApproval(s *section) *Approval {
	a := &Approval{pos: s.table.pos, Timeout: s.duration("timeout")}
	s.finish()
	return a
}

// capabilityNames are the names that a profile may keep, as capabilities(7) has
// them without the CAP_ in front.
var capabilityNames = []string{
	"audit_control", "audit_read", "audit_write", "block_suspend", "bpf", "checkpoint_restore", "chown", "dac_override",
	"dac_read_search", "fowner", "fsetid", "ipc_lock", "ipc_owner", "kill", "lease", "linux_immutable", "mac_admin",
	"mac_override", "mknod", "net_admin", "net_bind_service", "net_broadcast", "net_raw", "perfmon", "setfcap", "setgid",
	"setpcap", "setuid", "sys_admin", "sys_boot", "sys_chroot", "sys_module", "sys_nice", "sys_pacct", "sys_ptrace",
	"sys_rawio", "sys_resource", "sys_time", "sys_tty_config", "syslog", "wake_alarm",
}

func parseNames(s *section, key string, known []string) *names {
	list, pos, said := s.texts(key)
	s.finish()
	if !said {
		return nil
	}
	for i, name := range list {
		list[i] = strings.TrimPrefix(strings.ToLower(name), "cap_")
		if list[i] != "*" && !contains(known, list[i]) {
			s.faults.add(pos, expected(list[i], append([]string{"*"}, known...)), "%s.%s holds %q", s.what, key, name)
		}
	}
	return &names{list, pos}
}
