package policy

import (
	"net/netip"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Layer says where a source's rules stand. Across layers the stricter wins.
type Layer uint8

// The layers that sources come from, widest authority first.
const (
	// Envelope is owned by root and may not be widened by anybody.
	Envelope Layer = iota
	// User is the user's own configuration.
	User
	// Project comes with the workspace: it can only narrow.
	Project
	// Session is what was named on the command line.
	Session
	// BuiltIn is compiled into the binary.
	BuiltIn
)

// String is the layer's word.
func (l Layer) String() string {
	switch l {
	case Envelope:
		return "envelope"
	case User:
		return "user"
	case Project:
		return "project"
	case Session:
		return "session"
	}
	return "built-in"
}

// ParseLayer is the layer of a word.
func ParseLayer(word string) (Layer, bool) {
	for l := Envelope; l <= BuiltIn; l++ {
		if l.String() == word {
			return l, true
		}
	}
	return 0, false
}

// Source is the text of one policy file.
type Source struct {
	// Name is how messages call the file, normally its path.
	Name  string
	Layer Layer
	Text  []byte
}

// pathRule is one line of a table of paths.
type pathRule struct {
	// base is the special the pattern is relative to, or "".
	base string
	// pattern is the key as it was written.
	pattern string
	word    word
	// action is what exec, unix_sockets, domains and addresses tables say.
	action event.Action
	pos    Pos
	// depth grows from a profile to those that extend it.
	depth int
}

// profile is one [permissions.NAME] as it was written, and after extends was
// followed the whole of what it says. Nil pointers are what it does not say.
type profile struct {
	name, description string
	pos               Pos
	extends           string
	extendsPos        Pos
	// grounded is set when a built-in profile stands below it, so that what is
	// not named is denied in any layer.
	grounded   bool
	recordOnly *bool
	signals    string // "session" or "any"; "" is session

	files    []pathRule
	always   []pathRule // hold whatever more specific patterns say
	programs []pathRule
	memory   *bool // running anonymous files
	// interpreters is what exec says of the class of interpreters.
	interpreters *classRule
	secrets      []pathRule
	protected    []pathRule
	env          *envRules
	network      *network
	caps         *names
	kernel       *names
	limits       *Limits
	approval     *Approval
	commands     *commandRules
}

// names is a list of names, where "*" stands for all.
type names struct {
	list []string
	pos  Pos
}

// envRules are the rules about environment variables.
type envRules struct {
	inherit, deny, mask []string
	set                 []envSet
	privateCaches       *bool
}

type envSet struct {
	name, value string
	pos         Pos
}

// network is a [permissions.NAME.network].
type network struct {
	pos     Pos
	enabled *bool
	// mode is "full", "limited" or "ask"; "" lets the rules decide.
	mode string
	// bind is "none", "loopback" or "any"; "" is loopback.
	bind string
	// local, private and metadata are what is said of those addresses when no
	// rule of addresses does.
	local, private, metadata event.Action
	domains                  []pathRule
	addresses                []addrRule
	sockets                  []pathRule
	families                 []string
}

// addrRule is one line of addresses.
type addrRule struct {
	prefix netip.Prefix
	port   uint16 // 0 is any
	action event.Action
	text   string
	pos    Pos
}

// Limits bound what a session may use. A zero field is no limit.
type Limits struct {
	Processes, OpenFiles uint64
	Memory, FileSize     uint64 // bytes
	CPU, Wall            time.Duration

	pos Pos
}

// Approval says how asking works.
type Approval struct {
	// Timeout is how long a question waits; zero leaves it to the command line.
	Timeout time.Duration

	pos Pos
}

// file is one parsed source.
type file struct {
	source   Source
	def      string // default_permissions
	defPos   Pos
	profiles map[string]*profile
	order    []string // of profiles, as written
	limits   *Limits
	approval *Approval
}
