package lsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const floods = 100

// actFlood opens each file many times and says how often with which errno.
func actFlood(args []string) {
	for _, path := range args {
		came := map[string]int{}
		for range floods {
			var errno syscall.Errno
			if err := open(path, unix.O_RDONLY); errors.As(err, &errno) {
				came[unix.ErrnoName(errno)]++
			} else {
				came["ok"]++
			}
		}
		var names []string
		for name := range came {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			fmt.Println(path[strings.LastIndexByte(path, '/')+1:], name, came[name])
		}
	}
}

// TestFullRings: what finds no room is counted and stays refused; where the audit is
// strict what is allowed and finds none gets EAGAIN, and no other error.
func TestFullRings(t *testing.T) {
	needsLSM(t)
	dir := ground(t, "ok", "deny")
	for _, strict := range []bool{false, true} {
		e, err := New(Config{Rules: rulesOf(t, pattern{dir + "/deny", denyAll}), Strict: strict, UrgentBytes: 4096, FlowBytes: 4096})
		if err != nil {
			t.Fatal(err)
		}
		h := &held{t: t, engine: e} // whose rings nobody reads
		got := h.victim("flood", dir+"/ok", dir+"/deny")
		var again, ok, denied int
		if strict {
			_, err = fmt.Sscanf(got, "ok EAGAIN %d\nok ok %d\ndeny EACCES %d\n", &again, &ok, &denied)
		} else {
			_, err = fmt.Sscanf(got, "ok ok %d\ndeny EACCES %d\n", &ok, &denied)
		}
		if err != nil || ok+again != floods || denied != floods || strict && (ok == 0 || again == 0) {
			t.Errorf("strict %v: %q, %v", strict, got, err)
		}
		lost := map[Cause]uint64{}
		if err := e.losses.since(func(l Lost) { lost[l.Cause] += l.Count }); err != nil {
			t.Fatal(err)
		}
		if lost[CauseUrgent] == 0 || lost[CauseFlow] == 0 || strict && lost[CauseFlow] != uint64(again) {
			t.Errorf("strict %v: lost %v, %d got EAGAIN", strict, lost, again)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
