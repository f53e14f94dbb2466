package bus_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/pipeline"
	"github.com/reeve-audit/reeve/pipeline/bus"
)

// packagedServer starts the nats-server of the distribution, which is years
// older than the one that is linked in.
func packagedServer(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("nats-server")
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "nats-server") {
			t.Fatal(err)
		}
		t.Skipf("%v; apt-get install nats-server", err)
	}
	dir := t.TempDir()
	cmd := exec.Command(path, "-js", "-sd", dir, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	for range 500 {
		files, err := filepath.Glob(filepath.Join(dir, "*.ports"))
		if err != nil {
			t.Fatal(err)
		}
		var ports struct{ Nats []string }
		if len(files) == 1 {
			data, err := os.ReadFile(files[0])
			if err == nil && json.Unmarshal(data, &ports) == nil && len(ports.Nats) > 0 {
				return ports.Nats[0]
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nats-server does not say its ports")
	return ""
}

// TestPackagedServer forwards to an old server and collects from it.
func TestPackagedServer(t *testing.T) {
	url := packagedServer(t)
	remote, err := bus.Dial(t.Context(), bus.DialConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = remote.Close() }()
	local, err := bus.Open(t.Context(), bus.Config{Dir: filepath.Join(t.TempDir(), "01OLD")})
	if err != nil {
		t.Fatal(err)
	}
	record(t, local, "01OLD", 5000)
	for _, name := range []string{"once", "again"} { // the second time, everything is a repetition
		f, err := pipeline.NewForwarder(pipeline.ForwarderConfig{
			Source: consume(t, local, name, bus.PositionMemory), To: remote,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Stop()
		if err := f.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := local.Discard(); err != nil {
		t.Fatal(err)
	}
	store := &memory{}
	collectAll(t, remote, "test", store)
	if n := store.verify(t, "01OLD", 5000); n != 5000 || store.repeat > 0 {
		t.Errorf("%d records, %d repeated", n, store.repeat)
	}
}
