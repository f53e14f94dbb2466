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
	got, err := PortInodes("tcp", port)
	if err != nil || !slices.Equal(got, []uint64{want}) {
		t.Errorf("tcp port %d: %v %v, want %d", port, got, err, want)
	}
	l.Close()
	if got, err := PortInodes("tcp", port); err != nil || len(got) != 0 {
		t.Errorf("closed port: %v %v", got, err)
	}
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	got, err = PortInodes("udp", uint16(u.LocalAddr().(*net.UDPAddr).Port))
	if want := inode(t, u.(*net.UDPConn)); err != nil || !slices.Equal(got, []uint64{want}) {
		t.Errorf("udp: %v %v, want %d", got, err, want)
	}
	if _, err := PortInodes("raw", 1); err == nil {
		t.Error("raw sockets have no ports")
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
