package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// theirGlob is a pattern of another tool as a regular expression: "**/" is any
// directories or none, "**" anything, "*" and "?" stop at "/".
func theirGlob(pattern string, below bool) *regexp.Regexp {
	e := regexp.QuoteMeta(pattern)
	e = strings.ReplaceAll(e, `\*\*/`, "\x00")
	e = strings.ReplaceAll(e, `\*\*`, ".*")
	e = strings.ReplaceAll(e, `\*`, "[^/]*")
	e = strings.ReplaceAll(e, `\?`, "[^/]")
	e = strings.ReplaceAll(e, "\x00", "(.*/)?")
	if below {
		e += "(/.*)?"
	}
	return regexp.MustCompile("^" + e + "$")
}

func match(pattern, p string) bool { return theirGlob(pattern, true).MatchString(p) }

// equalPlaces are patterns that overlap in many ways, as another tool writes them
// and as they are on the host.
var equalPlaces = map[string]string{
	"~": "/home/u", "~/a": "/home/u/a", "~/a/b": "/home/u/a/b", "/data": "/data", "/data/a": "/data/a", "/data/a/b": "/data/a/b", "/home": "/home",
	"~/a/*": "/home/u/a/*", "~/**/x": "/home/u/**/x", "/data/**/b": "/data/**/b", "/data/*/x": "/data/*/x",
}

func randomPlaces(r *rand.Rand, most int, literal bool, more map[string]string) []string {
	all := slices.Sorted(maps.Keys(equalPlaces))
	all = append(all, slices.Sorted(maps.Keys(more))...)
	all = slices.DeleteFunc(all, func(p string) bool { return literal && strings.Contains(p, "*") })
	out := []string{}
	for range r.IntN(most + 1) {
		out = append(out, pick(r, all...))
	}
	return out
}

var equalPaths = func() []string {
	out := []string{}
	for _, head := range []string{"/home/u", "/home/u/ws", "/data", "/home/u/a", "/data/a", "/home/u/ws/a"} {
		for _, tail := range []string{"", "/a", "/b", "/x", "/a/b", "/a/x", "/b/x", "/a/b/x", "/x/b/y"} {
			out = append(out, head+tail)
		}
	}
	return out
}()

// notWider compares a translation with what the other tool would say of reading
// and of changing each path.
func notWider(t *testing.T, round int, from string, text []byte, name string, allows func(path string, write bool) bool) (opened int) {
	t.Helper()
	out, err := Import(from, Source{Name: name, Text: text}, importHost())
	if err != nil {
		t.Fatalf("%s, round %d: %v\n%s", from, round, err, text)
	}
	p, err := Load([]Source{{Name: "i.toml", Layer: Session, Text: []byte(out.Text)}}, "", importHost())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range equalPaths {
		v := p.verdictOf(&target{path: path})
		for _, access := range []struct {
			write bool
			got   event.Action
		}{{false, v.read}, {true, v.write}} {
			if access.got <= event.ActionAllow {
				opened++
				if !allows(path, access.write) {
					t.Fatalf("%s, round %d: %s, write %v: allowed here and not there\n%s\n%s\n%v", from, round, path, access.write, text, out.Text, out.Translations)
				}
			}
		}
	}
	return opened
}

// TestSRTIsNotWidened: whatever the lists are, nothing may be read or changed that
// sandbox-runtime would not let.
func TestSRTIsNotWidened(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	places := map[string]string{".": "/home/u/ws", "a": "/home/u/ws/a", "./a/b": "/home/u/ws/a/b", "**/x": "/home/u/ws/**/x", "a/*": "/home/u/ws/a/*"}
	on := func(p string) string {
		if h, ok := places[p]; ok {
			return h
		}
		return equalPlaces[p]
	}
	opened := 0
	for round := range 60 {
		cfg := map[string][]string{}
		for _, list := range []string{"denyRead", "allowRead", "allowWrite", "denyWrite"} {
			cfg[list] = randomPlaces(r, 3, list == "allowRead", places)
		}
		text, err := json.Marshal(map[string]any{"filesystem": cfg})
		if err != nil {
			t.Fatal(err)
		}
		hit := func(list, path string) (longest int) {
			for _, p := range cfg[list] {
				if match(on(p), path) {
					longest = max(longest, len(on(p)))
				}
			}
			return longest
		}
		opened += notWider(t, round, "srt", text, "s.json", func(path string, write bool) bool {
			readable := hit("denyRead", path) == 0 || hit("allowRead", path) >= hit("denyRead", path)
			if !write {
				return readable
			}
			return hit("allowWrite", path) > 0 && hit("denyWrite", path) == 0
		})
	}
	if opened < 800 {
		t.Errorf("only %d accesses were open: the test compares nothing", opened)
	}
}

// TestClaudeIsNotWidened: a denial wins over a question, that over a permission.
func TestClaudeIsNotWidened(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	places := map[string]string{"/a": "/home/u/ws/a", "./a/b": "/home/u/ws/a/b", "x": "/home/u/ws/**/x", "a/*": "/home/u/ws/a/*", "**/b": "/home/u/ws/**/b"}
	on := func(p string) string {
		if h, ok := places[p]; ok {
			return h
		}
		return equalPlaces[p]
	}
	theirs := func(p string) string { // absolute paths begin with // there
		if _, ok := equalPlaces[p]; ok && strings.HasPrefix(p, "/") {
			return "/" + p
		}
		return p
	}
	opened := 0
	for round := range 60 {
		mode := pick(r, "default", "acceptEdits", "plan", "dontAsk")
		lists, cfg := map[string][][2]string{}, map[string]any{"defaultMode": mode}
		for _, list := range []string{"deny", "ask", "allow"} {
			var rules []string
			for _, p := range randomPlaces(r, 3, false, places) {
				tool := pick(r, "Read", "Edit")
				rules = append(rules, fmt.Sprintf("%s(%s)", tool, theirs(p)))
				lists[list] = append(lists[list], [2]string{tool, on(p)})
			}
			cfg[list] = rules
			if rules == nil {
				cfg[list] = []string{}
			}
		}
		text, err := json.Marshal(map[string]any{"permissions": cfg})
		if err != nil {
			t.Fatal(err)
		}
		hit := func(list, tool, path string) bool {
			for _, rule := range lists[list] {
				if rule[0] == tool && match(rule[1], path) {
					return true
				}
			}
			return false
		}
		opened += notWider(t, round, "claude-code", text, "c.json", func(path string, write bool) bool {
			inside := isBelow(path, "/home/u/ws")
			switch {
			case hit("deny", "Read", path), hit("ask", "Read", path):
				return false
			case !write:
				return inside || hit("allow", "Read", path) || hit("allow", "Edit", path)
			case hit("deny", "Edit", path), hit("ask", "Edit", path):
				return false
			}
			return hit("allow", "Edit", path) || inside && mode == "acceptEdits"
		})
	}
	if opened < 800 {
		t.Errorf("only %d accesses were open: the test compares nothing", opened)
	}
}

// TestAgentshIsNotWidened: the first rule that matches decides, and patterns are
// about nothing but what they match.
func TestAgentshIsNotWidened(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	places := map[string]string{
		"${PROJECT_ROOT}": "/home/u/ws", "${PROJECT_ROOT}/**": "/home/u/ws/**", "${PROJECT_ROOT}/a/**": "/home/u/ws/a/**", "${HOME}/**": "/home/u/**",
		"/data/**": "/data/**", "/data/a/**": "/data/a/**", "/data/*": "/data/*", "/data/a": "/data/a", "**/x": "/**/x", "**/b/**": "/**/b/**", "**": "/**", "${HOME}/a/*": "/home/u/a/*",
	}
	names := slices.Sorted(maps.Keys(places))
	ops := map[string][]string{"read": {"read"}, "all": {"*"}, "change": {"write", "create", "delete"}, "write": {"write"}, "delete": {"delete"}}
	opened := 0
	for round := range 60 {
		type rule struct {
			pattern, ops, decision string
		}
		var rules []rule
		var text strings.Builder
		text.WriteString("version: 1\nname: x\nfile_rules:\n")
		for i := range 1 + r.IntN(6) {
			one := rule{pick(r, names...), pick(r, "read", "all", "all", "change", "write", "delete"), pick(r, "allow", "allow", "deny", "approve", "soft_delete", "audit")}
			rules = append(rules, one)
			fmt.Fprintf(&text, "- {name: r%d, paths: [%q], operations: [\"%s\"], decision: %s}\n", i, one.pattern, strings.Join(ops[one.ops], "\", \""), one.decision)
		}
		says := func(path, op string) bool {
			for _, one := range rules {
				about := false
				for _, o := range ops[one.ops] {
					about = about || o == op || o == "*"
				}
				if about && theirGlob(places[one.pattern], false).MatchString(path) {
					return one.decision == "allow" || one.decision == "audit"
				}
			}
			return false
		}
		opened += notWider(t, round, "agentsh", []byte(text.String()), "a.yaml", func(path string, write bool) bool {
			if !write {
				return says(path, "read")
			}
			return says(path, "write") && says(path, "delete")
		})
	}
	if opened < 400 {
		t.Errorf("only %d accesses were open: the test compares nothing", opened)
	}
}
