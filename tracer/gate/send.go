package gate

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// Sends are performed, never continued: the address is in memory, and the
// descriptor may be another socket by the time the kernel looks. The data are
// copied once and sent on the very socket that was judged.

// datagram is one message to send.
type datagram struct {
	name    []byte // raw address, empty for a connected socket
	data    []byte
	control []byte
	passed  []int // our duplicates of descriptors in control
	release func()
}

func (m *datagram) close() {
	for _, fd := range m.passed {
		unix.Close(fd)
	}
	if m.release != nil {
		m.release()
	}
}

// maxSend is how much of one message is copied, which no datagram exceeds on a
// system as it comes; streams take the rest at the next call. maxSending is how
// many sends may be under way: they hold memory and waiters while a peer does not
// read.
const (
	maxSend    = 256 << 10
	maxSending = 512
)

func (w *worker) sendto(req event.Request) (outcome, error) {
	out := outcome{req: req}
	s, err := w.sock(int32(w.n.Args[0]))
	if err != nil {
		return out, err
	}
	flags := int(int32(w.n.Args[3]))
	m := &datagram{}
	if !w.continues(Send) {
		m.data = make([]byte, min(w.n.Args[2], maxSend))
		err = w.th.Read(w.n.Args[1], m.data)
	}
	if err == nil && w.n.Args[4] != 0 && w.n.Args[5] != 0 {
		err = w.addressed(&out.req, s, m, w.n.Args[4], w.n.Args[5])
	}
	if err != nil {
		m.close()
		s.close()
		return out, err
	}
	return w.sending(out, s, m, flags)
}

// addressed reads and names the address of a message.
func (w *worker) addressed(req *event.Request, s *sock, m *datagram, ptr, length uint64) error {
	a, err := w.th.Sockaddr(ptr, length)
	if err != nil {
		return err
	}
	m.name, m.release, err = w.destination(req, s, &a)
	return err
}

// sending judges a message that names an address, and sends it.
func (w *worker) sending(out outcome, s *sock, m *datagram, flags int) (outcome, error) {
	drop := func() {
		m.close()
		s.close()
	}
	if len(m.name) == 0 {
		w.quiet = true // where it goes was judged when the socket was connected
		out.d = event.Decision{Action: event.ActionAllow}
	} else {
		out.d = w.decide(&out.req)
	}
	if out.d.Action != event.ActionAllow || w.continues(Send) {
		drop()
		return out, nil
	}
	out.undo = drop
	out.act = func() answer {
		defer drop()
		n, err := w.transmit(s, m, flags)
		if err != nil {
			return done(err)
		}
		return answer{val: int64(n)}
	}
	return out, nil
}

// transmit sends one message. MSG_ZEROCOPY is dropped, since the data are ours.
func (w *worker) transmit(s *sock, m *datagram, flags int) (n int, err error) {
	const zerocopy = 0x4000000 // MSG_ZEROCOPY
	defer w.g.sending.Add(-1)
	if w.g.sending.Add(1) > maxSending {
		return 0, unix.ENOBUFS
	}
	err = w.block(func() (err error) {
		n, err = proc.Sendmsg(s.fd, m.name, m.data, m.control, flags&^zerocopy|unix.MSG_NOSIGNAL)
		return err
	})
	if err == nil && len(m.name) > 0 {
		w.served(s) // it has an address now
	}
	if err == unix.EPIPE && flags&unix.MSG_NOSIGNAL == 0 && s.typ == unix.SOCK_STREAM {
		_ = unix.Tgkill(w.th.TGID, w.th.TID, unix.SIGPIPE) // as the kernel would have
	}
	return n, err
}

const (
	msghdrSize  = 56 // sizeof(struct msghdr)
	mmsghdrSize = 64
	iovMax      = 1024
	controlMax  = 20480
)

func (w *worker) sendmsg(req event.Request) (outcome, error) {
	out := outcome{req: req}
	s, err := w.sock(int32(w.n.Args[0]))
	if err != nil {
		return out, err
	}
	m, err := w.message(&out.req, s, w.n.Args[1])
	if err != nil {
		s.close()
		return out, err
	}
	return w.sending(out, s, m, int(int32(w.n.Args[2])))
}

// message reads a struct msghdr and all that it points to.
func (w *worker) message(req *event.Request, s *sock, ptr uint64) (m *datagram, err error) {
	var h [msghdrSize]byte
	if err := w.th.Read(ptr, h[:]); err != nil {
		return nil, err
	}
	u64 := func(off int) uint64 { return binary.NativeEndian.Uint64(h[off:]) }
	m = &datagram{}
	defer func() {
		if err != nil {
			m.close()
			m = nil
		}
	}()
	if namelen := binary.NativeEndian.Uint32(h[8:]); u64(0) != 0 && namelen != 0 {
		if err = w.addressed(req, s, m, u64(0), uint64(min(namelen, proc.SockaddrMax))); err != nil {
			return m, err
		}
	}
	if w.continues(Send) {
		return m, nil // only the address is asked about
	}
	if u64(24) > iovMax || u64(40) > controlMax {
		return m, unix.EMSGSIZE
	}
	if m.data, err = w.gather(u64(16), int(u64(24))); err != nil {
		return m, err
	}
	if u64(40) > 0 {
		m.control = make([]byte, u64(40))
		if err = w.th.Read(u64(32), m.control); err != nil {
			return m, err
		}
		err = w.translate(m)
	}
	return m, err
}

// gather copies the parts of a message into one.
func (w *worker) gather(ptr uint64, n int) ([]byte, error) {
	iov := make([]byte, 16*n)
	if err := w.th.Read(ptr, iov); err != nil {
		return nil, err
	}
	var data []byte
	for i := range n {
		base, size := binary.NativeEndian.Uint64(iov[16*i:]), binary.NativeEndian.Uint64(iov[16*i+8:])
		part := make([]byte, min(size, uint64(maxSend-len(data))))
		if err := w.th.Read(base, part); err != nil {
			return nil, err
		}
		data = append(data, part...)
	}
	return data, nil
}

// translate replaces the task's descriptors in a control message by ours. Other
// control messages pass; SCM_CREDENTIALS would claim to be us, and is refused.
func (w *worker) translate(m *datagram) error {
	for rest := m.control; len(rest) >= unix.SizeofCmsghdr; {
		size := binary.NativeEndian.Uint64(rest)
		if size < unix.SizeofCmsghdr || size > uint64(len(rest)) {
			return unix.EINVAL
		}
		level, typ := int32(binary.NativeEndian.Uint32(rest[8:])), int32(binary.NativeEndian.Uint32(rest[12:]))
		if level == unix.SOL_SOCKET && typ == unix.SCM_CREDENTIALS {
			return unix.EPERM
		}
		if level == unix.SOL_SOCKET && typ == unix.SCM_RIGHTS {
			for off := unix.SizeofCmsghdr; off+4 <= int(size); off += 4 {
				own, err := w.th.GetFD(int32(binary.NativeEndian.Uint32(rest[off:])))
				if err != nil {
					return err
				}
				m.passed = append(m.passed, own)
				binary.NativeEndian.PutUint32(rest[off:], uint32(own))
			}
		}
		step := (size + 7) &^ 7
		if step >= uint64(len(rest)) {
			break
		}
		rest = rest[step:]
	}
	return nil
}

// sendmmsg sends message after message, each judged by itself, and stops at the
// first that fails or is denied, as the kernel does.
func (w *worker) sendmmsg(req event.Request) (outcome, error) {
	out := outcome{req: req}
	s, err := w.sock(int32(w.n.Args[0]))
	if err != nil {
		return out, err
	}
	vec, count, flags := w.n.Args[1], int(min(uint32(w.n.Args[2]), iovMax)), int(int32(w.n.Args[3]))
	if count == 0 {
		s.close()
		w.quiet = true
		out.d, out.act = event.Decision{Action: event.ActionAllow}, func() answer { return answer{} }
		return out, nil
	}
	m, err := w.message(&out.req, s, vec)
	if err != nil {
		s.close()
		return out, err
	}
	base := req
	first, err := w.sending(out, &sock{fd: s.fd, typ: s.typ, domain: s.domain, proto: s.proto}, m, flags)
	if err != nil || first.act == nil {
		return first, err
	}
	first.act = func() answer {
		defer s.close()
		return w.sendAll(base, s, m, vec, count, flags)
	}
	return first, nil
}

func (w *worker) sendAll(base event.Request, s *sock, m *datagram, vec uint64, count, flags int) answer {
	for i := range count {
		if i > 0 {
			req := base
			var err error
			if m, err = w.message(&req, s, vec+uint64(i)*mmsghdrSize); err != nil {
				return answer{val: int64(i)}
			}
			if len(m.name) > 0 {
				d := w.decide(&req)
				if d.Action == event.ActionAsk { // asked when it is the first
					m.close()
					return answer{val: int64(i)}
				}
				w.m.Recorder.Record(w.event(&req, d, 0))
				if d.Action != event.ActionAllow {
					m.close()
					return answer{val: int64(i)}
				}
			}
		}
		n, err := w.transmit(s, m, flags)
		m.close()
		if err != nil {
			if i == 0 {
				return done(err)
			}
			return answer{val: int64(i)}
		}
		var sent [4]byte
		binary.NativeEndian.PutUint32(sent[:], uint32(n))
		if !w.g.cfg.Listener.Valid(w.n.ID) {
			return answer{errno: unix.EINTR} // gone: its number may be a stranger's
		}
		if w.th.Write(vec+uint64(i)*mmsghdrSize+msghdrSize, sent[:]) != nil {
			return answer{errno: unix.EFAULT}
		}
	}
	return answer{val: int64(count)}
}
