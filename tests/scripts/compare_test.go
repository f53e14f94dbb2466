// Package scripts_test runs real programs under reeve and requires that they
// behave as without it: the same status, the same output, the same files.
package scripts_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

func TestMain(m *testing.M) { trial.Main(m) }

// A script is one piece of real work, run by /bin/sh in the directory w of the
// workspace, which is made anew for each run.
type script struct {
	name string
	// needs are the programs that it takes.
	needs []string
	// text is the script; $SRC names the project's own source.
	text string
	// brief is what another user than the first runs instead of a long text.
	brief string
	// prepare fills w.
	prepare func(t *testing.T, g *trial.Ground, w string)
	// ignore are files, by pattern on their path in w, whose content holds the
	// time of day or an inode number.
	ignore string
	// mask is replaced by nothing in the outputs: durations, for example.
	mask string
	// want must stand in the native output: the control.
	want    string
	timeout time.Duration
	userOff bool // other users are left out, of something long
	// calm requires that nothing is denied, and nobody asked.
	calm bool
	// host are directories of the home, the caches of tools, in which the session
	// changes nothing, and where the native run is to have left something.
	host []string
	// after looks at the host when the session is over; w is as the session left it.
	after func(t *testing.T, g *trial.Ground, w string)
}

func (s script) test(t *testing.T) {
	t.Run(s.name, func(t *testing.T) {
		for _, need := range s.needs {
			trial.NeedProgram(t, need)
		}
		if os.Geteuid() != 0 {
			t.Run("user", func(t *testing.T) { s.compare(t, false) })
			return
		}
		t.Run("root", func(t *testing.T) { s.compare(t, false) })
		if !s.userOff {
			t.Run("user", func(t *testing.T) { s.compare(t, true) })
		}
	})
}

func (s script) compare(t *testing.T, nobody bool) {
	g := trial.NewGround(t, nobody)
	if nobody && s.brief != "" {
		s.text = s.brief
	}
	native := s.once(t, g, g.Native)
	if native.Status != 0 || !strings.Contains(native.Stdout, s.want) {
		t.Fatalf("control: status %d, output lacks %q: %s", native.Status, s.want, native.Text())
	}
	before, host := tree(t, filepath.Join(g.Workspace, "w"), s.ignore), s.caches(t, g)
	got := s.once(t, g, g.Supervised)
	if got.Status != native.Status {
		t.Errorf("status %d, natively %d", got.Status, native.Status)
	}
	for _, out := range []struct{ name, got, want string }{
		{"stdout", got.Stdout, native.Stdout}, {"stderr", got.Stderr, native.Stderr},
	} {
		if s.masked(out.got) != s.masked(out.want) {
			t.Errorf("%s differs:\nunder reeve: %s\nnatively: %s", out.name, out.got, out.want)
		}
	}
	for _, line := range differences(before, tree(t, filepath.Join(g.Workspace, "w"), s.ignore)) {
		t.Errorf("file tree differs: %s", line)
	}
	say := t.Logf
	if s.calm {
		say = t.Errorf
	}
	for i, e := range slices.DeleteFunc(got.Events, func(e trial.Event) bool { return e.Action != "deny" && e.Op != "ask" }) {
		if i < 10 {
			say("denied: %v", &e)
		}
	}
	s.untouched(t, g, host)
	if s.after != nil {
		s.after(t, g, filepath.Join(g.Workspace, "w"))
	}
	t.Logf("native %v, reeve %v, %d events", native.Took.Round(time.Millisecond), got.Took.Round(time.Millisecond), len(got.Events))
}

func (s script) once(t *testing.T, g *trial.Ground, run func(trial.Options, ...string) *trial.Result) *trial.Result {
	t.Helper()
	w := filepath.Join(g.Workspace, "w")
	if err := os.RemoveAll(w); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w, 0o755); err != nil {
		t.Fatal(err)
	}
	if s.prepare != nil {
		s.prepare(t, g, w)
	}
	g.Own(w)
	timeout := s.timeout
	if timeout == 0 {
		timeout = 2 * time.Minute
	}
	return run(trial.Options{Dir: w, Timeout: timeout}, "/bin/sh", "-c", s.text)
}

func (s script) masked(out string) string {
	if s.mask == "" {
		return out
	}
	return regexp.MustCompile(s.mask).ReplaceAllString(out, "~")
}

// caches are the host's after the native run, which is the control: it uses them.
func (s script) caches(t *testing.T, g *trial.Ground) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, dir := range s.host {
		if out[dir] = dated(t, filepath.Join(g.Home, dir)); len(out[dir]) < 2 {
			t.Fatalf("control: nothing is in ~/%s", dir)
		}
	}
	return out
}

// untouched requires that the host's caches are as they were.
func (s script) untouched(t *testing.T, g *trial.Ground, was map[string]map[string]string) {
	t.Helper()
	for dir, before := range was {
		for _, line := range differences(before, dated(t, filepath.Join(g.Home, dir))) {
			t.Errorf("the host's ~/%s was changed: %s", dir, line)
		}
	}
}

// tree states kind, mode, owner and content of everything below w; of files whose
// name matches ignore not the content.
func tree(t *testing.T, w, ignore string) map[string]string {
	t.Helper()
	out := map[string]string{}
	var skip *regexp.Regexp
	if ignore != "" {
		skip = regexp.MustCompile(ignore)
	}
	err := filepath.WalkDir(w, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(w, path)
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		content := ""
		switch st.Mode & syscall.S_IFMT {
		case syscall.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%d bytes %x", len(data), sha256.Sum256(data))
			if skip != nil && skip.MatchString(rel) {
				content = "ignored"
			}
		case syscall.S_IFLNK:
			content, err = os.Readlink(path)
			if err != nil {
				return err
			}
		}
		out[rel] = fmt.Sprintf("mode %o owner %d:%d links %d %s", st.Mode, st.Uid, st.Gid, st.Nlink, content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// dated is tree with the time of each file's last change.
func dated(t *testing.T, w string) map[string]string {
	t.Helper()
	out := tree(t, w, "")
	for rel := range out {
		info, err := os.Lstat(filepath.Join(w, rel))
		if err != nil {
			t.Fatal(err)
		}
		out[rel] += " " + info.ModTime().Format(time.RFC3339Nano)
	}
	return out
}

func differences(want, got map[string]string) []string {
	var out []string
	for name, w := range want {
		if g, ok := got[name]; !ok {
			out = append(out, name+" is missing")
		} else if g != w {
			out = append(out, name+": "+g+", natively "+w)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			out = append(out, name+" is there, natively not")
		}
	}
	sort.Strings(out)
	if len(out) > 20 {
		out = append(out[:20], fmt.Sprintf("… and %d more", len(out)-20))
	}
	return out
}
