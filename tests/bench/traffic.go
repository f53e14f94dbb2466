package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// The traffic: opens of so many files of this machine, and after every execEvery
// of them a task that begins, runs a program and ends.
const (
	trafficFiles = 20_000
	trafficRoot  = "/usr"
	execEvery    = 50
)

// traffic makes the records of the judge's ring, which repeats one path for as long
// as a burst lasts, differ as those of a build do: each is of another file. The
// store must not be measured by how well it packs one record said a thousand times.
type traffic struct {
	to    *both
	pub   *pipeline.Publisher
	paths []string
	n     int
	facts uint64 // that were recorded besides
}

func newTraffic(to *both, pub *pipeline.Publisher) *traffic {
	t := &traffic{to: to, pub: pub}
	enough := errors.New("enough")
	_ = filepath.WalkDir(trafficRoot, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			t.paths = append(t.paths, path)
		}
		if len(t.paths) == trafficFiles {
			return enough
		}
		return nil
	})
	for len(t.paths) < trafficFiles {
		t.paths = append(t.paths, fmt.Sprintf("%s/include/c++/12/bits/header_%d.h", trafficRoot, len(t.paths)))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(t.paths), func(i, j int) { t.paths[i], t.paths[j] = t.paths[j], t.paths[i] })
	return t
}

func (t *traffic) Lost(l lsm.Lost) { t.to.Lost(l) }

func (t *traffic) Access(a lsm.Access) {
	i := t.n % len(t.paths)
	t.n++
	a.Path, a.Ino, a.Dev = t.paths[i], 1_000_000+uint64(i), 0xfe00
	t.to.Access(a)
	if t.n%execEvery == 0 {
		t.task(a.Time, t.paths[i])
	}
}

// task records what the witness tells of a task that compiles a file.
func (t *traffic) task(boot uint64, file string) {
	pid := int32(10_000 + t.n/execEvery%20_000)
	e := event.Event{
		BootNS: boot, Engine: "lsm", Kind: event.KindFact, Layer: "witness", By: "witness", Action: event.ActionAllow, Op: event.OpFork,
		Task:   event.Task{ID: fmt.Sprintf("%d-%d", pid, t.n), PID: pid, TID: pid, PPID: 9_999, Exe: "/usr/bin/make"},
		Object: event.Object{Kind: event.ObjectTask, Path: "9999-1"},
	}
	t.pub.Record(e)
	e.Op, e.Access, e.Task.Exe = event.OpExec, event.AccessExec, "/usr/bin/cc"
	e.Task.Argv = []string{"cc", "-O2", "-g", "-Wall", "-I/usr/include", "-c", file, "-o", fmt.Sprintf("/tmp/obj-%d.o", t.n)}
	e.Object = event.Object{Kind: event.ObjectFile, Path: "/usr/bin/cc", Dev: 0xfe00, Ino: 4711}
	t.pub.Record(e)
	e.Op, e.Access, e.Task.Argv, e.Object = event.OpExit, 0, nil, event.Object{}
	e.ExitCode = int32(t.n % 2)
	t.pub.Record(e)
	t.facts += 3
}
