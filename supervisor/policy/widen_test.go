package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// pick is one of words.
func pick(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

// randomProfile is a profile that says something in some of the planes.
func randomProfile(r *rand.Rand, name string, extends ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[permissions.%s]\n", name)
	if parent := pick(r, extends...); parent != "" {
		fmt.Fprintf(&b, "extends = %q\n", parent)
	}
	maybe := func(text string) {
		if r.IntN(2) == 0 {
			b.WriteString(text)
		}
	}
	maybe(fmt.Sprintf("record_only = %s\n", pick(r, "true", "false")))
	maybe(fmt.Sprintf("signals = %q\n", pick(r, "any", "session")))
	table := func(kind string, patterns []string, words ...string) {
		if r.IntN(2) == 0 {
			return
		}
		fmt.Fprintf(&b, "[permissions.%s.%s]\n", name, kind)
		for _, p := range patterns {
			if r.IntN(2) == 0 {
				fmt.Fprintf(&b, "%q = %q\n", p, pick(r, words...))
			}
		}
	}
	table("filesystem", []string{"/", "~", "~/ws", "~/ws/data", "~/ws/src/*", "~/.ssh", "/**/secret-*", "/usr/bin", ":tmp", ":minimal", "/run", "/etc"},
		"deny", "hide", "ask", "read", "ask-write", "write")
	table("always", []string{"/**/secret-*", "~/ws/src", "/etc"}, "deny", "hide", "ask", "read", "ask-write")
	table("exec", []string{"/usr/bin/x", "~/ws", ":memory"}, "allow", "deny")
	maybe(fmt.Sprintf("[permissions.%s.commands]\ndestructive = %q\npublish = %q\ninstall = %q\n", name, pick(r, "allow", "ask", "deny"), pick(r, "allow", "ask", "deny"), pick(r, "allow", "deny")))
	table("secrets", []string{"/", "~/.ssh", "~/ws/.env", "/**/.env", "/**/*.key", "/run/secrets"}, "read", "write")
	maybe(fmt.Sprintf("[permissions.%s.secrets.\":home\"]\n\".\" = \"write\"\n", name))
	table("protected", []string{"/", "~/ws/.git", "~/ws/.github", "~/ws/**/config"}, "write")
	maybe(fmt.Sprintf("[permissions.%s.capabilities]\nkeep = [%q, %q]\n", name, pick(r, "chown", "kill", "*"), pick(r, "setuid", "sys_admin")))
	maybe(fmt.Sprintf("[permissions.%s.kernel]\nallow = [%q, %q]\n", name, pick(r, "mount", "ptrace", "*"), pick(r, "bpf", "pidfd")))
	maybe(fmt.Sprintf("[permissions.%s.limits]\nprocesses = %d\nmemory = \"%dMiB\"\nwall = \"%ds\"\n", name, 1+r.IntN(9), 1+r.IntN(9), 1+r.IntN(9)))
	maybe(fmt.Sprintf("[permissions.%s.approval]\ntimeout = \"%ds\"\n", name, 1+r.IntN(90)))
	maybe(fmt.Sprintf("[permissions.%s.env]\ninherit = [%q, %q]\ndeny = [%q, %q]\nset = { %s = \"set\", LD_PRELOAD = \"/x\" }\n",
		name, pick(r, "*", ":default", "A_*"), pick(r, "PATH", "B_TOKEN"), pick(r, "A_*", ":secrets", "C"), pick(r, "LD_*", "D"), pick(r, "A_ONE", "C")))
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "[permissions.%s.network]\nbind = %q\n", name, pick(r, "none", "loopback", "any"))
		maybe(fmt.Sprintf("enabled = %s\n", pick(r, "true", "true", "false")))
		maybe(fmt.Sprintf("mode = %q\n", pick(r, "full", "limited", "ask")))
		maybe(fmt.Sprintf("local = %q\n", pick(r, "allow", "deny")))
		maybe(fmt.Sprintf("private = %q\n", pick(r, "allow", "deny")))
		maybe(fmt.Sprintf("metadata = %q\n", pick(r, "allow", "deny")))
		maybe(fmt.Sprintf("families = [%q]\n", pick(r, "*", "netlink", "vsock")))
		table("network.addresses", []string{"*", "192.0.2.0/24", "192.0.2.1:443", "127.0.0.1:5432", "169.254.169.254"}, "allow", "deny", "ask")
		table("network.domains", []string{"example.com", "*.example.com"}, "allow", "deny")
		table("network.unix_sockets", []string{"/run/docker.sock", "/tmp/s", "/tmp/ssh-1/agent", "~/ws/s", "/"}, "allow", "deny")
	}
	return b.String()
}

// wider names the first thing that p lets a session do and the bound does not, or
// "".
func wider(r *rand.Rand, p, bound *Policy) string {
	for plane, both := range map[string][2]bool{
		"record_only": {p.recordOnly, bound.recordOnly}, "memory": {p.memory, bound.memory}, "signals": {p.anySignal, bound.anySignal},
	} {
		if both[0] && !both[1] {
			return plane
		}
	}
	for _, name := range capabilityNames {
		keeps := func(q *Policy) bool {
			return slices.Contains(q.Capabilities(), name) || slices.Contains(q.Capabilities(), "*")
		}
		if keeps(p) && !keeps(bound) {
			return "capability " + name
		}
	}
	if l, most := p.Limits(), bound.Limits(); tighter(l.Processes, most.Processes) != l.Processes || tighter(l.Memory, most.Memory) != l.Memory || tighter(l.Wall, most.Wall) != l.Wall {
		return fmt.Sprintf("limits %+v, at most %+v", l, most)
	}
	if a, most := p.Approval(), bound.Approval(); tighter(a.Timeout, most.Timeout) != a.Timeout {
		return fmt.Sprintf("approval %+v, at most %+v", a, most)
	}
	if found := widerEnv(p, bound); found != "" {
		return found
	}
	for _, req := range boundRequests(r) {
		if d, most := p.Decide(req), bound.Decide(req); d.Action == event.ActionAllow && most.Action != event.ActionAllow {
			return fmt.Sprintf("%v %v %s %s:%d → %s: allowed by %q, not by %q (%s)", req.Op, req.Access, req.Object.Path, req.Object.Addr, req.Object.Port, req.Target.Path, d.Rule, most.Rule, most.Reason)
		}
		if req.Object.Path != "" {
			t := newTarget(req, &req.Object, everyNeed, roleUse)
			if bound.verdictOf(&t).closed() != p.verdictOf(&t).closed().and(bound.verdictOf(&t).closed()) && p.verdictOf(&t).widens(bound.verdictOf(&t)) {
				return fmt.Sprintf("verdict of %s: %+v, at most %+v", t.path, p.verdictOf(&t), bound.verdictOf(&t))
			}
		}
	}
	return ""
}

// widerEnv compares what of the caller's environment is seen, and what is denied
// even if it is set.
func widerEnv(p, bound *Policy) string {
	caller := []string{"PATH=/usr/bin", "A_ONE=caller", "B_TOKEN=caller", "C=caller", "D=caller", "LD_PRELOAD=caller", "URL=https://u:p@h/", "HOME=/home/u", "X=caller"}
	pass := []string{"B_TOKEN", "LD_PRELOAD", "URL", "X"}
	got, _ := p.Env(caller, pass...)
	most, _ := bound.Env(caller, pass...)
	for _, kv := range got {
		name, value, _ := strings.Cut(kv, "=")
		ours := value == p.host.Tmp || slices.ContainsFunc(p.tables.caches, func(c cacheTable) bool {
			return slices.ContainsFunc(c.set, func(own pair) bool { return own.key == name })
		})
		if slices.Contains(most, kv) || value == maskText || ours {
			continue
		}
		if value != "set" && value != "/x" {
			return "the environment has " + kv
		}
		if plan := bound.envPlan(bound.envelopes()); plan.denies(name, value) {
			return "the environment has " + kv + ", which the envelope denies"
		}
	}
	return ""
}

// boundRequests are requests of every plane.
func boundRequests(r *rand.Rand) []*event.Request {
	var out []*event.Request
	for range 150 {
		req := randomRequest(r)
		switch req.Op {
		case event.OpRename, event.OpLink, event.OpSymlink: // they compare verdicts with one another, each of which is compared here
		default:
			out = append(out, req)
		}
	}
	for _, path := range []string{"/home/u/.ssh/id_rsa", "/home/u/ws/.env", "/home/u/ws/a.key", "/home/u/ws/.git/config", "/home/u/ws/.github/x", "/run/secrets/x", "/home/u/ws/secret-x", "/usr/bin/x", "/etc/passwd"} {
		for _, verb := range []string{"read", "write", "exec", "delete", "make", "stat"} {
			out = append(out, ask(verb+" "+path))
		}
	}
	for _, a := range []string{"192.0.2.1 443", "192.0.2.9 80", "203.0.113.1 53", "127.0.0.1 5432", "127.0.0.1 80 own", "10.0.0.1 80", "169.254.169.254 80", "::1 22"} {
		for _, verb := range []string{"connect", "send", "bind", "listen"} {
			out = append(out, dial(verb+" "+a))
		}
	}
	for _, path := range []string{"/run/docker.sock", "/tmp/s", "/tmp/ssh-1/agent", "/home/u/ws/s", "/home/u/.ssh/s", "/home/u/.local/state/reeve/s"} {
		for _, op := range []event.Op{event.OpConnect, event.OpSend, event.OpBind, event.OpListen} {
			for _, own := range []bool{true, false} {
				out = append(out, &event.Request{Op: op, Object: event.Object{Kind: event.ObjectSocket, Family: syscall.AF_UNIX, Path: path, Own: own}})
			}
		}
	}
	for op := event.Op(1); int(op) < event.NumOps; op++ {
		for _, own := range []bool{true, false} {
			out = append(out, &event.Request{Op: op, Object: event.Object{Kind: event.ObjectKernel, Own: own}})
		}
	}
	for _, line := range []string{"rm -rf /home/u/x", "git push --force", "git push", "npm install", "ls", "sudo ls"} {
		req := ask("exec /usr/bin/" + strings.Fields(line)[0])
		req.Argv = strings.Fields(line)
		out = append(out, req)
	}
	for _, family := range []uint16{syscall.AF_NETLINK, afVsock, afALG, syscall.AF_INET} {
		out = append(out, &event.Request{Op: event.OpSocket, Object: event.Object{Family: family, Proto: pick(r, "", "raw", "sctp")}})
	}
	return out
}

// TestNothingWidensTheEnvelope: whatever the user's, the project's and the
// session's files say and whichever profile is chosen, no plane allows more than
// the envelope alone does. An envelope that extends nothing speaks only of what it
// names; then "alone" is over the widest profile there is.
func TestNothingWidensTheEnvelope(t *testing.T) {
	cache := mapCache{}
	r := rand.New(rand.NewPCG(5, 6))
	loaded, grounded := 0, 0
	for i := range 300 {
		parent := pick(r, "", "", ":workspace", ":observe", ":read-only", ":privileged-manual")
		envelope := source(Envelope, "default_permissions = \"e\"\n"+randomProfile(r, "e", parent)+randomProfile(r, "wide", ":observe"))
		alone := ""
		if parent == "" {
			alone = "observe"
		}
		bound, err := LoadCached([]Source{envelope}, alone, testHost(), cache)
		if err != nil {
			t.Fatalf("%v\n%s", err, envelope.Text)
		}
		parents := []string{"", ":observe", ":workspace", ":observe"}
		sources := []Source{envelope}
		for _, l := range []Layer{User, Project, Session} {
			if r.IntN(3) > 0 {
				def := ""
				if r.IntN(2) == 0 {
					def = fmt.Sprintf("default_permissions = %q\n", pick(r, "m", "e", "observe"))
				}
				sources = append(sources, source(l, def+randomProfile(r, "m", parents...)+randomProfile(r, "e", parents...)))
			}
		}
		p, err := LoadCached(sources, pick(r, "", "", "observe", "wide", "e", DefaultProfile), testHost(), cache)
		if err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		loaded++
		if parent != "" {
			grounded++
		}
		if found := wider(r, p, bound); found != "" {
			for _, s := range sources {
				t.Logf("--- %s\n%s", s.Name, s.Text)
			}
			t.Fatalf("round %d, profile %s: %s", i, p.Name(), found)
		}
	}
	if loaded < 100 || grounded < 50 {
		t.Errorf("%d policies, %d envelopes that extend something", loaded, grounded)
	}
}
