package policy

import (
	"fmt"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// importAgentsh translates a policy of agentsh: lists of rules of which the first
// that matches decides, and what none matches is denied.
func importAgentsh(im *importer) {
	root := &reading{im, readYAML(im.src, &im.faults), ""}
	im.name, im.description, im.exactPaths = "agentsh", "Translated from an agentsh policy.", true
	if name, pos := root.str("name"); name != "" {
		if badName(name) != "" || builtInTexts[name] != "" {
			im.say(FidelityExact, pos, "name "+name, "is called agentsh here")
		} else {
			im.name = name
		}
	}
	root.about(FidelityExact, "is a text for people: nothing depends on it", "version", "description")
	im.startable()
	im.say(FidelityExact, Pos{}, "", "what programs cannot start without (:minimal) is readable, and the session has a private place for temporary files")
	im.agentshFiles(root.tables("file_rules"))
	im.agentshNetwork(root.tables("network_rules"))
	im.agentshSockets(root.tables("unix_socket_rules"))
	im.agentshCommands(root.tables("command_rules"))
	im.agentshSignals(root.tables("signal_rules"))
	im.agentshLimits(root.sub("resource_limits"))
	im.agentshEnv(root.sub("env_policy"))
	root.about(FidelityExact, "is about recording, of which everything is kept here", "audit")
	root.about(FidelityExact, "is about Windows only", "registry_rules")
	root.rest()
}

// agentshRule is what all rules have in common.
type agentshRule struct {
	*reading
	action event.Action
	name   string
	// what is how messages call it.
	what string
}

// agentshDecision reads a rule's decision. What it changes on the way asks, or is
// denied.
func (im *importer) agentshRule(r *reading) agentshRule {
	name, _ := r.str("name")
	decision, pos := r.str("decision")
	out := agentshRule{reading: r, name: name, what: fmt.Sprintf("%s %s", r.what, name), action: event.ActionDeny}
	if pos == (Pos{}) {
		pos = r.t.pos
	}
	switch strings.ToLower(decision) {
	case "allow":
		out.action = event.ActionAllow
	case "audit":
		out.action = event.ActionAllow
	case "approve":
		out.action = event.ActionAsk
	case "deny":
	case "soft_delete":
		out.action = event.ActionAsk
		im.say(FidelityStricter, pos, out.what, "soft_delete becomes ask: reeve keeps no copy of what is deleted")
	case "redirect", "absorb":
		im.say(FidelityStricter, pos, out.what, "%s becomes deny: reeve runs nothing else in its place", decision)
	default:
		im.say(FidelityStricter, pos, out.what, "the decision %q is not known: denied", decision)
	}
	r.about(FidelityExact, "is a text for people: nothing depends on it", "description", "message")
	r.about(FidelityExact, "the session's own deadline for questions holds", "timeout")
	r.about(FidelityExact, "belongs to a decision that is a denial here", "redirect_to", "preserve_tree", "fallback")
	return out
}

// agentshSockets translates the rules about unix sockets.
func (im *importer) agentshSockets(list []*reading) {
	for _, r := range list {
		rule := im.agentshRule(r)
		ops := r.texts("operations")
		for _, s := range r.texts("paths") {
			what := rule.what + " " + s.text
			at, ok := im.agentshPath(s, what)
			switch {
			case strings.HasPrefix(s.text, "@"):
				im.say(worse(rule.action), s.pos, what, "is an abstract socket: only the session's own are reached")
			case !ok:
			case rule.action == event.ActionAllow && len(ops) > 0 && !hasText(ops, "connect", "*"):
				im.say(FidelityExact, s.pos, what, "no rule is written: sockets are made where files may be")
			default:
				earlier := false
				for _, was := range im.net().sockets {
					earlier = earlier || im.relate(importSpot{was.base, was.pattern}, at).covers
				}
				if !earlier { // the first that matches decides
					put(&im.net().sockets, at.act(rule.action, s.pos, what))
				}
			}
		}
		r.rest()
	}
	if len(list) > 0 && !im.everySocket() {
		im.net().socketsOfProjects = event.ActionDeny
	}
}

// everySocket reports whether a rule is about the workspaces' sockets already.
func (im *importer) everySocket() bool {
	for _, s := range im.net().sockets {
		if s.base == ":workspace_roots" || s.pattern == "/" {
			return true
		}
	}
	return false
}

func hasText(list []said, words ...string) bool {
	for _, s := range list {
		for _, w := range words {
			if strings.EqualFold(s.text, w) {
				return true
			}
		}
	}
	return false
}

// agentshSignals: tasks of the session may signal one another, and nobody else.
func (im *importer) agentshSignals(list []*reading) {
	for _, r := range list {
		rule := im.agentshRule(r)
		target := r.sub("target")
		kind, _ := target.str("type")
		target.about(FidelityExact, "is part of the target", "pattern", "min", "max")
		target.rest()
		r.about(FidelityExact, "all signals are treated alike here", "signals")
		outside := kind == "external" || kind == "system" || kind == "user" || kind == "parent"
		switch {
		case outside && rule.action == event.ActionDeny, !outside && kind != "process" && kind != "pid_range" && rule.action == event.ActionAllow:
		case rule.action == event.ActionAllow || outside:
			im.say(FidelityStricter, r.t.pos, rule.what, "only tasks of the session can be signalled")
		default:
			im.say(FidelityOpen, r.t.pos, rule.what, "tasks of the session can signal one another")
		}
		r.rest()
	}
}

func (im *importer) agentshLimits(r *reading) {
	for _, l := range []struct{ theirs, ours, unit string }{{"pids_max", "processes", ""}, {"max_memory_mb", "memory", "MiB"}} {
		if n, _ := r.count(l.theirs); n > 0 && l.unit == "" {
			im.limits = append(im.limits, [2]string{l.ours, fmt.Sprint(n)})
		} else if n > 0 {
			im.limits = append(im.limits, [2]string{l.ours, fmt.Sprintf("\"%d%s\"", n, l.unit)})
		}
	}
	if wall, pos := r.str("session_timeout"); wall != "" {
		s := section{faults: &im.faults, table: r.t, what: r.what}
		if d := s.duration("session_timeout"); d > 0 {
			im.limits = append(im.limits, [2]string{"wall", tomlString(d.String())})
		} else {
			im.say(FidelityOpen, pos, r.path("session_timeout"), "%q is no time", wall)
		}
	}
	r.about(FidelityOpen, "reeve has no such limit: nothing stands for it", "memory_swap_max_mb", "cpu_quota_percent", "disk_read_bps_max", "disk_write_bps_max", "net_bandwidth_mbps", "command_timeout", "idle_timeout")
	r.rest()
}

func (im *importer) agentshEnv(r *reading) {
	names := func(key string) (out []string) {
		for _, s := range r.texts(key) {
			if s.text == "" || strings.ContainsAny(s.text, "=[]{}\\\x00:") {
				im.say(FidelityOpen, s.pos, r.path(key)+" "+s.text, "is not a pattern of names here")
				continue
			}
			out = append(out, s.text)
		}
		return out
	}
	if len(r.t.entries) == 0 {
		return
	}
	im.env.inherit, im.env.deny = names("allow"), names("deny")
	if len(im.env.inherit) == 0 {
		im.env.inherit = []string{"*"}
	}
	im.env.deny = append(im.env.deny, ":secrets")
	r.about(FidelityOpen, "reeve has no such limit: nothing stands for it", "max_bytes", "max_keys")
	r.about(FidelityExact, "is about a library of agentsh's", "block_iteration")
	r.rest()
}
