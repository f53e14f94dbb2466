package gate

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Acts. What is one act to a person can be several calls that a decider asks
// about: touch makes a file and then sets its times, git makes config.lock and
// renames it over config, a script is run by its interpreter, a shell tries one
// directory of its PATH after the other. A person is asked once for an act.
//
// # Protocol
//
// The question says what follows: each further step by its operation, its object
// by path, its target or its arguments (Question.Also, see follow.go and leads.go).
// Nothing that was not shown is covered.
//
// Who holds it: the gate, for the one task (process and start time) whose call was
// answered, in the session that it was in. No child, no other task, and nothing
// that the task itself could write to.
//
// What it covers: a step that the decider asks about by the very rule and class of
// risk of the question. What the decider denies is denied before this is looked
// at; what it asks about for another reason is another question. Files are covered
// as objects: the inode that the answer let the task make, held by an O_PATH
// descriptor so that its number cannot become another's, still under its name. A
// rename is covered only onto the name that was shown, and only while what stands
// there is what stood there when it was asked about, held likewise (of an answer for
// the session: whatever file stands there). Of a file that was there before, only
// what writing changes anyhow: its times and its length. Of extended attributes only
// those of users and access control lists, never capabilities. A program is covered
// with all its arguments in the same directory.
//
// What it is not for: a rename of a temporary file whose name does not say what it
// replaces, the directories below one that was made, a file opened or made again, a
// wrapper's run of the real program. Those are asked about.
//
// What ends it: an exec of the task (but for the programs that the answer was
// about), its end, the removal of the object, actLasts, and a newer act when there
// are maxActs. Each end means to be asked, never to be allowed.
//
// A no is for the same steps, and a no to a program is for the same words under
// whatever name the task tries next, for noLasts. That can only deny.
//
// What an attacker could do with it: a task that was allowed to make a file could
// have set its mode and times, renamed it to the name that was shown or taken it
// away, within a minute, which is what was said yes to. Flipping paths, swapping
// directories and links move nothing: steps are judged and acted on by pinned
// objects, as all else. A thread that execs another program than was judged is
// killed by whoever verifies (exec.go), and an exec that comes after the answered
// one is covered only as the program and the words that were shown; each lead is
// spent by the exec that takes it. So the most that one answer gives is one run of
// what was shown, and one object with its own attributes.

const (
	// actLasts is how long an answer is good for the steps after it.
	actLasts = time.Minute
	// noLasts is how long a no holds for what the task tries next.
	noLasts = 5 * time.Second
	// maxActs bounds how many are held at once, a descriptor each.
	maxActs = 256
)

// act is what an answer is for besides the call that was asked about.
type act struct {
	task  string  // ID
	m     *member // whose decider asked
	exe   proc.ExeID
	asked event.Decision // the decider's
	d     event.Decision // the answer
	also  []event.Request
	until time.Time
	// held is a descriptor of the object that id names, -1 where none is needed.
	held int
	id   FileID
	// target is what a rename would replace, nil for nothing.
	target *proc.Pinned
	// words, of a no to a program, are what is not to be tried under another name.
	words *event.Request
}

// acts are those of all tasks, the oldest first.
type acts struct {
	any atomic.Bool
	mu  sync.Mutex // guards all
	all []*act
}

func (s *acts) add(a *act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxActs {
		s.all[0].drop()
		s.all = slices.Delete(s.all, 0, 1)
	}
	s.all = append(s.all, a)
	s.any.Store(true)
}

func (a *act) drop() {
	if a.held >= 0 {
		unix.Close(a.held)
		a.held = -1
	}
	if a.target != nil {
		a.target.Close()
	}
}

// remove drops the acts of which gone holds.
func (s *acts) remove(gone func(*act) bool) {
	if !s.any.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(a *act) bool {
		is := gone(a)
		if is {
			a.drop()
		}
		return is
	})
	s.any.Store(len(s.all) > 0)
}

// sweep drops what lasts no longer.
func (s *acts) sweep(now time.Time) {
	s.remove(func(a *act) bool { return now.After(a.until) })
}

// forget ends the acts about an object that has lost its name.
func (s *acts) forget(o *event.Object) {
	if id := (FileID{o.Dev, o.Ino}); o.Ino != 0 {
		s.remove(func(a *act) bool { return a.id == id })
	}
}

// moved notes that a task gave an object another name. Its removal would from now
// on take away what it replaced.
func (s *acts) moved(task string, from *event.Object, to string) {
	s.remove(func(a *act) bool {
		if from.Ino == 0 || a.id != (FileID{from.Dev, from.Ino}) {
			return false
		}
		a.also = slices.DeleteFunc(a.also, func(step event.Request) bool {
			return !slices.Contains(attributes, step.Op) && step.Op != event.OpTruncate || step.Object.Path != from.Path
		})
		for i := range a.also {
			a.also[i].Object.Path = to
		}
		return a.task != task || len(a.also) == 0
	})
}

// sameQuestion says whether a decider asks twice for the same reason.
func sameQuestion(a, b event.Decision) bool {
	return a.Rule == b.Rule && a.Risk == b.Risk && a.By == b.By
}
