package approval

import (
	"errors"
	"fmt"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Question is an operation that waits for an answer.
type Question struct {
	// ID names the question among those of all sessions: the last letters of the
	// session's ID and a number that is never used again.
	ID      string
	Session string
	Asked   time.Time
	// Deadline is when the answer becomes no by itself.
	Deadline time.Time
	// Request is the operation: its task, object, target, and for exec the
	// arguments. All texts in it are bytes chosen by the command.
	Request event.Request
	// Rule is the rule that asks, Reason why, Risk the class of the risk, and
	// Profile whose rule it is. Risk may be empty.
	Rule, Reason, Risk, Profile string
	// Broad questions are about a rule, whatever the object: their answer is for all
	// that it asks about at the time.
	Broad bool
	// Ancestry are the processes from the session's command down to the task that
	// asks, with their arguments.
	Ancestry []event.Task
	// Also are steps after the operation that the answer is for as well: each by its
	// operation, its object, and the target of a rename or the arguments of an exec.
	Also []event.Request
	// Waiting is how many tasks wait for this very answer.
	Waiting int
}

// Scope is how far an answer reaches.
type Scope uint8

// The scopes.
const (
	// Once is this operation, with the steps after it that the question shows, of those
	// tasks that wait for it now.
	Once Scope = iota
	// Session is the same operation on the same object by the same program, until
	// the session ends. An exec is the same when it has the same arguments in the
	// same working directory.
	Session
	// Always is Session, and a rule in the user's own policy file.
	Always
)

var scopeNames = [...]string{Once: "once", Session: "session", Always: "always"}

// String is the scope's word.
func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return fmt.Sprintf("scope %d", uint8(s))
}

// ParseScope is the scope of a word.
func ParseScope(word string) (Scope, error) {
	for i, name := range scopeNames {
		if name == word {
			return Scope(i), nil
		}
	}
	return 0, fmt.Errorf("scope %q: expected once, session or always", word)
}

// Answer is what somebody says to a question.
type Answer struct {
	Allow bool
	Scope Scope
	// By says who answers and how: "root on the terminal", "uid 1000 by reeve asks".
	By string
	// Reason is what the approver gives for it; it may be empty.
	Reason string
	// Question is the ID of the question that was answered, and Also what it showed
	// besides its operation. The desk sets both. They are empty when there was none.
	Question string
	Also     []event.Request
}

// validate refuses what no front may say.
func (a *Answer) validate() error {
	switch {
	case a.By == "":
		return errors.New("bug: an answer needs to say who gives it")
	case a.Scope > Always:
		return fmt.Errorf("no such %v", a.Scope)
	case !a.Allow && a.Scope == Always:
		return errors.New("a no can hold once or for the session: write a rule that denies into the policy instead")
	}
	return nil
}

// key says which questions are the same. Where exact, objects are told apart
// also by their inode; otherwise by their resolved path alone, since editors
// replace the files they save.
type key struct {
	op             event.Op
	access         event.Access
	object, target event.Object
	program        string
	told           string // see event.Request.Told
	flags          uint64
	mode           uint32
	rule           string
}

func keyOf(q *Question, exact bool) key {
	if q.Broad {
		return key{rule: q.Rule}
	}
	r := &q.Request
	k := key{
		op: r.Op, access: r.Access, object: identity(r.Object, exact), target: identity(r.Target, exact),
		program: r.Task.Exe, rule: q.Rule,
	}
	k.told = r.Told()
	if !exact && r.Op == event.OpRename && r.Settings != "" {
		k.told = q.Reason // it names the settings, whatever their values
	}
	switch {
	case exact || r.Op != event.OpCreate && r.Op != event.OpOpen:
		k.flags, k.mode = r.Flags, r.Mode
	case r.Op == event.OpCreate || r.Access&event.AccessWrite != 0:
		// To write a file is one thing to a person, whether it is there or not.
		k.op, k.access = event.OpCreate, event.AccessWrite|r.Access&event.AccessRead
	}
	return k
}

// identity is what makes an object the same one, whatever the task called it.
func identity(o event.Object, exact bool) event.Object {
	o.Raw, o.RawLen = "", 0
	if !exact {
		if o.Kind == event.ObjectFile || o.Kind == event.ObjectMissing {
			o.Own = false // it may be by the operation itself, when it is asked about again
		}
		o.Kind, o.Dev, o.Ino, o.Mode = event.ObjectNone, 0, 0, 0
	}
	return o
}
