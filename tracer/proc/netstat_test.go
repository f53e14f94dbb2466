package proc

import (
	"net"
	"os"
	"slices"
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
