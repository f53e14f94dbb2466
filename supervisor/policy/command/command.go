// Package command says what a command line means: which program it runs, what
// its words are to that program, and which rules about commands match it. It is
// pure and knows no policy: tables come in, matches go out. Nothing here is
// parsed as a shell would: the words are those of an execve.
package command

import "strings"

// Class is a kind of risk. The order is which one is named where several are met.
type Class uint8

// The classes.
const (
	None Class = iota
	// Destructive commands lose what cannot be had back.
	Destructive
	// Privileged commands act with another user's rights or on the machine itself.
	Privileged
	// Publish makes something visible to others.
	Publish
	// Remote acts on another machine, or through a daemon.
	Remote
	// Install brings in foreign code.
	Install
	// Interpreter runs code that is not a program of its own.
	Interpreter
	numClasses
)

var classNames = [numClasses]string{"", "destructive", "privileged", "publish", "remote", "install", "interpreter"}

// String is the class's word.
func (c Class) String() string { return classNames[c] }

// Classes are all classes, in their order.
func Classes() []Class {
	return []Class{Destructive, Privileged, Publish, Remote, Install, Interpreter}
}

// ParseClass is the class of a word, None for a word that is none.
func ParseClass(word string) Class {
	for _, c := range Classes() {
		if c.String() == word {
			return c
		}
	}
	return None
}

// Style is how a program reads its options.
type Style uint8

// The styles.
const (
	// GNU is getopt_long: -abc, -o value, --long=value; operands anywhere.
	GNU Style = iota
	// Single has long options with one dash or two, and no clusters: -name value.
	Single
	// Expression is find's: operands come first, then words with one dash.
	Expression
)

// Program is how one program reads its words.
type Program struct {
	// Name is what rules call it, Names are all names that it goes by.
	Name  string
	Names []string
	Style Style
	// Exact programs take no abbreviations of long options.
	Exact bool
	// Values are options that take the next word as their value, Switches those
	// that are known to take none, Attached those of one letter that may have a
	// value only behind them in the same word.
	Values, Switches, Attached map[string]bool
	// Subs are further options with values, by subcommand.
	Subs map[string]map[string]bool
	// Dashed is set for git, which as "git-push" is "git push".
	Dashed bool
	// Internals are subcommands that run others of the program as a part of what
	// they do, as "git gc" runs "git prune".
	Internals map[string]bool
}

// Rule is one rule about commands. All that it names must hold; of the members of
// a list one must.
type Rule struct {
	// Programs are the programs' names.
	Programs []string
	// Subs are the subcommands, each of one word or several.
	Subs [][]string
	// Flags and Also are options of each of which one must be there, Unless those
	// of which none may be. "--name=value" is about the value too.
	Flags, Also, Unless []string
	// Operands are what one operand must look like, Last what the last one must,
	// Further what one after the first must, Behind what one behind "--" must,
	// UnlessOperands what none may.
	Operands, Last, Further, Behind, UnlessOperands []Pattern
	// Values are options of which one must have a value like one of Texts, and of
	// which none may have one like UnlessTexts.
	Values             []string
	Texts, UnlessTexts []Pattern
	// UnlessBy are programs that may do it as a part of what they do: git runs ssh.
	UnlessBy []string
	// Exact, when it is set, is all that the rule is about.
	Exact *Exact
	Class Class
	// Name is how the rule is called; empty makes one of its parts. Reason is one
	// clause for a person.
	Name, Reason string
}

// Tables is all that is known of programs, and the rules about them. It does not
// change after New.
type Tables struct {
	programs  map[string]*Program
	prefixes  map[string]*Program // of names that end in "*"
	rules     map[string][]*Rule
	multicall map[string]bool
	loaders   []string
	scripts   map[string]bool
}

// Facts are what New makes Tables of.
type Facts struct {
	Programs []*Program
	Rules    []*Rule
	// Multicall are programs that are many, by what they are called as; Loaders
	// beginnings of the names of dynamic loaders; Interpreters programs that run
	// a script named by their first operand.
	Multicall, Loaders []string
	Interpreters       []string
}

// New indexes facts.
func New(f Facts) *Tables {
	t := &Tables{
		programs: map[string]*Program{}, prefixes: map[string]*Program{}, rules: map[string][]*Rule{},
		multicall: map[string]bool{}, loaders: f.Loaders, scripts: map[string]bool{},
	}
	for _, p := range f.Programs {
		for _, name := range append([]string{p.Name}, p.Names...) {
			if prefix, ok := strings.CutSuffix(name, "*"); ok {
				t.prefixes[prefix] = p
			} else {
				t.programs[name] = p
			}
		}
	}
	for _, name := range f.Multicall {
		t.multicall[name] = true
	}
	for _, name := range f.Interpreters {
		t.scripts[name] = true
	}
	for _, r := range f.Rules {
		for _, name := range r.Programs {
			prefix, open := strings.CutSuffix(name, "*")
			switch {
			case open && t.prefixes[prefix] == nil:
				t.prefixes[prefix] = &Program{Name: name}
			case !open && t.programs[name] == nil:
				t.programs[name] = &Program{Name: name}
			}
			t.rules[name] = append(t.rules[name], r)
		}
	}
	return t
}

// Known reports whether some rule may be about a program of that file name.
func (t *Tables) Known(name string) bool { return t.program(name) != nil || t.multicall[name] }

// Programs are the names that the rules of each class call programs.
func (t *Tables) Programs() map[Class][]string {
	out := make(map[Class][]string)
	for name, rules := range t.rules {
		for _, r := range rules {
			out[r.Class] = append(out[r.Class], name)
		}
	}
	return out
}

// Rules are the rules about a program, by the name that rules call it.
func (t *Tables) Rules(name string) []*Rule { return t.rules[name] }
