package proc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY (linux/sock_diag.h)
	inetReqSize      = 56 // sizeof(struct inet_diag_req_v2)
	inetMsgSize      = 72 // sizeof(struct inet_diag_msg)
	inetMsgPort      = 4  // its id.idiag_sport, big endian
	inetMsgInode     = 68 // its idiag_inode
	tcpListen        = 10 // TCP_LISTEN
)

// PortInodes are the inodes of all sockets of this network namespace that have a
// port: of tcp those that listen. It is the kernel's own word (sock_diag(7)).
// Where that is a module which nobody loads, /proc/net/tcp and its like say the
// same, after walking every bucket of every connection.
func PortInodes(proto string, port uint16) ([]uint64, error) {
	out, err := diagInodes(proto, port)
	if errors.Is(err, errNoDiag) {
		return tableInodes(proto, port)
	}
	return out, err
}

// errNoDiag says that the kernel does not answer for a protocol.
var errNoDiag = errors.New("sock_diag does not know the protocol")

func diagInodes(proto string, port uint16) ([]uint64, error) {
	ipproto, states := uint8(unix.IPPROTO_TCP), uint32(1<<tcpListen)
	switch proto {
	case "tcp":
	case "udp":
		ipproto, states = unix.IPPROTO_UDP, ^uint32(0)
	default:
		return nil, fmt.Errorf("ports of %q are not looked up", proto)
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("open sock_diag: %w", err)
	}
	defer unix.Close(fd)
	var out []uint64
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := sendDump(fd, family, ipproto, states); err != nil {
			return nil, err
		}
		if out, err = readDump(fd, port, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func sendDump(fd int, family, ipproto uint8, states uint32) error {
	b := make([]byte, unix.SizeofNlMsghdr+inetReqSize)
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	binary.NativeEndian.PutUint16(b[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	req := b[unix.SizeofNlMsghdr:]
	req[0], req[1] = family, ipproto
	binary.NativeEndian.PutUint32(req[4:], states)
	if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask sock_diag: %w", err)
	}
	return nil
}

func readDump(fd int, port uint16, out []uint64) ([]uint64, error) {
	buf := make([]byte, 32<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read sock_diag: %w", err)
		}
		for b := buf[:n]; len(b) >= unix.SizeofNlMsghdr; {
			size := int(binary.NativeEndian.Uint32(b))
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return nil, errors.New("read sock_diag: a message that is cut short")
			}
			body := b[unix.SizeofNlMsghdr:size]
			switch typ := binary.NativeEndian.Uint16(b[4:]); {
			case typ == unix.NLMSG_DONE, typ == unix.NLMSG_ERROR:
				return out, ended(typ, body)
			case typ == sockDiagByFamily && len(body) >= inetMsgSize:
				if binary.BigEndian.Uint16(body[inetMsgPort:]) == port {
					out = append(out, uint64(binary.NativeEndian.Uint32(body[inetMsgInode:])))
				}
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

// ended is what the last message of a dump says. A dump that could not begin ends
// like any other, with NLMSG_DONE, but its word is an error (netlink_dump_done).
func ended(typ uint16, body []byte) error {
	if len(body) < 4 {
		if typ == unix.NLMSG_DONE {
			return nil
		}
		return errors.New("read sock_diag: an error that is cut short")
	}
	switch code := int32(binary.NativeEndian.Uint32(body)); {
	case code == -int32(unix.ENOENT):
		return errNoDiag
	case code < 0:
		return fmt.Errorf("read sock_diag: refused by the kernel: %w", unix.Errno(-code))
	case typ == unix.NLMSG_ERROR:
		return errors.New("read sock_diag: an acknowledgement instead of a dump")
	default:
		return nil
	}
}
