package trial

import (
	"strconv"
	"testing"
	"time"
)

const (
	// chance is how long a race is repeated that is not won, by Patience.
	chance = 30 * time.Second
	// long is what a run takes that is not made longer.
	long = chance / 6
	// doublings is how often it is.
	doublings = 12
)

// Won repeats a race until it is won, with twice the attempts each time, from n on,
// and ends the test when it is not within half a minute: what says what did not
// happen, and the last run's output is added. A single run says little: two
// processors that one emulates, or a busy machine, may run one side of a race only
// when the other is through with all its attempts.
func Won(t testing.TB, what string, n int, run func(n string) (won bool, r *Result)) {
	t.Helper()
	end := time.Now().Add(Patience(chance))
	for runs := 1; ; runs++ {
		won, r := run(strconv.Itoa(n))
		if won {
			return
		}
		if !time.Now().Before(end) {
			t.Fatalf("%s: not in %d runs, the last one of %d attempts: status %d: %s", what, runs, n, r.Status, tail(r.Text()))
		}
		if runs <= doublings && r.Took < Patience(long) {
			n *= 2
		}
	}
}
