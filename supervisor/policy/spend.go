package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

// The layers of the automaton that says what [Policy.expendable] says, see
// spending.
const (
	spendAnywhere = iota // what builds make, by its name, and /dev and /proc
	spendFolder          // a folder that a build makes, below a workspace
	spendTemp            // the directories for temporary files
	spendWork            // the workspaces, inside which those do not count
	numSpend
)

// spending is [Policy.expendable] as an automaton, by which the kernel's hooks
// know which files are no loss.
func (p *Policy) spending() ([]automaton.Rule, func(winners []int32) bool) {
	var rules []automaton.Rule
	add := func(layer int, below bool, glob string) {
		rules = append(rules, automaton.Rule{Glob: p.files.temp.alias(glob), Layer: layer, Below: below, Group: 1})
	}
	for _, name := range p.tables.scratch.artifacts.names {
		add(spendAnywhere, false, "/**/"+name)
	}
	add(spendAnywhere, true, "/dev")
	add(spendAnywhere, true, "/proc")
	for _, ws := range p.host.Workspaces {
		below := strings.TrimSuffix(literally(ws), "/")
		add(spendWork, true, literally(ws))
		for _, name := range p.tables.scratch.folders.names {
			add(spendFolder, true, below+"/**/"+name)
		}
	}
	for _, dir := range p.temporary {
		add(spendTemp, true, strings.TrimSuffix(literally(dir), "/")+"/*")
	}
	return rules, func(winners []int32) bool {
		has := func(layer int) bool { return winner(winners, layer) >= 0 }
		return has(spendAnywhere) || has(spendFolder) || has(spendTemp) && !has(spendWork)
	}
}

// literally is a path as a pattern that matches nothing else.
func literally(path string) string {
	return literal.Replace(path)
}

var literal = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`, "{", `\{`, "}", `\}`)
