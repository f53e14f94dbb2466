package policy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Proposal is what a profile would have to say besides what it extends.
type Proposal struct {
	// tables are in the order in which they are written.
	tables []proposedTable
}

// proposedTable is one table of a profile; name is what follows the profile's
// name in its header, "" for the profile itself.
type proposedTable struct {
	name  string
	lines []proposedLine
}

// commandTable is the list of rules about commands, each a table of its own.
const commandTable = "commands.rule"

// proposedLine is one line of a table: key and value as TOML. Of commandTable the
// key is all lines of one rule.
type proposedLine struct {
	key, value string
	proof      Proof
}

// Rules counts what is proposed.
func (p *Proposal) Rules() int {
	n := 0
	for _, t := range p.tables {
		n += len(t.lines)
	}
	return n
}

func (p *Proposal) line(table, key, value string, proof *Proof) {
	i := slices.IndexFunc(p.tables, func(t proposedTable) bool { return t.name == table })
	if i < 0 {
		i = len(p.tables)
		p.tables = append(p.tables, proposedTable{name: table})
	}
	p.tables[i].lines = append(p.tables[i].lines, proposedLine{key, value, *proof})
}

// Propose makes a proposal of what was added. It is called once.
func (l *Learner) Propose() *Proposal {
	p := &Proposal{}
	l.proposeSettings(p)
	for _, at := range slices.Sorted(maps.Keys(l.roots)) {
		f := &folder{
			fits: func(parts []string, w word) bool {
				return l.everywhere(at, parts, func(p *Policy, dir string) bool { return !p.host.tooWide(dir) && !p.contested(dir, w) })
			},
			glob: func(parts []string, w word) bool { return l.globbed(at, parts, w) },
		}
		tree := l.roots[at]
		f.fold(tree, nil)
		tree.walk(nil, func(parts []string, s *spot) {
			l.proposePath(p, "filesystem", at, parts, s.word.String(), &s.proof)
		})
	}
	needs := slices.SortedFunc(maps.Keys(l.other), func(a, b need) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.key, b.key), cmp.Compare(b.word, a.word))
	})
	for _, n := range needs {
		l.proposeOther(p, n, l.other[n])
	}
	slices.SortStableFunc(p.tables, func(a, b proposedTable) int { return cmp.Compare(a.place(), b.place()) })
	return p
}

// place orders tables: the profile's own lines have to come first.
func (t *proposedTable) place() int {
	name, _, _ := strings.Cut(t.name, ".")
	return slices.Index([]string{"", "filesystem", "exec", "secrets", "protected", "network", "kernel", "commands"}, name)
}

// everywhere reports whether ok holds for a directory on every session's host.
// Of a pattern the directory above its first wildcard is meant as well.
func (l *Learner) everywhere(at root, parts []string, ok func(p *Policy, dir string) bool) bool {
	below := strings.Join(parts, "/")
	for _, p := range l.hosts {
		for _, base := range at.dirs(&p.host) {
			dir := join(base, below)
			if above := literalPrefix(dir); !ok(p, unquote(dir)) || above != unquote(dir) && p.contested(above, wordWrite) {
				return false
			}
		}
	}
	return true
}

// globbed reports whether files in a directory may be opened by a pattern: not in
// the root and the home directory, and to be changed not where all have theirs.
func (l *Learner) globbed(at root, parts []string, w word) bool {
	if len(parts) == 0 && (at == rootAbsolute || at == rootHome) {
		return false
	}
	return l.everywhere(at, parts, func(p *Policy, dir string) bool {
		return !p.contested(dir, w) && (w == wordRead || !p.host.tooWide(dir))
	})
}

// proposePath writes a line of a table of paths, or leaves out what cannot be
// written.
func (l *Learner) proposePath(p *Proposal, table string, at root, parts []string, value string, proof *Proof) {
	pattern := strings.Join(parts, "/")
	if !utf8.ValidString(pattern) {
		s := proof.Samples[0]
		l.leave(&event.Event{Op: s.Op}, &Proof{proof.Count, proof.Samples}, "its name is not UTF-8, and a policy file is")
		return
	}
	switch at {
	case rootAbsolute:
		pattern = "/" + pattern
	case rootHome:
		pattern = strings.TrimSuffix("~/"+pattern, "/")
	default:
		table += "." + tomlString(string(at))
		pattern = cmp.Or(pattern, ".")
	}
	p.line(table, tomlString(pattern), tomlString(value), proof)
}

// proposeOther writes the line of a need that is no file's.
func (l *Learner) proposeOther(p *Proposal, n need, proof *Proof) {
	tables := map[learnTable]string{learnExec: "exec", learnSockets: "network.unix_sockets", learnSecrets: "secrets", learnProtected: "protected"}
	switch n.table {
	case learnExec, learnSockets:
		l.proposeAt(p, tables[n.table], n.key, "allow", proof)
	case learnSecrets:
		if n.word == wordRead && l.other[need{table: n.table, key: n.key, word: wordWrite}] != nil {
			return // said by the other
		}
		l.proposeAt(p, "secrets", n.key, n.word.String(), proof)
	case learnProtected:
		l.proposeAt(p, "protected", n.key, "write", proof)
	case learnAddresses:
		p.line("network.addresses", tomlString(n.key), `"allow"`, proof)
	case learnMemory:
		p.line("exec", tomlString(memoryKey), `"allow"`, proof)
	case learnCommands:
		p.line(commandTable, n.key, "", proof)
	}
}

func (l *Learner) proposeAt(p *Proposal, table, key, value string, proof *Proof) {
	at, path, _ := strings.Cut(key, "\x00")
	var parts []string
	if path != "" {
		parts = strings.Split(path, "/")
	}
	l.proposePath(p, table, root(at), parts, value, proof)
}

// proposeSettings writes what is no table of patterns: it comes first, since TOML
// wants a table's own lines before its subtables.
func (l *Learner) proposeSettings(p *Proposal) {
	of := func(t learnTable) (names []string, all Proof) {
		for n, proof := range l.other {
			if n.table == t {
				names = append(names, n.key)
				all.add(proof)
			}
		}
		slices.Sort(names)
		return names, all
	}
	if _, proof := of(learnSignals); proof.Count > 0 {
		p.line("", "signals", `"any"`, &proof)
	}
	if names, proof := of(learnKernel); len(names) > 0 {
		p.line("kernel", "allow", listTOML(union(names, l.hosts[0].kernel)), &proof)
	}
	_, addresses := of(learnAddresses)
	binds, bound := of(learnBind)
	families, made := of(learnFamilies)
	if addresses.Count+bound.Count+made.Count == 0 {
		return
	}
	base := l.hosts[0].extended()
	var mode string
	if base.on() {
		mode = base.reach()
	} else {
		opened := addresses
		opened.add(&bound)
		if !allIn(kernelFamilies, families) {
			opened.add(&made)
		}
		if opened.Count > 0 {
			p.line("network", "enabled", "true", &opened)
			mode = "limited"
		}
	}
	if mode != "" {
		p.line("network", "mode", tomlString(mode), &Proof{})
	}
	if len(binds) > 0 {
		p.line("network", "bind", tomlString(binds[0]), &bound) // "any" comes before "loopback"
	}
	if len(families) > 0 {
		p.line("network", "families", listTOML(union(families, base.families)), &made)
	}
}

// extended is what the profile that is extended says about the network.
func (p *Policy) extended() *netLayer {
	for i := range p.net {
		if n := &p.net[i]; n.name == p.name && n.origin != Project {
			return n
		}
	}
	return &netLayer{network: noNetwork}
}

func allIn(known, names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(known, n) })
}

func union(a, b []string) []string {
	out := append(slices.Clone(a), b...)
	slices.Sort(out)
	return slices.Compact(out)
}

func listTOML(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = tomlString(s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
