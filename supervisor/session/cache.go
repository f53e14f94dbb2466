package session

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	cacheName = "cache"
	// cacheAge is how long a compiled policy that nobody uses is kept.
	cacheAge = 30 * 24 * time.Hour
)

// PolicyCache keeps compiled policies in the state, as well guarded as all that
// is in there; it satisfies policy.Cache. A cache that cannot be read or written
// only costs time, so its errors are nobody's.
type PolicyCache struct{ dir string }

// PolicyCache is the state's cache of compiled policies.
func (st *State) PolicyCache() *PolicyCache { return &PolicyCache{filepath.Join(st.Dir, cacheName)} }

// Get is the value of a key. It is the file itself, mapped for as long as the
// process lives, as the policy's tables stand in it. Files are replaced and removed,
// never written to again.
func (c *PolicyCache) Get(key string) ([]byte, bool) {
	if !isCacheKey(key) {
		return nil, false
	}
	f, err := os.Open(filepath.Join(c.dir, key))
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil, false
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_POPULATE)
	return data, err == nil
}

// Put keeps a value, and throws out what is old.
func (c *PolicyCache) Put(key string, value []byte) {
	if !isCacheKey(key) {
		return
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return
	}
	if err := writeAtomically(filepath.Join(c.dir, key), value); err == nil {
		c.expire(time.Now().Add(-cacheAge))
	}
}

func (c *PolicyCache) expire(before time.Time) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(c.dir, e.Name()))
		}
	}
}

func isCacheKey(key string) bool {
	return key != "" && !strings.HasPrefix(key, ".") && !strings.ContainsAny(key, "/\x00")
}
