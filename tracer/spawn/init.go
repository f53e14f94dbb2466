package spawn

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// socketFD is where init finds its socket.
const socketFD = 3

// The program that is started under the name of init is init, and nothing else:
// it begins here, before the packages that only the supervisor needs (bus,
// stores) set up their tables, which takes longer than all that init does.
func init() {
	if len(os.Args) > 0 && os.Args[0] == InitName {
		runInit()
	}
}

// runInit is the whole life of the session's init. It never returns.
func runInit() {
	i := &initProcess{conn: conn{fd: socketFD}}
	if err := i.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "reeve-init:", err)
		os.Exit(125)
	}
	i.run()
	os.Exit(0)
}

type initProcess struct {
	conn  conn
	order *Order
	slave int          // of the session's own terminal
	hooks []int        // what confines the tree, held until we exit
	pid   atomic.Int64 // the command, 0 before it started
	early early        // signals for it that came before
	// stopped is what wait4 last said of the command. ending is set when its stops
	// are our own, on the way to its end.
	stopped, ending atomic.Bool
	kept            kept // of who receives
}

// prepare makes init a subreaper that neither the terminal nor the tree ends.
func (i *initProcess) prepare() error {
	if kind, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return errors.New("a program of this name is started by reeve run alone; call reeve by another one")
	}
	if _, err := unix.FcntlInt(socketFD, unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		return fmt.Errorf("keep the launch socket from the command: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the session's subreaper: %w", err)
	}
	// Caught, not ignored: what is ignored stays ignored in the command, as it does
	// what nohup(1) and its like had ignored before.
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	return nil
}

// forked is what came of starting the command.
type forked struct {
	pid int
	err error
}

func (i *initProcess) run() {
	m, fds, err := i.conn.recv()
	if err != nil || m.Kind != kindOrder || m.Order == nil {
		return // the supervisor gave up before there was anything to start
	}
	i.order = m.Order
	ruleset, err := i.take(fds)
	if err != nil {
		i.fail("take the session's terminal", err)
		return
	}
	started := make(chan forked, 1)
	if !i.launch(ruleset, started) {
		return
	}
	done, obeyed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(obeyed)
		i.obey(done)
	}()
	f := <-started
	if f.err != nil {
		i.fail(StepExec, f.err)
		return
	}
	// Only now, since the command's first call is read while it still shares
	// init's memory, which an ordinary user could not read any more.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		i.fail("hide init's memory", err)
		i.end()
		return
	}
	i.pid.Store(int64(f.pid))
	i.early.deliver(f.pid)
	i.reap()
	if i.slave >= 0 { // the last hold of it: what the command wrote has an end
		unix.Close(i.slave)
	}
	i.kept.detach()
	// Before the supervisor knows: that it hangs up then must not be taken for its
	// death, for which all processes of the machine are looked through.
	close(done)
	_ = i.conn.send(message{Kind: kindEmpty})
	// The supervisor may yet die before it has put its terminal back, or before all
	// that the rings hold is on the bus.
	<-obeyed
	i.linger()
}

// lingering is how long the hooks stay at their places after their session. The last
// program to leave a hook takes the kernel 0.1 s, hook after hook, in which no other
// session's are attached: one that follows soon finds them there, and they are not
// the last any more.
const lingering = time.Second

// linger holds nothing but the hooks.
func (i *initProcess) linger() {
	if len(i.hooks) == 0 {
		return
	}
	closeAll([]int{0, 1, 2}) // a pipe's end, a terminal
	_ = unix.Chdir("/")
	time.Sleep(lingering)
}

// take takes the descriptors that came with the order, and with a terminal the
// lead of it. ruleset is -1 if there is none.
func (i *initProcess) take(fds []int) (ruleset int, err error) {
	ruleset, i.slave = -1, -1
	if i.order.Landlock && len(fds) > 0 {
		ruleset, fds = fds[0], fds[1:]
	}
	if i.order.Terminal == nil {
		i.hooks = fds
		return ruleset, nil
	}
	if len(fds) == 0 {
		return ruleset, errors.New("bug: no terminal came with the order")
	}
	i.slave, i.hooks = fds[0], fds[1:]
	if _, err := unix.Setsid(); err != nil {
		return ruleset, err
	}
	return ruleset, unix.IoctlSetInt(i.slave, unix.TIOCSCTTY, 0)
}

// launch runs thread T up to its fork, and tells the supervisor of each step.
func (i *initProcess) launch(ruleset int, started chan<- forked) bool {
	type confined struct {
		listener int
		step     string
		err      error
	}
	ready := make(chan confined, 1)
	proceed := make(chan bool, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread dies with the goroutine
		var c confined
		c.step, c.listener, c.err = i.confine(ruleset)
		ready <- c
		if c.err != nil || !<-proceed {
			return
		}
		started <- i.fork() // T has a filter: others speak for it
	}()
	c := <-ready
	if c.err != nil {
		i.fail(c.step, c.err)
		return false
	}
	err := i.conn.send(message{Kind: kindReady}, c.listener)
	unix.Close(c.listener)
	if err != nil {
		return false
	}
	m, fds, err := i.conn.recv()
	for ; err == nil && (m.Kind == kindKeep || m.Kind == kindPinned); m, fds, err = i.conn.recv() {
		i.kept.keep(m, fds)
	}
	if err != nil || m.Kind != kindGo {
		proceed <- false
		return false
	}
	proceed <- true
	return true
}

func (i *initProcess) fail(step string, err error) {
	m := message{Kind: kindFailed, Step: step}
	var errno unix.Errno
	if errors.As(err, &errno) {
		m.Errno = int(errno)
	} else {
		m.Step += ": " + err.Error()
	}
	_ = i.conn.send(m) // a supervisor that is gone needs no report
}

// obey carries out what the supervisor says until it is gone, and then ends the
// tree. A supervisor that is gone without a word has died.
func (i *initProcess) obey(done <-chan struct{}) {
	leaving := false
	held := map[int][]int{}
	for {
		m, fds, err := i.conn.recv()
		switch {
		case err != nil:
			if leaving {
				return
			}
			i.order.Terminal.restoreModes()
			select {
			case <-done:
				i.kept.save()
				i.kept.unpin()
				return
			default:
			}
			i.end()
			i.kept.save()
			i.kept.unpin()
			os.Exit(125)
		case m.Kind == kindLeave:
			leaving = true
		case m.Kind == kindKeep:
			i.kept.keep(m, fds)
		case m.Kind == kindUnkeep:
			i.kept.drop(uint32(m.PID))
		case m.Kind == kindEnd:
			i.end()
		case m.Kind == kindSignal:
			i.early.send(unix.Signal(m.Signal))
		case m.Kind == kindResume:
			i.resume()
		case m.Kind == kindHold:
			held[m.PID] = append(held[m.PID], fds...)
		case m.Kind == kindDrop:
			go closeAll(held[m.PID]) // hooks take their time to be detached
			delete(held, m.PID)
		}
	}
}

// resume continues the command if it is stopped: with the rest of its process
// group when that is its own, as ^Z stopped all of it.
func (i *initProcess) resume() {
	if !i.stopped.Load() {
		return
	}
	pid := int(i.pid.Load())
	if group, err := unix.Getpgid(pid); i.order.Terminal != nil && err == nil {
		pid = -group
	}
	_ = unix.Kill(pid, unix.SIGCONT) // gone is as good
}
