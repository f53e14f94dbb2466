package lsm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// actReceive takes descriptors from a socket.
func actReceive(args []string) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: args[0]})
	}
	say("connect", err)
	for range 2 {
		oob := make([]byte, 64)
		n, oobn, flags, _, err := unix.Recvmsg(fd, make([]byte, 16), oob, 0)
		say(fmt.Sprintf("received %d, descriptors %v, cut %v", n, oobn > 0, flags&unix.MSG_CTRUNC != 0), err)
	}
}

// pass gives two files, opened outside, to all that connect to dir/s.
func pass(t *testing.T, dir string) {
	t.Helper()
	l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Shutdown(l, unix.SHUT_RDWR); _ = unix.Close(l) })
	if err := unix.Bind(l, &unix.SockaddrUnix{Name: dir + "/s"}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(l, 1); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			s, _, err := unix.Accept(l)
			if err != nil {
				return
			}
			for _, name := range []string{"ok", "deny/x"} {
				f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
				if err == nil {
					_ = unix.Sendmsg(s, []byte(name), unix.UnixRights(int(f.Fd())), nil, 0)
					_ = f.Close()
				}
			}
			_ = unix.Close(s)
		}
	}()
}

// TestReceive: a descriptor from outside is judged as if it were opened, and so it
// is recorded.
func TestReceive(t *testing.T) {
	dir := ground(t, "ok", "deny/x")
	h := hold(t, rulesOf(t, pattern{dir + "/deny", denyAll}))
	pass(t, dir)
	compareLines(t, native(t, "receive", dir+"/s"), `connect ok
		received 2, descriptors true, cut false ok
		received 6, descriptors true, cut false ok`)
	compareLines(t, h.victim("receive", dir+"/s"), `connect ok
		received 2, descriptors true, cut false ok
		received 6, descriptors false, cut true ok`)
	var got []string
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	for _, a := range h.log.accesses {
		if a.Op == event.OpOpen && a.Hook == "a descriptor received from another task" {
			got = append(got, fmt.Sprintf("%s of %s: refused %v, errno %d, %s", a.Need, a.Path, a.Refused, a.Errno, a.Why))
		}
	}
	slices.Sort(got) // they come by two rings
	if want := []string{
		"read+write of " + dir + "/deny/x: refused true, errno 13, denied by the policy",
		"read+write of " + dir + "/ok: refused false, errno 0, ",
	}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
