package escapes_test

import (
	"encoding/binary"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// An outsider listens beyond the session and counts who comes.
type outsider struct {
	port int
	hits atomic.Int64
}

func (o *outsider) text() string { return strconv.Itoa(o.port) }

func (o *outsider) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		o.hits.Add(1)
		c.Close()
	}
}

func (o *outsider) receive(c net.PacketConn) {
	buf := make([]byte, 64)
	for {
		if _, _, err := c.ReadFrom(buf); err != nil {
			return
		}
		o.hits.Add(1)
	}
}

func listenTCP(t *testing.T) *outsider {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	o := &outsider{port: l.Addr().(*net.TCPAddr).Port}
	go o.accept(l)
	return o
}

func listenUDP(t *testing.T) *outsider {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	o := &outsider{port: c.LocalAddr().(*net.UDPAddr).Port}
	go o.receive(c)
	return o
}

// came is how many came since it was last asked, once all of them are counted.
func (o *outsider) came() int64 {
	for {
		n := o.hits.Load()
		time.Sleep(trial.Patience(20 * time.Millisecond)) // the outsider's goroutine counts
		if o.hits.CompareAndSwap(n, 0) {
			return n
		}
	}
}

// counted requires that the control reached the outsider and the session did not.
func (o *outsider) counted(reaches bool) func(*testing.T, *trial.Ground, *trial.Result, bool) {
	return func(t *testing.T, _ *trial.Ground, _ *trial.Result, supervised bool) {
		if reaches && !supervised {
			waitFor(t, 2*time.Second, func() bool { return o.hits.Load() > 0 })
		}
		switch n := o.came(); {
		case supervised && n != 0:
			t.Errorf("%d reached the outsider", n)
		case !supervised && n == 0 && reaches:
			t.Fatal("control: nothing reached the outsider")
		}
	}
}

// TestInternet: no inet destination but the session's own (N01, N02).
func TestInternet(t *testing.T) {
	tcp, udp := listenTCP(t), listenUDP(t)
	send := func(how, family string, o *outsider) []string { return []string{"send", how, family, o.text()} }
	deny := func(ops string, o *outsider) *trial.Denial {
		return &trial.Denial{Ops: strings.Split(ops, "|"), Addr: "127.0.0.1", Port: o.port, Errno: "*"}
	}
	const no = `ret=-1 errno=(1|13|101|111)\b`
	mapped := &trial.Denial{Ops: []string{"connect"}, Port: tcp.port, Errno: "*"}
	run(t, []row{
		{id: "N01", name: "connect", argv: send("stream", "inet", tcp), want: no, deny: deny("connect", tcp), after: tcp.counted(true)},
		{id: "N01", name: "mapped", argv: send("stream", "mapped", tcp), want: no, deny: mapped, after: tcp.counted(true)},
		{id: "N01", name: "vfork", argv: []string{"vfork", "connect", tcp.text()}, want: no, deny: deny("connect", tcp), after: tcp.counted(true)},
		{id: "N02", name: "sendto", argv: send("sendto", "inet", udp), want: no, deny: deny("send", udp), after: udp.counted(true)},
		{id: "N02", name: "sendmsg", argv: send("sendmsg", "inet", udp), want: no, deny: deny("send", udp), after: udp.counted(true)},
		{id: "N02", name: "sendmmsg", argv: send("sendmmsg", "inet", udp), want: no, deny: deny("send", udp), after: udp.counted(true)},
		{id: "N02", name: "connected datagram", argv: send("connect", "inet", udp), want: no, deny: deny("connect", udp), after: udp.counted(false)},
		{id: "N04", name: "fast open", argv: send("fastopen", "inet", tcp), want: no, deny: deny("send|connect", tcp), after: tcp.counted(true)},
	})
}

// TestInternetRaces: an address that changes under the call (N01).
func TestInternetRaces(t *testing.T) {
	for name, o := range map[string]*outsider{"connect-flip": listenTCP(t), "send-flip": listenUDP(t)} {
		t.Run("N01/"+name, func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) {
				opt := trial.Options{Timeout: 3 * time.Minute}
				// A connect is the supervisor's whole work, whatever the engine: it takes long.
				n := trial.Attempts(times(nobody || trial.Emulated()))
				c := trial.NewGround(t, nobody)
				trial.Won(t, "control: the outsider is reached", trial.ControlAttempts(5000), func(n string) (bool, *trial.Result) {
					r := c.Native(opt, "{victim}", name, n, o.text())
					return o.came() > 0, r
				})
				g := trial.NewGround(t, nobody)
				got := g.Supervised(opt, "{victim}", name, n, o.text())
				_, opened, reached := scores(t, got)
				if opened == 0 || reached > 0 {
					t.Errorf("opened %d, reached %d: %s", opened, reached, got.Text())
				}
				t.Logf("%s%v", got.Stdout, got.Took.Round(time.Millisecond))
				o.counted(true)(t, g, got, true)
				trial.SomeDenial(t, got.Events, trial.Denial{Ops: []string{"connect", "send"}, Port: o.port, Errno: "*"})
			})
		})
	}
}

// unixAt listens beyond the session on two unix sockets outside the workspace.
func unixAt(t *testing.T, g *trial.Ground) {
	l, err := net.Listen("unix", filepath.Join(g.Outside, "s"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.ListenPacket("unixgram", filepath.Join(g.Outside, "d"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s", "d"} {
		if err := os.Chmod(filepath.Join(g.Outside, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { l.Close(); c.Close() })
	g.Rebase()
	for name, to := range map[string]string{"sl": g.Outside + "/s", "dl": g.Home} {
		if err := os.Symlink(to, filepath.Join(g.Workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnix: sockets by path are resolved like files (N08, N09).
func TestUnix(t *testing.T) {
	stream := &trial.Denial{Ops: []string{"connect"}, Path: "{outside}/s"}
	gram := &trial.Denial{Ops: []string{"send", "connect"}, Path: "{outside}/d"}
	connect := func(path string) [][]string {
		raw := binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
		raw = append(append(raw, path...), make([]byte, 108-len(path))...)
		return [][]string{append([]string{"keep"}, line(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0)...),
			line(unix.SYS_CONNECT, "last", "x:"+hex.EncodeToString(raw), len(raw))}
	}
	chroot := func(dir, path string) []string {
		return steps(append([][]string{line(unix.SYS_CHROOT, "s:"+dir)}, connect(path)...)...)
	}
	const reached, went = `110: ret=0`, `^\d+ [^ ]+: ret=0 errno=0\n[^$]*`
	inside, outOfIt := chroot("{outside}", "/s"), chroot("{ws}/sub", "../outside/s")
	openUnix := func(t *testing.T, g *trial.Ground) {
		opens("chroot")(t, g)
		unixAt(t, g)
	}
	run(t, []row{
		{id: "N08", name: "absolute", prepare: unixAt, argv: []string{"send", "stream", "unix", "{outside}/s"}, deny: stream},
		{id: "N08", name: "relative", prepare: unixAt, argv: []string{"send", "stream", "unix", "../outside/s"}, deny: stream},
		{id: "N08", name: "symlink", prepare: unixAt, argv: []string{"send", "stream", "unix", "sl"}, deny: stream},
		{id: "N08", name: "full field", prepare: unixAt, argv: []string{"send", "stream", "unix", fill("../outside/s")}, deny: stream},
		{id: "N08", name: "relative, a symlink on the way", prepare: unixAt, argv: []string{"send", "stream", "unix", "dl/../outside/s"}, deny: stream},
		{id: "N08", name: "full field, a symlink", prepare: unixAt, argv: []string{"send", "stream", "unix", fill("sl")}, deny: stream},
		{id: "N08", name: "chroot", root: true, prepare: unixAt, argv: inside, native: reached, want: `^161 [^ ]+: ret=-1 errno=(1|13)\n[^$]*110: ret=-1 errno=2\b`,
			deny: &trial.Denial{Ops: []string{"chroot"}, Errno: "*"}},
		{id: "N08", name: "chroot allowed", root: true, opt: underOpened, prepare: openUnix, argv: inside, native: reached, want: went + `110: ` + refused, deny: stream},
		{id: "N08", name: "chroot, relative", root: true, opt: underOpened, prepare: openUnix, argv: outOfIt, native: reached, want: went + `110: ` + refused, deny: stream},
		{id: "N08", name: "full field, own", argv: []string{"unix", fill("own.sock")}, want: `connect: ret=0`},
		{id: "N08", name: "own", argv: []string{"unix", "{ws}/own.sock"}, want: `connect: ret=0`},
		{id: "N09", name: "connect", prepare: unixAt, argv: []string{"send", "connect", "unix", "{outside}/d"}, deny: gram},
		{id: "N09", name: "sendto", prepare: unixAt, argv: []string{"send", "sendto", "unix", "{outside}/d"}, deny: gram},
		{id: "N09", name: "sendmsg", prepare: unixAt, argv: []string{"send", "sendmsg", "unix", "../outside/d"}, deny: gram},
		{id: "N09", name: "sendmmsg", prepare: unixAt, argv: []string{"send", "sendmmsg", "unix", "{outside}/d"}, deny: gram},
	})
}

// fill makes a path of exactly 108 bytes, the whole of sun_path.
func fill(path string) string {
	var b strings.Builder
	for b.Len()+len(path)+2 <= 108 {
		b.WriteString("./")
	}
	if b.Len()+len(path) < 108 {
		return strings.Replace(b.String(), "./", ".//", 1) + path
	}
	return b.String() + path
}

// TestInheritedSocket: a connected descriptor does not come in (N10).
func TestInheritedSocket(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		o := trial.Options{Wrap: []string{"{victim}", "hold", "9"}}
		g := trial.NewGround(t, nobody)
		if r := g.Native(o, "{victim}", "fds"); !strings.Contains(r.Stdout, "fd 9 socket") {
			t.Fatalf("control: %s", r.Text())
		}
		if r := g.Supervised(o, "{victim}", "fds"); r.Stdout != "fd 0 standard\nfd 1 standard\nfd 2 standard\n" {
			t.Errorf("descriptors: %s", r.Text())
		}
	})
}

// TestFamilies: sockets that no workspace needs (N11).
func TestFamilies(t *testing.T) {
	var rows []row
	for _, s := range []struct {
		name                string
		family, kind, proto int
	}{
		{"packet", unix.AF_PACKET, unix.SOCK_RAW, 0x300}, {"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		{"raw 6", unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}, {"ping", unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP},
		{"vsock", unix.AF_VSOCK, unix.SOCK_STREAM, 0}, {"netlink audit", unix.AF_NETLINK, unix.SOCK_RAW, 9},
		{"alg", unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, {"rxrpc", unix.AF_RXRPC, unix.SOCK_DGRAM, 2},
		{"smc", unix.AF_SMC, unix.SOCK_STREAM, 0}, {"mptcp", unix.AF_INET, unix.SOCK_STREAM, 262},
		{"sctp", unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, {"xdp", unix.AF_XDP, unix.SOCK_RAW, 0},
		{"bluetooth", unix.AF_BLUETOOTH, unix.SOCK_RAW, 1}, {"can", unix.AF_CAN, unix.SOCK_RAW, 1},
		{"tipc", unix.AF_TIPC, unix.SOCK_STREAM, 0}, {"rds", unix.AF_RDS, unix.SOCK_SEQPACKET, 0},
		{"ax25", unix.AF_AX25, unix.SOCK_DGRAM, 0}, {"unknown", 46, unix.SOCK_STREAM, 0},
	} {
		rows = append(rows, row{
			// What this kernel lacks it refuses by itself; the event tells that we did.
			id: "N11", name: s.name, argv: call(unix.SYS_SOCKET, s.family, s.kind, s.proto), native: `ret=(\d+|-1 errno=(1|13|22|92|93|94|97))\b`,
			want: `ret=-1 errno=(1|13|93|94|97)\b`, deny: &trial.Denial{Ops: []string{"socket"}, Errno: "*"},
		})
	}
	// The high word of an argument is not looked at by the kernel.
	rows = append(rows, row{
		id: "N11", name: "high bits", root: true, argv: call(unix.SYS_SOCKET, "0x100000011", unix.SOCK_RAW, 0x300),
		want: `ret=-1 errno=(1|13|97)\b`, deny: &trial.Denial{Ops: []string{"socket"}, Errno: "*"},
	})
	run(t, rows)
}

// TestListen: the session serves itself on the loopback, and the port that the
// kernel chose is known (N12).
func TestListen(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r := g.Supervised(trial.Options{}, "{victim}", "listen", "127.0.0.1", "0")
		if !strings.Contains(r.Stdout, "passed: word") {
			t.Fatalf("no word came through: %s", r.Text())
		}
		_, after, _ := strings.Cut(r.Stdout, "port=")
		port, _ := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
		var known bool
		for _, e := range r.Events {
			known = known || e.Object.Port == port && (e.Op == "bind" || e.Op == "listen" || e.Op == "connect" && e.Object.Own)
		}
		if !known {
			t.Errorf("no record names the bound port %d", port)
		}
		r = g.Supervised(trial.Options{}, "{victim}", "listen", "0.0.0.0", "0")
		decided := false
		for _, e := range r.Events {
			decided = decided || e.Op == "bind" && e.Action != ""
		}
		if !decided {
			t.Errorf("no record decides the bind of 0.0.0.0: %s", r.Text())
		}
	})
}
