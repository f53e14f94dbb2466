package policy

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// dial makes a request from "connect ADDR PORT", "send …", "bind …", "listen …",
// with "own" at the end for an address that the session itself listens on.
func dial(text string) *event.Request {
	f := strings.Fields(text)
	ops := map[string]event.Op{"connect": event.OpConnect, "send": event.OpSend, "bind": event.OpBind, "listen": event.OpListen}
	port, _ := strconv.Atoi(f[2])
	family := uint16(syscall.AF_INET)
	if strings.Contains(f[1], ":") {
		family = syscall.AF_INET6
	}
	return &event.Request{Op: ops[f[0]], Object: event.Object{
		Kind: event.ObjectAddr, Family: family, Addr: f[1], Port: uint16(port), Proto: "tcp", Own: len(f) > 3,
	}}
}

const netText = `
[permissions.listed]
extends = ":workspace"
[permissions.listed.network]
enabled = true
[permissions.listed.network.addresses]
"192.0.2.0/24" = "allow"
"192.0.2.66" = "deny"
"192.0.2.66:443" = "allow"
"[2001:db8::]/32" = "allow"
"*:53" = "allow"
"127.0.0.1:5432" = "allow"
"198.51.100.1" = "ask"

[permissions.open]
extends = ":workspace"
network.enabled = true

[permissions.named]
extends = ":workspace"
network.enabled = true
network.mode = "full"
network.domains = { "api.example.com" = "allow" }
network.addresses = { "203.0.113.7:443" = "allow" }
network.bind = "any"
network.families = ["netlink", "icmp"]
`

// The columns are: workspace-edit-no-net, listed, open, named, observe.
var netTable = []string{
	"connect 127.0.0.1 8080 own        | ok ok ok ok ok",
	"connect ::1 8080 own              | ok ok ok ok ok",
	"connect ::ffff:127.0.0.1 8080 own | ok ok ok ok ok",
	"connect 0.0.0.0 8080 own          | ok ok ok ok ok",
	"connect 127.0.0.1 8080            | no no no no ok",
	"connect 0.0.0.0 22                | no no no no ok",
	"connect :: 22                     | no no no no ok",
	"connect 0.0.0.7 22                | no no no no ok",
	"connect 127.0.0.1 5432            | no ok no no ok",
	"connect 203.0.113.9 443           | no no ok no ok",
	"connect 203.0.113.9 443 own       | no no ok no ok",
	"connect 192.0.2.1 80              | no ok ok no ok",
	"connect ::ffff:192.0.2.1 80       | no ok ok no ok",
	"connect 192.0.2.66 80             | no no ok no ok",
	"connect 192.0.2.66 443            | no ok ok no ok",
	"connect 2001:db8::5 80            | no ok ok no ok",
	"connect 2001:db9::5 80            | no no ok no ok",
	"connect 198.51.100.1 80           | no no ok no ok",
	"connect 203.0.113.7 443           | no no ok ok ok",
	"connect 203.0.113.7 80            | no no ok no ok",
	"send 203.0.113.9 53               | no ok ok no ok",
	"send 10.0.0.1 53                  | no ok ok no ok",
	"send 10.0.0.1 99                  | no no ok no ok",
	"connect 169.254.169.254 80        | no no no no ok",
	"connect 169.254.169.254 53        | no ok no no ok",
	"connect ::ffff:169.254.169.254 80 | no no no no ok",
	"connect 64:ff9b::a9fe:a9fe 80     | no no no no ok",
	"connect 2002:a9fe:a9fe::1 80      | no no no no ok",
	"connect ::169.254.169.254 80      | no no no no ok",
	"connect fd00:ec2::254 80          | no no no no ok",
	"bind 127.0.0.1 0                  | ok ok ok ok ok",
	"bind ::1 8080                     | ok ok ok ok ok",
	"bind 0.0.0.0 8080                 | no no no ok ok",
	"bind :: 0                         | no no no ok ok",
	"bind 192.0.2.9 80                 | no no no ok ok",
	"listen 0.0.0.0 0                  | no no no ok ok",
	"listen 127.0.0.1 8080             | ok ok ok ok ok",
	"connect nonsense 80               | no no no no no",
}

func TestNetwork(t *testing.T) {
	src := Source{Name: "net.toml", Layer: Session, Text: []byte(netText)}
	for column, name := range []string{DefaultProfile, "listed", "open", "named", "observe"} {
		p := load(t, name, src)
		for _, row := range netTable {
			text, columns, _ := strings.Cut(row, "|")
			want := strings.Fields(columns)[column]
			if d := p.Decide(dial(text)); outcome(d) != want {
				t.Errorf("%s: %s: %s (%s, %s), want %s", name, strings.TrimSpace(text), outcome(d), d.Rule, d.Reason, want)
			}
		}
	}
}

func TestSockets(t *testing.T) {
	src := Source{Name: "net.toml", Layer: Session, Text: []byte(netText)}
	socket := func(family int, proto string) *event.Request {
		return &event.Request{Op: event.OpSocket, Object: event.Object{Kind: event.ObjectAddr, Family: uint16(family), Proto: proto}}
	}
	table := []struct {
		req                   *event.Request
		noNet, named, observe string
	}{
		{socket(syscall.AF_UNIX, "unix"), "ok", "ok", "ok"},
		{socket(syscall.AF_INET, "tcp"), "ok", "ok", "ok"},
		{socket(syscall.AF_INET6, "udp"), "ok", "ok", "ok"},
		{socket(syscall.AF_INET, "raw"), "EPERM", "EPERM", "ok"},
		{socket(syscall.AF_INET, "icmp"), "no", "ok", "ok"},
		{socket(syscall.AF_INET, "mptcp"), "protocol not supported", "protocol not supported", "ok"},
		{socket(syscall.AF_INET, "other"), "protocol not supported", "protocol not supported", "ok"},
		{socket(syscall.AF_NETLINK, "netlink"), "address family not supported by protocol", "ok", "ok"},
		{socket(syscall.AF_NETLINK, event.ProtoUsersock), "address family not supported by protocol", "address family not supported by protocol", "ok"},
		{socket(syscall.AF_PACKET, "packet"), "EPERM", "EPERM", "ok"},
		{socket(afVsock, "vsock"), "address family not supported by protocol", "address family not supported by protocol", "ok"},
		{socket(afALG, "alg"), "address family not supported by protocol", "address family not supported by protocol", "ok"},
		{socket(45, "other"), "address family not supported by protocol", "address family not supported by protocol", "ok"},
	}
	for column, name := range []string{DefaultProfile, "named", "observe"} {
		p := load(t, name, src)
		for _, row := range table {
			want := []string{row.noNet, row.named, row.observe}[column]
			if d := p.Decide(row.req); outcome(d) != want {
				t.Errorf("%s: %+v: %s (%s), want %s", name, row.req.Object, outcome(d), d.Reason, want)
			}
		}
	}
}

// TestKernelFamilies: what reaches the kernel only can be had without a network.
func TestKernelFamilies(t *testing.T) {
	p := load(t, "quiet", Source{Name: "q.toml", Layer: Session, Text: []byte(`
[permissions.quiet]
extends = ":workspace"
network.families = ["netlink", "icmp"]
`)})
	for family, want := range map[int]string{syscall.AF_NETLINK: "ok", afALG: "address family not supported by protocol"} {
		req := &event.Request{Op: event.OpSocket, Object: event.Object{Kind: event.ObjectAddr, Family: uint16(family), Proto: "netlink"}}
		if d := p.Decide(req); outcome(d) != want {
			t.Errorf("family %d: %s, want %s", family, outcome(d), want)
		}
	}
	ping := &event.Request{Op: event.OpSocket, Object: event.Object{Kind: event.ObjectAddr, Family: syscall.AF_INET, Proto: "icmp"}}
	if d := p.Decide(ping); d.Action == event.ActionAllow {
		t.Error("a ping is allowed without a network")
	}
	var said []string
	for _, f := range p.Check() {
		if f.Severity == Warning {
			said = append(said, f.Rule)
		}
	}
	if want := []string{"families icmp"}; !slices.Equal(said, want) {
		t.Errorf("warnings about %q, want %q", said, want)
	}
}

func TestUnixSockets(t *testing.T) {
	src := Source{Name: "unix.toml", Layer: Session, Text: []byte(`
[permissions.docker]
extends = ":workspace"
[permissions.docker.network.unix_sockets]
"/run/docker.sock" = "allow"
"/home/u/ws/closed.sock" = "deny"
"/home/u/.local/state/reeve/control.sock" = "allow"
`)}
	unix := func(op event.Op, path string, kind event.ObjectKind, own bool) *event.Request {
		return &event.Request{Op: op, Object: event.Object{Kind: kind, Family: syscall.AF_UNIX, Path: path, Own: own}}
	}
	const sock, missing, abstract = event.ObjectSocket, event.ObjectMissing, event.ObjectAbstract
	table := []struct {
		req           *event.Request
		noNet, docker string
	}{
		{unix(event.OpConnect, "/home/u/ws/s", sock, false), "ok", "ok"},
		{unix(event.OpConnect, "/tmp/reeve-01S/s", sock, false), "no", "no"},
		{unix(event.OpSend, "/tmp/reeve-01S/cache/s", sock, false), "no", "no"},
		{unix(event.OpConnect, "/tmp/reeve-01S/s", sock, true), "ok", "ok"},
		{unix(event.OpSend, "/tmp/s", sock, false), "no", "no"},
		{unix(event.OpConnect, "/tmp/s", sock, false), "no", "no"},
		{unix(event.OpConnect, "/tmp/s", sock, true), "ok", "ok"},
		{unix(event.OpConnect, "/tmp/.X11-unix/X0", sock, true), "no", "no"},
		{unix(event.OpConnect, "/run/docker.sock", sock, false), "no", "ok"},
		{unix(event.OpConnect, "/run/dbus/system_bus_socket", sock, false), "no", "no"},
		{unix(event.OpConnect, "/var/run/nscd/socket", missing, false), "ENOENT", "ENOENT"},
		{unix(event.OpConnect, "/home/u/ws/closed.sock", sock, false), "ok", "no"},
		{unix(event.OpSend, "/dev/log", sock, false), "no", "no"},
		{unix(event.OpBind, "/home/u/ws/new", missing, false), "ok", "ok"},
		{unix(event.OpBind, "/tmp/new", missing, false), "ok", "ok"},
		{unix(event.OpBind, "/run/new", missing, false), "no", "no"},
		{unix(event.OpConnect, "/home/u/.local/state/reeve/control.sock", sock, false), "no", "no"},
		{unix(event.OpConnect, "name", abstract, true), "ok", "ok"},
		{unix(event.OpConnect, "name", abstract, false), "connection refused", "connection refused"},
		{unix(event.OpBind, "name", abstract, false), "ok", "ok"},
	}
	for column, name := range []string{DefaultProfile, "docker"} {
		p := load(t, name, src)
		for _, row := range table {
			want := []string{row.noNet, row.docker}[column]
			if d := p.Decide(row.req); outcome(d) != want {
				t.Errorf("%s: %v %s: %s (%s), want %s", name, row.req.Op, row.req.Object.Path, outcome(d), d.Reason, want)
			}
		}
	}
}

func TestKernel(t *testing.T) {
	src := Source{Name: "k.toml", Layer: Session, Text: []byte("[permissions.k]\nextends = \":workspace\"\nkernel.allow = [\"mount\", \"ptrace\"]\n")}
	kernel := func(op event.Op, own bool) *event.Request {
		return &event.Request{Op: op, Object: event.Object{Kind: event.ObjectKernel, Own: own}}
	}
	table := []struct {
		req               *event.Request
		noNet, k, observe string
	}{
		{kernel(event.OpMount, false), "EPERM", "ok", "ok"},
		{kernel(event.OpNamespace, false), "EPERM", "EPERM", "ok"},
		{kernel(event.OpIOUring, false), "ENOSYS", "ENOSYS", "ok"},
		{kernel(event.OpUnknown, false), "ENOSYS", "ENOSYS", "ok"},
		{kernel(event.OpBPF, false), "EPERM", "EPERM", "ok"},
		{kernel(event.OpTerminal, false), "EPERM", "EPERM", "ok"},
		{kernel(event.OpPtrace, false), "EPERM", "EPERM", "ok"},
		{kernel(event.OpPtrace, true), "EPERM", "ok", "ok"},
		{kernel(event.OpSignal, true), "ok", "ok", "ok"},
		{kernel(event.OpSignal, false), "EPERM", "EPERM", "ok"},
		{kernel(event.OpSched, true), "ok", "ok", "ok"},
		{kernel(event.OpSched, false), "EPERM", "EPERM", "ok"},
		{kernel(event.OpIPC, true), "ok", "ok", "ok"},
		{kernel(event.OpIPC, false), "no", "no", "ok"},
		{kernel(event.OpMemfd, false), "ok", "ok", "ok"},
		{kernel(event.OpCreds, false), "ok", "ok", "ok"},
		{kernel(event.OpSeccomp, false), "ok", "ok", "ok"},
		{kernel(event.OpNone, false), "EPERM", "EPERM", "EPERM"},
		{kernel(event.Op(250), false), "EPERM", "EPERM", "EPERM"},
		{&event.Request{Op: event.OpExec, Object: event.Object{Kind: event.ObjectMem, Path: "/memfd:x (deleted)"}}, "no", "no", "ok"},
	}
	for column, name := range []string{DefaultProfile, "k", "observe"} {
		p := load(t, name, src)
		for _, row := range table {
			want := []string{row.noNet, row.k, row.observe}[column]
			if d := p.Decide(row.req); outcome(d) != want {
				t.Errorf("%s: %v own=%v: %s (%s), want %s", name, row.req.Op, row.req.Object.Own, outcome(d), d.Reason, want)
			}
		}
	}
}
