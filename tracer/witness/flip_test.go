package witness

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestFlip races a path against its exec; nothing but the announced program may
// run a single instruction.
func TestFlip(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	build := func(name string, flags ...string) string {
		out := filepath.Join(dir, name)
		args := append([]string{"-O1", "-static", "-o", out, "testdata/flip.c"}, flags...)
		if text, err := exec.Command(resolve(t, "gcc"), args...).CombinedOutput(); err != nil {
			t.Skipf("needs a static libc: %v\n%s", err, text)
		}
		return out
	}
	flip := build("flip")
	good, bad := build("program-g", "-DPROGRAM='g'"), build("program-b", "-DPROGRAM='b'")
	attempts := 10_000
	if testing.Short() {
		attempts = 500
	}
	ran := runFlip(t, start(t, Config{}, false), flip, good, bad, 500)
	if ran['b'] == 0 || ran['g'] == 0 {
		t.Fatalf("the race has no teeth: %v", ran)
	}
	s := start(t, Config{Verify: true}, false)
	ran = runFlip(t, s, flip, good, bad, attempts)
	killed := 0
	for _, e := range only[Exec](s.all()) {
		if e.Killed {
			killed++
		}
	}
	t.Logf("%d attempts: %d right ones ran, %d wrong ones were killed, %d wrong ones ran",
		attempts, ran['g'], killed, ran['b'])
	if ran['b'] != 0 || killed == 0 || ran['g'] == 0 || ran['g']+killed != attempts {
		t.Errorf("ran %v, killed %d", ran, killed)
	}
}

// runFlip counts the programs that ran, by their letter.
func runFlip(t *testing.T, s *session, flip, good, bad string, attempts int) map[byte]int {
	t.Helper()
	pids, leave, letters := pipe(t), pipe(t), pipe(t)
	cmd := become("exec", flip, strconv.Itoa(attempts), good, bad)
	cmd.ExtraFiles = []*os.File{pids[1], leave[0], letters[1]}
	release := s.adopt(cmd)
	if _, err := s.Expect(cmd.Process.Pid, []Inode{inodeOf(t, flip)}, nil); err != nil {
		t.Fatal(err)
	}
	for _, f := range cmd.ExtraFiles {
		_ = f.Close()
	}
	counts := make(chan map[byte]int)
	go func() {
		got := map[byte]int{}
		r := bufio.NewReader(letters[0])
		for b, err := r.ReadByte(); err == nil; b, err = r.ReadByte() {
			got[b]++
		}
		counts <- got
	}()
	want := []Inode{inodeOf(t, good)}
	release()
	var pid [4]byte
	for {
		if n, _ := pids[0].Read(pid[:]); n != 4 {
			break
		}
		tid := int(uint32(pid[0]) | uint32(pid[1])<<8 | uint32(pid[2])<<16 | uint32(pid[3])<<24)
		if _, err := s.Expect(tid, want, nil); err != nil {
			t.Fatal(err)
		}
		_, _ = leave[1].Write([]byte{1})
	}
	_ = cmd.Wait()
	return <-counts
}

func pipe(t *testing.T) [2]*os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	return [2]*os.File{r, w}
}
