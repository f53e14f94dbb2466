package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A kernel is an unpacked package of the distribution.
type kernel struct {
	image   string // vmlinuz
	modules string // lib/modules/RELEASE
}

// series is the form of a kernel's series, such as 6.12.
var series = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// errNotServed says that the distribution has no kernel of a series.
var errNotServed = errors.New("not served by this machine's package sources")

// kernel is the cloud kernel of a series, fetched if it is not in the cache.
// Several processes may ask at once.
func (p *project) kernel(ctx context.Context, name string) (*kernel, error) {
	if !series.MatchString(name) {
		return nil, fmt.Errorf("kernel is %q, want a series such as 6.12", name)
	}
	unlock, err := lock(filepath.Join(p.cache, "lock"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = unlock() }()
	dir := filepath.Join(p.cache, "linux-"+name)
	if k, err := unpacked(dir); err == nil {
		return k, nil
	}
	if err := fetch(ctx, p.cache, dir, name); err != nil {
		return nil, fmt.Errorf("fetch kernel %s: %w", name, err)
	}
	return unpacked(dir)
}

func lock(path string) (func() error, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("take lock: %w", err)
	}
	return f.Close, nil
}

// unpacked looks for a kernel below dir.
func unpacked(dir string) (*kernel, error) {
	images, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return nil, fmt.Errorf("find kernel in %s: %d images, %v", dir, len(images), err)
	}
	release := strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")
	for _, lib := range []string{"lib", "usr/lib"} {
		modules := filepath.Join(dir, lib, "modules", release)
		if _, err := os.Stat(modules); err == nil {
			return &kernel{image: images[0], modules: modules}, nil
		}
	}
	return nil, fmt.Errorf("find modules of %s in %s: none", release, dir)
}

// fetch downloads the newest package of a series and unpacks it to dir, which
// appears whole or not at all.
func fetch(ctx context.Context, cache, dir, name string) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%w (hint: needs Debian's apt-get and dpkg-deb; or unpack a kernel package into %s yourself)", err, dir)
	}
	tmp, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	// apt-get drops its privileges for the download.
	if err := os.Chmod(tmp, 0o777); err != nil {
		return err
	}
	// A fresh machine has no lists, an old one lists of files that are gone.
	if err = download(ctx, tmp, name); err != nil && os.Geteuid() == 0 {
		if _, err := output(ctx, cache, "apt-get", "-qq", "update"); err != nil {
			return err
		}
		err = download(ctx, tmp, name)
	}
	if err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("%d packages were downloaded, want one (%v)", len(debs), err)
	}
	if _, err := output(ctx, tmp, "dpkg-deb", "-x", debs[0], filepath.Join(tmp, "root")); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, "root"), dir)
}

// download puts the newest package of a series into dir.
func download(ctx context.Context, dir, name string) error {
	pkg, err := newest(ctx, name)
	if err != nil {
		return err
	}
	_, err = output(ctx, dir, "apt-get", "-qq", "download", pkg)
	return err
}

// newest is the name of the newest signed cloud kernel of a series.
func newest(ctx context.Context, name string) (string, error) {
	pattern := "^linux-image-" + regexp.QuoteMeta(name) + `\.[0-9].*-cloud-amd64$`
	text, err := output(ctx, "/", "apt-cache", "search", "--names-only", pattern)
	if err != nil {
		return "", err
	}
	var names []string
	for line := range strings.Lines(text) {
		pkg, _, _ := strings.Cut(line, " ")
		names = append(names, pkg)
	}
	if len(names) == 0 {
		return "", fmt.Errorf("linux-image-%s.*-cloud-amd64: %w", name, errNotServed)
	}
	return slices.MaxFunc(names, byVersion), nil
}

var number = regexp.MustCompile(`[0-9]+`)

// byVersion compares names by the numbers in them.
func byVersion(a, b string) int {
	return slices.CompareFunc(number.FindAllString(a, -1), number.FindAllString(b, -1), func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return cmp.Compare(x, y)
	})
}

func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// module finds the file of a kernel module by its name.
func (k *kernel) module(name string) (string, error) {
	var found string
	err := filepath.WalkDir(k.modules, func(path string, _ fs.DirEntry, err error) error {
		if base := filepath.Base(path); base == name+".ko" || base == name+".ko.xz" {
			found = path
			return fs.SkipAll
		}
		return err
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no %s.ko below %s", name, k.modules)
	}
	return found, err
}
