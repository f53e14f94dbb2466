package gate

import (
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// TestNote: a digest is said to be that of what was read, and of nothing where nothing was.
func TestNote(t *testing.T) {
	for _, c := range []struct {
		size uint64
		n    int
		want event.Content
	}{
		{3, 3, event.Content{Size: 3, SHA256: "ab"}},
		{3, 2, event.Content{Size: 3, SHA256: "ab", Hashed: 2}},
		{3, 4, event.Content{Size: 3, SHA256: "ab", Hashed: 4}},
		{3, 0, event.Content{Size: 3}},
		{0, 0, event.Content{SHA256: "ab"}},
		{0, 2, event.Content{SHA256: "ab", Hashed: 2}},
	} {
		got := event.Content{Size: c.size}
		if note(&got, []byte{0xab}, c.n); got != c.want {
			t.Errorf("%d of %d bytes: %+v, want %+v", c.n, c.size, got, c.want)
		}
	}
}
