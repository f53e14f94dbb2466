package escapes_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// listenUnix makes a socket of another program at path, and gives the file to
// the ground's user.
func (o *outsider) listenUnix(t *testing.T, g *trial.Ground, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	// The file may have another name by then, or be gone.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { l.Close(); os.Remove(path) })
	go o.accept(l)
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	g.Own(filepath.Dir(path))
	g.Rebase()
}

// hasIPv6 reports whether this machine has an IPv6 loopback.
func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err == nil {
		l.Close()
	}
	return err == nil
}

// TestAttackTwinPort: a port is not the session's because the session listens
// on the same number at another address (E1).
func TestAttackTwinPort(t *testing.T) {
	o := listenTCP(t)
	any4, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { any4.Close() })
	everywhere := &outsider{port: any4.Addr().(*net.TCPAddr).Port}
	go everywhere.accept(any4)

	twin := func(name, addr string, o *outsider) row {
		return row{
			id: "E1", name: name, argv: []string{"twin", addr, o.text(), "127.0.0.1"},
			native: `bind: ret=0[^$]*connect: ret=0`, want: `connect: ret=-1 errno=(1|13|111)\b`,
			deny: &trial.Denial{Ops: []string{"connect"}, Port: o.port, Errno: "*"}, many: true, after: o.counted(true),
		}
	}
	rows := []row{twin("other loopback address", "127.0.0.2", o)}
	if hasIPv6() {
		rows = append(rows, twin("other family", "::1", o), twin("other family, every address", "::1", everywhere))
	}
	free := listenTCP(t).port + 1 // most likely nobody's
	rows = append(rows, row{
		id: "E1", name: "own", argv: []string{"twin", "127.0.0.2", fmt.Sprint(free), "127.0.0.2"},
		native: `connect: ret=0`, want: `connect: ret=0`,
	})
	run(t, rows)
}

// TestAttackTwinName: nor is an abstract name, because the session has one of
// another type (E2).
func TestAttackTwinName(t *testing.T) {
	o, name := &outsider{}, fmt.Sprintf("reeve-trial-%d", os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go o.accept(l)
	run(t, []row{
		{id: "E2", name: "datagram of the same name", argv: []string{"abstract", "datagram", name},
			native: `bind: ret=0[^$]*connect: ret=0`, want: `connect: ret=-1 errno=(1|13|111)\b`,
			deny: &trial.Denial{Ops: []string{"connect"}, Errno: "*"}, many: true, after: o.counted(true)},
		{id: "E2", name: "own", argv: []string{"abstract", "stream", name + "-own"},
			native: `connect: ret=0`, want: `connect: ret=0`},
	})
}

// TestAttackAdoptedSocket: a socket of another program is not reached under a
// new name in a place of the session's (E3).
func TestAttackAdoptedSocket(t *testing.T) {
	o := &outsider{}
	outside := func(t *testing.T, g *trial.Ground) { o.listenUnix(t, g, filepath.Join(g.Outside, "s")) }
	inside := func(t *testing.T, g *trial.Ground) { o.listenUnix(t, g, filepath.Join(g.Workspace, "sub/s")) }
	// Where everybody may write, on the file system of temporary files. The name
	// is the same for every run, since a row's words cannot hold a new one.
	public := filepath.Join(os.TempDir(), fmt.Sprintf("reeve-trial-%d", os.Getpid()))
	shared := func(t *testing.T, g *trial.Ground) {
		if err := os.MkdirAll(public, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(public) })
		os.Remove(filepath.Join(public, "s"))
		o.listenUnix(t, g, filepath.Join(public, "s"))
	}
	var rows []row
	for _, how := range []string{"link", "rename"} {
		adopt := func(name, from, to string, prepare func(*testing.T, *trial.Ground)) row {
			return row{
				id: "E3", name: how + " " + name, argv: []string{"adopt", how, from, to}, prepare: prepare,
				native: how + `: ret=0[^$]*connect: ret=0`, want: how + `: ret=-1 errno=\d+\s+connect: ret=-1`,
				deny: &trial.Denial{Ops: []string{how}, Errno: "*"}, many: true, after: o.counted(true),
			}
		}
		rows = append(rows,
			adopt("into the workspace", "{outside}/s", "{ws}/s", outside),
			adopt("within the workspace", "{ws}/sub/s", "{ws}/s", inside),
			adopt("into the temporary directory", public+"/s", "tmp/reeve-trial-adopted", shared))
	}
	run(t, append(rows, row{id: "E3", name: "own", argv: []string{"unix", "{ws}/own.sock"}, want: `connect: ret=0`}))
}

// TestAttackBoundName: the name that is bound is the one that was judged (I3).
func TestAttackBoundName(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		prepare := func(g *trial.Ground) {
			if err := os.MkdirAll(g.Workspace+"/free/hooks", 0o755); err != nil {
				t.Fatal(err)
			}
			g.Own(g.Workspace + "/free")
		}
		// Relative: a socket's name has room for 108 bytes.
		argv := []string{"{victim}", "bind-flip", attempts, "free/hooks/s", ".git/hooks/s"}
		c := trial.NewGround(t, nobody)
		prepare(c)
		trial.Won(t, "control: the denied name is bound", trial.ControlAttempts(2000), func(n string) (bool, *trial.Result) {
			r := c.Native(trial.Options{}, raced(argv, n)...)
			return won(r), r
		})
		g := trial.NewGround(t, nobody)
		prepare(g)
		r := g.Supervised(trial.Options{Timeout: time.Minute}, raced(argv, trial.Attempts(2000))...)
		if _, opened, reached := scores(t, r); reached != 0 || opened == 0 {
			t.Errorf("%s", r.Text())
		}
		trial.SomeDenial(t, r.Events, trial.Denial{Ops: []string{"bind", "mknod", "create"}, Path: g.Expand("{hooks}/s"), Errno: "*"})
		g.KeptSecret(r)
	})
}
