package escapes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// opens is a policy that opens parts of the kernel which the built-in one shuts,
// with the capabilities that it takes to use them, and denies what
// trial.TrialPolicy does. underOpened runs a session under it.
func opens(surfaces ...string) func(*testing.T, *trial.Ground) {
	return func(t *testing.T, g *trial.Ground) {
		t.Helper()
		text := strings.ReplaceAll(trial.TrialPolicy, "trial", "opened") +
			fmt.Sprintf("[permissions.opened.capabilities]\nkeep = [\"*\"]\n[permissions.opened.kernel]\nallow = [%s]\n", `"`+strings.Join(surfaces, `", "`)+`"`)
		if err := os.WriteFile(g.Expand("{base}/opened.toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var underOpened = trial.Options{Flags: []string{"--policy", "{base}/opened.toml", "--profile", "opened"}}

// steps is a command that makes calls one after another in one process.
func steps(calls ...[]string) []string {
	var text strings.Builder
	for _, c := range calls {
		text.WriteString(strings.Join(c, " ") + `\n`)
	}
	return []string{"/bin/sh", "-c", "printf '" + text.String() + "' | ./victim batch"}
}

// inTurn is a command that uses rings one after another, in one session.
func inTurn(words ...string) []string {
	return []string{"/bin/sh", "-c", "{victim} uring " + strings.Join(words, "; {victim} uring ")}
}

// denials is how many denials of an operation a run has.
func denials(r *trial.Result, op string) (n int) {
	for _, e := range trial.Denials(r.Events) {
		if e.Op == op {
			n++
		}
	}
	return n
}

// TestHooks: what only hooks in the kernel hold, where a policy opens a part of it
// that leads around every filter.
func TestHooks(t *testing.T) {
	if trial.Engine() != "lsm" {
		trial.Skip(t, "lsm", "only the hooks of the engine lsm see it")
	}
	port, udp, secret := listenTCP(t), listenUDP(t), openDenied("{secret}")
	ring, space := opens("io_uring"), opens("namespace", "chroot")
	apart := line(unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	private := line(unix.SYS_MOUNT, "s:none", "s:/", 0, unix.MS_REC|unix.MS_PRIVATE, 0)
	read := func(path string) []string { return append([]string{"cat"}, line(unix.SYS_OPEN, "s:"+path, 0)...) }
	const no, shut = `uring: ret=-1 errno=(1|13|18)\b`, `ret=-1 errno=(1|13)\n`
	const went = `^\d+ [^ ]+: ret=0 errno=0\n[^$]*` // the first of the steps
	rows := []row{
		{id: "A03", name: "files", prepare: ring, argv: inTurn("open {ok}", "open {secret}", "open2 {secret}", "unlink {ws}/p2/x/f", "rename {secret} {ws}/taken"),
			native: `ordinary[^$]*TOKEN=[^$]*TOKEN=[^$]*uring: ret=0 errno=0\nuring: ret=0 errno=0`,
			want:   `content: ordinary\n` + no + `\n` + no + `\n` + no + `\n` + no, deny: secret, many: true,
			after: func(t *testing.T, _ *trial.Ground, r *trial.Result, supervised bool) {
				for op, want := range map[string]int{"open": 2, "delete": 1, "rename": 1} {
					if n := denials(r, op); supervised && n != want {
						t.Errorf("%d denials of %s, want %d", n, op, want)
					}
				}
			}},
		{id: "A04", name: "sockets", prepare: ring, argv: []string{"uring", "net", port.text(), udp.text()},
			native: `sockets: ret=0[^$]*connect: ret=0[^$]*send: ret=5[^$]*bind: ret=0[^$]*sendmsg: ret=5`,
			want:   `sockets: ret=0 errno=0\npackets: ` + shut + `connect: ` + shut + `send: ret=-1 errno=32\nbind: ` + shut + `sendmsg: ` + shut,
			deny:   &trial.Denial{Ops: []string{"connect"}, Errno: "*"}, many: true, after: netDenied(port, udp)},
		// The supervisor makes no link for a task whose names may be others.
		{id: "P13", name: "link in another namespace", prepare: space, argv: steps(apart, line(unix.SYS_LINK, "s:.env", "s:x")),
			native: `\.env s:x: ret=0`, want: went + `\.env s:x: ` + refused, deny: &trial.Denial{Ops: []string{"link"}}},
		{id: "P14", name: "bind in another namespace", prepare: space,
			argv:   steps(apart, private, line(unix.SYS_MOUNT, "s:p2", "s:p1", 0, unix.MS_BIND, 0), read("p1/x/f")),
			native: "content: TOKEN=", want: went + "content: fine", deny: &trial.Denial{Ops: []string{"mount"}, Errno: "*"}, many: true},
		{id: "P20", name: "chroot", prepare: space, argv: steps(line(unix.SYS_CHROOT, "s:{ws}"), read("/ok.txt"), read("/.env")),
			native: "content: ordinary[^$]*content: TOKEN=", want: went + `content: ordinary[^$]*/\.env 0: ` + refused, deny: secret},
		{id: "P21", name: "another mount namespace", prepare: space, argv: steps(apart, read(".env")), native: "content: TOKEN=",
			want: went + `\.env 0: ` + refused, deny: secret},
	}
	for _, r := range rows { // each is a hook of its own: no sample of them
		r.opt, r.root = underOpened, true
		t.Run(r.id+"/"+r.name, func(t *testing.T) { tiers(t, true, func(t *testing.T, nobody bool) { r.try(t, nobody) }) })
	}
	t.Run("P14/mount allowed", openMount)
}

// TestReceived: a descriptor that somebody outside the session hands to it is judged
// as if it opened the file (P36). README says that engine unotify does not see it.
func TestReceived(t *testing.T) {
	if trial.Engine() != "lsm" {
		trial.Skip(t, "lsm", "only the hooks of the engine lsm see it")
	}
	names := []string{"{ok}", "{secret}", "{ws}/p1/x/f"}
	given := func(g *trial.Ground) (o trial.Options) {
		s, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(s[0]), "ours"), os.NewFile(uintptr(s[1]), "theirs")
		t.Cleanup(func() { ours.Close(); theirs.Close() })
		for _, name := range names {
			f, err := os.Open(g.Expand(name))
			if err != nil {
				t.Fatal(err)
			}
			err = unix.Sendmsg(s[0], []byte(name), unix.UnixRights(int(f.Fd())), nil, 0)
			if f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		o.Stdin = theirs
		return o
	}
	command := []string{"{victim}", "receive", fmt.Sprint(len(names))}
	c := trial.NewGround(t, false)
	if r := c.Native(given(c), command...); !regexp.MustCompile(`(?s)ordinary.*TOKEN=.*fine`).MatchString(r.Text()) {
		t.Fatalf("control: %s", r.Text())
	}
	g := trial.NewGround(t, false)
	r := g.Supervised(given(g), command...)
	if !regexp.MustCompile(`ret=0[^$]*ordinary\n[^$]*ret=-1[^$]*ret=0[^$]*fine\n`).MatchString(r.Text()) {
		t.Errorf("output: %s", r.Text())
	}
	g.KeptSecret(r)
	trial.OneDenial(t, r.Events, trial.Denial{Ops: []string{"open"}, Path: g.Expand("{secret}")})
	received := map[string]string{}
	for _, e := range r.Events {
		if strings.Contains(e.Reason, "received from another task") || e.Op == "open" && e.Object.Path == g.Expand("{ok}") {
			received[e.Object.Path] = e.Action
		}
	}
	if received[g.Expand("{ok}")] != "allow" || received[g.Expand("{secret}")] != "deny" {
		t.Errorf("recorded %v", received)
	}
}

// codePolicy asks about files that hold code, to read one and to run the others.
const codePolicy = `
[permissions.code]
extends = ":workspace"
[permissions.code.filesystem.":workspace_roots"]
"." = "write"
"p1/x/lib.so" = "ask"
[permissions.code.exec]
"{ws}/linked" = "ask"
`

// TestCodeAsked: what somebody was asked about and said yes to may be mapped as code,
// which the kernel does of a program, and a loader of another and of a library; said no
// to, it is not (X16).
func TestCodeAsked(t *testing.T) {
	const loader = "/lib64/ld-linux-x86-64.so.2"
	rows := []struct {
		name string
		argv []string
		runs string // matches what it prints where it may
	}{
		{"loader", []string{"/bin/sh", "-c", loader + " {ws}/linked ran; echo $?"}, `^10\n$`},
		{"program", []string{"/bin/sh", "-c", "{ws}/linked ran; echo $?"}, `^10\n$`},
		{"program from a thread", []string{"/bin/sh", "-c", "{victim} thread-uid 0 {ws}/linked ran; echo $?"}, `^10\n$`},
		{"mapped", []string{"{victim}", "map-code", "mmap", "{ws}/p1/x/lib.so"}, `code: ret=0`},
		{"protected", []string{"{victim}", "map-code", "mprotect", "{ws}/p1/x/lib.so"}, `code: ret=0`},
		{"library", preload("{ws}/p1/x/lib.so"), `r-xp[^\n]*lib\.so`},
	}
	seen := map[string]bool{}
	for _, r := range rows {
		t.Run("X16/"+r.name, func(t *testing.T) {
			trial.Sample(t, seen, "X16")
			runs := regexp.MustCompile(r.runs)
			tiers(t, true, func(t *testing.T, nobody bool) {
				for _, say := range []string{"", "allow", "deny"} {
					g := trial.NewGround(t, nobody)
					library("{ws}/p1/x/lib.so")(t, g)
					writeFile(t, g.Base+"/code.toml", g.Expand(codePolicy), 0o644)
					g.Own(g.Base)
					if say == "" {
						if got := g.Native(trial.Options{}, r.argv...); !runs.MatchString(got.Stdout) {
							t.Fatalf("control: %s", got.Text())
						}
						continue
					}
					o := trial.Options{Flags: []string{"--policy", "{base}/code.toml", "--profile", "code", "--ask", "control", "--ask-timeout", "30s"}}
					a := g.Approve(func(trial.Question) []string { return []string{say} })
					got := g.Supervised(o, r.argv...)
					a.Stop()
					if asked, _ := a.Asked(); len(asked) == 0 {
						t.Errorf("nobody was asked: %s", got.Text())
					}
					if runs.MatchString(got.Stdout) != (say == "allow") {
						t.Errorf("answered %s: %s", say, got.Text())
					}
					if n := len(trial.Denials(got.Events)); say == "allow" && n > 0 {
						t.Errorf("%d denials: %v", n, trial.Denials(got.Events))
					}
				}
			})
		})
	}
}

// netDenied says that nothing came to either, and that each is recorded.
func netDenied(tcp, udp *outsider) func(*testing.T, *trial.Ground, *trial.Result, bool) {
	return func(t *testing.T, g *trial.Ground, r *trial.Result, supervised bool) {
		tcp.counted(true)(t, g, r, supervised)
		udp.counted(true)(t, g, r, supervised)
		for _, op := range []string{"socket", "bind", "send"} {
			if supervised {
				trial.SomeDenial(t, r.Events, trial.Denial{Ops: []string{op}, Errno: "*"})
			}
		}
	}
}

// openMount: where a policy lets a session mount, what it mounts has the path that it
// gives it; policy check warns of it, and the session is stamped with it (P14).
func openMount(t *testing.T) {
	g := trial.NewGround(t, false)
	opens("mount", "namespace")(t, g)
	if checked := g.Verb("policy", "check", g.Expand("{base}/opened.toml")); !strings.Contains(checked.Text(), "lets the session use [mount namespace]") {
		t.Errorf("policy check does not say it: %s", checked.Text())
	}
	cat := append([]string{"cat"}, line(unix.SYS_OPEN, "s:p2/x/f", 0)...)
	r := g.Supervised(underOpened, steps(line(unix.SYS_UNSHARE, unix.CLONE_NEWNS), line(unix.SYS_MOUNT, "s:none", "s:/", 0, unix.MS_REC|unix.MS_PRIVATE, 0),
		cat, line(unix.SYS_MOUNT, "s:p1", "s:p2", 0, unix.MS_BIND, 0), cat)...)
	if !regexp.MustCompile(`f 0: ret=-1 errno=13\n[^$]*p1 s:p2 0 \d+ 0: ret=0 errno=0\n`).MatchString(r.Text()) {
		t.Errorf("output: %s", r.Text())
	}
	// By its path what is mounted there now is the denied file.
	trial.SomeDenial(t, r.Events, trial.Denial{Ops: []string{"open"}, Path: g.Expand("{ws}/p2/x/f")})
	if n := len(trial.Denials(r.Events)); n != 2 {
		t.Errorf("%d denials, want 2", n)
	}
	if list := g.Verb("sessions", "--json"); !strings.Contains(list.Stdout, "a session that may mount can give a directory another path") {
		t.Errorf("the session does not say it: %s", list.Text())
	}
}

// TestAutomatic: what doctor says that run takes is what it takes, and where the
// hooks can be had, root's sessions have them.
func TestAutomatic(t *testing.T) {
	hooked := trial.Engine() == "lsm"
	tiers(t, hooked, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		t.Setenv("REEVE_ENGINE", "") // leaves the choice to reeve
		out := g.Verb("doctor", "--json")
		var said struct{ Engine string }
		if err := json.Unmarshal([]byte(out.Stdout), &said); err != nil {
			t.Fatalf("%v: %s", err, out.Text())
		}
		want, _, _ := strings.Cut(said.Engine, " ")
		if hooked && want != "lsm" {
			t.Errorf("doctor says that run takes %q: %s", said.Engine, out.Stdout)
		}
		r := g.Supervised(trial.Options{}, "/bin/true")
		for _, e := range r.Events {
			if e.Engine != want {
				t.Fatalf("engine %q, doctor says %q: %s", e.Engine, said.Engine, e.String())
			}
		}
		if len(r.Events) == 0 {
			t.Errorf("no events: %s", r.Text())
		}
	})
}

// TestPeers: a call that is not what it was when somebody looked (K10, K15, N05).
func TestPeers(t *testing.T) {
	udp := listenUDP(t)
	const no = ` ret=-1 errno=(1|13|101|111)`
	run(t, []row{
		{id: "K10", name: "a tracer changes the name", opt: underOpened, prepare: opens("ptrace"), argv: []string{"regs", "{ok}", "{secret}"},
			native: `TOKEN=[^$]*changed=1`, want: `open: ` + refused + `\nchanged=1`, deny: openDenied("{secret}")},
		{id: "K15", name: "own descriptors", opt: trial.Options{Policy: true}, argv: []string{"tables", "{ws}/p1", "{ws}/p2", "x/f"}, native: `TOKEN=`,
			want: `thread: ` + refused + `\nmain: ret=0`, deny: openDenied("{ws}/p2/x/f")},
		{id: "N05", name: "reconnect", argv: []string{"reconnect", udp.text()}, native: `send other: ret=5`,
			want: `own: ret=0 errno=0\nsend: ret=5 errno=0\nsendto:` + no + `\nforget: ret=0 errno=0\nother:` + no,
			deny: &trial.Denial{Ops: []string{"send", "connect"}, Addr: "127.0.0.1", Port: udp.port, Errno: "*"}, many: true, after: udp.counted(true)},
	})
}
