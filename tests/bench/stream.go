package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// streamOpens is how many operations the stream's own measure makes.
const streamOpens = 200_000

// stream measures the way of a record from the kernel to the store: how many a
// second, how large each is there, and how much memory reeve takes meanwhile.
func (b bench) stream() error {
	b.state += "-stream"
	line := b.command("reeve", fmt.Sprintf("exec ./victim loop open %d ok.txt", streamOpens))
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = b.ws
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	took := time.Since(began)
	// The largest of reeve and what it waited for; the victim takes 1 MB.
	rss := int64(0)
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		rss = usage.Maxrss
	}
	out, err := exec.Command(b.reeve, "events", "--state", b.state, "--session", "last", "--json").Output()
	if err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	n := bytes.Count(out, []byte("\n"))
	if n < streamOpens {
		return fmt.Errorf("the stream has %d records of %d operations", n, streamOpens)
	}
	stored, err := size(b.state)
	if err != nil {
		return err
	}
	fmt.Printf("\n| stream | |\n|---|---|\n| records, kernel to store, run and drain | %d in %v: %.0f/s |\n", n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	fmt.Printf("| bytes a record in the state directory | %.0f |\n| supervisor's largest RSS | %d MB |\n", float64(stored)/float64(n), rss/1024)
	return nil
}

func size(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	})
	return sum, err
}
