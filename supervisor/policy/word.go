package policy

import "github.com/reeve-audit/reeve/tracer/event"

// word is what a rule says about the paths it matches. The order is the
// strictness used at a tie: of two equally specific patterns the smaller wins.
type word uint8

const (
	wordNone     word = iota
	wordDeny          // no access
	wordHide          // no access, as if it did not exist
	wordAsk           // any access asks
	wordList          // the directory itself may be listed, nothing is said about what is below
	wordRead          // reading and executing
	wordAskWrite      // reading and executing; changes ask
	wordWrite         // everything
	wordPass          // says nothing: an exception from a wider rule of a built-in layer
)

var wordNames = map[word]string{
	wordDeny: "deny", wordHide: "hide", wordAsk: "ask", wordList: "list", wordRead: "read",
	wordAskWrite: "ask-write", wordWrite: "write", wordPass: "pass",
}

func (w word) String() string { return wordNames[w] }

// The words that each kind of table takes, as they are offered in errors.
var (
	accessWords    = []string{"deny", "hide", "ask", "list", "read", "ask-write", "write"}
	specialWords   = []string{"deny", "hide", "ask", "read", "ask-write", "write"}
	alwaysWords    = []string{"deny", "hide", "ask", "read", "ask-write"}
	exemptionWords = []string{"read", "write"}
	ruleWords      = []string{"allow", "ask", "deny"}
)

func parseWord(s string) word {
	for w, name := range wordNames {
		if name == s {
			return w
		}
	}
	return wordNone
}

// verdict is what one or all layers say about a path. In a field ActionNone
// means that nothing is said.
type verdict struct {
	read, write, exec event.Action
	hide              bool
}

// verdict is what the word means.
func (w word) verdict() verdict {
	const allow, ask, deny = event.ActionAllow, event.ActionAsk, event.ActionDeny
	switch w {
	case wordDeny:
		return verdict{deny, deny, deny, false}
	case wordHide:
		return verdict{deny, deny, deny, true}
	case wordAsk:
		return verdict{ask, ask, ask, false}
	case wordList:
		return verdict{allow, deny, deny, false}
	case wordRead:
		return verdict{allow, deny, allow, false}
	case wordAskWrite:
		return verdict{allow, ask, allow, false}
	case wordWrite:
		return verdict{allow, allow, allow, false}
	}
	return verdict{}
}

// and is the stricter of two verdicts, access by access.
func (v verdict) and(o verdict) verdict {
	return verdict{max(v.read, o.read), max(v.write, o.write), max(v.exec, o.exec), v.hide || o.hide}
}

// closed turns what no layer speaks about into a denial.
func (v verdict) closed() verdict {
	shut := func(a event.Action) event.Action {
		if a == event.ActionNone {
			return event.ActionDeny
		}
		return a
	}
	return verdict{shut(v.read), shut(v.write), shut(v.exec), v.hide}
}

// widens reports whether a name under v could do something that it could not
// under from.
func (v verdict) widens(from verdict) bool {
	return strictness(v.read) < strictness(from.read) || strictness(v.write) < strictness(from.write) ||
		strictness(v.exec) < strictness(from.exec) || from.hide && !v.hide
}

// strictness makes what is not spoken of and what is allowed equal.
func strictness(a event.Action) event.Action { return max(a, event.ActionAllow) }

// of is the strictest of what a verdict says about the needed accesses.
func (v verdict) of(need event.Access) event.Action {
	a := event.ActionNone
	if need&event.AccessRead != 0 {
		a = max(a, v.read)
	}
	if need&event.AccessWrite != 0 {
		a = max(a, v.write)
	}
	if need&event.AccessExec != 0 {
		a = max(a, v.exec)
	}
	return a
}
