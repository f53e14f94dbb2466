package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs of this machine that go into the other one, with the libraries that
// they name. What is not installed here is not there.
var programs = strings.Fields(`
	awk bash basename cat chmod chown chroot cmp cp cut date dd df dirname du echo env expr false find
	getcap getent git grep head hostname id install kill ln ls mkdir mkfifo mknod mktemp mount mv nice
	nproc nsenter od printf ps pwd readlink realpath rm rmdir script sed seq setcap setpriv setsid sh
	sleep sort stat stty sync tail tee test timeout touch tr true truncate umount uname unshare wc
	which xargs mkfs.ext4 losetup insmod ip nats-server`)

// libraries is where Debian's loader looks without being told.
var libraries = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// program takes a program along by its name, if it is installed.
func (m *image) program(name string) {
	path, err := exec.LookPath(name)
	for _, sbin := range []string{"/usr/sbin/", "/sbin/"} {
		if err != nil {
			path, err = exec.LookPath(sbin + name)
		}
	}
	if err == nil {
		m.binary(path)
	}
}

// binary takes a file along with the symbolic links on the way to it and the
// libraries it is linked with, at the same paths as here.
func (m *image) binary(path string) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		m.fail(path, err)
		return
	}
	path = filepath.Join(dir, filepath.Base(path))
	if m.err != nil || m.has[path] {
		return
	}
	if target, err := os.Readlink(path); err == nil {
		m.symlink(path, target)
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		m.binary(target)
		return
	}
	m.copy(path, path)
	m.linked(path)
}

// linked takes along what an ELF file names: its loader and its libraries.
func (m *image) linked(path string) {
	f, err := elf.Open(path)
	if err != nil {
		return // a script
	}
	defer f.Close()
	if s := f.Section(".interp"); s != nil {
		data, err := s.Data()
		if err != nil {
			m.fail(path, err)
			return
		}
		m.loader(strings.TrimRight(string(data), "\x00"))
	}
	names, err := f.ImportedLibraries()
	if err != nil {
		m.fail(path, err)
		return
	}
	for _, name := range names {
		m.library(path, name)
	}
}

// loader takes the dynamic loader along under the very name that programs use.
func (m *image) loader(path string) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		m.fail(path, err)
		return
	}
	m.binary(resolved)
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		m.symlink(filepath.Join(dir, filepath.Base(path)), resolved)
	}
}

func (m *image) library(of, name string) {
	for _, dir := range libraries {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			m.binary(path)
			return
		}
	}
	m.fail(of, fmt.Errorf("library %s is in none of %v", name, libraries))
}

func (m *image) fail(path string, err error) {
	if m.err == nil {
		m.err = fmt.Errorf("take %s along: %w", path, err)
	}
}
