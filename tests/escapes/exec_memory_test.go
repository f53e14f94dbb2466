package escapes_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestMemoryPrograms: a program without a file does not run, and the record says what
// it held (X04).
func TestMemoryPrograms(t *testing.T) {
	one := &trial.Denial{Ops: []string{"exec"}, Path: "/memfd:payload"}
	run(t, []row{
		{id: "X04", name: "descriptor", argv: []string{"exec-fd", "memfd", "{victim}"}, native: `^$`, want: `ret=-1 errno=13`,
			deny: one, after: held("{victim}", false)},
		{id: "X04", name: "sealed", argv: []string{"exec-fd", "memfd-sealed", "{victim}"}, native: `^$`, want: `ret=-1 errno=13`,
			deny: one, after: held("{victim}", true)},
		{id: "X04", name: "by name", argv: []string{"exec-fd", "memfd-proc", "{victim}"}, native: `^$`, want: `ret=-1 errno=13`,
			deny: one, after: held("{victim}", false)},
	})
}

// TestInheritedPrograms: nor does one that was made outside, which the kernel would
// let run (X04), nor a file without a name that was denied when it had one (X15).
func TestInheritedPrograms(t *testing.T) {
	name := append([]string{"{victim}"}, call(unix.SYS_EXECVE, "s:/proc/self/fd/0", 0, 0)...)
	descriptor := append([]string{"{victim}"}, call(unix.SYS_EXECVEAT, 0, "s:", 0, 0, unix.AT_EMPTY_PATH)...)
	loader := []string{"/lib64/ld-linux-x86-64.so.2", "/proc/self/fd/0", "ran"}
	for _, c := range []struct {
		name, program, native string
		stdin                 func(*testing.T, *trial.Ground, string) *os.File
		argv                  []string
		denied                string // empty where it may run
	}{
		{"X04/name", "victim", "victim call", payload, name, "/memfd:payload"},
		{"X04/descriptor", "victim", "victim call", payload, descriptor, "/memfd:payload"},
		{"X04/loader", "linked", "", payload, loader, "/memfd:payload"},
		{"X04/interpreter", "victim", "", payload, []string{"./s"}, "{ws}/s"},
		{"X15/deleted", "victim", "victim call", deleted("{outside}/gone"), name, "{outside}/gone"},
		{"X15/deleted, allowed", "victim", "victim call", deleted("{ws}/gone"), name, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				script("#!/proc/self/fd/0 ran\n")(t, g)
				g.Own(g.Workspace)
				program := filepath.Join(g.Dir, c.program)
				o := trial.Options{Stdin: c.stdin(t, g, program)}
				if r := g.Native(o, c.argv...); !matches(or(c.native, "^$"), r.Text()) || c.native == "" && r.Status != 10 {
					t.Fatalf("control: status %d: %s", r.Status, r.Text())
				}
				r := g.Supervised(o, c.argv...)
				switch c.denied {
				case "":
					if got := trial.Denials(r.Events); len(got) > 0 || !matches(c.native, r.Text()) {
						t.Errorf("denied: %v: %s", got, r.Text())
					}
				default:
					trial.OneDenial(t, r.Events, trial.Denial{Ops: []string{"exec"}, Path: g.Expand(c.denied)})
				}
				if c.denied != "{ws}/s" { // which has a name
					held(program, false)(t, g, r, true)
				}
			})
		})
	}
}

// held requires that the one program without a name held what the file does, by its
// record.
func held(file string, sealed bool) func(*testing.T, *trial.Ground, *trial.Result, bool) {
	return func(t *testing.T, g *trial.Ground, r *trial.Result, supervised bool) {
		if !supervised {
			return
		}
		data, err := os.ReadFile(g.Expand(file))
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"content":{"size":%d,"sha256":"%x"}}`, len(data), sha256.Sum256(data))
		if sealed {
			want = strings.Replace(want, "}}", `,"sealed":true}}`, 1)
		}
		n := 0
		for _, e := range r.Events {
			if e.Kind != "request" || e.Op != "exec" || e.Detail == "" {
				continue
			}
			if n++; e.Detail != want {
				t.Errorf("the record says %q of the program, want %q", e.Detail, want)
			}
		}
		if n != 1 {
			t.Errorf("%d records say what a program held, want 1", n)
		}
	}
}

// payload is a memory file that can be run, with a program's content.
func payload(t *testing.T, _ *trial.Ground, program string) *os.File {
	fd, err := unix.MemfdCreate("payload", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return filled(t, fd, program)
}

// deleted is a file that can be run and had a name.
func deleted(path string) func(*testing.T, *trial.Ground, string) *os.File {
	return func(t *testing.T, g *trial.Ground, program string) *os.File {
		path := g.Expand(path)
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o755)
		if err != nil {
			t.Fatal(err)
		}
		filled(t, fd, program).Close() // what is open for writing does not run
		defer os.Remove(path)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
}

func filled(t *testing.T, fd int, program string) *os.File {
	t.Helper()
	f := os.NewFile(uintptr(fd), program)
	t.Cleanup(func() { f.Close() })
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	return f
}
