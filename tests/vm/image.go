package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// An image is an initial file system: a cpio archive in the kernel's "newc"
// form, written as it grows. Directories above a file are made on the way.
type image struct {
	file *os.File
	w    *bufio.Writer
	has  map[string]bool // cleaned guest paths
	ino  int
	err  error // the first one, after which nothing is written
}

func newImage(at string) (*image, error) {
	f, err := os.Create(at)
	if err != nil {
		return nil, fmt.Errorf("make image: %w", err)
	}
	return &image{file: f, w: bufio.NewWriterSize(f, 1<<20), has: map[string]bool{"/": true}}, nil
}

// File modes of cpio, those of stat(2).
const (
	modeDir     = 0o040000
	modeFile    = 0o100000
	modeSymlink = 0o120000
	modeChar    = 0o020000
)

// entry writes one member of size bytes from r.
func (m *image) entry(at string, mode uint32, size int64, r io.Reader, major, minor int) {
	at = path.Clean(at)
	if m.err != nil || m.has[at] {
		return
	}
	if parent := path.Dir(at); !m.has[parent] {
		m.dir(parent, 0o755)
	}
	m.has[at] = true
	m.ino++
	m.record(at[1:], mode, size, r, major, minor)
}

func (m *image) record(name string, mode uint32, size int64, r io.Reader, major, minor int) {
	links := 1
	if mode&modeDir == modeDir {
		links = 2
	}
	// magic ino mode uid gid nlink mtime size major minor rmajor rminor namesize check
	_, err := fmt.Fprintf(m.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00%s",
		m.ino, mode, 0, 0, links, 0, size, 0, 0, major, minor, len(name)+1, 0, name, padding(110+len(name)+1))
	if err == nil && r != nil {
		var n int64
		n, err = io.Copy(m.w, r)
		if err == nil && n != size {
			err = fmt.Errorf("%d bytes, want %d", n, size)
		}
	}
	if err == nil {
		_, err = m.w.WriteString(padding(int(size)))
	}
	if err != nil {
		m.err = fmt.Errorf("write %s into image: %w", name, err)
	}
}

// padding fills n up to a multiple of four.
func padding(n int) string { return "\x00\x00\x00"[:(4-n%4)%4] }

func (m *image) dir(at string, mode uint32) { m.entry(at, modeDir|mode, 0, nil, 0, 0) }

func (m *image) symlink(at, to string) {
	m.entry(at, modeSymlink|0o777, int64(len(to)), strings.NewReader(to), 0, 0)
}

func (m *image) text(at, text string, mode uint32) {
	m.entry(at, modeFile|mode, int64(len(text)), strings.NewReader(text), 0, 0)
}

func (m *image) char(at string, major, minor int) { m.entry(at, modeChar|0o600, 0, nil, major, minor) }

// copy takes a file of the host along.
func (m *image) copy(at, from string) {
	if m.err != nil || m.has[path.Clean(at)] {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		m.err = err
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		m.err = err
		return
	}
	// Every user may read what is in the machine.
	m.entry(at, modeFile|uint32(st.Mode().Perm())|0o444, st.Size(), f, 0, 0)
}

// tree takes a file, or a directory with all that is in it, along.
func (m *image) tree(at, from string) {
	err := filepath.WalkDir(from, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := path.Join(at, filepath.ToSlash(p[len(from):]))
		switch d.Type() {
		case os.ModeDir:
			m.dir(to, 0o755)
		case os.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			m.symlink(to, target)
		case 0:
			m.copy(to, p)
		}
		return m.err
	})
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("take %s along: %w", from, err)
	}
}

// close ends the archive.
func (m *image) close() error {
	if m.err == nil {
		m.record("TRAILER!!!", 0, 0, nil, 0, 0)
	}
	if m.err == nil {
		m.err = m.w.Flush()
	}
	if err := m.file.Close(); m.err == nil {
		m.err = err
	}
	return m.err
}
