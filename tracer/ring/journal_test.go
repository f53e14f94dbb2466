package ring

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// TestJournal: whichever of the last messages is the last that came through, the
// journal says how far the rings are in the stream then; also when it was gone on
// with by another process, and when slots of it are damaged.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), JournalName)
	to := func(last uint64) uint64 { return 1000 + 16*last }
	j := NewJournal(path)
	const total = 3*slots + 17
	for last := uint64(5); last <= 5*total; last += 5 {
		if last == 5*400 {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j = NewJournal(path)
		}
		marks := []event.Origin{{Ring: 1, From: 1000, To: to(last)}, {Ring: 2, Inner: 3, From: 64, To: 128}}
		if err := j.Note(last, marks); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for last := uint64(5 * (total - slots + 1)); last <= 5*total+9; last++ {
		marks, err := ReadMarks(path, last)
		if err != nil {
			t.Fatal(err)
		}
		upTo := to(min(last/5*5, 5*total))
		if !marks.Have(event.Origin{Ring: 1, From: upTo - 16, To: upTo}) || marks.Have(event.Origin{Ring: 1, From: upTo, To: upTo + 16}) {
			t.Fatalf("with last %d the marks are %+v, want ring 1 up to %d", last, marks, upTo)
		}
		at := event.Origin{Ring: 2, From: 64, To: 128}
		if marks.Have(at) || !marks.HaveRing(at) {
			t.Fatalf("a piece of another session inside: %+v", marks)
		}
	}
	damaged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		damaged[random.IntN(len(damaged))] ^= byte(1 + random.IntN(255))
	}
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	for last := uint64(1); last <= 5*total; last++ {
		marks, err := ReadMarks(path, last)
		if err != nil {
			t.Fatal(err)
		}
		if marks.Have(event.Origin{Ring: 1, From: to(last), To: to(last) + 16}) {
			t.Fatalf("a damaged journal says more than was ever in the stream at %d: %+v", last, marks)
		}
	}
}

func TestNoJournal(t *testing.T) {
	if marks, err := ReadMarks(filepath.Join(t.TempDir(), JournalName), 9); err != nil || marks != nil {
		t.Errorf("%v, %v", marks, err)
	}
}
