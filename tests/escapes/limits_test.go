package escapes_test

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestLimits: what fails for a limit of the task leaves things as they are, as
// natively, and the record says that it failed.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name string
		argv []string
		want string
	}{
		{"descriptors", []string{"{victim}", "full-table", "{ok}", "{ws}/new"},
			`(?s)read: ret=-1 errno=24\ntruncate: ret=-1 errno=24\ncreate: ret=-1 errno=24\nlength=[1-9]\d* new=-1\ncreate with room: ret=10`},
		{"length", []string{"{victim}", "file-size", "{ok}"}, `(?s)beyond: ret=-1 errno=27\nto it: ret=0 errno=0\nlength=10\n$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				control := trial.NewGround(t, nobody).Native(trial.Options{}, c.argv...)
				match(t, "control", c.want, control)
				g := trial.NewGround(t, nobody)
				r := g.Supervised(trial.Options{}, c.argv...)
				match(t, "reeve", c.want, r)
				if r.Status != control.Status {
					t.Errorf("status %d, natively %d", r.Status, control.Status)
				}
				if c.name == "length" && control.Status != 128+int(syscall.SIGXFSZ) {
					t.Errorf("control: status %d", control.Status)
				}
				failed := map[string]bool{}
				for _, e := range r.Events {
					if e.Errno == "EMFILE" {
						failed[e.Op] = true
					}
				}
				if c.name == "descriptors" && trial.Engine() != "lsm" && (!failed["open"] || !failed["create"]) {
					t.Errorf("on record as failed: %v", failed)
				}
			})
		})
	}
}

// TestInodeGeneration: a descriptor that can only be read is no way to change an inode.
func TestInodeGeneration(t *testing.T) {
	const setVersion, extSetVersion = 0x40087602, 0x40086604
	var rows []row
	for name, cmd := range map[string]int{"any file system": setVersion, "ext4": extSetVersion} {
		rows = append(rows, row{
			id: "I8", name: name, root: true, argv: call(unix.SYS_IOCTL, "r:{config}", cmd, "z:8"),
			native: `ret=(0|-1 errno=(25|95)\b)`, want: refused, deny: &trial.Denial{Ops: []string{"setxattr"}, Path: "{config}"},
		})
	}
	run(t, rows)
}
