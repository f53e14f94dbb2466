package gate

import (
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/seccomp"
)

// What the hooks of package lsm cannot judge alone, by open's flags:
//   - a handle (O_PATH) never comes to them, and gives no content; it is judged
//     here so that names which are denied stay closed to it;
//   - what is made exclusively is how git, and whoever else locks by files, makes
//     what is protected: whether it may be depends on whose repository it is.
//
// A class stays notified as a whole where somebody is asked and a rule of it can ask:
// the filter sees no path, and a hook cannot wait. Of writes that is so with every
// profile that protects a file by asking, since any write may turn out to be to that
// file, by whatever name; and with every one that asks about bulk changes, since any
// overwriting may be the one too many.
const (
	unhooked = unix.O_PATH | unix.O_EXCL
	// changes are the flags of an open that can change something: for plans that
	// leave only reading to the hooks. The last is O_TMPFILE without O_DIRECTORY.
	changes = unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC | unix.O_TMPFILE&^unix.O_DIRECTORY
)

// HookExceptions says in words which opens come to the gate although their class
// is left to the hooks.
func HookExceptions(h Table) string {
	if h[Write] == Hook {
		return "O_PATH, O_EXCL or openat2"
	}
	return "O_PATH, O_EXCL, openat2 or opening to change"
}

// hooked is the filter's rule for a call of a class that the hooks judge; trapped
// is false when it need not come here at all.
func hooked(h *Table, c *call) (r seccomp.Rule, trapped bool) {
	flags := uint32(unhooked)
	if h[Write] != Hook {
		flags |= changes
	}
	switch c.name {
	case "open":
		return seccomp.Rule{Name: c.name, Any: low(1, seccomp.AnyBit, flags)}, true
	case "openat":
		return seccomp.Rule{Name: c.name, Any: low(2, seccomp.AnyBit, flags)}, true
	case "creat":
		return seccomp.Rule{}, false
	}
	return seccomp.Rule{Name: c.name, Any: c.any}, true // openat2, and umask to know it
}
