package policy

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/reeve-audit/reeve/supervisor/policy/command"
)

//go:embed data/grounds.toml
var groundsText string

//go:embed data/secretfiles.toml
var secretsText string

//go:embed data/protected.toml
var protectedText string

//go:embed data/caches.toml
var cachesText string

//go:embed data/toolchains.toml
var toolchainsText string

//go:embed data/env.toml
var envText string

// tables are the embedded data: what the specials and the built-in layers are
// made of.
type tables struct {
	grounds    map[string]ground
	secrets    []secretGroup
	packages   []string // where nothing is secret
	protected  []protectedGroup
	caches     []cacheTable
	toolchains toolchainTable
	envDefault []string
	envSecrets []string
	profiles   map[string]*profile
	// commands are the rules about command lines, interpreters the programs of
	// that class.
	commands     *command.Tables
	interpreters []string
	scratch      scratchNames
}

// ground is what a special stands for.
type ground struct{ read, write, list []string }

// secretGroup is one table of secretfiles.toml.
type secretGroup struct {
	reason                       string
	deny, pass, files, passFiles []string
}

// protectedGroup is one table of protected.toml.
type protectedGroup struct {
	reason                        string
	word                          word // of changes: ask or deny
	born                          bornRule
	any, root, exact, links, pass []string
	home, rest, but               []string // below the home directory; rest is what nothing else is said about, except for but
	tmp                           bool     // holds in the host's temporary directories, too
	tmpRoot                       []string // these, and not below them
}

// cacheTable is one table of caches.toml.
type cacheTable struct {
	name      string
	read      []string
	set, seed []pair
	readers   []string
	serve     []pair
}

type pair struct{ key, value string }

// toolchainTable is toolchains.toml.
type toolchainTable struct {
	leaves, shared, installations []string
	companions                    []companion
}

type companion struct {
	prefix string
	with   []string
}

// embedded reads the embedded data, once. An error is a bug of ours.
var embedded = sync.OnceValues(func() (*tables, error) {
	var faults faultList
	t := &tables{grounds: make(map[string]ground), profiles: make(map[string]*profile)}
	t.readGrounds(open("grounds", groundsText, &faults))
	t.readSecrets(open("secrets", secretsText, &faults))
	t.readProtected(open("protected", protectedText, &faults))
	t.readCaches(open("caches", cachesText, &faults))
	t.readToolchains(open("toolchains", toolchainsText, &faults))
	env := open("env", envText, &faults)
	t.envDefault, _, _ = env.texts("default")
	t.envSecrets, _, _ = env.texts("secrets")
	env.finish()
	t.readCommands(&faults)
	for _, name := range builtInNames {
		text := builtInTexts[name]
		f := parseFile(Source{Name: "built-in " + name, Layer: BuiltIn, Text: []byte(text)}, &faults)
		if p := f.profiles[name]; p != nil {
			t.profiles[name] = p
		} else {
			faults.add(Pos{}, "", "built-in profile %q is not in its file", name)
		}
	}
	if err := faults.err(); err != nil {
		return nil, fmt.Errorf("bug: read the embedded policy data: %w", err)
	}
	return t, nil
})

func open(name, text string, faults *faultList) *section {
	file := "built-in " + name
	return &section{faults: faults, table: readDocument(file, []byte(text), faults), what: name}
}

// each visits the tables of a document.
func (s *section) each(visit func(name string, t *section)) {
	for _, e := range s.table.entries {
		if e.used {
			continue
		}
		if sub := s.sub(e.name); sub != nil {
			sub.what = s.what + "." + e.name
			visit(e.name, sub)
			sub.finish()
		}
	}
}

func (s *section) list(name string) []string {
	out, _, _ := s.texts(name)
	return out
}

// pairs is a table of texts, in its order.
func (s *section) pairs(name string) []pair {
	sub := s.sub(name)
	if sub == nil {
		return nil
	}
	var out []pair
	for _, e := range sub.table.entries {
		text, _ := sub.str(e.name)
		out = append(out, pair{e.name, text})
	}
	return out
}

func (t *tables) readGrounds(s *section) {
	s.each(func(name string, g *section) {
		t.grounds[name] = ground{g.list("read"), g.list("write"), g.list("list")}
	})
}

func (t *tables) readSecrets(s *section) {
	t.packages = s.list("packages")
	s.each(func(_ string, g *section) {
		reason, _ := g.str("reason")
		t.secrets = append(t.secrets, secretGroup{reason, g.list("deny"), g.list("pass"), g.list("files"), g.list("pass_files")})
	})
}

func (t *tables) readProtected(s *section) {
	s.each(func(_ string, g *section) {
		reason, _ := g.str("reason")
		t.protected = append(t.protected, protectedGroup{
			reason: reason, word: parseWord(g.choice("change", "deny", "ask")), born: bornRules[g.choice("born", "never", "samples", "content", "all")],
			any: g.list("any"), root: g.list("root"), exact: g.list("exact"), links: g.list("links"), pass: g.list("pass"),
			home: g.list("home"), rest: g.list("rest"), but: g.list("but"), tmp: isYes(g.yes("tmp")), tmpRoot: g.list("tmp_root"),
		})
	})
}

func (t *tables) readCaches(s *section) {
	s.each(func(name string, g *section) {
		t.caches = append(t.caches, cacheTable{name, g.list("read"), g.pairs("set"), g.pairs("seed"), g.list("readers"), g.pairs("serve")})
	})
}

func (t *tables) readToolchains(s *section) {
	t.toolchains = toolchainTable{leaves: s.list("leaves"), shared: s.list("shared"), installations: s.list("installations")}
	if sub := s.sub("companions"); sub != nil {
		for _, e := range sub.table.entries {
			t.toolchains.companions = append(t.toolchains.companions, companion{e.name, sub.list(e.name)})
		}
	}
	s.finish()
}

// bornRule says what a repository made by the session may do with a protected
// path, or that a file which the session made is no secret.
type bornRule uint8

const (
	bornNever bornRule = iota
	bornSamples
	bornContent
	bornAll
	bornFile // of the built-in secrets alone
)

var bornRules = map[string]bornRule{"never": bornNever, "samples": bornSamples, "content": bornContent, "all": bornAll}

// fill replaces {home} and {cache} in the data's texts.
func fill(text string, h *Host) string {
	return strings.NewReplacer("{home}", h.Home, "{cache}", h.Cache, "{tmp}", h.Tmp).Replace(text)
}
