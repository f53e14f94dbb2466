package lsm

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/witness"
)

func inode(t testing.TB, path string) witness.Inode {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var d witness.Devices
	i, err := d.Inode(fd)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestGrants: what asks passes with a grant, and no other; a grant for once
// passes once; no grant lifts a denial.
func TestGrants(t *testing.T) {
	dir := ground(t, "ask/file", "ask/other", "ask/once", "deny/file")
	copyFile(t, "/bin/true", dir+"/ask/run")
	h := hold(t, rulesOf(t, pattern{dir + "/ask", askAll}, pattern{dir + "/deny", denyAll}))
	for name, once := range map[string]bool{"ask/file": false, "ask/once": true, "deny/file": false} {
		i := inode(t, filepath.Join(dir, name))
		if err := h.engine.Allow(Grant{Dev: i.Dev, Ino: i.Ino, Access: event.AccessRead, Once: once}); err != nil {
			t.Fatal(err)
		}
	}
	got := h.run(`cd "$1"; for f in ask/file ask/file ask/other ask/once ask/once deny/file; do cat $f >/dev/null 2>&1 && echo $f ok || echo $f no; done
		echo x >>ask/file || echo write no
		ask/run && echo run ok || echo run no`, dir)
	compareLines(t, strings.ReplaceAll(got, "sh: 2: cannot create ask/file: Permission denied\n", ""), `ask/file ok
		ask/file ok
		ask/other no
		ask/once ok
		ask/once no
		deny/file no
		write no
		sh: 3: ask/run: Permission denied
		run no`)
	i := inode(t, dir+"/ask/file")
	if err := h.engine.Revoke(Grant{Dev: i.Dev, Ino: i.Ino}); err != nil {
		t.Fatal(err)
	}
	if got := h.run(`cat "$1/ask/file"`, dir); !strings.Contains(got, "Permission denied") {
		t.Errorf("revoked: %s", got)
	}
}

// TestAnnounced: a program that asks runs where the thread's exec was announced.
func TestAnnounced(t *testing.T) {
	dir := ground(t)
	copyFile(t, "/bin/true", dir+"/run")
	h := hold(t, rulesOf(t, pattern{dir + "/run", askAll}))
	for _, announce := range []bool{true, false} {
		wait := h.startHeld(`exec "$1/run"`, func(pid int) {
			if announce {
				if err := h.engine.Announce(pid, []witness.Inode{inode(t, dir+"/run")}); err != nil {
					t.Fatal(err)
				}
			}
		}, dir)
		if out, err := wait(); (err == nil) != announce {
			t.Errorf("announced %v: %v %s", announce, err, out)
		}
	}
}

// TestStorm: while others change names as fast as they can, and several tasks
// open at once, every verdict is right.
func TestStorm(t *testing.T) {
	dir := ground(t, "ok/f", "deny/f", "moving/a/f")
	h := hold(t, rulesOf(t, pattern{dir + "/deny", denyAll}))
	var stop atomic.Bool
	var renames atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			if os.Rename(dir+"/moving/a", dir+"/moving/b") == nil && os.Rename(dir+"/moving/b", dir+"/moving/a") == nil {
				renames.Add(2)
			}
		}
	}()
	const script = `i=0; ok=0; leaked=0; while [ $i -lt 300 ]; do i=$((i+1))
		{ read x <"$1/ok/f"; } 2>/dev/null && ok=$((ok+1)); { read x <"$1/deny/f"; } 2>/dev/null && leaked=$((leaked+1)); done; echo "$ok ok, $leaked leaked"`
	var waits []func() (string, error)
	for range 4 {
		waits = append(waits, h.start(script, dir))
	}
	for _, wait := range waits {
		if got, err := wait(); got != "300 ok, 0 leaked\n" || err != nil {
			t.Errorf("%q %v", got, err)
		}
	}
	stop.Store(true)
	<-done
	h.log.mu.Lock()
	defer h.log.mu.Unlock()
	t.Logf("%d renames meanwhile, lost %v", renames.Load(), h.log.lost)
}
