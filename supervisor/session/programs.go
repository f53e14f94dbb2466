package session

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Rulebook says which programs rules are about.
type Rulebook interface {
	// KnownProgram says of a file name whether rules may be about such a program,
	// NamedPrograms are those that rules keep from running by their paths.
	KnownProgram(name string) bool
	NamedPrograms() []string
	// Loads is the place in argv of a program that the program at path runs in its
	// own process; 0 if there is none.
	Loads(path string, argv []string) int
	// Words reports whether the words of an exec may decide about it.
	Words(*event.Request) bool
	Internal(path string) bool
}

// Programs knows the programs of this machine that rules are about, by inode and
// by content: a copy, a hard link or another name of one is that program. It may
// be used by several goroutines at once.
type Programs struct {
	rules Rulebook
	dirs  []string
	// load fills what follows, at the first exec: it looks through the PATH.
	load   func()
	paths  map[string]fileID
	inodes map[fileID][]string
	sizes  map[int64][]*original
	named  map[string]bool

	mu    sync.Mutex // guards cache
	cache map[version][]string
}

type fileID struct{ dev, ino uint64 }

// version is a file as it was at one time.
type version struct {
	fileID
	size         int64
	mtime, ctime unix.Timespec
}

// original is a program that a rule is about.
type original struct {
	path string
	sum  func() ([sha256.Size]byte, error)
}

// systemDirs are where programs stand that are not on everybody's PATH.
var systemDirs = []string{"/usr/sbin", "/sbin", "/usr/local/sbin"}

// maxVersions bounds the cache of what was compared.
const maxVersions = 4096

// NewPrograms is inert: it looks at the PATH when it is first asked, or by Begin.
func NewPrograms(rules Rulebook, pathDirs []string) *Programs {
	p := &Programs{rules: rules, dirs: slices.Concat(pathDirs, systemDirs), cache: make(map[version][]string)}
	p.load = sync.OnceFunc(p.index)
	return p
}

// Begin looks at the PATH beside the caller, so that the first exec need not wait.
func (p *Programs) Begin() { go p.load() }

// Loads is the rulebook's.
func (p *Programs) Loads(path string, argv []string) int { return p.rules.Loads(path, argv) }

// Words is the rulebook's.
func (p *Programs) Words(req *event.Request) bool { return p.rules.Words(req) }

// Internal is the rulebook's.
func (p *Programs) Internal(path string) bool { return p.rules.Internal(path) }

func (p *Programs) index() {
	p.paths, p.inodes, p.sizes = make(map[string]fileID), make(map[fileID][]string), make(map[int64][]*original)
	p.named = make(map[string]bool)
	for _, path := range p.rules.NamedPrograms() {
		p.named[path] = true
		p.add(path)
	}
	seen := make(map[string]bool)
	for _, dir := range p.dirs {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || seen[dir] { // /bin is /usr/bin on most machines
			continue
		}
		seen[dir] = true
		for _, path := range p.known(dir) {
			p.add(path)
		}
	}
}

// known are the programs in a directory that rules may be about. The first exec
// waits for this, so that only links are looked at. A link to a file of another
// name is that file, or one of many in it.
func (p *Programs) known(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // what could be read
	var out []string
	for _, name := range names {
		if !p.rules.KnownProgram(name) {
			continue
		}
		path := filepath.Join(dir, name)
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if path, err = filepath.EvalSymlinks(path); err != nil || !p.rules.KnownProgram(filepath.Base(path)) {
				continue
			}
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

func (p *Programs) add(path string) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size == 0 {
		return
	}
	if _, seen := p.paths[path]; seen {
		return
	}
	id := fileID{st.Dev, st.Ino}
	p.paths[path] = id
	if p.inodes[id] = append(p.inodes[id], path); len(p.inodes[id]) > 1 && !p.named[path] {
		return // compared already
	}
	p.sizes[st.Size] = append(p.sizes[st.Size], &original{path, sync.OnceValues(func() ([sha256.Size]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return [sha256.Size]byte{}, err
		}
		return sumOf(f)
	})})
}

// Alike names the known programs that a file is the same as under another name.
// A file that cannot be read is taken for each that has its size.
func (p *Programs) Alike(path string, st *unix.Stat_t, open func() (*os.File, error)) ([]string, error) {
	p.load()
	id := fileID{st.Dev, st.Ino}
	if own, known := p.paths[path]; known && own == id {
		return p.others(path, id), nil
	}
	if names := p.inodes[id]; len(names) > 0 {
		return names, nil
	}
	candidates := p.sizes[st.Size]
	if len(candidates) == 0 || st.Size == 0 {
		return nil, nil
	}
	v := version{id, st.Size, st.Mtim, st.Ctim}
	p.mu.Lock()
	names, seen := p.cache[v]
	p.mu.Unlock()
	if seen {
		return names, nil
	}
	names, err := compare(candidates, open)
	if err != nil {
		return nil, err
	}
	// What changed just now may change again without its times telling.
	if time.Since(time.Unix(st.Ctim.Unix())) > time.Second {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.cache) >= maxVersions {
			clear(p.cache)
		}
		p.cache[v] = names
	}
	return names, nil
}

// others are the names besides its own under which a known program counts: those
// that rules give, and that of a file which is many programs, which has to be
// judged as such.
func (p *Programs) others(path string, id fileID) []string {
	if len(p.inodes[id]) < 2 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.inodes[id]), func(other string) bool { return other == path })
}

func compare(candidates []*original, open func() (*os.File, error)) ([]string, error) {
	f, err := open()
	unreadable := errors.Is(err, fs.ErrPermission)
	if err != nil && !unreadable {
		return nil, err
	}
	var sum [sha256.Size]byte
	if !unreadable {
		if sum, err = sumOf(f); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, o := range candidates {
		// An original that cannot be read cannot be told apart either.
		if was, err := o.sum(); unreadable || err != nil || was == sum {
			names = append(names, o.path)
		}
	}
	return names, nil
}

// sumOf hashes a file and closes it.
func sumOf(f *os.File) (sum [sha256.Size]byte, err error) {
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}
