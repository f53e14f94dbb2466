package bus_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/tracer/event"
)

// smallDisk mounts a file system of a few megabytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("reeve-test", dir, "tmpfs", 0, "size="+size); err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatal(err)
		}
		t.Skipf("mount a small tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestDiskFull fills the disk below a session: whoever waits for an ack is told
// and why, and what was acked is all there afterwards (E04).
func TestDiskFull(t *testing.T) {
	disk := smallDisk(t, "24m")
	dir := filepath.Join(disk, "01FULL")
	b, err := bus.Open(t.Context(), bus.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.NewPublisher(pipeline.PublisherConfig{Session: "01FULL"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	p.Attach(b)
	detail := string(bytes.Repeat([]byte("x"), 60<<10))
	acked := uint64(0)
	for {
		wait, stop := context.WithTimeout(t.Context(), 20*time.Second)
		err = p.RecordAcked(wait, event.Event{Kind: event.KindRequest, Op: event.OpOpen, Detail: detail})
		stop()
		if err != nil {
			break
		}
		if acked++; acked > 1000 {
			t.Fatal("60 MB fit into 24 MB")
		}
	}
	t.Logf("%d acked, then: %v", acked, err)
	if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the error does not say what is wrong: %v", err)
	}
	short, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if _, err := p.Close(short); err == nil {
		t.Error("Close says that all is well")
	}
	cancel()
	<-ran
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := bus.Open(t.Context(), bus.Config{Dir: filepath.Join(disk, "01NEXT")}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("open on a full disk: %v", err)
	}
	if err := unix.Mount("reeve-test", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	store := &memory{}
	if err := drain(t.Context(), dir, store); err != nil {
		t.Fatal(err)
	}
	store.verify(t, "01FULL", acked)
}

// TestStreamFull fills a stream to its own limit: whoever waits is told, and
// when a consumer has taken what is there, everything goes on.
func TestStreamFull(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Config{Dir: filepath.Join(t.TempDir(), "01LIMIT"), MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p, err := pipeline.NewPublisher(pipeline.PublisherConfig{Session: "01LIMIT"})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- p.Run(t.Context()) }()
	p.Attach(b)
	detail := string(bytes.Repeat([]byte("x"), 60<<10))
	n := uint64(0)
	for err = nil; err == nil && n < 100; n++ {
		err = p.RecordAcked(t.Context(), event.Event{Kind: event.KindRequest, Op: event.OpOpen, Detail: detail})
	}
	if err == nil || !strings.Contains(err.Error(), "maximum bytes") {
		t.Errorf("after %d records of 60 KiB in 1 MiB: %v", n, err)
	}
	store := &memory{}
	c, err := pipeline.NewCollector(pipeline.CollectorConfig{
		Source: consume(t, b, bus.StoreConsumer, bus.PositionMemory), Store: store, Trim: b.Trim, TrimEvery: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	collected := make(chan error, 1)
	go func() { collected <- c.Run(t.Context()) }()
	if totals, err := p.Close(t.Context()); err != nil || totals.Acked != n {
		t.Errorf("%+v, %v", totals, err)
	}
	c.Stop()
	if err := errors.Join(<-ran, <-collected, b.Discard()); err != nil {
		t.Error(err)
	}
	store.verify(t, "01LIMIT", n)
}
