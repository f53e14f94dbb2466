package landlock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRestrict(t *testing.T) {
	needABI(t, 3)
	root := sharedTree(t)
	at := func(n string) string { return filepath.Join(root, n) }
	if err := os.Symlink(at("no"), at("link")); err != nil {
		t.Fatal(err)
	}
	const fsys = AllFS &^ Execute &^ Refer &^ IoctlDev
	tests := []struct {
		name   string
		spec   Spec
		action string
		free   string // outcome without the ruleset
		want   string
	}{
		{"read granted", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS}}}, "read " + at("yes/f"), "ok", "ok"},
		{"read refused", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS}}}, "read " + at("no/f"), "ok", "EACCES"},
		{"read through a link refused", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS}}}, "read " + at("link/f"), "ok", "EACCES"},
		{"list refused", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS}}}, "list " + at("no"), "ok", "EACCES"},
		{"write refused on read ground", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS}}}, "write " + at("yes/f"), "ok", "EACCES"},
		{"truncate refused on read ground", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS}}}, "truncate " + at("yes/f"), "ok", "EACCES"},
		{"create granted", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS | WriteFS}}}, "create " + at("yes/new"), "ok", "ok"},
		{"create refused", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes"), ReadFS}}}, "create " + at("yes/new"), "ok", "EACCES"},
		{"a file with directory rights", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes/f"), ReadFS | WriteFS}}}, "write " + at("yes/f"), "ok", "ok"},
		{"its sibling", Spec{HandledFS: fsys, Paths: []PathRule{{at("yes/f"), ReadFS}}}, "read " + at("yes/g"), "ok", "EACCES"},
		{"a missing path grants nothing", Spec{HandledFS: fsys, Paths: []PathRule{{at("gone"), ReadFS}}}, "read " + at("yes/f"), "ok", "EACCES"},
		{"other threads are not touched", Spec{HandledFS: fsys}, "thread " + at("yes/f"), "ok", "ok"},
		{"run granted", Spec{HandledFS: Execute, Paths: []PathRule{{"/", Execute}}}, "run /bin/true", "ok", "ok"},
		{"run refused", Spec{HandledFS: Execute, Paths: []PathRule{{at("yes"), Execute}}}, "run /bin/true", "ok", "EACCES"},
	}
	for _, tt := range tests {
		for _, uid := range users() {
			t.Run(fmt.Sprintf("%s/uid=%d", tt.name, uid), func(t *testing.T) {
				for _, free := range []bool{true, false} {
					want := tt.want
					if free {
						want = tt.free
					}
					got := try(t, job{Spec: tt.spec, Free: free, UID: uid, Actions: []string{tt.action}})
					if !slices.Equal(got, []string{want}) {
						t.Errorf("free=%v: %s = %v, want %s", free, tt.action, got, want)
					}
				}
			})
		}
	}
}

// sharedTree is a world-writable tree that any user can reach.
func sharedTree(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "reeve-landlock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if root, err = filepath.EvalSymlinks(root); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"yes", "no"} {
		dir := filepath.Join(root, d)
		for _, err := range []error{os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []string{"f", "g"} {
			p := filepath.Join(dir, f)
			for _, err := range []error{os.WriteFile(p, nil, 0o666), os.Chmod(p, 0o666)} {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return root
}

func TestTCPPorts(t *testing.T) {
	needABI(t, abiTCP)
	var addr [2]string
	var port [2]uint16
	for i := range addr {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addr[i] = l.Addr().String()
		port[i] = uint16(l.Addr().(*net.TCPAddr).Port)
	}
	j := job{
		Spec: Spec{HandledTCP: true, ConnectPorts: port[:1]},
		UID:  os.Geteuid(), Actions: []string{"connect " + addr[0], "connect " + addr[1]},
	}
	if got := try(t, j); !slices.Equal(got, []string{"ok", "EACCES"}) {
		t.Errorf("restricted: %v", got)
	}
	j.Free = true
	if got := try(t, j); !slices.Equal(got, []string{"ok", "ok"}) {
		t.Errorf("control: %v", got)
	}
}

func TestScopes(t *testing.T) {
	needABI(t, abiScope)
	name := fmt.Sprintf("reeve-landlock-%d", os.Getpid())
	l, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	j := job{
		Spec: Spec{ScopeSignal: true, ScopeAbstract: true},
		UID:  os.Geteuid(), Actions: []string{"signal", "abstract " + name},
	}
	if got := try(t, j); !slices.Equal(got, []string{"EPERM", "EPERM"}) {
		t.Errorf("restricted: %v", got)
	}
	j.Free = true
	if got := try(t, j); !slices.Equal(got, []string{"ok", "ok"}) {
		t.Errorf("control: %v", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	needABI(t, 1)
	root := tree(t, "f", "d/g", "l->f", "e->d")
	tests := []struct {
		name string
		spec Spec
		abi  int
		want error
	}{
		{"no landlock", Spec{HandledFS: ReadFile}, 0, ErrUnsupported},
		{"nothing", Spec{}, 1, ErrNothing},
		{"nothing left on this ABI", Spec{HandledFS: Truncate, ScopeSignal: true}, 1, ErrNothing},
		{"a link", Spec{HandledFS: ReadFile, Paths: []PathRule{{filepath.Join(root, "l"), ReadFile}}}, 1, unix.ELOOP},
		{"below a link", Spec{HandledFS: ReadFile, Paths: []PathRule{{filepath.Join(root, "e/g"), ReadFile}}}, 1, unix.ELOOP},
		{"below a file", Spec{HandledFS: ReadFile, Paths: []PathRule{{filepath.Join(root, "f/g"), ReadFile}}}, 1, unix.ENOTDIR},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fd, _, err := tt.spec.Open(tt.abi)
			if !errors.Is(err, tt.want) || fd != -1 {
				t.Errorf("Open = %d, %v; want %v", fd, err, tt.want)
			}
		})
	}
}

// TestSkipLinks: a rule on a link is left out, and what it leads to is closed.
func TestSkipLinks(t *testing.T) {
	needABI(t, 1)
	root := tree(t, "f", "g", "d/h", "l->f", "e->d")
	j := job{UID: os.Geteuid(), Actions: []string{"read " + root + "/f", "read " + root + "/d/h", "read " + root + "/g"}}
	j.Spec = Spec{HandledFS: ReadFile, SkipLinks: true}
	for _, name := range []string{"l", "e", "e/h", "f/x", "missing", "g"} {
		j.Spec.Paths = append(j.Spec.Paths, PathRule{filepath.Join(root, name), ReadFile})
	}
	if got := try(t, j); !slices.Equal(got, []string{"EACCES", "EACCES", "ok"}) {
		t.Errorf("restricted: %v", got)
	}
	j.Free = true
	if got := try(t, j); !slices.Equal(got, []string{"ok", "ok", "ok"}) {
		t.Errorf("control: %v", got)
	}
}

func TestDropped(t *testing.T) {
	full := Spec{HandledFS: AllFS, HandledTCP: true, ScopeSignal: true, ScopeAbstract: true}
	for abi, want := range map[int]int{1: 6, 2: 5, 3: 4, 4: 3, 5: 2, 6: 0, 7: 0, 99: 0} {
		if got := full.dropped(abi); len(got) != want {
			t.Errorf("ABI %d: %d gaps, want %d: %q", abi, len(got), want, got)
		}
	}
	needABI(t, 1)
	fd, gaps, err := full.Open(1) // an old kernel's ruleset is accepted by a new one
	if err != nil || len(gaps) != 6 {
		t.Fatalf("Open(1): %v, gaps %q", err, gaps)
	}
	_ = unix.Close(fd)
}
