// Package spawn is the launch protocol: how a command comes to run under a
// filter whose listener is ours, and how its tree ends when we do.
//
//	reeve (supervisor)                      reeve-init (our binary again)
//	  socketpair, start ──────────────────▶ subreaper; waits for its orders
//	  plan is compiled meanwhile
//	  Order + Landlock ruleset fd,
//	          slave of a pty ──────────────▶ leader on the pty, if there is one
//	                                         thread T, locked:
//	                                           no_new_privs, capabilities, ids,
//	                                           landlock_restrict_self, seccomp
//	  ◀──────────────────── Ready + listener   sent by another thread, which has
//	  gate runs                                no filter: T could not send it
//	  Go ──────────────────────────────────▶ T forks; the child execs the command:
//	  ◀═══════ notification: execve            the first thing we are asked
//	  ◀──────────────────────────── Started  (or Failed with the errno of exec)
//	  ◀──────────── Stopped, Continued, Exited, Empty
//	  Signal, Resume, End ─────────────────▶ passed to the command; end the tree
//	  Leave, and the socket closes ────────▶ exits
//
// Who dies, and what then holds:
//   - The supervisor: its end of the socket closes, init kills the tree, puts the
//     modes of the supervisor's terminal back, saves what the kept rings hold (package
//     ring), and exits. Until then every guarded call fails with ENOSYS, as the
//     listener is closed.
//   - Init: the supervisor reads end of file, is a subreaper itself, and kills
//     the tree.
//   - The command: init reports its status, ends what it left running, and
//     reports Empty when wait4(2) says that no descendant is left.
//
// Init is not under the filter except for thread T, which only forks. The
// filter, the Landlock domain and the ids belong to T alone and are inherited
// by its child. The tree cannot touch init: Landlock scopes signals and ptrace,
// and the gate refuses them where it does not.
package spawn

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/spawn/headstart"
)

// InitName is argv[0] of the session's init.
const InitName = headstart.InitName

// StepExec is the step at which the command itself could not be executed.
const StepExec = "exec"

// Order is all that init needs to start the command.
type Order struct {
	Path string   // resolved program
	Argv []string // as the command sees it
	Env  []string
	Dir  string
	// IDs, when set, are the ids the command runs with.
	IDs *IDs
	// KeepCaps limits the capabilities; nil leaves them alone (not root).
	KeepCaps *uint64
	Filter   []bpf.RawInstruction
	// Landlock says that a ruleset descriptor comes with the order, as its first.
	Landlock bool
	// Terminal, when set, is the session's own: its descriptor comes after the
	// ruleset's.
	Terminal *Terminal
	// PrivateIPC gives the session an IPC namespace of its own (root only).
	PrivateIPC bool
	// Linger leaves running what the command left behind, and waits for it.
	Linger bool
}

// IDs are numeric user and group ids.
type IDs struct {
	UID, GID int
	Groups   []int
}

// message is one datagram of the protocol, either way.
type message struct {
	Kind kind
	// PID is the command; of hold, drop, keep and unkeep the number of what is held.
	PID int
	// Status is a raw wait status, of keep a ring's size. Signal is a signal number.
	Status uint32
	Signal int
	// Errno and Step say what failed; of pinned, Step is the directory.
	Errno int
	Step  string
	Order *Order // nil but for kindOrder
}

type kind string

const (
	kindOrder     kind = "order"
	kindReady     kind = "ready"
	kindGo        kind = "go"
	kindStarted   kind = "started"
	kindFailed    kind = "failed"
	kindStopped   kind = "stopped"
	kindContinued kind = "continued"
	kindExited    kind = "exited"
	kindEmpty     kind = "empty"
	kindSignal    kind = "signal"
	kindResume    kind = "resume"
	kindEnd       kind = "end"
	kindLeave     kind = "leave"
	kindHold      kind = "hold"
	kindDrop      kind = "drop"
	kindKeep      kind = "keep"
	kindUnkeep    kind = "unkeep"
	kindPinned    kind = "pinned"
)

// chunk is the largest part of a message in one packet: an order with a large
// environment is longer than a socket's buffer.
const chunk = 64 << 10

// maxFDs is how many descriptors a message can bring.
const maxFDs = 128

// conn is one end of the socket. Packets keep their borders; a message is one
// or more packets, the first byte of each telling whether more follow.
type conn struct{ fd int }

func (c conn) send(m message, fds ...int) error {
	b := m.append(nil)
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for first := true; first || len(b) > 0; first = false {
		n := min(len(b), chunk)
		more := byte(0)
		if n < len(b) {
			more = 1
		}
		packet := append([]byte{more}, b[:n]...)
		b = b[n:]
		if err := c.sendPacket(packet, rights); err != nil {
			return fmt.Errorf("send %s: %w", m.Kind, err)
		}
		rights = nil
	}
	return nil
}

func (c conn) sendPacket(p, rights []byte) error {
	for {
		err := unix.Sendmsg(c.fd, p, rights, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// errClosed says that the other side is gone.
var errClosed = errors.New("the other side closed the launch socket")

// recv returns the next message and the descriptors that came with it.
func (c conn) recv() (m message, fds []int, err error) {
	var all []byte
	buf := make([]byte, chunk+1)
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(c.fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return m, fds, fmt.Errorf("receive from launch socket: %w", err)
		}
		if n == 0 {
			return m, fds, errClosed
		}
		if flags&unix.MSG_CTRUNC != 0 {
			return m, fds, errors.New("receive from launch socket: not all descriptors came through")
		}
		if oobn > 0 {
			if fds, err = rightsFDs(oob[:oobn]); err != nil {
				return m, nil, err
			}
		}
		all = append(all, buf[1:n]...)
		if buf[0] == 0 {
			break
		}
	}
	m, err = decodeMessage(all)
	return m, fds, err
}

func rightsFDs(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) != 1 {
		return nil, fmt.Errorf("parse descriptor message: %w", errors.Join(err, os.ErrInvalid))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return nil, fmt.Errorf("parse descriptor message: %w", err)
	}
	return fds, nil
}
