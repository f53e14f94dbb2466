package session

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLoss: what is noted is read, the longer number and the shorter; a file that
// says nothing that can be read is an error, none is nothing.
func TestLoss(t *testing.T) {
	dir := t.TempDir()
	s, c := &Session{Dir: dir}, &Claim{Dir: dir}
	if n, err := c.Made(); n != 0 || err != nil {
		t.Errorf("without a file: %d, %v", n, err)
	}
	if err := s.NoteLoss(1); err == nil {
		t.Error("noted in a file that was not made")
	}
	if err := makeLoss(dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{0, 1<<64 - 1, 7} {
		if err := s.NoteLoss(want); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Made(); n != want || err != nil {
			t.Errorf("noted %d, read %d, %v", want, n, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, lossName), []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Made(); err == nil {
		t.Errorf("read %d", n)
	}
}
