package policy

import (
	"fmt"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// agentshNetwork translates the rules about the network: the first that matches
// decides, what none matches is denied.
func (im *importer) agentshNetwork(list []*reading) {
	n := im.net()
	n.mode, n.bind = "limited", "loopback"
	for _, r := range list {
		rule := im.agentshRule(r)
		domains, cidrs, ports := r.texts("domains"), r.texts("cidrs"), r.texts("ports")
		switch {
		case len(domains) > 0 && len(cidrs) > 0:
			im.say(worse(rule.action), r.t.pos, rule.what, "one rule cannot be about names and addresses at once here%s", instead(rule.action))
		case len(domains) > 0:
			im.agentshDomains(rule, domains, ports)
		case len(cidrs) > 0:
			for _, s := range cidrs {
				im.agentshAddress(rule, s, ports)
			}
		default:
			im.agentshAddress(rule, said{"*", r.t.pos}, ports)
		}
		r.rest()
	}
}

func (im *importer) agentshDomains(rule agentshRule, domains, ports []said) {
	for _, s := range domains {
		name := strings.ToLower(s.text)
		what := rule.what + " " + s.text
		switch {
		case im.earlierDomain(name) != event.ActionNone: // the first decides
		case len(ports) > 0 && rule.action == event.ActionAllow:
			im.domain(rule.action, said{name + ":" + ports[0].text, s.pos}, rule.what)
		case len(ports) > 0:
			im.say(FidelityStricter, s.pos, what, "holds for every port")
			im.everyDomain(rule, name, s)
		default:
			im.everyDomain(rule, name, s)
		}
	}
}

// everyDomain puts a rule about names; of "*" the addresses speak too.
func (im *importer) everyDomain(rule agentshRule, name string, s said) {
	switch {
	case name == "*" && rule.action == event.ActionDeny: // what is not listed is denied
	case name == "*" && rule.action == event.ActionAllow && len(im.net().domains) == 0:
		im.net().enabled, im.net().mode = true, "full"
	default:
		im.domain(rule.action, said{name, s.pos}, rule.what)
	}
}

// earlierDomain is what an earlier rule says of a name.
func (im *importer) earlierDomain(name string) event.Action {
	for _, d := range im.net().domains {
		suffix, wild := strings.CutPrefix(d.pattern, "*")
		if d.pattern == name || wild && strings.HasSuffix(name, suffix) {
			return d.action
		}
	}
	return event.ActionNone
}

func (im *importer) agentshAddress(rule agentshRule, s said, ports []said) {
	if len(ports) == 0 {
		ports = []said{{}}
	}
	for _, p := range ports {
		text := s.text
		if strings.Contains(text, ":") {
			text = "[" + strings.Replace(text, "/", "]/", 1)
			if !strings.Contains(text, "]") {
				text += "]"
			}
		}
		if p.text != "" {
			text += ":" + p.text
		}
		switch prefix, port, ok := parseAddr(text); {
		case !ok:
			im.say(worse(rule.action), s.pos, rule.what+" "+text, "is not an address that can be told here%s", instead(rule.action))
		case text == "*" && rule.action == event.ActionDeny: // what is not listed is denied
		case im.earlierAddress(addrRule{prefix: prefix, port: port}) != event.ActionNone: // the first decides
		default:
			im.portsBefore(rule, s.text, addrRule{prefix: prefix, port: port}, s)
			put(&im.net().addresses, importSpot{"", text}.act(rule.action, s.pos, rule.what))
			im.net().enabled = im.net().enabled || rule.action != event.ActionDeny
		}
	}
}

// portsBefore keeps what earlier rules say of single ports of an address, which
// would lose to one about the address itself.
func (im *importer) portsBefore(rule agentshRule, text string, a addrRule, s said) {
	for _, was := range im.net().addresses {
		prefix, port, _ := parseAddr(was.pattern)
		inside := prefix == anywhere || a.prefix != anywhere && prefix.Bits() <= a.prefix.Bits() && prefix.Contains(a.prefix.Addr())
		if !inside || port == 0 || a.port != 0 || was.action <= rule.action {
			continue
		}
		if strings.Contains(text, ":") {
			text = "[" + strings.Replace(text, "/", "]/", 1)
		}
		put(&im.net().addresses, importSpot{"", fmt.Sprintf("%s:%d", text, port)}.act(was.action, s.pos, rule.what))
	}
}

// earlierAddress is what an earlier rule that covers an address says.
func (im *importer) earlierAddress(a addrRule) event.Action {
	for _, was := range im.net().addresses {
		prefix, port, _ := parseAddr(was.pattern)
		inside := prefix == anywhere || a.prefix != anywhere && prefix.Bits() <= a.prefix.Bits() && prefix.Contains(a.prefix.Addr())
		if inside && (port == 0 || port == a.port) {
			return was.action
		}
	}
	return event.ActionNone
}

// agentshCommands translates the rules about commands. What none matches is
// denied there, in newer versions; here it runs, bound by all the rest.
func (im *importer) agentshCommands(list []*reading) {
	allowed, every := map[string]bool{}, false
	for _, r := range list {
		rule := im.agentshRule(r)
		args := append(r.texts("args_patterns"), r.texts("args_match")...)
		commands := r.texts("commands")
		for _, s := range commands {
			name := last(s.text)
			what := rule.what + " " + s.text
			every = every || name == "*"
			switch {
			case allowed[name] || allowed["*"]: // an earlier rule lets it run whatever its words are
			case rule.action == event.ActionAllow:
				allowed[name] = allowed[name] || len(args) == 0
				im.say(FidelityExact, s.pos, what, "no rule is written: programs run here unless a rule denies them, and risky commands ask all the same")
			case name == "*":
				im.say(FidelityOpen, s.pos, what, "programs that no rule names are not denied: the command that starts the session would be among them")
			default:
				im.agentshCommand(rule, s, args, what)
			}
		}
		if len(commands) == 0 {
			im.say(worse(rule.action), r.t.pos, rule.what, "names no command%s", instead(rule.action))
		}
		r.about(FidelityStricter, "is not told for single commands: the session's environment holds", "env_allow", "env_deny")
		r.about(FidelityOpen, "reeve has no such limit: nothing stands for it", "env_max_bytes", "env_max_keys", "env_block_iteration")
		r.rest()
	}
	if len(list) > 0 && !every {
		im.say(FidelityOpen, Pos{}, "command_rules", "programs that no rule names run here, in what files and network allow; agentsh's newer versions deny them")
	}
}

// agentshCommand translates a denial or a question. Patterns of arguments that
// are plain words or options are kept; others make it hold for the whole program.
func (im *importer) agentshCommand(rule agentshRule, s said, args []said, what string) {
	if len(args) == 0 {
		im.command(rule.action, commandLine{words: []string{s.text}}, s.pos, what)
		return
	}
	for _, a := range args {
		option := strings.Trim(a.text, "*")
		line := commandLine{words: []string{s.text}, loose: true}
		if strings.HasPrefix(option, "-") && !strings.ContainsAny(option, " *?[]{}()^$+\\|.") {
			line = commandLine{words: []string{s.text, option}}
			if option != a.text {
				im.say(FidelityOpen, a.pos, what+" "+a.text, "holds where %s stands as an option, not where it is a part of another word, as the pattern says", option)
			}
		}
		im.command(rule.action, line, s.pos, what+" "+a.text)
	}
}
