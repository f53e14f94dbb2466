package clickhouse

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// cutter is a proxy that cuts its connections after some bytes, in either
// direction: also between an insert and its answer. The client sees a reset, the
// server an end: chdb's ClickHouse aborts at a reset in its handshake.
type cutter struct {
	addr string
	left atomic.Int64
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	host := strings.Trim(strings.TrimPrefix(target, "clickhouse://"), "/")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &cutter{addr: l.Addr().String()}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			far, err := net.Dial("tcp", host)
			if err != nil {
				_ = near.Close()
				continue
			}
			go c.pump(near, far, near)
			go c.pump(far, near, near)
		}
	}()
	return c
}

func (c *cutter) cutAfter(n int64) { c.left.Store(n) }

func (c *cutter) pump(from, to, near net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if c.left.Add(int64(-n)) < 0 {
			if tcp, ok := near.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset, not an end
			}
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// flat is the records of a delivery.
func flat(d *event.Delivery) []*event.Event {
	var out []*event.Event
	for i := range d.Batches {
		for j := range d.Batches[i].Events {
			out = append(out, &d.Batches[i].Events[j])
		}
	}
	return out
}
