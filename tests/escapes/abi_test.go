package escapes_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

const (
	sysFchmodat2   = 452
	sysSetxattrat  = 463
	sysOpenTreeAtt = 467
	sysNone        = 9999
)

// TestForeignEntry: other doors into the kernel.
func TestForeignEntry(t *testing.T) {
	i386 := &trial.Denial{Arch: "i386", Errno: "*"}
	run(t, []row{
		{id: "A01", name: "open", argv: []string{"int80", "open", "{secret}"}, want: barred, deny: i386},
		{id: "A01", name: "openat", argv: []string{"int80", "openat", "{secret}"}, want: barred, deny: i386},
		{id: "A01", name: "mkdir", argv: []string{"int80", "mkdir", "{ws}/made"}, want: barred, deny: i386},
		// Kernels without the x32 ABI answer ENOSYS by themselves: then the
		// event alone tells that we saw it.
		{id: "A02", name: "openat", argv: []string{"x32", "{secret}"}, native: `x32: ret=(\d+ errno=0|-1 errno=38)`,
			want: barred, deny: &trial.Denial{Errno: "*"}},
		{id: "A10", name: "untraced", argv: []string{"untraced", "{secret}"}, deny: openDenied("{secret}")},
		{id: "A11", name: "assembly", argv: []string{"{ws}/bare", "{secret}"}, native: "TOKEN=", want: `^$`,
			deny: openDenied("{secret}"), after: statusUnder(13)},
		{id: "A11", name: "assembly allowed", argv: []string{"{ws}/bare", "{ok}"}, native: "ordinary", want: "ordinary"},
		{id: "A11", name: "static Go", argv: []string{"{ws}/opens", "cat", "{secret}"}, deny: openDenied("{secret}")},
		{id: "A11", name: "static Go allowed", argv: []string{"{ws}/opens", "cat", "{ok}"}, want: "ordinary"},
		{id: "A12", name: "user dispatch", argv: []string{"user-dispatch", "{secret}"}, want: `open: ret=-1`,
			deny: openDenied("{secret}"), many: true},
	})
}

func statusUnder(want int) func(*testing.T, *trial.Ground, *trial.Result, bool) {
	return func(t *testing.T, _ *trial.Ground, r *trial.Result, supervised bool) {
		if supervised && r.Status != want {
			t.Errorf("status %d, want %d", r.Status, want)
		}
	}
}

// TestRing: io_uring does what no filter sees, so there is none.
func TestRing(t *testing.T) {
	deny := &trial.Denial{Ops: []string{"io_uring"}, Errno: "*"}
	port, udp := listenTCP(t), listenUDP(t)
	var rows []row
	for _, op := range []string{"open", "open2", "unlink"} {
		rows = append(rows, row{id: "A03", name: op, argv: []string{"uring", op, "{secret}"}, want: barred, deny: deny})
	}
	rows = append(rows,
		row{id: "A03", name: "rename", argv: []string{"uring", "rename", "{secret}", "{ws}/taken"}, want: barred, deny: deny},
		row{id: "A04", name: "sockets", argv: []string{"uring", "net", port.text(), udp.text()}, native: `connect: ret=0[^$]*sendmsg: ret=5`,
			want: barred, deny: deny},
	)
	run(t, rows)
}

// TestRingInherited: a ring made before supervision does not come in (A05).
func TestRingInherited(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		use := []string{"{victim}", "ring-use", "9", "{secret}"}
		o := trial.Options{Wrap: []string{"{victim}", "ring-hold", "9"}}
		c := trial.NewGround(t, nobody)
		if r := c.Native(o, use...); !strings.Contains(r.Text(), c.Token) {
			t.Fatalf("control: the inherited ring reads nothing: %s", r.Text())
		}
		g := trial.NewGround(t, nobody)
		r := g.Supervised(o, use...)
		g.KeptSecret(r)
		if !strings.Contains(r.Stdout, "ret=-1") {
			t.Errorf("no failure: %s", r.Text())
		}
		if r := g.Supervised(o, "{victim}", "fds"); strings.Contains(r.Stdout, "fd 9") {
			t.Errorf("descriptor 9 came in: %s", r.Stdout)
		}
	})
}

// TestOpenat2: its argument is a structure in memory, read once (A06).
func TestOpenat2(t *testing.T) {
	run(t, []row{
		{id: "A06", name: "denied", argv: readCall(unix.SYS_OPENAT2, -100, "s:{secret}", how(0, 0, 0), 24),
			deny: openDenied("{secret}")},
		{id: "A06", name: "flags flip", argv: []string{"openat2-flip", attempts, "{config}"}, native: `reached=[1-9]`,
			want: `opened=[1-9]\d* reached=0`, deny: openDenied("{config}"), many: true},
	})
	if trial.Sampled() {
		return // the rest is how the gate reads the arguments, on any kernel alike
	}
	equal(t, "A06 sizes and flags", equality{}, openat2Calls())
}

func openat2Calls() []string {
	var calls []string
	add := func(path, how string, size int) {
		calls = append(calls, strings.Join(line(unix.SYS_OPENAT2, -100, path, how, size), " "))
	}
	zeros := how(0, 0, 0) + strings.Repeat("00", 4096-24)
	for _, size := range []int{0, 8, 23, 24, 25, 32, 4095, 4096, 4097, 1 << 20} {
		add("s:{ok}", zeros, size)
	}
	add("s:{ok}", how(0, 0, 0)+"01", 25)
	add("s:{ok}", how(0, 0, 0)+strings.Repeat("00", 4071)+"01", 4096)
	for bit := range 12 {
		add("s:{ok}", how(0, 0, 1<<bit), 24)
		add("s:ok.txt", how(0, 0, 1<<bit), 24)
		add("s:sub/../ok.txt", how(0, 0, 1<<bit), 24)
	}
	add("s:{ok}", how(0, 0o644, 0), 24)
	add("s:{ok}", how(unix.O_CREAT, 0o100644, 0), 24)
	add("s:{ok}", how(1<<40, 0, 0), 24)
	add("s:{ok}", how(unix.O_PATH|unix.O_RDWR, 0, 0), 24)
	add("0", how(0, 0, 0), 24)
	add("s:{ok}", "0", 24)
	add("s:{ok}", "1", 24)
	return calls
}

// TestUnknownCalls: numbers without a rule of ours (A09).
func TestUnknownCalls(t *testing.T) {
	run(t, []row{
		{id: "A09", name: "fchmodat2", argv: call(sysFchmodat2, -100, "s:{config}", 0o600, 0), native: `errno=(0|38)`, // 38 before Linux 6.6
			deny: &trial.Denial{Ops: []string{"chmod"}, Path: "{config}"}},
		{id: "A09", name: "setxattrat", argv: call(sysSetxattrat, -100, "s:{config}", 0, "s:user.reeve", "z:16", 16),
			native: `errno=(0|38)`, deny: &trial.Denial{Ops: []string{"setxattr"}, Path: "{config}"}},
		{id: "A09", name: "open_tree_attr", argv: call(sysOpenTreeAtt, -100, "s:{ws}", 0x80001, 0, 0), native: `ret=`,
			want: barred, deny: &trial.Denial{Errno: "*"}},
		{id: "A09", name: "no such call", argv: call(sysNone), native: `errno=38`, want: barred, deny: &trial.Denial{Errno: "*"}},
	})
}

// TestOtherSupervisor: below a supervisor of another kind reeve says so, and runs
// nothing (A08). Sessions inside its own are another matter: TestNestedNarrows.
func TestOtherSupervisor(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		command := g.Command(trial.Options{}, "/bin/echo", "ran")
		if r := g.Native(trial.Options{}, append([]string{"{victim}", "supervise"}, command[len(command)-2:]...)...); r.Stdout != "ran\n" {
			t.Fatalf("control: echo below a listener: status %d: %s", r.Status, r.Text())
		}
		r := g.Native(trial.Options{}, append([]string{"{victim}", "supervise"}, command...)...)
		if r.Status != 125 || !strings.Contains(r.Stderr, "already supervised") || strings.Contains(r.Stdout, "ran") {
			t.Errorf("status %d, output %q; want 125 and \"already supervised\"", r.Status, r.Text())
		}
	})
}
