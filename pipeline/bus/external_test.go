package bus_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
)

// serve is a nats-server in a process of its own: it prints its URL and runs
// until it is killed.
func serve(dir, port string) error {
	n := -1
	if port != "" {
		var err error
		if n, err = strconv.Atoi(port); err != nil {
			return err
		}
	}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: n, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		return fmt.Errorf("the server is not ready")
	}
	fmt.Println(srv.ClientURL())
	select {} // until it is killed
}

// startServer starts it and returns its URL.
func startServer(t *testing.T, dir string, env ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd, out := start(t, "server", dir, env...)
	if !out.Scan() {
		t.Fatal("the server says nothing")
	}
	return cmd, out.Text()
}

func consume(t *testing.T, b *bus.Bus, name string, pos bus.Position) *bus.Consumer {
	t.Helper()
	c, err := b.Consume(t.Context(), name, pos)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// collectAll runs a Collector to the end of the stream.
func collectAll(t *testing.T, b *bus.Bus, name string, store pipeline.Store) {
	t.Helper()
	c, err := pipeline.NewCollector(pipeline.CollectorConfig{
		Source: consume(t, b, name, bus.PositionDurable), Store: store,
	})
	if err != nil {
		t.Fatal(err)
	}
	c.Stop()
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestForwardThroughOutage kills the far server in the middle, twice, and wants
// every record there once it is back (E04).
func TestForwardThroughOutage(t *testing.T) {
	far := t.TempDir()
	srv, url := startServer(t, far)
	port := "REEVE_BUS_TEST_PORT=" + url[strings.LastIndexByte(url, ':')+1:]
	dir := filepath.Join(t.TempDir(), "01FORWARD")
	local, err := bus.Open(t.Context(), bus.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	remote, err := bus.DialRetry(t.Context(), bus.DialConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = remote.Close() }()
	f, err := pipeline.NewForwarder(pipeline.ForwarderConfig{
		Source: consume(t, local, bus.ForwardConsumer, bus.PositionDurable), To: remote,
	})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- f.Run(t.Context()) }()

	restart := time.AfterFunc(30*time.Millisecond, func() {
		kill(srv)
	})
	defer restart.Stop()
	record(t, local, "01FORWARD", 30000) // acked here, whatever happens there
	kill(srv)
	srv, _ = startServer(t, far, port)
	time.Sleep(200 * time.Millisecond)
	kill(srv)
	startServer(t, far, port)
	f.Stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	if err := local.Discard(); err != nil {
		t.Fatal(err)
	}
	store := &memory{}
	collectAll(t, remote, "test", store)
	if n := store.verify(t, "01FORWARD", 30000); n != 30000 {
		t.Errorf("%d records arrived", n)
	}
}

func TestDialErrors(t *testing.T) {
	_, err := bus.Dial(t.Context(), bus.DialConfig{URL: "nats://user:secret@127.0.0.1:1"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("err = %v", err)
	}
}

// TestCheckURL: what can be said of an address without asking anybody.
func TestCheckURL(t *testing.T) {
	for _, c := range []struct{ urls, says string }{
		{"nats://127.0.0.1:4222", ""},
		{"127.0.0.1", ""},
		{"hub:4222", ""},
		{"nats://u:p@a:1, tls://[::1]:2,", ""},
		{"ws://a,wss://b:443", ""},
		{"", "is empty"},
		{" , ", "is empty"},
		{"nats://", "names no host"},
		{"nats://:4222", "names no host"},
		{"x://", `no scheme "x"`},
		{"http://hub:4222", `no scheme "http"`},
		{"nats://u:secret@hub:x", "cannot be parsed"},
		{"nats://u:secret@hub:0", "no port 0"},
		{"nats://u:secret@hub:65536", "no port 65536"},
		{"nats://a:1,x://u:secret@b", `no scheme "x"`},
		{"ws://u:secret@a,nats://u:secret@b", "cannot be mixed"},
	} {
		err := bus.CheckURL(c.urls)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.urls, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the password is told: %v", c.urls, err)
		}
		if _, dialErr := bus.Dial(t.Context(), bus.DialConfig{URL: c.urls}); err != nil && (dialErr == nil || dialErr.Error() != err.Error()) {
			t.Errorf("%q: Dial says %v, want %v", c.urls, dialErr, err)
		}
	}
}
