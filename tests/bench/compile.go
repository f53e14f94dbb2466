package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer/automaton"
)

// compileTries is how often a policy is compiled; the quickest counts.
const compileTries = 5

// tables is a cache of compiled policies, as the state directory is one.
type tables map[string][]byte

func (t tables) Get(key string) ([]byte, bool) { v, ok := t[key]; return v, ok }
func (t tables) Put(key string, value []byte)  { t[key] = value }

// compile measures how long policies take to become tables, how long to be had from the
// cache, which is what a session after the first waits for, and how large they are:
// the default profile alone, and with many rules of a person's own.
func compile() error {
	fmt.Printf("\n| policy | compiled | from the cache | tables | states |\n|---|---|---|---|---|\n")
	for _, n := range []int{0, 120, 500} {
		if err := compileRules(n); err != nil {
			return fmt.Errorf("compile a policy of %d rules: %w", n, err)
		}
	}
	return nil
}

func compileRules(n int) error {
	var sources []policy.Source
	profile, name := policy.DefaultProfile, "the default profile"
	if n > 0 {
		sources = []policy.Source{{Name: "bench.toml", Layer: policy.Session, Text: []byte(manyRules(n))}}
		profile, name = "", fmt.Sprintf("%d rules more, with ** and *x*", n)
	}
	host := policy.Host{
		Home: "/home/user", User: "user", UID: 1000, Workspaces: []string{"/home/user/src/project"}, Tmp: "/tmp/reeve-BENCH",
		StateDir: "/home/user/.local/state/reeve", PathDirs: []string{"/usr/local/bin", "/usr/bin", "/bin", "/home/user/go/bin"},
	}
	quickest := func(load func() (*policy.Policy, error)) (p *policy.Policy, took time.Duration, err error) {
		for range compileTries {
			began := time.Now()
			if p, err = load(); err != nil {
				return nil, 0, err
			}
			if d := time.Since(began); took == 0 || d < took {
				took = d
			}
		}
		return p, took, nil
	}
	p, compiled, err := quickest(func() (*policy.Policy, error) { return policy.Load(sources, profile, host) })
	if err != nil {
		return err
	}
	cache := tables{}
	if _, err := policy.LoadCached(sources, profile, host, cache); err != nil {
		return err
	}
	_, cached, err := quickest(func() (*policy.Policy, error) { return policy.LoadCached(sources, profile, host, cache) })
	if err != nil {
		return err
	}
	plan, err := p.LowerHooks(policy.Terms{})
	if err != nil {
		return err
	}
	bytes, states, seen := 0, 0, map[*automaton.Automaton]bool{nil: true}
	for _, plane := range plan.Hooks.Planes {
		if !seen[plane.Auto] {
			seen[plane.Auto] = true
			bytes += plane.Auto.Stats().TableBytes
			states += plane.Auto.Stats().States
		}
	}
	fmt.Printf("| %s | %.1f ms | %.1f ms | %.0f KiB | %d |\n", name, 1000*compiled.Seconds(), 1000*cached.Seconds(), float64(bytes)/1024, states)
	return nil
}

// manyRules is a policy of n rules about a home directory, which it opens: three in four
// have stars, and each decides something.
func manyRules(n int) string {
	var b strings.Builder
	b.WriteString("default_permissions = \"bench\"\n[permissions.bench]\nextends = \":workspace\"\n[permissions.bench.filesystem]\n\"~\" = \"read\"\n")
	for i := range n {
		word := fmt.Sprintf("%c%c%cword%d", 'a'+i%26, 'a'+i/3%26, 'a'+i/7%26, i)
		glob, access := "", "deny"
		switch i % 8 {
		case 0:
			glob, access = "~/dir"+word+"/sub", "read"
		case 1:
			glob = "~/**/." + word
		case 2:
			glob = "~/**/*" + word + "*"
		case 3:
			glob = "~/**/" + word + "*"
		case 4:
			glob = "~/src/project/**/*." + word
		case 5:
			glob, access = "~/data/"+word, "write"
		case 6:
			glob, access = "~/proj"+word+"/**/*secret*", "ask"
		case 7:
			glob = "~/src/project/" + word + "/**/.env*"
		}
		fmt.Fprintf(&b, "%q = %q\n", glob, access)
	}
	return b.String()
}
