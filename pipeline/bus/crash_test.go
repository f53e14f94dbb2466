package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
	"github.com/reeve-audit/reeve/tracer/event"
)

// The test binary runs itself as a process that can be killed.
const (
	roleEnv = "REEVE_BUS_TEST_ROLE"
	dirEnv  = "REEVE_BUS_TEST_DIR"
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "publisher":
		exit(publishForever(os.Getenv(dirEnv)))
	case "server":
		exit(serve(os.Getenv(dirEnv), os.Getenv("REEVE_BUS_TEST_PORT")))
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// publishForever records without end, and prints every seq that was acked.
func publishForever(dir string) error {
	ctx := context.Background()
	p, err := pipeline.NewPublisher(pipeline.PublisherConfig{Session: filepath.Base(dir)})
	if err != nil {
		return err
	}
	ran := make(chan error, 1)
	go func() { ran <- p.Run(ctx) }()
	b, err := bus.Open(ctx, bus.Config{Dir: dir})
	if err != nil {
		return err
	}
	p.Attach(b)
	for {
		for range 20 {
			p.Record(event.Event{Kind: event.KindRequest, Op: event.OpOpen, Object: event.Object{Path: "/x"}})
		}
		if err := p.RecordAcked(ctx, event.Event{Kind: event.KindRequest, Op: event.OpExec}); err != nil {
			return err
		}
		fmt.Println(p.Totals().Acked)
		time.Sleep(200 * time.Microsecond) // the killer needs the processor too
	}
}

// start starts this binary in a role; it dies with the test.
func start(t *testing.T, role, dir string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	return cmd, bufio.NewScanner(out)
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may be gone already
	_ = cmd.Wait()         // it was killed: that is no news
}

// memory is a store that keeps what a store must: each place once.
type memory struct {
	mu     sync.Mutex
	at     map[string]map[uint64]event.Event
	repeat int
	refuse func() error
}

func (m *memory) Append(_ context.Context, d event.Delivery) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		if err := m.refuse(); err != nil {
			return err
		}
	}
	if m.at == nil {
		m.at = map[string]map[uint64]event.Event{}
	}
	for _, b := range d.Batches {
		if m.at[b.Session] == nil {
			m.at[b.Session] = map[uint64]event.Event{}
		}
		for _, e := range b.Events {
			if _, ok := m.at[b.Session][e.Seq]; ok {
				m.repeat++
				continue
			}
			m.at[b.Session][e.Seq] = e
		}
	}
	return nil
}

// verify wants records 1 to n, n at least least, without gap, chained.
func (m *memory) verify(t *testing.T, session string, least uint64) uint64 {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	chain := event.NewChain(session)
	n := uint64(len(m.at[session]))
	for seq := uint64(1); seq <= n; seq++ {
		e, ok := m.at[session][seq]
		if !ok {
			t.Fatalf("%s: seq %d of %d is missing", session, seq, n)
		}
		if err := chain.Verify(&e); err != nil {
			t.Fatal(err)
		}
	}
	if n < least {
		t.Fatalf("%s: %d records stored, %d were acked", session, n, least)
	}
	return n
}

// TestKilledPublisher kills a session at a random point, several times, and
// wants every acked record back.
func TestKilledPublisher(t *testing.T) {
	root := t.TempDir()
	acked := map[string]uint64{}
	for i := range 4 {
		id := fmt.Sprintf("01KILLED%d", i)
		cmd, out := start(t, "publisher", filepath.Join(root, id))
		deadline := time.Now().Add(time.Duration(50+70*i) * time.Millisecond)
		for out.Scan() && (acked[id] == 0 || time.Now().Before(deadline)) {
			n, err := strconv.ParseUint(out.Text(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			acked[id] = n
		}
		kill(cmd)
		for out.Scan() { // what it had said before it died
			acked[id], _ = strconv.ParseUint(out.Text(), 10, 64)
		}
	}
	live, out := start(t, "publisher", filepath.Join(root, "01LIVE"))
	if !out.Scan() {
		t.Fatal("the live session says nothing")
	}
	go func() { // its pipe must not fill
		for out.Scan() {
			continue
		}
	}()
	store := &memory{}
	for id, n := range acked {
		if err := drain(t.Context(), filepath.Join(root, id), store); err != nil {
			t.Fatal(err)
		}
		got := store.verify(t, id, n)
		t.Logf("%s: %d acked, %d stored", id, n, got)
	}
	if err := drain(t.Context(), filepath.Join(root, "01LIVE"), store); !errors.Is(err, bus.ErrLive) {
		t.Fatalf("the live session: %v, want ErrLive", err)
	}
	kill(live)
	if err := drain(t.Context(), filepath.Join(root, "01LIVE"), store); err != nil {
		t.Fatal(err)
	}
	store.verify(t, "01LIVE", 1)
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// drain stores what a session left behind, and removes its directory.
func drain(ctx context.Context, dir string, store pipeline.Store) error {
	b, err := bus.Open(ctx, bus.Config{Dir: dir, Existing: true})
	if err != nil {
		return err
	}
	source, err := b.Consume(ctx, bus.StoreConsumer, bus.PositionMemory)
	if err != nil {
		return errors.Join(err, b.Close())
	}
	c, err := pipeline.NewCollector(pipeline.CollectorConfig{Source: source, Store: store})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	c.Stop() // at the end of the stream
	if err := c.Run(ctx); err != nil {
		return errors.Join(err, b.Close())
	}
	return b.Discard()
}

// TestInterruptedDrain fails the store after some deliveries, as a kill would:
// the next drain completes it.
func TestInterruptedDrain(t *testing.T) {
	root := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Config{Dir: filepath.Join(root, "01D")})
	if err != nil {
		t.Fatal(err)
	}
	record(t, b, "01D", 20000)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	store := &memory{}
	store.refuse = func() error {
		if calls++; calls > 1 {
			cancel()
			return errors.New("gone")
		}
		return nil
	}
	dir := filepath.Join(root, "01D")
	if err := drain(ctx, dir, store); err == nil {
		t.Fatal("an interrupted drain reports success")
	}
	store.refuse = nil
	var wg sync.WaitGroup
	for range 3 { // they meet: one does it
		wg.Go(func() {
			err := drain(t.Context(), dir, store)
			if err != nil && !errors.Is(err, bus.ErrLive) && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := store.verify(t, "01D", 20000); n != 20000 {
		t.Errorf("%d records", n)
	}
	if store.repeat == 0 {
		t.Error("nothing was repeated: the test did not interrupt")
	}
}

// record publishes n records of a session and waits for all acks.
func record(t *testing.T, b pipeline.Bus, session string, n int) pipeline.Totals {
	t.Helper()
	p, err := pipeline.NewPublisher(pipeline.PublisherConfig{Session: session, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- p.Run(t.Context()) }()
	p.Attach(b)
	for i := range n {
		p.Record(event.Event{Kind: event.KindRequest, Op: event.OpOpen, Object: event.Object{Ino: uint64(i + 1)}})
	}
	totals, err := p.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	return totals
}
