package rulebook

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer/event"
)

const rules = `# rules of my own
default_permissions = "mine"

[permissions.mine]            # what I do
extends = ":workspace"
[permissions.mine.filesystem]
"/srv" = "ask"                # shared
# nothing below
`

// desk is a home with a workspace, for a session under the user's file.
type desk struct {
	home, file string
	cfg        Config
}

// newDesk lays it out. It does not stand in a temporary directory, which
// sessions can write.
func newDesk(t *testing.T, text string) *desk {
	t.Helper()
	parent := "/srv"
	if os.Geteuid() != 0 {
		var err error
		if parent, err = os.UserCacheDir(); err != nil {
			t.Fatal(err)
		}
	}
	home, err := os.MkdirTemp(parent, "reeve-rulebook-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	d := &desk{home: home, file: filepath.Join(home, ".config/reeve/policy.toml")}
	if err := os.Mkdir(filepath.Join(home, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	if text != "" {
		d.put(t, d.file, text)
	}
	d.cfg = Config{
		File: d.file, Cache: &cache{m: map[string][]byte{}},
		Host: policy.Host{
			Home: home, User: "u", UID: os.Geteuid(), Workspaces: []string{filepath.Join(home, "ws")},
			Tmp: "/tmp/reeve-01S", StateDir: filepath.Join(home, ".local/state/reeve"),
		},
	}
	if text != "" {
		d.cfg.Sources = []policy.Source{{Name: d.file, Layer: policy.User, Text: []byte(text)}}
	}
	return d
}

// cache keeps compiled automata for all books of a test.
type cache struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (c *cache) Get(key string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.m[key]
	return v, ok
}

func (c *cache) Put(key string, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[key] = value
}

func (d *desk) put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) book(t *testing.T) *Book {
	t.Helper()
	b, err := New(d.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func toRead(path string) *approval.Question {
	return &approval.Question{Request: event.Request{
		Op: event.OpOpen, Access: event.AccessRead, Object: event.Object{Kind: event.ObjectFile, Path: path},
	}}
}

func toWrite(path string) *approval.Question {
	q := toRead(path)
	q.Request.Access = event.AccessWrite
	return q
}

// always proposes and writes.
func always(b *Book, q *approval.Question) (approval.Proposal, error) {
	p, err := b.Propose(q)
	if err != nil {
		return p, err
	}
	return p, b.Write(p)
}

func TestWrite(t *testing.T) {
	d := newDesk(t, rules)
	b := d.book(t)
	p, err := always(b, toRead("/srv/a"))
	if err != nil {
		t.Fatal(err)
	}
	if p.File != d.file || p.Text != "[permissions.mine.filesystem]\n\"/srv/a\" = \"read\"\n" {
		t.Errorf("proposed %+v", p)
	}
	want := strings.Replace(rules, "# shared\n", "# shared\n\"/srv/a\" = \"read\"\n", 1)
	if got := read(t, d.file); got != want {
		t.Errorf("the file is\n%s\nwant\n%s", got, want)
	}
	if info, err := os.Stat(d.file); err != nil || info.Mode() != 0o644 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	// Twice is one rule, from the same session and from another.
	for _, again := range []*Book{b, d.book(t)} {
		if p, err := always(again, toRead("/srv/a")); err != nil || p.Text != "" {
			t.Errorf("again: %+v, %v", p, err)
		}
	}
	if err := b.Write(p); err != nil {
		t.Errorf("the same proposal again: %v", err)
	}
	if got := read(t, d.file); got != want {
		t.Errorf("after that the file is\n%s", got)
	}
	leftovers(t, d)
}

// leftovers: nothing but the file stays in its directory.
func leftovers(t *testing.T, d *desk) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(d.file))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the file: %v, %v", entries, err)
	}
}

func TestFirstRule(t *testing.T) {
	d := newDesk(t, "")
	d.cfg.Profile = "privileged-manual"
	b := d.book(t)
	p, err := b.Propose(toWrite("/srv/a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(d.home, ".config")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a proposal makes directories: %v", err)
	}
	if err := b.Write(p); err != nil {
		t.Fatal(err)
	}
	if got := read(t, d.file); got != strings.Replace(p.Text, "\n[permissions.privileged-manual.f", "\n\n[permissions.privileged-manual.f", 1) {
		t.Errorf("proposed\n%s\nwritten\n%s", p.Text, got)
	}
	for path, mode := range map[string]fs.FileMode{d.file: 0o600, filepath.Dir(d.file): 0o700 | fs.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s is %v, %v", path, info.Mode(), err)
		}
	}
}

// TestRefused: the file must be its user's, out of everybody else's reach and of
// the session's.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		// prepare changes what was laid out.
		prepare func(t *testing.T, d *desk)
		want    string
	}{
		{"in a workspace", func(t *testing.T, d *desk) {
			d.cfg.File = filepath.Join(d.home, "ws/policy.toml")
			d.put(t, d.cfg.File, rules)
		}, "is in workspace"},
		{"a link into a workspace", func(t *testing.T, d *desk) {
			d.put(t, filepath.Join(d.home, "ws/mine.toml"), rules)
			link(t, filepath.Join(d.home, "ws/mine.toml"), d.file)
		}, "is in workspace"},
		{"a directory that leads into a workspace", func(t *testing.T, d *desk) {
			d.put(t, filepath.Join(d.home, "ws/reeve/policy.toml"), rules)
			link(t, filepath.Join(d.home, "ws/reeve"), filepath.Dir(d.file))
		}, "is in workspace"},
		{"a link that leads nowhere", func(t *testing.T, d *desk) { link(t, filepath.Join(d.home, "ws/new.toml"), d.file) }, "find the user's policy file"},
		{"where the session can write", func(t *testing.T, d *desk) {
			d.cfg.File, d.cfg.Profile = filepath.Join(d.home, "config/reeve/policy.toml"), "observe"
			d.put(t, d.cfg.File, rules)
		}, "the session itself may write"},
		{"written by others", func(t *testing.T, d *desk) { chmod(t, d.file, 0o666) }, "can be written by others"},
		{"in a directory written by others", func(t *testing.T, d *desk) { chmod(t, filepath.Dir(d.file), 0o777) }, "can be written by others"},
		{"a pipe", func(t *testing.T, d *desk) { link(t, "/dev/null", d.file) }, "/dev"},
		{"another's", func(t *testing.T, d *desk) { chown(t, d.file) }, "belongs to uid 65534"},
		{"another's directory", func(t *testing.T, d *desk) { chown(t, filepath.Dir(d.file)) }, "belongs to uid 65534"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, rules)
			c.prepare(t, d)
			b := d.book(t)
			before, _ := os.ReadFile(d.cfg.File)
			_, err := always(b, toRead("/srv/a"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("propose: %v, want %q", err, c.want)
			}
			if err := b.Write(approval.Proposal{File: d.cfg.File, Text: "x", For: toRead("/srv/a")}); err == nil {
				t.Error("it is written")
			}
			if after, _ := os.ReadFile(d.cfg.File); !bytes.Equal(after, before) {
				t.Errorf("the file is\n%s", after)
			}
		})
	}
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.Symlink(to, path)); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func chown(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skip [root]: needs root")
	}
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
}

// TestLinkElsewhere: who keeps the file in a repository of dotfiles keeps it there.
func TestLinkElsewhere(t *testing.T) {
	d := newDesk(t, rules)
	real := filepath.Join(d.home, "dotfiles/policy.toml")
	d.put(t, real, rules)
	link(t, real, d.file)
	if _, err := always(d.book(t), toRead("/srv/a")); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(d.file); err != nil || to != real || !strings.Contains(read(t, real), `"/srv/a"`) {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

// TestChangedMeanwhile: what is written is what was shown, in the file as it is.
func TestChangedMeanwhile(t *testing.T) {
	d := newDesk(t, rules)
	b := d.book(t)
	p, err := b.Propose(toRead("/srv/a"))
	if err != nil {
		t.Fatal(err)
	}
	d.put(t, d.file, "# new\n"+rules)
	if err := b.Write(p); err != nil {
		t.Fatal(err)
	}
	if got := read(t, d.file); !strings.HasPrefix(got, "# new\n") || !strings.Contains(got, `"/srv/a" = "read"`) {
		t.Errorf("the file is\n%s", got)
	}
	if p, err = b.Propose(toRead("/srv/b")); err != nil {
		t.Fatal(err)
	}
	d.put(t, d.file, rules+"\"/srv/b\" = \"ask\"\n")
	if err := b.Write(p); err == nil || !strings.Contains(err.Error(), "look at it again") {
		t.Errorf("another rule than was shown: %v", err)
	}
}

// TestManyWriters: none of several sessions' rules is lost, and whoever reads
// meanwhile reads a whole file.
func TestManyWriters(t *testing.T) {
	d := newDesk(t, rules)
	const writers, each = 4, 5
	var group sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		b := d.book(t)
		group.Go(func() {
			for i := range each {
				q := toRead(fmt.Sprintf("/srv/%d-%d", w, i))
				for {
					_, err := always(b, q)
					if err == nil {
						break
					}
					if !strings.Contains(err.Error(), "try again") { // it says so where that helps
						t.Error(err)
						return
					}
				}
			}
		})
	}
	go func() { group.Wait(); close(done) }()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		text, err := os.ReadFile(d.file)
		if err != nil || !bytes.HasSuffix(text, []byte("# nothing below\n")) {
			t.Fatalf("read: %v\n%s", err, text)
		}
	}
	text := read(t, d.file)
	if n := strings.Count(text, `= "read"`); n != writers*each {
		t.Errorf("%d rules, want %d", n, writers*each)
	}
	if _, err := policy.Load([]policy.Source{{Name: d.file, Layer: policy.User, Text: []byte(text)}}, "", d.cfg.Host); err != nil {
		t.Error(err)
	}
	leftovers(t, d)
}
