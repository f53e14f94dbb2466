package gate

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// TestWaits: of a process's threads each waits with its own words, those that a
// verifier holds to theirs too while another is compared here; what is next is all
// that a thread waits for.
func TestWaits(t *testing.T) {
	w := &worker{g: &Gate{}}
	exec := func(tid int, told bool, words ...string) {
		w.th = &proc.Thread{ID: "7-1", TGID: 7, TID: tid}
		w.expectWords([]Program{{FileID{1, 2}, "/usr/bin/git"}}, nil, words, told)
	}
	waits := func(want ...[]string) {
		t.Helper()
		var got [][]string
		for _, x := range w.g.lines.m["7-1"] {
			got = append(got, x.words)
		}
		if !slices.EqualFunc(got, want, slices.Equal) || int(w.g.lines.pending.Load()) != len(w.g.lines.m) {
			t.Errorf("waits for %q, want %q", got, want)
		}
	}
	long, short := []string{"git", "log"}, []string{"git", "status"}
	exec(7, true, short...)
	exec(7, false)
	waits() // nothing is compared here
	exec(7, false, long...)
	waits(long)
	exec(8, true, short...)
	waits(long, short) // and not any words of git's
	exec(9, false)
	waits(long, short, nil)
	exec(7, false, short...)
	waits(short, nil, short)
	exec(8, false)
	exec(7, false)
	waits(nil, nil, nil)
}

// TestNetlinkProtocols: the one protocol of netlink that reaches programs has a name of
// its own.
func TestNetlinkProtocols(t *testing.T) {
	for protocol, want := range map[int]string{unix.NETLINK_ROUTE: "netlink", unix.NETLINK_USERSOCK: event.ProtoUsersock, unix.NETLINK_GENERIC: "netlink"} {
		if got := protoName(unix.AF_NETLINK, unix.SOCK_DGRAM, protocol); got != want {
			t.Errorf("protocol %d: %q, want %q", protocol, got, want)
		}
	}
}
