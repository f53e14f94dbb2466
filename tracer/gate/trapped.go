package gate

import (
	"slices"
	"strings"
)

// Trapped are the calls of one class that a filter stops, in the order of their
// names.
type Trapped struct {
	// Always are notified whatever their arguments are, Sometimes where the
	// arguments may mean something that is to be judged.
	Always, Sometimes []string
	// Failed get an errno from the filter itself.
	Failed []string
}

// String is the calls for a person, "" for none.
func (t Trapped) String() string {
	var parts []string
	for _, p := range []struct {
		calls []string
		note  string
	}{{t.Always, ""}, {t.Sometimes, "by their arguments: "}, {t.Failed, "failed by the filter: "}} {
		if len(p.calls) > 0 {
			parts = append(parts, p.note+strings.Join(p.calls, " "))
		}
	}
	return strings.Join(parts, "; ")
}

// Trap sorts by class what Rules of the same arguments stops.
func Trap(h Table, allowKernel []string, privateIPC, scoped bool) (out [NumClasses]Trapped) {
	for _, r := range Rules(h, allowKernel, privateIPC, scoped) {
		t := &out[classOf(r.Name)]
		switch {
		case r.Errno != 0:
			t.Failed = append(t.Failed, r.Name)
		case len(r.Any) > 0:
			t.Sometimes = append(t.Sometimes, r.Name)
		default:
			t.Always = append(t.Always, r.Name)
		}
	}
	for i := range out {
		for _, list := range [][]string{out[i].Always, out[i].Sometimes, out[i].Failed} {
			slices.Sort(list)
		}
	}
	return out
}

// classOf is the class of a call that Rules names. That of clone3, which the filter
// fails, is that of clone.
func classOf(name string) Class {
	for _, c := range calls() {
		if c.name == name {
			return c.class
		}
	}
	return Kernel
}
