package gate

import (
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// socket is judged by its arguments, which are in registers, and so continues.
func (w *worker) socket(req event.Request) (outcome, error) {
	domain, typ, protocol := int(int32(w.n.Args[0])), int(int32(w.n.Args[1])), int(int32(w.n.Args[2]))
	kind := typ &^ (unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)
	req.Flags, req.Mode = uint64(uint32(typ)), uint32(protocol)
	proto := protoName(domain, kind, protocol)
	req.Object = event.Object{Kind: event.ObjectAddr, Family: uint16(domain), Proto: proto, Path: familyName(domain)}
	if domain == unix.AF_INET || domain == unix.AF_INET6 {
		req.Object.Path = proto
	}
	return outcome{req: req, d: w.decide(&req)}, nil
}

func (w *worker) connect(req event.Request) (outcome, error) {
	out := outcome{req: req}
	a, err := w.th.Sockaddr(w.n.Args[1], w.n.Args[2])
	if err != nil {
		return out, err
	}
	s, err := w.sock(int32(w.n.Args[0]))
	if err != nil {
		return out, err
	}
	if a.Family == unix.AF_UNSPEC {
		// It ends an association and names nobody.
		w.quiet = true
		out.d = event.Decision{Action: event.ActionAllow}
		out.undo = s.close
		out.act = func() answer {
			defer s.close()
			return done(proc.Connect(s.fd, a.Raw))
		}
		return out, nil
	}
	raw, release, err := w.destination(&out.req, s, &a)
	if err != nil {
		s.close()
		return out, err
	}
	out.d = w.decide(&out.req)
	drop := func() {
		release()
		s.close()
	}
	if w.continues(Connect) || out.d.Action != event.ActionAllow {
		drop()
		return out, nil
	}
	out.undo = drop
	out.act = func() answer {
		defer drop()
		err := w.block(func() error { return proc.Connect(s.fd, raw) })
		w.served(s)
		return done(err)
	}
	return out, nil
}

// destination names where a connect or a datagram goes, and returns the raw
// address that leads to just that: for a unix socket by path the pinned one.
func (w *worker) destination(req *event.Request, s *sock, a *proc.Sockaddr) (raw []byte, release func(), err error) {
	if a.Family != unix.AF_UNIX || a.Path == "" || a.Abstract {
		req.Object = w.address(s, a)
		return a.Raw, func() {}, nil
	}
	req.Object = event.Object{Raw: a.Path, Family: a.Family, Proto: "unix"}
	p, err := w.view.Resolve(unix.AT_FDCWD, a.Path, 0, 0)
	if err != nil {
		return nil, nil, err
	}
	req.Object = p.Object(a.Path)
	req.Object.Family, req.Object.Proto = a.Family, "unix"
	return proc.PathSockaddr(proc.SelfPath(p.FD)), p.Close, nil
}

// served remembers a socket that got an address: a datagram socket may be
// answered there from then on.
func (w *worker) served(s *sock) {
	if s.typ != unix.SOCK_DGRAM {
		return
	}
	if at, err := proc.Getsockname(s.fd); err == nil {
		w.g.sockets.served(s, &at, w.m)
	}
}

func (w *worker) bind(req event.Request) (outcome, error) {
	out := outcome{req: req}
	a, err := w.th.Sockaddr(w.n.Args[1], w.n.Args[2])
	if err != nil {
		return out, err
	}
	s, err := w.sock(int32(w.n.Args[0]))
	if err != nil {
		return out, err
	}
	if a.Family == unix.AF_UNIX && a.Path != "" && !a.Abstract {
		return w.bindPath(out, s, &a)
	}
	if a.Unnamed {
		w.quiet = true
		out.d = event.Decision{Action: event.ActionAllow}
	} else {
		out.req.Object = w.address(s, &a)
		out.d = w.decide(&out.req)
	}
	if w.continues(Bind) || out.d.Action != event.ActionAllow {
		s.close()
		return out, nil
	}
	out.undo = s.close
	out.act = func() answer {
		defer s.close()
		if err := proc.Bind(s.fd, a.Raw); err != nil {
			return done(err)
		}
		if at, err := proc.Getsockname(s.fd); err == nil && (at.Abstract || s.typ == unix.SOCK_DGRAM) {
			w.g.sockets.served(s, &at, w.m)
		}
		return answer{}
	}
	return out, nil
}

// bindPath makes a unix socket by the very name that the task gave, since that
// is what getsockname(2) tells. The name is looked up again by the kernel; under
// the tree lock no task can make it lead elsewhere meanwhile.
func (w *worker) bindPath(out outcome, s *sock, a *proc.Sockaddr) (outcome, error) {
	out.req.Object.Raw = a.Path
	w.lockTree() // a bind is never the receiver's
	name, err := w.entry(unix.AT_FDCWD, a.Path, 0)
	if err != nil {
		w.unlockTree()
		s.close()
		return out, err
	}
	release := func() {
		w.unlockTree()
		name.Close()
		s.close()
	}
	out.req.Access |= event.AccessCreate
	out.req.Object = name.Object(a.Path)
	out.req.Object.Family, out.req.Object.Proto = unix.AF_UNIX, "unix"
	out.d = w.decide(&out.req)
	if w.continues(Bind) || out.d.Action != event.ActionAllow {
		release()
		return out, nil
	}
	out.undo = release
	out.act = func() answer {
		defer release()
		return w.bindAt(s, &name, a)
	}
	return out, nil
}

func (w *worker) bindAt(s *sock, name *proc.Name, a *proc.Sockaddr) answer {
	if err := w.freshUmask(); err != nil {
		return failedHere(err.Error())
	}
	cwd, err := w.view.Dirfd(unix.AT_FDCWD)
	if err != nil {
		return done(err)
	}
	defer unix.Close(cwd)
	if err := unix.Fchdir(cwd); err != nil { // this thread's own
		return done(err)
	}
	defer func() { _ = unix.Chdir("/") }()
	if !name.LedToBy(a.Path) { // by way of /proc/self, say
		return failedHere("a magic link of /proc leads to where the socket is to be made")
	}
	if err := proc.Bind(s.fd, a.Raw); err != nil {
		return done(err)
	}
	if o := name.Object(""); o.Kind == event.ObjectSocket {
		w.g.sockets.bound(FileID{o.Dev, o.Ino}, w.m)
	}
	w.served(s)
	return answer{}
}

// listen is performed, so that the port is known when the kernel chose it.
func (w *worker) listen(req event.Request) (outcome, error) {
	out := outcome{req: req}
	s, err := w.sock(int32(w.n.Args[0]))
	if err != nil {
		return out, err
	}
	at, err := proc.Getsockname(s.fd)
	if err != nil {
		s.close()
		return out, err
	}
	out.req.Object = w.address(s, &at)
	if at.Family == unix.AF_UNIX && !at.Abstract {
		out.req.Object.Kind, out.req.Object.Path = event.ObjectSocket, at.Path
	}
	if at.Family == unix.AF_UNIX {
		// Its address was judged when it was bound.
		out.d = event.Decision{Action: event.ActionAllow, By: "gate"}
	} else {
		out.d = w.decide(&out.req)
	}
	if w.continues(Bind) || out.d.Action != event.ActionAllow {
		s.close()
		return out, nil
	}
	backlog := int(int32(w.n.Args[1]))
	out.undo = s.close
	out.act = func() answer {
		defer s.close()
		if err := unix.Listen(s.fd, backlog); err != nil {
			return done(err)
		}
		if at, err := proc.Getsockname(s.fd); err == nil {
			w.g.sockets.served(s, &at, w.m)
		}
		return answer{}
	}
	return out, nil
}
