package session

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var start = time.Date(2026, 11, 29, 13, 0, 0, 0, time.UTC)

func openState(t *testing.T) *State {
	t.Helper()
	st, err := OpenState(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func create(t *testing.T, st *State) *Session {
	t.Helper()
	s, err := st.Create(Config{Now: start, Random: rand.Reader, SystemTemp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefaultStateDir(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  map[string]string
		uid  int
		want string
	}{
		{"variable wins", map[string]string{"REEVE_STATE": "/s", "HOME": "/h"}, 0, "/s"},
		{"root", map[string]string{"HOME": "/root", "XDG_STATE_HOME": "/x"}, 0, "/var/lib/reeve"},
		{"xdg", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "/x"}, 1000, "/x/reeve"},
		{"relative xdg is ignored", map[string]string{"HOME": "/h", "XDG_STATE_HOME": "x"}, 1000, "/h/.local/state/reeve"},
		{"home", map[string]string{"HOME": "/h"}, 1000, "/h/.local/state/reeve"},
		{"nothing", nil, 1000, ""},
	} {
		got, err := DefaultStateDir(func(k string) string { return tc.env[k] }, tc.uid)
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: got %q, %v; want %q", tc.name, got, err, tc.want)
		}
	}
}

func TestOpenStateRefusesWhatOthersCanReach(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(dir); err == nil {
		t.Error("a world-readable state directory was accepted")
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o755 {
		t.Errorf("its mode was changed to %v", info.Mode())
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(dir); err != nil {
		t.Errorf("control: a private directory was refused: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenState(file); err == nil {
		t.Error("a file was accepted as state directory")
	}
}

func TestSessionLife(t *testing.T) {
	st := openState(t)
	s := create(t, st)
	want := Manifest{
		Started: start, Argv: Texts([]string{"sh", "-c", "a\xffb"}), Cwd: "/ws", Profile: "observe",
		Engine: "unotify", Gaps: []string{"stat is not trapped"},
	}
	if err := s.WriteManifest(want); err != nil {
		t.Fatal(err)
	}
	got, err := st.Manifest(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	want.Version, want.Session, want.TempDir = ManifestVersion, s.ID, s.TempDir
	if !reflect.DeepEqual(got, want) {
		t.Errorf("manifest: got %+v\nwant %+v", got, want)
	}
	for _, dir := range []string{st.Dir, s.Dir, s.BusDir(), s.ScratchDir(), s.TempDir} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v; want mode 0700", dir, info.Mode(), err)
		}
	}
	if strings.HasPrefix(s.TempDir, st.Dir) {
		t.Errorf("the task's temp directory %s is inside the state", s.TempDir)
	}
	if !st.Live(s.ID) {
		t.Error("a running session is not live")
	}
	if _, err := st.Claim(s.ID); !errors.Is(err, ErrLive) {
		t.Errorf("claim of a live session: %v, want ErrLive", err)
	}
	if err := s.Close(true); err != nil {
		t.Fatal(err)
	}
	if st.Live(s.ID) {
		t.Error("a closed session is live")
	}
	for _, dir := range []string{s.TempDir, s.BusDir(), s.ScratchDir()} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there after the end: %v", dir, err)
		}
	}
	if ids, err := st.Sessions(); err != nil || !reflect.DeepEqual(ids, []string{s.ID}) {
		t.Errorf("sessions: %v, %v", ids, err)
	}
}

func TestCloseKeepsAnUnstoredStream(t *testing.T) {
	st := openState(t)
	s := create(t, st)
	if err := os.WriteFile(filepath.Join(s.BusDir(), "block"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(false); err != nil {
		t.Fatal(err)
	}
	never := func(string) bool { return false }
	if removed, err := st.Prune(start, never); err != nil || len(removed) != 0 {
		t.Fatalf("prune removed %v, %v; the stream is not stored yet", removed, err)
	}
	c, err := st.Claim(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !c.HasBus() {
		t.Error("the stream is gone")
	}
	if c.Unclean() {
		t.Error("the session ended in order, and is called unclean")
	}
	if err := errors.Join(c.Stored(), c.Release()); err != nil {
		t.Fatal(err)
	}
	if removed, err := st.Prune(start, never); err != nil || len(removed) != 1 {
		t.Errorf("prune after storing: %v, %v", removed, err)
	}
	if _, err := st.Claim(s.ID); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("claim of a removed session: %v", err)
	}
}

// A manifest that was written by somebody else must not make us delete a
// directory that is no session's.
func TestStoredDeletesOnlySessionTemps(t *testing.T) {
	st := openState(t)
	s := create(t, st)
	real := s.TempDir
	precious := t.TempDir()
	s.TempDir = precious
	if err := s.WriteManifest(Manifest{}); err != nil {
		t.Fatal(err)
	}
	crash(t, s)
	c, err := st.Claim(s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if c.HasBus() || !c.Unclean() {
		t.Errorf("a crashed session without records: stream %v, unclean %v", c.HasBus(), c.Unclean())
	}
	if err := c.Stored(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("a foreign directory was deleted: %v", err)
	}
	s.TempDir = real
	if err := s.WriteManifest(Manifest{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Stored(), c.Release()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(real); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the crashed session's temp directory is still there: %v", err)
	}
}

// crash gives up the lock as the kernel does when the process dies.
func crash(t *testing.T, s *Session) {
	t.Helper()
	if err := s.lock.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSweepSparesTheYoung(t *testing.T) {
	st := openState(t)
	s := create(t, st)
	defer crash(t, s)
	building := filepath.Join(st.Dir, sessionsName, buildingPrefix+s.ID)
	if err := os.Mkdir(building, 0o700); err != nil {
		t.Fatal(err)
	}
	keep := func(string) bool { return true }
	for _, tc := range []struct {
		now  time.Time
		want bool
	}{{time.Now(), true}, {time.Now().Add(2 * time.Hour), false}} {
		if _, err := st.Prune(tc.now, keep); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(building); (err == nil) != tc.want {
			t.Errorf("at %v: there %v, want %v", tc.now, err == nil, tc.want)
		}
	}
}

func TestCreateNeedsSpace(t *testing.T) {
	st := openState(t)
	_, err := st.Create(Config{Now: start, Random: rand.Reader, SystemTemp: t.TempDir(), MinFree: 1 << 62})
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("got %v, want ENOSPC", err)
	}
	var h *HintError
	if !errors.As(err, &h) || h.Hint() == "" {
		t.Errorf("no hint in %v", err)
	}
	if ids, _ := st.Sessions(); len(ids) != 0 {
		t.Errorf("a session was left behind: %v", ids)
	}
}

func TestCreateLeavesNothingWithoutTemp(t *testing.T) {
	st := openState(t)
	_, err := st.Create(Config{Now: start, Random: rand.Reader, SystemTemp: filepath.Join(st.Dir, "none")})
	if err == nil {
		t.Fatal("created without a temp directory")
	}
	entries, err := os.ReadDir(st.sessionsDir())
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestRemoveTempReadOnlyTree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	deep := filepath.Join(dir, "mod", "pkg")
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(deep, "f"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{deep, filepath.Dir(deep)} {
		if err := os.Chmod(d, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeTemp(dir); err != nil {
		t.Error(err)
	}
}

func TestParseID(t *testing.T) {
	for in, ok := range map[string]bool{
		"01J00000000000000000000000": true, "01j00000000000000000000000": true,
		"": false, "last": false, "../../../../../../etc/passw": false, "01J0000000000000000000000/": false,
	} {
		if _, err := ParseID(in); (err == nil) != ok {
			t.Errorf("ParseID(%q): %v, want ok %v", in, err, ok)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "plain", "\xff\xfe", "{\"base64\":\"\"}", "\u2028<&"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		data, err := json.Marshal(Text(s))
		if err != nil {
			t.Fatal(err)
		}
		var got Text
		if err := json.Unmarshal(data, &got); err != nil || string(got) != s {
			t.Errorf("%q became %q by %s, %v", s, got, data, err)
		}
	})
}

// TestClosedTemp: a session may close its temp directory to everybody, and its owner
// removes it nevertheless. Root, which no mode holds back, gives the work to another.
func TestClosedTemp(t *testing.T) {
	const variable = "REEVE_TEST_CLOSED_TEMP"
	if dir := os.Getenv(variable); dir != "" {
		temp := filepath.Join(dir, "t")
		try(t, os.MkdirAll(temp+"/inner", 0o700))
		try(t, os.WriteFile(temp+"/inner/x", nil, 0o600))
		try(t, os.Chmod(temp+"/inner", 0))
		try(t, os.Chmod(temp, 0))
		try(t, removeTemp(temp))
		if _, err := os.Lstat(temp); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the temp directory is still there: %v", err)
		}
		try(t, os.MkdirAll(temp+"/inner", 0o700))
		try(t, os.Chmod(dir, 0o500))
		if err := removeTemp(temp); err == nil || !strings.Contains(err.Error(), "temp directory") || !strings.Contains(err.Error(), temp) {
			t.Errorf("what cannot be removed: %v", err)
		}
		return
	}
	dir, err := os.MkdirTemp("/tmp", "closed-temp-")
	try(t, err)
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	try(t, err)
	cmd := exec.Command(self, "-test.run=^TestClosedTemp$")
	cmd.Env = append(os.Environ(), variable+"="+dir)
	if os.Geteuid() == 0 {
		const nobody = 65534
		text, err := os.ReadFile(self)
		try(t, err)
		cmd.Path = filepath.Join(dir, "self")
		try(t, os.WriteFile(cmd.Path, text, 0o755))
		try(t, os.Chown(dir, nobody, nobody))
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
