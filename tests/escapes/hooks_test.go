package escapes_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// opened is a policy that opens parts of the kernel which the built-in one shuts,
// and denies what trial.TrialPolicy does.
func opened(surfaces ...string) func(*testing.T, *trial.Ground) {
	return func(t *testing.T, g *trial.Ground) {
		t.Helper()
		text := strings.ReplaceAll(trial.TrialPolicy, "trial", "opened") +
			fmt.Sprintf("[permissions.opened.kernel]\nallow = [%s]\n", `"`+strings.Join(surfaces, `", "`)+`"`)
		if err := os.WriteFile(g.Expand("{base}/opened.toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHooks: what only hooks in the kernel hold, where a policy opens a part of it
// that leads around every filter.
func TestHooks(t *testing.T) {
	if trial.Engine() != "lsm" {
		trial.Skip(t, "lsm", "only the hooks of the engine lsm see it")
	}
	opt := trial.Options{Flags: []string{"--policy", "{base}/opened.toml", "--profile", "opened"}}
	port, secret := listenTCP(t), openDenied("{secret}")
	ring, space := opened("io_uring"), opened("namespace", "chroot")
	const no = `uring: ret=-1 errno=(1|13|18)\b`
	apart := func(argv ...string) []string {
		return append([]string{"/usr/bin/unshare", "-m", "--propagation", "unchanged"}, argv...)
	}
	rows := []row{
		{id: "A03", name: "open", prepare: ring, argv: []string{"uring", "open", "{secret}"}, want: no, deny: secret},
		{id: "A03", name: "open2", prepare: ring, argv: []string{"uring", "open2", "{secret}"}, want: no, deny: secret},
		{id: "A03", name: "unlink", prepare: ring, argv: []string{"uring", "unlink", "{secret}"}, want: no,
			deny: &trial.Denial{Ops: []string{"unlink"}, Path: "{secret}", Errno: "*"}},
		{id: "A03", name: "rename", prepare: ring, argv: []string{"uring", "rename", "{secret}", "{ws}/taken"}, want: no,
			deny: &trial.Denial{Ops: []string{"rename"}, Path: "{secret}", Errno: "*"}},
		{id: "A03", name: "allowed", prepare: ring, argv: []string{"uring", "open", "{ok}"}, native: "ordinary", want: "ordinary"},
		{id: "A04", name: "connect", prepare: ring, argv: []string{"uring", "connect", port.text()}, want: no,
			deny: &trial.Denial{Ops: []string{"connect"}, Errno: "*"}, after: port.counted(true)},
		{id: "A04", name: "send", prepare: ring, argv: []string{"uring", "send", port.text()}, want: no,
			deny: &trial.Denial{Ops: []string{"connect", "send"}, Errno: "*"}, after: port.counted(true)},
		{id: "P13", name: "link in another namespace", prepare: space, argv: apart("/bin/ln", "{secret}", "{ws}/x"), native: "^$", want: "denied|cross-device",
			deny: &trial.Denial{Ops: []string{"link"}, Path: "{secret}", Target: "{ws}/x", Errno: "*"}},
		{id: "P14", name: "bind in another namespace", prepare: space, argv: apart("/bin/sh", "-c", "mount --bind p2 p1; cat p1/x/f"), native: "TOKEN=", want: "fine",
			deny: &trial.Denial{Ops: []string{"mount"}, Errno: "*"}, many: true},
		{id: "P20", name: "chroot", prepare: space, argv: []string{"/usr/sbin/chroot", "{ws}", "/bare", "/.env"}, native: "TOKEN=", want: `^$`, deny: secret},
		{id: "P20", name: "chroot allowed", prepare: space, argv: []string{"/usr/sbin/chroot", "{ws}", "/bare", "/ok.txt"}, native: "ordinary", want: "ordinary"},
		{id: "P21", name: "another mount namespace", prepare: space, argv: apart("/bin/cat", "{secret}"), native: "TOKEN=", want: "denied", deny: secret},
		{id: "K10", name: "a tracer changes the name", prepare: opened("ptrace"), argv: []string{"regs", "{ok}", "{secret}"}, native: "TOKEN=",
			want: `open: ret=-1 errno=13[^$]*changed=1`, deny: secret},
	}
	for i := range rows {
		rows[i].opt, rows[i].root = opt, true
	}
	for _, r := range rows { // each is a hook of its own: no sample of them
		t.Run(r.id+"/"+r.name, func(t *testing.T) { tiers(t, true, func(t *testing.T, nobody bool) { r.try(t, nobody) }) })
	}
}

// TestTables: a thread has descriptors of its own (K15).
func TestTables(t *testing.T) {
	run(t, []row{
		{id: "K15", name: "own descriptors", opt: trial.Options{Policy: true}, argv: []string{"tables", "{ws}/p1", "{ws}/p2", "x/f"}, native: `TOKEN=`,
			want: `thread: ` + refused + `\nmain: ret=0`, deny: openDenied("{ws}/p2/x/f")},
	})
}

// TestReconnect: each destination of a datagram socket is decided (N05).
func TestReconnect(t *testing.T) {
	udp := listenUDP(t)
	const no = ` ret=-1 errno=(1|13|101|111)`
	run(t, []row{
		{id: "N05", name: "reconnect", argv: []string{"reconnect", udp.text()}, native: `send other: ret=5`,
			want: `own: ret=0 errno=0\nsend: ret=5 errno=0\nsendto:` + no + `\nforget: ret=0 errno=0\nother:` + no,
			deny: &trial.Denial{Ops: []string{"send", "connect"}, Addr: "127.0.0.1", Port: udp.port, Errno: "*"}, many: true, after: udp.counted(true)},
	})
}
