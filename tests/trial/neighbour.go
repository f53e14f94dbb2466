package trial

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// A neighbour is a session that runs beside those of the tests under engine lsm.
// While it holds its programs at the kernel's hooks, those of others come and go
// at once. The last programs to leave a hook wait until no processor can still be
// in them: 0.1 s a hook, one after the other, in which the next session
// cannot begin (unregister_ftrace_function, synchronize_rcu_tasks).
type neighbour struct {
	cmd   *exec.Cmd
	stdin io.Closer
	dir   string
}

// settleIn starts the neighbour and waits until it is held.
func settleIn() (*neighbour, error) {
	dir, err := scratch("neighbour")
	if err != nil {
		return nil, err
	}
	n := &neighbour{dir: dir}
	state, ws := filepath.Join(dir, "state"), filepath.Join(dir, "ws")
	if err := errors.Join(os.Mkdir(state, 0o700), os.Mkdir(ws, 0o755)); err != nil {
		return n, err
	}
	// It ends when its input does, even if we are killed.
	n.cmd = exec.Command(kit.Reeve, "run", "-q", "--engine", Engine(), "--state", state, "--workspace", ws,
		"--", "/bin/sh", "-c", "echo held; exec cat")
	n.cmd.Dir, n.cmd.Stderr = ws, os.Stderr
	if n.stdin, err = n.cmd.StdinPipe(); err != nil {
		return n, err
	}
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		return n, err
	}
	if err := n.cmd.Start(); err != nil {
		n.cmd = nil
		return n, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		return n, fmt.Errorf("start a session beside the tests': it says %q (%v)", line, err)
	}
	return n, nil
}

// leave ends the neighbour.
func (n *neighbour) leave() error {
	if n == nil {
		return nil
	}
	var err error
	if n.stdin != nil {
		_ = n.stdin.Close() // Wait closes it, too
	}
	if n.cmd != nil {
		err = n.cmd.Wait()
	}
	return errors.Join(err, os.RemoveAll(n.dir))
}
