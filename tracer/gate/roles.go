package gate

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Decider answers requests. It is called from several goroutines at once and
// must not block.
type Decider interface {
	Decide(*event.Request) event.Decision
	// CheckContent judges what a settings file would contain, for a decision
	// with GuardContent.
	CheckContent(*event.Request, []byte) event.Decision
	// CheckChange judges what a settings file that says was would say then, for a
	// decision with AskContent.
	CheckChange(req *event.Request, was, then []byte) event.Decision
}

// Asker puts an operation before somebody who may allow it.
type Asker interface {
	// Known is the answer that holds already, if there is one. It must not block.
	Known(Question) (Answer, bool)
	// Ask blocks until there is an answer: it allows or denies. When ctx ends the
	// question is withdrawn and the answer not used.
	Ask(context.Context, Question) Answer
}

// Answer is what somebody says to a question. Its Decision names the question,
// unless it is none of somebody's: then it is for this one call.
type Answer struct {
	event.Decision
	// Also are the further steps that were shown to whoever gave it.
	Also []event.Request
}

// Question is an operation that the decider asks about.
type Question struct {
	Request event.Request
	// Decision is the decider's, with ActionAsk.
	Decision event.Decision
	// Ancestry are the processes from the session's command down to the task that
	// asks. Known does not get it.
	Ancestry []event.Task
	// Also are the steps after the operation that the answer will be for as well:
	// each by its operation, the path of its object, and the target of a rename or
	// the arguments of an exec. Known does not get them.
	Also []event.Request
}

// Recorder takes events in the order of the calls.
type Recorder interface {
	Record(event.Event)
	// RecordAcked returns when the bus has the event, or with an error.
	RecordAcked(context.Context, event.Event) error
	// Failing reports that the bus refuses events at the moment. Until it takes them
	// again every decision waits for its event, as with Config.Strict: what cannot be
	// recorded must not happen. It is asked at every call.
	Failing() bool
}

// FileID names a file by st_dev and inode.
type FileID struct{ Dev, Ino uint64 }

// Verifier makes sure that an exec runs one of the files that were judged.
type Verifier interface {
	// Identify names the file that fd is open on as the verifier sees it.
	Identify(fd int) (FileID, error)
	// Expect must be told before the call continues. The first file is what was
	// named, the others are interpreters that it may end in. argv, unless it is nil,
	// is what the program has to be told; told reports whether the verifier sees to
	// that.
	Expect(tid int, files []Program, argv []string) (told bool, err error)
}

// Programs knows programs by more than their path. It is called from several
// goroutines at once.
type Programs interface {
	// Alike names the known programs that a file is the same as under another
	// name. It opens the file only to compare its content, and passes on what open
	// returns.
	Alike(path string, st *unix.Stat_t, open func() (*os.File, error)) ([]string, error)
	// Loads is the place in argv of a program that the program at path runs in its
	// own process, as a dynamic loader does; 0 if there is none.
	Loads(path string, argv []string) int
	// Words reports whether the words of an exec may decide about it, so that they
	// have to be those that were judged.
	Words(*event.Request) bool
	// Internal reports whether it counts, for what the program at path runs, what
	// it was told itself.
	Internal(path string) bool
}

// Injector is told of the descriptors that tasks are given, where the kernel's
// hooks would refuse what they did not judge themselves.
type Injector interface {
	// Inject announces one for a thread that waits for its answer; Injected ends
	// that, whether it was taken or not.
	Inject(tid int) error
	Injected(tid int) error
	// Own tells of what was made for a task, or had its content replaced, by any
	// descriptor of it.
	Own(fd int) error
	// Created says whether a hook saw the session make a regular file that was not
	// there before, by any descriptor of it.
	Created(fd int) bool
	// Answered tells of a file that somebody said yes to, to read it or to run it, by
	// any descriptor of it: they may be asked about it where nobody else can be.
	Answered(fd int) error
}

// Holder is the kernel's hooks of a session that was begun inside another, and of
// those between: they judge its tasks besides those of the session that the gate
// serves.
type Holder interface {
	Injector
	// Adopt puts a process and all that it starts under the hooks; index is the
	// session's, see Nester.
	Adopt(pid, index int) error
	// Announce is Verifier.Expect.
	Announce(tid int, files []Program) error
}

// Program is a file that an exec may run.
type Program struct {
	FileID
	Path string
}
