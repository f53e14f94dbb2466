package escapes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// An opening is one call of openat2 below a directory with links out of it.
type opening struct {
	name           string
	flags, resolve uint64
}

// line is the victim's word for the call.
func (o opening) line() string {
	mode := uint64(0)
	if o.flags&unix.O_CREAT != 0 {
		mode = 0o644
	}
	return fmt.Sprintf("cat %d d:jail s:%s %s 24", unix.SYS_OPENAT2, o.name, how(o.flags, mode, o.resolve))
}

// excused says whether an answer that is not the native one refuses all the same.
// With O_EXCL natively all links fail; which error it is depends on who looks first.
func (o opening) excused(native, got string) bool {
	failed := func(text string) bool { return strings.Contains(text, "ret=-1") }
	if o.flags&unix.O_EXCL != 0 {
		return failed(got) && failed(native)
	}
	const refusal = `errno=(13|40)\b` // a file is not made through a link under restrictions
	return o.flags&unix.O_CREAT != 0 && o.resolve != 0 && failed(got) && matches(refusal, got)
}

// jail lays out a directory "jail" with links to "target" beside it.
func jail(t *testing.T, g *trial.Ground) {
	t.Helper()
	if err := os.MkdirAll(g.Workspace+"/jail", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"rel": "../target", "abs": g.Workspace + "/target", "up": ".."} {
		symlink(to, "{ws}/jail/"+name)(t, g)
	}
	if err := os.WriteFile(g.Workspace+"/target", []byte("beyond\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	g.Own(g.Workspace)
	g.Rebase()
}

// TestAttackResolve: what openat2 promises about links holds when the file may
// be created, too (I4).
func TestAttackResolve(t *testing.T) {
	var calls []opening
	var batch strings.Builder
	for _, resolve := range []uint64{0, unix.RESOLVE_NO_SYMLINKS, unix.RESOLVE_BENEATH, unix.RESOLVE_IN_ROOT} {
		// What may create comes last: under RESOLVE_IN_ROOT it makes jail/target.
		for _, flags := range []uint64{unix.O_RDWR, unix.O_RDWR | unix.O_CREAT, unix.O_RDWR | unix.O_CREAT | unix.O_EXCL} {
			for _, name := range []string{"rel", "abs", "up/target", "../target"} {
				o := opening{name: name, flags: flags, resolve: resolve}
				calls = append(calls, o)
				batch.WriteString(o.line() + "\n")
			}
		}
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
		jail(t, c)
		jail(t, g)
		native := c.Native(trial.Options{Stdin: strings.NewReader(batch.String())}, "{victim}", "batch")
		r := g.Supervised(trial.Options{Stdin: strings.NewReader(batch.String())}, "{victim}", "batch")
		want, got := resolved(native.Stdout), resolved(r.Stdout)
		if strings.Count(native.Stdout, "content: beyond") < 8 || !strings.Contains(native.Stdout, "errno=18") || len(want) != len(calls) {
			t.Fatalf("control: %s", native.Text())
		}
		if len(got) != len(calls) {
			t.Fatalf("reeve: status %d: %s", r.Status, r.Text())
		}
		for i, o := range calls {
			if got[i] != want[i] && !o.excused(want[i], got[i]) {
				t.Errorf("natively %q, under reeve %q", want[i], got[i])
			}
		}
	})
}

// resolved are the batch's calls, each with what its descriptor reads. Which
// descriptor that is says nothing.
func resolved(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "content:") && len(out) > 0 {
			out[len(out)-1] += line
		} else {
			out = append(out, regexp.MustCompile(`ret=\d+`).ReplaceAllString(line, "ret=fd"))
		}
	}
	return out
}

// TestAttackSetgid: no program of another group is made, by mode or by access
// list (I6).
func TestAttackSetgid(t *testing.T) {
	// user::rwx group::r-x other::r-x
	const acl = "x:02000000" + "01000700ffffffff" + "04000500ffffffff" + "20000500ffffffff"
	file := func(mode os.FileMode) func(*testing.T, *trial.Ground) {
		return func(t *testing.T, g *trial.Ground) {
			path := filepath.Join(g.Workspace, "tool.sh")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			g.Own(g.Workspace)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			g.Rebase()
		}
	}
	harmless := func(t *testing.T, g *trial.Ground, _ *trial.Result, supervised bool) {
		var st unix.Stat_t
		if err := unix.Stat(g.Workspace+"/tool.sh", &st); err != nil {
			t.Fatal(err)
		}
		if sgid := st.Mode&0o2010 == 0o2010; sgid && supervised {
			t.Errorf("mode %o: a program of another group", st.Mode)
		}
	}
	chmod := &trial.Denial{Ops: []string{"chmod"}, Path: "{ws}/tool.sh", Errno: "*"}
	made := &trial.Denial{Ops: []string{"create", "open", "mknod", "mkdir"}, Path: "{ws}/new.sh", Errno: "*"}
	const no = `ret=-1 errno=(1|13)\b`
	// Natively the list gives the group what its mode did not.
	steps := fmt.Sprintf("%d s:tool.sh 02645\n%d s:tool.sh s:system.posix_acl_access %s 28 0\n", unix.SYS_CHMOD, unix.SYS_SETXATTR, acl)
	run(t, []row{
		{id: "I6", name: "mode", prepare: file(0o755), argv: call(unix.SYS_CHMOD, "s:tool.sh", 0o2755), want: no, deny: chmod, after: harmless},
		{id: "I6", name: "mode without x for the group", prepare: file(0o755), argv: call(unix.SYS_CHMOD, "s:tool.sh", 0o2645), want: no, deny: chmod, after: harmless},
		{id: "I6", name: "then an access list", prepare: file(0o645), argv: []string{"/bin/sh", "-c", "printf '" + steps + "' | ./victim batch"},
			native: `02645: ret=0[^$]*28 0: ret=0`, want: `02645: ret=-1 errno=(1|13)\b`, deny: chmod, after: harmless},
		{id: "I6", name: "new file", argv: call(unix.SYS_OPENAT, -100, "s:new.sh", unix.O_WRONLY|unix.O_CREAT, 0o2645), want: no, deny: made},
		{id: "I6", name: "new node", argv: call(unix.SYS_MKNOD, "s:new.sh", unix.S_IFREG|0o2645, 0), want: no, deny: made},
		{id: "I6", name: "ordinary mode", prepare: file(0o644), argv: call(unix.SYS_CHMOD, "s:tool.sh", 0o755), want: succeeded},
	})
}

// longest is how long one task's wait may hold up another.
const longest = 2 * time.Second

// notHeldUp requires that the bystander went on all the time.
func notHeldUp(t *testing.T, who string, r *trial.Result) {
	t.Helper()
	m := regexp.MustCompile(`bystander: opened=(\d+) failed=0 worst_ms=(\d+)`).FindStringSubmatch(r.Stdout)
	if m == nil {
		t.Fatalf("%s: status %d: %s", who, r.Status, r.Text())
	}
	if ms, _ := strconv.Atoi(m[2]); time.Duration(ms)*time.Millisecond > trial.Patience(longest) {
		t.Errorf("%s: the bystander waited %d ms", who, ms)
	}
	if n, _ := strconv.Atoi(m[1]); n < 2 {
		t.Errorf("%s: the bystander opened %d times", who, n)
	}
}

// TestAttackStalls: a task that waits in the kernel is the only one that waits
// (D1, D2, D3).
func TestAttackStalls(t *testing.T) {
	readers, mebibytes := trial.Attempts(600), "1024"
	if trial.Emulated() {
		mebibytes = "256" // of its memory
	}
	for _, c := range []struct {
		id, name string
		argv     []string
		want     string
	}{
		{"D1", "lease", []string{"lease", "{ok}", "{ws}/p1/x/f"}, `lease: ret=0`},
		{"D2", "inode lock", []string{"inode", "{ws}/big", mebibytes, "{ok}"}, `bystander`},
		{"D3", "readers of a fifo", []string{"fifo-readers", readers, "{ws}/fifo", "{ok}"}, `early=0[^$]*writer: ret=0[^$]*readers=` + readers + ` freed=` + readers + ` after_ms=\d{1,4}\b`},
	} {
		t.Run(c.id+"/"+c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				argv, o := append([]string{"{victim}"}, c.argv...), trial.Options{Timeout: 30 * time.Second}
				control := trial.NewGround(t, nobody).Native(o, argv...)
				notHeldUp(t, "control", control)
				match(t, "control", c.want, control)
				r := trial.NewGround(t, nobody).Supervised(o, argv...)
				notHeldUp(t, "reeve", r)
				match(t, "reeve", c.want, r)
				t.Logf("%s%v", r.Stdout, r.Took.Round(time.Millisecond))
			})
		})
	}
}

// TestAttackFullDisk: a session that cannot be recorded any more ends, and little
// of what it does until then is without a record (I1).
func TestAttackFullDisk(t *testing.T) {
	trial.NeedRoot(t)
	for _, fills := range []bool{false, true} {
		t.Run(fmt.Sprintf("I1/full %v", fills), func(t *testing.T) {
			g := trial.NewGround(t, false)
			if err := unix.Mount("none", g.State, "tmpfs", 0, "size=64m,mode=700"); err != nil {
				trial.Skip(t, "tmpfs", err.Error())
			}
			t.Cleanup(func() { unix.Unmount(g.State, unix.MNT_DETACH) })
			said := filepath.Join(t.TempDir(), "said")
			cmd := start(t, g, append([]string{"/bin/sh", "-c", `exec "$@" 2>` + said, "sh"}, g.Command(trial.Options{}, "/bin/sh", "-c",
				"i=0; while [ $i -lt 40 ]; do ./victim loop open "+trial.Attempts(2000)+" ok.txt; echo >> beats; sleep 0.1; i=$((i+1)); done")...))
			ended := make(chan int, 1)
			go func() { ended <- trial.ExitStatus(cmd.Wait()) }()
			if !waitFor(t, 10*time.Second, func() bool { return len(read(g, "ws/beats")) > 2 }) {
				t.Fatal("control: the session does not begin")
			}
			if !fills {
				if status := within(t, ended, 40*time.Second); status != 0 {
					t.Errorf("control: status %d, beats %d", status, len(read(g, "ws/beats")))
				}
				return
			}
			fillDisk(t, g.State)
			if status := within(t, ended, 8*time.Second); status == 0 {
				t.Errorf("status 0 after %d beats of 40", len(read(g, "ws/beats")))
			}
			if n := len(read(g, "ws/beats")); n >= 40 {
				t.Errorf("the session did all its work unrecorded")
			}
			lost := lostOf(t, said)
			if lost == 0 || lost > 2000 {
				t.Errorf("%d operations without a record, want some and at most 2000", lost)
			}
			// With room again the next reeve says so in the record.
			if err := os.Remove(filepath.Join(g.State, "ballast")); err != nil {
				t.Fatal(err)
			}
			stated := 0
			for _, e := range g.Events("--session", "last") {
				if e.Kind == "lost" {
					stated += int(e.Count)
				}
			}
			if stated < lost {
				t.Errorf("%d records are lost, the record states %d", lost, stated)
			}
			if !waitFor(t, 2*time.Second, func() bool { return len(g.Processes()) == 0 }) {
				t.Errorf("processes left behind: %v", g.Processes())
			}
		})
	}
}

// lostOf reads how many records could not be kept in what reeve wrote to a file.
func lostOf(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(\d+) of \d+ records are not acked`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("it does not say what was lost: %s", text)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// fillDisk leaves no byte free below dir.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for block := make([]byte, size); ; {
			if _, err := f.Write(block); err != nil {
				break
			}
		}
	}
}

func within(t *testing.T, ended <-chan int, limit time.Duration) int {
	t.Helper()
	select {
	case status := <-ended:
		return status
	case <-time.After(trial.Patience(limit)):
		t.Fatalf("no end after %v", limit)
		return -1
	}
}
