package lsm

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/reeve-audit/reeve/bpf"
)

// Lose counts files that lose what they held by what the supervisor does for a
// task, together with those that the hooks count, and says whether that is more
// than Rules.Bulk allows. It may be called by any goroutine.
func (e *Engine) Lose(files int) (over bool, err error) {
	return lose(e.loaded.Programs[bpf.LsmProgReeveLose], files)
}

func lose(program *ebpf.Program, files int) (over bool, err error) {
	if program == nil {
		return true, fmt.Errorf("bug: %d files are lost, and the hooks count none", files)
	}
	l := bpf.LsmLosing{Files: uint32(min(files, maxLosing))}
	code, err := program.Run(&ebpf.RunOptions{Context: &l, ContextOut: &l})
	if err != nil {
		return true, fmt.Errorf("count %d files: %w", files, err)
	}
	if code != 0 {
		return true, fmt.Errorf("count %d files: the hooks returned %d", files, int32(code))
	}
	return l.Over != 0, nil
}

// maxLosing is more than any limit.
const maxLosing = 1 << 30
