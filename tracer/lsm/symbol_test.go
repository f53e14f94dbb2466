package lsm

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestSymbol compares what a program is told with the kernel's own list.
func TestSymbol(t *testing.T) {
	needsRoot(t)
	list, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kfree", "d_path", "vfs_open", "bpf_map_lookup_elem_proto_"[:19]} { // of all lengths modulo eight
		at, err := symbol(name)
		if want := fmt.Sprintf("%016x T %s\n", at, name); err != nil || !strings.Contains(string(list), want) {
			t.Errorf("%s: %x, %v, which /proc/kallsyms does not say", name, at, err)
		}
	}
	if at, err := symbol("reeve_has_no_such_symbol"); !errors.Is(err, errNoSymbol) {
		t.Errorf("a symbol that is not there: %x, %v", at, err)
	}
}
