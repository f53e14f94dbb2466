package probe

import (
	"fmt"
	"slices"
)

// The engines, the better ones first: see the project's ARCHITECTURE.md.
const (
	LSM          = "lsm"
	UnotifyRoot  = "unotify (root)"
	Unotify      = "unotify (user)"
	PtraceEngine = "ptrace"
)

// Engine is one combination of mechanisms and whether all of it holds here.
type Engine struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	// Missing says what it lacks, one clause each.
	Missing []string `json:"missing,omitempty"`
	// Weaker says what it holds without, one clause each.
	Weaker []string `json:"weaker,omitempty"`
}

// Engines says of every engine whether it holds, in the order in which to
// prefer them. An unknown answer counts as no.
func Engines(results []Result) []Engine {
	var out []Engine
	for _, name := range []string{LSM, UnotifyRoot, Unotify, PtraceEngine} {
		e := Engine{Name: name}
		for _, r := range results {
			if r.State == Yes {
				continue
			}
			clause := fmt.Sprintf("%s: %s", r.Name, r.Reason)
			switch {
			case slices.Contains(r.Needed, name):
				e.Missing = append(e.Missing, clause)
			case slices.Contains(r.Useful, name):
				e.Weaker = append(e.Weaker, clause)
			}
		}
		// No results hold nothing.
		e.Holds = len(results) > 0 && len(e.Missing) == 0
		out = append(out, e)
	}
	return out
}
