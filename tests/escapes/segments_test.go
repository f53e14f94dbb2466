package escapes_test

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// TestNestedSharedMemory: a session uses its own segments and those of sessions
// inside it, none of the session around it or beside it.
func TestNestedSharedMemory(t *testing.T) {
	remove := fmt.Sprintf("{victim} call %d $id 0 0", unix.SYS_SHMCTL)
	make := fmt.Sprintf("{victim} call %d 0 4096 0x380", unix.SYS_SHMGET)
	script := `number() { sed -n 's/.*ret=\([0-9]*\) .*/\1/p'; }
		id=$(` + make + ` | number); echo "outer's:"
		$R run -q -- {victim} shm $id; {victim} shm $id; $R run -q -- ` + remove + `; {victim} shm $id
		id=$($R run -q -- ` + make + ` | number); echo "inner's:"
		$R run -q -- {victim} shm $id; {victim} shm $id; ` + remove
	const pass, held = `shmat: ret=0 errno=0\ncontent: \n`, `shmat: ret=-1 errno=(1|13)\n`
	tiers(t, false, func(t *testing.T, nobody bool) {
		if !nobody && os.Geteuid() == 0 {
			return // root's sessions have one namespace of their own, which is not divided
		}
		c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
		match(t, "control", `outer's:\n`+pass+pass+`.*ret=0 errno=0\nshmat: ret=-1 errno=22\ninner's:\n`+pass+pass+`.*ret=0`, plainly(t, c, script))
		r, events := inside(t, g, trial.Options{}, script)
		match(t, "reeve", `outer's:\n`+held+pass+`.*ret=-1 errno=(1|13)\n`+pass+`inner's:\n`+held+pass+`.*ret=0`, r)
		trial.SomeDenial(t, events, trial.Denial{Ops: []string{"ipc"}, Syscalls: []string{"shmat"}, Errno: "*"})
	})
}

// TestManySegments: a session has not all of the machine's segments.
func TestManySegments(t *testing.T) {
	script := fmt.Sprintf(`for i in $(seq 260); do echo "%d 0 4096 0x380"; done | {victim} batch > made; grep -c 'ret=[0-9]' made`, unix.SYS_SHMGET)
	tiers(t, false, func(t *testing.T, nobody bool) {
		if !nobody && os.Geteuid() == 0 {
			return // root's sessions have a namespace, and its limits, of their own
		}
		c, g := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
		undo := fmt.Sprintf(`; sed -n 's/.*ret=\([0-9]*\) .*/%d \1 0 0/p' made | {victim} batch >/dev/null`, unix.SYS_SHMCTL)
		match(t, "control", `^260\n`, c.Native(trial.Options{}, "bash", "-c", script+undo))
		r := g.Supervised(trial.Options{}, "bash", "-c", script)
		match(t, "reeve", `^256\n`, r)
		denied := trial.Denials(r.Events)
		if len(denied) != 4 {
			t.Errorf("%d denials, want 4", len(denied))
		}
		trial.SomeDenial(t, r.Events, trial.Denial{Ops: []string{"ipc"}, Syscalls: []string{"shmget"}, Errno: "ENOSPC"})
		free := trial.NewGround(t, nobody)
		match(t, "observe", `^260\n`, free.Supervised(trial.Options{Profile: "observe"}, "bash", "-c", script))
	})
}
