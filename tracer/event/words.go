package event

import "strings"

var actionNames = [...]string{"", "allow", "ask", "deny"}

// String is the action's word, empty for ActionNone.
func (a Action) String() string { return word(actionNames[:], int(a)) }

// ParseAction is the action of a word.
func ParseAction(s string) (Action, bool) { i, ok := parse(actionNames[:], s); return Action(i), ok }

var kindNames = [...]string{"", "request", "fact", "lost", "session"}

// String is the kind's word.
func (k Kind) String() string { return word(kindNames[:], int(k)) }

// ParseKind is the kind of a word.
func ParseKind(s string) (Kind, bool) { i, ok := parse(kindNames[:], s); return Kind(i), ok }

var objectKindNames = [...]string{
	"", "file", "dir", "symlink", "device", "fifo", "socket", "abstract", "addr", "mem", "task",
	"missing", "kernel",
}

// String is the object kind's word.
func (k ObjectKind) String() string { return word(objectKindNames[:], int(k)) }

// ParseObjectKind is the object kind of a word.
func ParseObjectKind(s string) (ObjectKind, bool) {
	i, ok := parse(objectKindNames[:], s)
	return ObjectKind(i), ok
}

var accessNames = [...]string{
	"read", "write", "create", "delete", "exec", "meta", "path", "connect", "bind",
}

// Words are the names of the set's members, in the order of their bits.
func (a Access) Words() []string {
	var out []string
	for i, n := range accessNames {
		if a&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

// String joins the words of the set with "+".
func (a Access) String() string { return strings.Join(a.Words(), "+") }

// ParseAccess is the access of one word.
func ParseAccess(s string) (Access, bool) {
	for i, n := range accessNames {
		if n == s {
			return 1 << i, true
		}
	}
	return 0, false
}

func word(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return ""
}

func parse(names []string, s string) (int, bool) {
	for i, n := range names {
		if n == s {
			return i, true
		}
	}
	return 0, false
}
