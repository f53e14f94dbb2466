package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/reeve-audit/reeve/tests/vm/wire"
)

// Files that programs expect of any system.
var files = map[string]string{
	"/etc/passwd":        "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"/etc/group":         "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
	"/etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 vm\n",
	"/etc/hostname":      "vm\n",
	"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"/etc/resolv.conf":   "",
	"/etc/os-release":    "ID=vm\nNAME=\"reeve's test machine\"\n",
	"/etc/ld.so.cache":   "",
}

// assemble writes the initial file system: the machine, the program and the job.
func (m *machine) assemble(p *project, k *kernel) error {
	unlock, err := lock(filepath.Join(p.cache, "kit.lock")) // of what machines share
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }()
	m.initrd = filepath.Join(m.dir, "initrd")
	img, err := newImage(m.initrd)
	if err != nil {
		return err
	}
	if err := m.base(img, p); err != nil {
		return errors.Join(err, img.close())
	}
	job := wire.Job{Dir: p.here, Env: m.environ(), Now: time.Now().UnixNano()}
	if len(m.packages) > 0 {
		job.Argv, err = m.packageTests(img, p)
	} else {
		job.Argv, err = m.program(img)
	}
	if err != nil {
		return errors.Join(err, img.close())
	}
	for _, name := range m.modules {
		file, err := k.module(name)
		if err != nil {
			return errors.Join(err, img.close())
		}
		at := "/vm/modules/" + filepath.Base(file)
		img.copy(at, file)
		job.Modules = append(job.Modules, at)
	}
	for _, add := range m.adds {
		host, guest, ok := strings.Cut(add, "=")
		if host, err = filepath.Abs(host); err != nil {
			return errors.Join(err, img.close())
		}
		if !ok {
			guest = host
		}
		img.tree(guest, host)
	}
	data, err := json.Marshal(job)
	if err != nil {
		return errors.Join(err, img.close())
	}
	img.text(wire.JobFile, string(data), 0o644)
	return img.close()
}

// base puts what every machine has into the image.
func (m *machine) base(img *image, p *project) error {
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		img.dir("/usr/"+dir, 0o755)
		img.symlink("/"+dir, "usr/"+dir)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/run", "/srv", "/etc", "/vm/root", "/var/lib", "/home", "/mnt"} {
		img.dir(dir, 0o755)
	}
	img.dir("/root", 0o700)
	img.dir("/tmp", 0o1777)
	img.dir("/var/tmp", 0o1777)
	img.char("/dev/console", 5, 1)
	img.text("/etc/shadow", "root:*:20000:0:99999:7:::\nnobody:*:20000:0:99999:7:::\n", 0o600)
	for at, text := range files {
		img.text(at, text, 0o644)
	}
	for _, name := range programs {
		img.program(name)
	}
	// Where the test stands is there too, with its data.
	img.dir(p.here, 0o755)
	if data := filepath.Join(p.here, "testdata"); isDir(data) {
		img.tree(data, data)
	}
	init := filepath.Join(m.dir, "init")
	if err := p.build("tests/vm/init", init); err != nil {
		return err
	}
	img.copy("/init", init)
	if !m.kit {
		return nil
	}
	// What is there already and up to date is not linked again.
	kit := filepath.Join(p.cache, "kit")
	if err := p.buildKit(kit); err != nil {
		return err
	}
	img.tree("/vm/kit", kit)
	img.linked(filepath.Join(kit, "linked"))
	return nil
}

// program puts the program into the image, unless it is one of the machine's,
// and returns the command line.
func (m *machine) program(img *image) ([]string, error) {
	argv := append([]string(nil), m.argv...)
	for i, arg := range argv {
		if after, ok := strings.CutPrefix(arg, "-test.timeout="); ok {
			argv[i] = "-test.timeout=" + m.testTimeout(after).String()
		}
	}
	if strings.Contains(argv[0], "/") {
		st, err := os.Stat(argv[0])
		if err != nil || !st.Mode().IsRegular() {
			return nil, fmt.Errorf("take %s along: no such file (%w)", argv[0], err)
		}
		argv[0] = "/vm/" + filepath.Base(m.argv[0])
		img.copy(argv[0], m.argv[0])
		img.linked(m.argv[0])
		return argv, nil
	}
	for _, dir := range []string{"/usr/bin/", "/usr/sbin/"} {
		if img.has[dir+argv[0]] {
			argv[0] = dir + argv[0]
			return argv, nil
		}
	}
	return nil, fmt.Errorf("the machine has no program %s (hint: a path with a slash is a file here)", argv[0])
}

// environ is the program's environment.
func (m *machine) environ() []string {
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LANG=C.UTF-8",
		"TERM=dumb", "TMPDIR=/tmp", "REEVE_VM=" + m.config.kernel,
	}
	if m.kit {
		env = append(env, "REEVE=/vm/kit/reeve", "REEVE_VICTIMS=/vm/kit")
	}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case name == "REEVE", name == "REEVE_VICTIMS", name == "REEVE_VM", name == "REEVE_STATE":
		case name == "REQUIRE", name == "GOTRACEBACK", name == "GODEBUG", strings.HasPrefix(name, "REEVE_"):
			env = append(env, pair)
		}
	}
	return append(env, m.env...)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
