package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// SocketName is the socket's name in a session's directory.
const SocketName = "asks.sock"

// Bounds of what peers may take: connections at once, and how long one line may
// take either way.
const (
	maxConnections = 64
	patience       = 10 * time.Second
	// lastPatience is patience when the session ends, which no peer may hold up.
	lastPatience = time.Second
)

// Config is what a Server needs. Dir and Desk are required.
type Config struct {
	// Dir is the session's directory: of reeve's user, and nobody else's.
	Dir  string
	Desk *approval.Desk
	// Tree is the process that all that is supervised descends from, and whose
	// own connections are refused too; zero is this process.
	Tree int
	Log  *slog.Logger
}

// Server serves the questions of one session on its socket.
type Server struct {
	cfg      Config
	exchange *Exchange
	dir      int // O_PATH
	listener *net.UnixListener
	slots    chan struct{}
}

// Listen makes the socket. A socket that a dead reeve left is replaced: the
// session's lock says that there is no other.
func Listen(cfg Config) (*Server, error) {
	if cfg.Dir == "" || cfg.Desk == nil {
		return nil, errors.New("bug: a control socket needs a directory and a desk")
	}
	if cfg.Tree == 0 {
		cfg.Tree = os.Getpid()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := openDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("listen for answers: %w", err)
	}
	s := &Server{cfg: cfg, exchange: NewExchange(cfg.Desk, false), dir: dir, slots: make(chan struct{}, maxConnections)}
	if err := s.bind(); err != nil {
		unix.Close(dir)
		return nil, fmt.Errorf("listen for answers: %w", err)
	}
	return s, nil
}

// openDir pins a session's directory and checks whose it is.
func openDir(path string) (int, error) {
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open session directory: %w", err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(dir, &st); err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
		err = fmt.Errorf("session directory %s is open to others than uid %d", path, os.Geteuid())
	}
	if err != nil {
		unix.Close(dir)
		return -1, err
	}
	return dir, nil
}

// socketPath names the socket by its directory's descriptor: an address has room
// for 108 bytes, state directories have more (unix(7)).
func socketPath(dir int) string { return "/proc/self/fd/" + strconv.Itoa(dir) + "/" + SocketName }

func (s *Server) bind() error {
	if err := unix.Unlinkat(s.dir, SocketName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the socket of a dead reeve: %w", err)
	}
	// The file gets the mode that the socket has (unix_bind_bsd), less the umask.
	private := func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}
	l, err := (&net.ListenConfig{Control: private}).Listen(context.Background(), "unix", socketPath(s.dir))
	if err != nil {
		return err
	}
	s.listener = l.(*net.UnixListener)
	s.listener.SetUnlinkOnClose(false) // we unlink it by its directory
	return nil
}

// Run serves until ctx ends, then says to all who watch that the session is
// over, and removes the socket.
func (s *Server) Run(ctx context.Context) error {
	defer unix.Close(s.dir)
	var group errgroup.Group
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	var failed error
	for {
		conn, err := s.listener.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			break
		}
		if err != nil {
			if temporary(err) {
				s.cfg.Log.Warn("an approver's connection cannot be taken", "err", err)
				time.Sleep(50 * time.Millisecond)
				continue
			}
			failed = fmt.Errorf("accept an approver: %w", err)
			break
		}
		select {
		case s.slots <- struct{}{}:
			group.Go(func() error {
				defer func() { <-s.slots }()
				s.serve(ctx, conn)
				return nil
			})
		default:
			s.turnAway(conn)
		}
	}
	err := errors.Join(failed, unix.Unlinkat(s.dir, SocketName, 0))
	return errors.Join(err, group.Wait())
}

// turnAway tells a peer that there are too many. It does not wait for it.
func (s *Server) turnAway(conn *net.UnixConn) {
	m := refused(fmt.Errorf("%d approvers are connected already", maxConnections))
	_ = send(conn, &m, time.Millisecond)
	conn.Close()
}

// temporary errors of accept(2) are not the listener's own.
func temporary(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// serve answers one connection. What goes wrong with it is its own business.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	emit := func(m *Message) error {
		wait := patience
		if ctx.Err() != nil {
			wait = lastPatience
		}
		return send(conn, m, wait)
	}
	p, err := identify(conn)
	if err == nil {
		err = p.check(s.cfg.Tree)
		p.close()
	}
	if err != nil {
		s.cfg.Log.Warn("an approver is refused", "pid", p.pid, "uid", p.uid, "err", err)
		m := refused(err)
		_ = emit(&m) // to whom it may concern
		return
	}
	defer context.AfterFunc(ctx, func() {
		_ = conn.SetReadDeadline(time.Unix(1, 0))
		_ = conn.SetWriteDeadline(time.Now().Add(lastPatience))
	})()
	if err := s.reply(ctx, conn, p.uid, emit); err != nil {
		s.cfg.Log.Debug("an approver's connection broke", "pid", p.pid, "err", err)
	}
}

// reply reads the request and answers it.
func (s *Server) reply(ctx context.Context, conn *net.UnixConn, uid uint32, emit func(*Message) error) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return emit(&Message{Status: StatusOver})
	}
	line, err := bufio.NewReaderSize(io.LimitReader(conn, MaxRequest+1), 1<<10).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	r, err := ParseRequest(line)
	if err == nil && r.Who != "" {
		err = errors.New("who is for the bus: here the kernel says who it is")
	}
	var m Message
	switch {
	case err != nil:
		m = refused(err)
	case r.Do == List:
		return s.list(emit)
	case r.Do == Watch:
		return s.watch(ctx, conn, emit)
	default:
		m = s.exchange.Answer(&r, fmt.Sprintf("uid %d by reeve asks", uid))
	}
	return emit(&m)
}

func (s *Server) list(emit func(*Message) error) error {
	if err := s.exchange.tell(map[string]bool{}, emit); err != nil {
		return err
	}
	return emit(&Message{Status: StatusOK})
}

// watch follows the questions until the session is over or the peer is gone.
func (s *Server) watch(ctx context.Context, conn *net.UnixConn, emit func(*Message) error) error {
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	following, gone := context.WithCancel(ctx)
	defer gone()
	var group errgroup.Group
	group.Go(func() error {
		defer gone()
		_, _ = conn.Read(make([]byte, 1)) // it has no more to say: it is gone, or we end
		return nil
	})
	err := s.exchange.Follow(following, emit)
	if ctx.Err() != nil {
		err = emit(&Message{Status: StatusOver})
	}
	conn.Close() // ends the read
	return errors.Join(err, group.Wait())
}

// send writes one line. A peer that does not read is given up.
func send(conn net.Conn, m *Message, wait time.Duration) error {
	line, err := encode(m)
	if err != nil {
		return err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	_, err = conn.Write(append(line, '\n'))
	return err
}
