package session

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// try is one step of a test about files, which must not fail.
func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestEnvelopeIsRoots: an envelope is read only where nobody but root can have
// written it or put another in its place; in every other case nothing starts.
func TestEnvelopeIsRoots(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to own an envelope")
	}
	root := t.TempDir()
	dir, file := root+"/etc/reeve", root+"/etc/reeve/envelope.toml"
	place := func(t *testing.T) {
		try(t, os.RemoveAll(root+"/etc"))
		try(t, os.MkdirAll(dir, 0o755))
		try(t, os.WriteFile(file, []byte("envelope"), 0o644))
	}
	for _, row := range []struct {
		name   string
		spoil  func(t *testing.T)
		err    string // "" is that the envelope is read
		absent bool
	}{
		{name: "as it should be", spoil: func(*testing.T) {}},
		{name: "writable by a group", spoil: func(t *testing.T) { try(t, os.Chmod(file, 0o664)) }, err: "can write " + file},
		{name: "writable by all", spoil: func(t *testing.T) { try(t, os.Chmod(file, 0o646)) }, err: "can write " + file},
		{name: "a user's", spoil: func(t *testing.T) { try(t, os.Chown(file, 65534, 0)) }, err: "can write " + file + " (owner 65534"},
		{name: "in a user's directory", spoil: func(t *testing.T) { try(t, os.Chown(dir, 65534, 0)) }, err: "can write " + dir},
		{name: "in a directory writable by all", spoil: func(t *testing.T) { try(t, os.Chmod(dir, 0o777)) }, err: "can write " + dir},
		{name: "in a sticky directory", spoil: func(t *testing.T) { try(t, os.Chmod(dir, 0o777|os.ModeSticky)) }, err: "can write " + dir},
		{name: "below a directory writable by all", spoil: func(t *testing.T) { try(t, os.Chmod(root+"/etc", 0o777)) }, err: "can write " + root + "/etc"},
		{name: "below a sticky directory", spoil: func(t *testing.T) { try(t, os.Chmod(root+"/etc", 0o777|os.ModeSticky)) }},
		{name: "a link", spoil: func(t *testing.T) {
			try(t, os.Rename(file, dir+"/other"))
			try(t, os.Symlink("other", file))
		}, err: "is a symbolic link"},
		{name: "a link that leads nowhere", spoil: func(t *testing.T) {
			try(t, os.Remove(file))
			try(t, os.Symlink("none", file))
		}, err: "is a symbolic link"},
		{name: "through a link", spoil: func(t *testing.T) {
			try(t, os.Rename(dir, root+"/etc/other"))
			try(t, os.Symlink("other", dir))
		}, err: dir + " is a symbolic link"},
		{name: "a directory", spoil: func(t *testing.T) { try(t, os.Remove(file)); try(t, os.Mkdir(file, 0o755)) }, err: "is a directory"},
		{name: "below a file", spoil: func(t *testing.T) { try(t, os.RemoveAll(dir)); try(t, os.WriteFile(dir, nil, 0o644)) }, err: "not a directory"},
		{name: "a FIFO", spoil: func(t *testing.T) { try(t, os.Remove(file)); try(t, unix.Mkfifo(file, 0o644)) }, err: "not a regular file"},
		{name: "too large", spoil: func(t *testing.T) { try(t, os.WriteFile(file, make([]byte, policy.MaxSource+1), 0o644)) }, err: "larger than"},
		{name: "taken away", spoil: func(t *testing.T) { try(t, os.Remove(file)) }, absent: true},
		{name: "no directory", spoil: func(t *testing.T) { try(t, os.RemoveAll(dir)) }, absent: true},
		{name: "taken away, perhaps by others", spoil: func(t *testing.T) { try(t, os.Remove(file)); try(t, os.Chmod(dir, 0o777)) }, err: "can write " + dir},
	} {
		t.Run(row.name, func(t *testing.T) {
			place(t)
			row.spoil(t)
			sources, files, err := Sources(SourceConfig{Envelope: file, Embedded: "embedded"})
			switch {
			case row.err != "":
				if err == nil || !strings.Contains(err.Error(), row.err) {
					t.Errorf("got %v, want %q", err, row.err)
				}
			case err != nil:
				t.Error(err)
			case row.absent:
				if len(sources) != 1 || len(files) != 0 {
					t.Errorf("%d sources, files %q", len(sources), files)
				}
			case len(sources) != 2 || string(sources[1].Text) != "envelope" || sources[1].Layer != policy.Envelope || files[0] != file:
				t.Errorf("got %+v, files %q", sources, files)
			case sources[0].Name != EmbeddedEnvelope || sources[0].Layer != policy.Envelope || string(sources[0].Text) != "embedded":
				t.Errorf("embedded: %+v", sources[0])
			}
		})
	}
}

// TestEnvelopeThatCannotBeReadIsNotNone: for a user, an envelope behind a closed
// door is there all the same.
func TestEnvelopeThatCannotBeReadIsNotNone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to own an envelope")
	}
	root := t.TempDir()
	dir := root + "/etc/reeve"
	try(t, os.MkdirAll(dir, 0o700))
	try(t, os.WriteFile(dir+"/envelope.toml", []byte("envelope"), 0o644))
	for d := root; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		try(t, os.Chmod(d, 0o755))
	}
	err := asNobody(t, func() error {
		_, _, err := Sources(SourceConfig{Envelope: dir + "/envelope.toml"})
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "without the envelope nothing is started") {
		t.Errorf("got %v", err)
	}
	control := asNobody(t, func() error {
		_, _, err := Sources(SourceConfig{Envelope: root + "/none/envelope.toml"})
		return err
	})
	if control != nil {
		t.Errorf("control: %v", control)
	}
}

// asNobody runs f on a thread with no privilege over files, which is then thrown
// away.
func asNobody(t *testing.T, f func() error) error {
	t.Helper()
	done := make(chan error)
	go func() {
		// A locked thread ends with its goroutine.
		runtime.LockOSThread()
		_ = unix.Setfsuid(65534) // takes CAP_DAC_OVERRIDE from the effective set as well
		done <- f()
	}()
	return <-done
}
