package gate

import "testing"

// TestOwner: whoever began a session belongs to the one that it came from, however
// many it began; everybody else in it to the session itself.
func TestOwner(t *testing.T) {
	outer := &member{}
	inner := &member{index: 1, parent: outer, client: "a"}
	again := &member{index: 2, parent: inner, client: "a"} // the client began another
	below := &member{index: 3, parent: inner, client: "b"}
	for _, c := range []struct {
		in    *member
		task  string
		owner *member
	}{
		{outer, "a", outer}, {outer, "", outer}, {inner, "a", outer}, {inner, "b", inner}, {again, "a", outer},
		{again, "b", again}, {below, "b", inner}, {below, "a", below},
	} {
		if got := c.in.owner(c.task); got != c.owner {
			t.Errorf("%q in session %d belongs to %d, want %d", c.task, c.in.index, got.index, c.owner.index)
		}
	}
}
