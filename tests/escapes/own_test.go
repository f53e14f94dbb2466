package escapes_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// neighbour is a session of the ground that runs until the test ends, and whose
// record, lock and socket others must leave alone.
func neighbour(t *testing.T, g *trial.Ground) {
	t.Helper()
	argv := g.Command(trial.Options{Flags: []string{"--ask", "control"}}, "/bin/sh", "-c", "echo runs; exec cat")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = g.Workspace, g.Environ(), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: g.Cred}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if n, err := out.Read(make([]byte, 8)); n == 0 {
		t.Fatal(err)
	}
}

// ownFiles are one of each kind of what stands in a state directory while sessions
// run, the policy files of the session that is to come, and two directories.
func ownFiles(t *testing.T, g *trial.Ground) (files []string, socket string) {
	t.Helper()
	wanted := []string{"lock", "manifest.json", "reeve.db", "1.blk", "asks.sock"}
	look := func() []string {
		var found []string
		files = []string{g.Base + "/policy.toml", g.Workspace + "/sub/own.toml", g.Workspace + "/named.toml"}
		_ = filepath.WalkDir(g.State, func(path string, d fs.DirEntry, err error) error {
			name := filepath.Base(path)
			switch {
			case err != nil: // gone meanwhile
			case strings.HasPrefix(name, "automaton-"):
				name = "automaton"
			case !slices.Contains(wanted, name):
				return nil
			}
			switch {
			case slices.Contains(found, name):
				return nil
			case name == "asks.sock":
				socket = path
			default:
				files = append(files, path)
			}
			found = append(found, name)
			return nil
		})
		return found
	}
	if !waitFor(t, 5*time.Second, func() bool { return len(look()) == len(wanted)+1 }) {
		t.Fatalf("control: of %q and automata there are %q", wanted, look())
	}
	return append(files, g.State+"/sessions", g.State), socket
}

// TestOwnFiles: what is reeve's is nobody's in a session: its record and those of
// others, locks, sockets, the policy's files, by whatever name (E11).
func TestOwnFiles(t *testing.T) {
	for _, profile := range []string{"trial", "observe"} {
		t.Run("E11/"+profile, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				g := trial.NewGround(t, nobody)
				writeFile(t, g.Workspace+"/sub/own.toml", "[permissions.unused.filesystem.\":workspace_roots\"]\n\".\" = \"read\"\n", 0o644)
				writeFile(t, g.Outside+"/other.toml", "", 0o644)
				if err := os.Symlink("../outside/other.toml", g.Workspace+"/named.toml"); err != nil {
					t.Fatal(err)
				}
				g.Own(g.Base)
				neighbour(t, g)
				files, socket := ownFiles(t, g)
				var calls []string
				// The file of each call, empty where it is not there once it is refused.
				var about []string
				const allowed = "allowed"
				add := func(file string, nr int, words ...any) {
					calls, about = append(calls, strings.Join(line(nr, words...), " ")), append(about, file)
				}
				for i, f := range files {
					link := fmt.Sprintf("%s/link%d", g.Workspace, i)
					if err := os.Symlink(f, link); err != nil {
						t.Fatal(err)
					}
					real, err := filepath.EvalSymlinks(f)
					if err != nil {
						t.Fatal(err)
					}
					st, err := os.Stat(f)
					if err != nil {
						t.Fatal(err)
					}
					mode := int(st.Mode().Perm())
					read := real
					if strings.HasPrefix(real, g.Workspace) {
						read = allowed // a project's programs may read its files
					}
					add(read, unix.SYS_OPEN, "s:"+f, 0)
					add(read, unix.SYS_OPEN, "s:"+link, 0)
					add(real, unix.SYS_CHMOD, "s:"+f, mode)
					add(real, unix.SYS_CHMOD, "s:"+link, mode)
					add(real, unix.SYS_UTIMENSAT, -100, "s:"+f, 0, 0)
					add(f, unix.SYS_RENAME, "s:"+f, "s:"+f+".away")
					add("", unix.SYS_RENAME, "s:"+f+".away", "s:"+f)
					if st.IsDir() {
						add(f+"/new", unix.SYS_OPEN, "s:"+f+"/new", unix.O_CREAT|unix.O_WRONLY, 0o600)
						add(f+"/dir", unix.SYS_MKDIR, "s:"+f+"/dir", 0o700)
						continue
					}
					add(real, unix.SYS_OPEN, "s:"+f, unix.O_WRONLY)
					add(real, unix.SYS_OPEN, "s:"+link, unix.O_RDWR)
					add(real, unix.SYS_TRUNCATE, "s:"+f, st.Size())
					add(f, unix.SYS_LINK, "s:"+f, fmt.Sprintf("s:%s/hard%d", g.Workspace, i))
				}
				sub := g.Workspace + "/sub" // has one in it
				add(sub, unix.SYS_RENAME, "s:"+sub, "s:"+sub+".away")
				add("", unix.SYS_RENAME, "s:"+sub+".away", "s:"+sub)
				add(allowed, unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0)
				calls[len(calls)-1] = "keep " + calls[len(calls)-1]
				raw := binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
				add(socket, unix.SYS_CONNECT, "last", "x:"+hex.EncodeToString(append(raw, socket...)), 2+len(socket))
				add(socket, unix.SYS_UNLINK, "s:"+socket)

				stdin := strings.Join(calls, "\n") + "\n"
				o := trial.Options{KeepRunning: true, Stdin: strings.NewReader(stdin), Flags: []string{
					"--policy", "{base}/policy.toml", "--policy", "{ws}/sub/own.toml", "--policy", "{ws}/named.toml", "--profile", profile}}
				r := g.Supervised(o, "{victim}", "batch")
				got := answers(r.Stdout)
				o.Stdin = strings.NewReader(stdin)
				control := g.Native(o, "{victim}", "batch")
				native := answers(control.Stdout)
				if len(got) != len(calls) || len(native) != len(calls) {
					t.Fatalf("%d answers of %d, natively %d: %s", len(got), len(calls), len(native), r.Text())
				}
				denied := map[string]int{}
				for _, e := range trial.Denials(r.Events) {
					denied[e.Object.Path]++
				}
				for i, c := range calls {
					if strings.HasPrefix(native[i], "ret=-1") {
						t.Errorf("control: %s: %s", c, native[i])
					}
					if passed := !strings.HasPrefix(got[i], "ret=-1"); passed != (about[i] == allowed) {
						t.Errorf("%s: %s", c, got[i])
					}
					denied[about[i]]--
				}
				delete(denied, allowed)
				delete(denied, "")
				for f, n := range denied {
					if n != 0 {
						t.Errorf("%s: %+d denials are recorded than calls were made", f, n)
					}
				}
			})
		})
	}
}
