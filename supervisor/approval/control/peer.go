package control

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/proc"
	"github.com/reeve-audit/reeve/tracer/spawn"
)

// peer is the process at the other end of a connection.
type peer struct {
	pid int
	uid uint32
	// pidfd refers to the process itself; -1 where the kernel cannot say.
	pidfd int
}

// identify asks the kernel who connected.
func identify(conn *net.UnixConn) (peer, error) {
	p := peer{pidfd: -1}
	raw, err := conn.SyscallConn()
	if err != nil {
		return p, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		p.pid, p.uid = int(cred.Pid), cred.Uid
		p.pidfd, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		if errors.Is(err, unix.ENOPROTOOPT) {
			p.pidfd, err = unix.PidfdOpen(p.pid, 0)
		}
		failed = err
	})
	if err = errors.Join(err, failed); err != nil {
		p.close()
		return p, fmt.Errorf("identify the peer: %w", err)
	}
	return p, nil
}

func (p *peer) close() {
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
		p.pidfd = -1
	}
}

// check says why a peer may not answer for the sessions of reeve's user. tree is
// the process that everything supervised here descends from.
func (p *peer) check(tree int) error {
	switch {
	case p.uid != 0 && int(p.uid) != os.Geteuid():
		return fmt.Errorf("uid %d may not answer for uid %d", p.uid, os.Geteuid())
	case p.pid <= 0:
		return errors.New("a process of another pid namespace cannot be told from a supervised one")
	}
	if err := followAll(p.pid, func(pid int) error { return unsupervised(pid, tree) }); err != nil {
		return err
	}
	// The number was the peer's all the while.
	if err := unix.PidfdSendSignal(p.pidfd, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("the peer is gone: %w", err)
	}
	return nil
}

// unsupervised says that a process is the root of no session.
func unsupervised(pid, tree int) error {
	name, err := arg0(pid)
	if err == nil && (pid == tree || name == spawn.InitName) {
		err = errors.New("this process is supervised itself: what runs in a session cannot answer questions of any")
	}
	return err
}

// How far, and how often, a lineage is followed: processes end while one looks.
const (
	maxDepth = 4096
	maxTries = 10
)

var errMoved = errors.New("its ancestors change too fast to be followed")

// followAll looks at a process and its ancestors, to the first that has no
// parent here.
func followAll(pid int, look func(pid int) error) (err error) {
	for range maxTries {
		if err = follow(pid, look); !errors.Is(err, errMoved) {
			return err
		}
	}
	return fmt.Errorf("follow process %d to its beginning: %w", pid, err)
}

// follow is one try. That a child still has the same parent after its parent was
// looked at proves that it was its parent that was looked at: when one dies, its
// children are given to another before its number is free.
func follow(pid int, look func(pid int) error) error {
	if err := look(pid); err != nil {
		return err
	}
	at, err := parent(pid)
	if err != nil {
		return err
	}
	for child, depth := pid, 0; at > 0; depth++ {
		if depth > maxDepth {
			return fmt.Errorf("process %d has too many ancestors", pid)
		}
		next, err := parent(at)
		lookErr := look(at)
		if again, err := parent(child); err != nil || again != at {
			return errMoved
		}
		if err := errors.Join(lookErr, err); err != nil {
			return err
		}
		child, at = at, next
	}
	return nil
}

func parent(pid int) (int, error) {
	ppid, dead := proc.ParentState(pid)
	if dead {
		return 0, fmt.Errorf("process %d cannot be seen, so it cannot be told from a supervised one", pid)
	}
	return ppid, nil
}

// arg0 is what a process is called by its first argument, as far as it could be
// the name of a session's init.
func arg0(pid int) (string, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return "", fmt.Errorf("look at process %d: %w", pid, err)
	}
	defer f.Close()
	buf := make([]byte, len(spawn.InitName)+1)
	n, err := f.Read(buf)
	if err != nil && !errors.Is(err, io.EOF) { // it may have none
		return "", fmt.Errorf("look at process %d: %w", pid, err)
	}
	name, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(name), nil
}
