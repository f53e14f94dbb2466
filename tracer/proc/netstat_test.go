package proc

import (
	"encoding/binary"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func inode(t *testing.T, c interface{ File() (*os.File, error) }) uint64 {
	t.Helper()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// lookups are the ways to the same answer; the first is the second where
// sock_diag is a module that is not loaded.
var lookups = map[string]func(string, uint16) ([]uint64, error){"PortInodes": PortInodes, "tables": tableInodes}

// TestPortInodes: what has a port is found by each way, and nothing else.
func TestPortInodes(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	want := inode(t, l.(*net.TCPListener))
	c, err := net.Dial("tcp", l.Addr().String()) // a connection is no listener
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, look := range lookups {
		if got, err := look("tcp", port); err != nil || !slices.Equal(got, []uint64{want}) {
			t.Errorf("%s: tcp port %d: %v %v, want %d", name, port, got, err, want)
		}
	}
	l.Close()
	for name, look := range lookups {
		if got, err := look("tcp", port); err != nil || len(got) != 0 {
			t.Errorf("%s: closed port: %v %v", name, got, err)
		}
	}
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	port = uint16(u.LocalAddr().(*net.UDPAddr).Port)
	for name, look := range lookups {
		got, err := look("udp", port)
		if want := inode(t, u.(*net.UDPConn)); err != nil || !slices.Equal(got, []uint64{want}) {
			t.Errorf("%s: udp: %v %v, want %d", name, got, err, want)
		}
	}
	if _, err := PortInodes("raw", 1); err == nil {
		t.Error("raw sockets have no ports")
	}
}

// TestPortInodes6: the tables of IPv6 are looked at too.
func TestPortInodes6(t *testing.T) {
	six, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	defer six.Close()
	port := uint16(six.Addr().(*net.TCPAddr).Port)
	for name, look := range lookups {
		got, err := look("tcp", port)
		if want := inode(t, six.(*net.TCPListener)); err != nil || !slices.Equal(got, []uint64{want}) {
			t.Errorf("%s: tcp6: %v %v, want %d", name, got, err, want)
		}
	}
}

func BenchmarkPortInodes(b *testing.B) {
	for _, proto := range []string{"tcp", "udp"} {
		b.Run(proto, func(b *testing.B) {
			for b.Loop() {
				if _, err := PortInodes(proto, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestDumpEnds: how the kernel ends a dump. Without its module tcp_diag it has
// nothing to say and says so in the last message of an empty dump.
func TestDumpEnds(t *testing.T) {
	word := func(code int32) []byte { return binary.NativeEndian.AppendUint32(nil, uint32(code)) }
	for name, c := range map[string]struct {
		typ  uint16
		body []byte
		want string
	}{
		"done":             {unix.NLMSG_DONE, word(0), ""},
		"done, wordless":   {unix.NLMSG_DONE, nil, ""},
		"done, no module":  {unix.NLMSG_DONE, word(-int32(unix.ENOENT)), errNoDiag.Error()},
		"done, refused":    {unix.NLMSG_DONE, word(-int32(unix.EPERM)), "not permitted"},
		"error, no module": {unix.NLMSG_ERROR, word(-int32(unix.ENOENT)), errNoDiag.Error()},
		"error, refused":   {unix.NLMSG_ERROR, word(-int32(unix.EINVAL)), "invalid argument"},
		"acknowledgement":  {unix.NLMSG_ERROR, word(0), "instead of a dump"},
		"error, wordless":  {unix.NLMSG_ERROR, nil, "cut short"},
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		message := make([]byte, unix.SizeofNlMsghdr)
		binary.NativeEndian.PutUint32(message, uint32(len(message)+len(c.body)))
		binary.NativeEndian.PutUint16(message[4:], c.typ)
		_, err = unix.Write(pair[0], append(message, c.body...))
		unix.Close(pair[0])
		if err != nil {
			t.Fatal(err)
		}
		_, err = readDump(pair[1], 80, nil)
		unix.Close(pair[1])
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
