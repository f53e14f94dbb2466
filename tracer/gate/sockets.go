package gate

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// sockets are what the session itself serves: what its tasks may reach where
// nothing else may be. They are known by their inodes, which the kernel's own
// tables must confirm each time: an address can be somebody else's by now, or at
// another interface, or of another type.
type sockets struct {
	mu sync.Mutex // guards what follows
	// inodes are the sockets that the session bound or listens on.
	inodes map[uint64]server
	// files are the socket files that it made, by whom.
	files map[FileID]*member
}

// server is a socket that can be reached: of an abstract one with its name.
type server struct {
	abstractName
	by *member
}

type abstractName struct {
	typ  int
	name string
}

// served remembers a socket that has an address.
func (s *sockets) served(k *sock, a *proc.Sockaddr, by *member) {
	var st unix.Stat_t
	if unix.Fstat(k.fd, &st) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inodes == nil {
		s.inodes = map[uint64]server{}
	}
	n := server{by: by}
	if a.Abstract {
		n.abstractName = abstractName{k.typ, a.Path}
	}
	s.inodes[st.Ino] = n
}

// own says whether an address is the session's: everything that listens on the
// port, at whatever address of this machine, must be made by those that ours says.
func (s *sockets) own(k *sock, a *proc.Sockaddr, ours func(*member) bool) bool {
	switch {
	case a.Abstract:
		return s.ownAbstract(abstractName{k.typ, a.Path}, ours)
	case !a.Addr.IsValid(), !a.Addr.IsLoopback() && !a.Addr.IsUnspecified():
		return false
	}
	found, err := proc.PortInodes(k.proto, a.Port)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ino := range found {
		if n, ok := s.inodes[ino]; !ok || !ours(n.by) {
			return false
		}
	}
	return len(found) > 0
}

func (s *sockets) ownAbstract(n abstractName, ours func(*member) bool) bool {
	live, err := proc.UnixInodes()
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for ino, at := range s.inodes {
		if at.abstractName == n && live[ino] && ours(at.by) {
			return true
		}
	}
	return false
}

// bound remembers a socket file, unbound forgets one whose name went: its inode
// number may be used again.
func (s *sockets) bound(id FileID, by *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[FileID]*member{}
	}
	s.files[id] = by
}

func (s *sockets) unbound(o *event.Object) {
	if o.Kind != event.ObjectSocket {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.files, FileID{o.Dev, o.Ino})
}

func (s *sockets) made(o *event.Object, ours func(*member) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.files[FileID{o.Dev, o.Ino}]
	return by != nil && ours(by)
}

// sock is a duplicate of a task's socket: the very socket, whatever the task
// puts under its number meanwhile.
type sock struct {
	fd     int
	domain int
	typ    int
	proto  string
}

func (s *sock) close() { unix.Close(s.fd) }

func (w *worker) sock(fd int32) (*sock, error) {
	own, err := w.th.GetFD(fd)
	if err != nil {
		return nil, err
	}
	s := &sock{fd: own}
	if s.domain, err = unix.GetsockoptInt(own, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
		s.close()
		return nil, err // ENOTSOCK
	}
	if s.typ, err = unix.GetsockoptInt(own, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		s.close()
		return nil, err
	}
	p, _ := unix.GetsockoptInt(own, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	s.proto = protoName(s.domain, s.typ, p)
	return s, nil
}

// protoName is the word for what a socket speaks.
func protoName(domain, typ, protocol int) string {
	if domain == unix.AF_NETLINK && protocol == unix.NETLINK_USERSOCK {
		return event.ProtoUsersock
	}
	if domain != unix.AF_INET && domain != unix.AF_INET6 {
		return familyName(domain)
	}
	if typ == unix.SOCK_RAW || typ == unix.SOCK_PACKET {
		return "raw"
	}
	switch {
	case typ == unix.SOCK_STREAM && (protocol == 0 || protocol == unix.IPPROTO_TCP):
		return "tcp"
	case typ == unix.SOCK_DGRAM && (protocol == 0 || protocol == unix.IPPROTO_UDP):
		return "udp"
	case protocol == unix.IPPROTO_ICMP, protocol == unix.IPPROTO_ICMPV6:
		return "icmp"
	case protocol == unix.IPPROTO_SCTP:
		return "sctp"
	case protocol == unix.IPPROTO_MPTCP:
		return "mptcp"
	case protocol == unix.IPPROTO_UDPLITE:
		return "udplite"
	}
	return "other"
}

var families = map[int]string{
	unix.AF_UNIX: "unix", unix.AF_NETLINK: "netlink", unix.AF_PACKET: "packet", unix.AF_VSOCK: "vsock",
	unix.AF_ALG: "alg", unix.AF_BLUETOOTH: "bluetooth", unix.AF_RXRPC: "rxrpc", unix.AF_TIPC: "tipc",
	unix.AF_KEY: "key", unix.AF_XDP: "xdp", unix.AF_SMC: "smc", unix.AF_CAN: "can", unix.AF_RDS: "rds",
}

func familyName(domain int) string {
	if n, ok := families[domain]; ok {
		return n
	}
	return "other"
}

// address names an address for a request.
func (w *worker) address(k *sock, a *proc.Sockaddr) event.Object {
	o := event.Object{Kind: event.ObjectAddr, Family: a.Family, Proto: k.proto, Own: w.g.sockets.own(k, a, w.made)}
	switch {
	case a.Abstract:
		o.Kind, o.Path = event.ObjectAbstract, a.Path
	case a.Addr.IsValid():
		o.Addr, o.Port = a.Addr.String(), a.Port
	default:
		o.Path = familyName(int(a.Family))
	}
	return o
}
