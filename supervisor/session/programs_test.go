package session

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// book is rules about programs whose names begin with "known".
type book struct{ named []string }

func (b book) KnownProgram(name string) bool { return strings.HasPrefix(name, "known") }
func (b book) NamedPrograms() []string       { return b.named }
func (b book) Loads(string, []string) int    { return 0 }
func (b book) Words(*event.Request) bool     { return false }
func (b book) Internal(string) bool          { return false }

func TestPrograms(t *testing.T) {
	root := tree(t, "bin/", "ws/")
	write := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	known, other := write("bin/known", "12345678"), write("bin/other", "abcdefgh")
	named := write("bin/named", "named one")
	copied, changed := write("ws/copy", "12345678"), write("ws/changed", "12345679")
	copyNamed := write("ws/copy2", "named one")
	hard := filepath.Join(root, "ws/hard")
	if err := os.Link(known, hard); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	p := NewPrograms(book{[]string{named}}, []string{root + "/bin", root + "/none"})
	opened := 0
	alike := func(path string, openErr error) []string {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		st.Ctim = unix.NsecToTimespec(old.UnixNano())
		names, err := p.Alike(path, &st, func() (*os.File, error) {
			opened++
			if openErr != nil {
				return nil, openErr
			}
			return os.Open(path)
		})
		if err != nil && !errors.Is(err, openErr) {
			t.Fatal(err)
		}
		return names
	}
	for _, c := range []struct {
		path string
		want []string
	}{
		{known, nil}, {other, nil}, {hard, []string{known}}, {copied, []string{known}}, {changed, nil}, {copyNamed, []string{named}}, {named, nil},
	} {
		if got := alike(c.path, nil); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	before := opened
	alike(copied, nil)
	if opened != before {
		t.Error("the same file was read twice")
	}
	write("ws/copy", "1234567X") // in place: its times tell
	var st unix.Stat_t
	if err := unix.Stat(copied, &st); err != nil {
		t.Fatal(err)
	}
	if names, err := p.Alike(copied, &st, func() (*os.File, error) { return os.Open(copied) }); err != nil || names != nil {
		t.Errorf("after a change: %q, %v", names, err)
	}
	unreadable := write("ws/unreadable", "xxxxxxxx")
	if got := alike(unreadable, os.ErrPermission); !slices.Equal(got, []string{known}) && !slices.Contains(got, known) {
		t.Errorf("a file of that size that cannot be read: %q", got)
	}
	other2 := write("ws/blocks", "yyyyyyyy")
	blocks := errors.New("blocks")
	if got := alike(other2, blocks); got != nil {
		t.Errorf("%q", got)
	}
}
