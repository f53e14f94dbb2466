package storagetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Records is a session of n records with random content, numbered and chained:
// every field is set in some record and zero in another, and texts hold bytes
// that are not UTF-8. The same arguments give the same records.
func Records(tb testing.TB, session string, n int) []event.Event {
	tb.Helper()
	var seed uint64
	for _, c := range session {
		seed = seed*31 + uint64(c)
	}
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	chain := event.NewChain(session)
	at := time.Date(2026, 11, 29, 13, 0, 0, 123456789, time.UTC)
	out := make([]event.Event, n)
	for i := range out {
		e := &out[i]
		fill(r, reflect.ValueOf(e).Elem())
		e.Session, e.Seq = session, uint64(i+1)
		e.Kind = event.Kind(1 + r.IntN(4))
		e.Action = event.Action(r.IntN(4))
		e.Op = event.Op(r.IntN(event.NumOps))
		if e.Op == event.OpEnd || i == n-1 {
			e.Op = event.OpOpen
		}
		at = at.Add(time.Duration(r.Int64N(int64(time.Second))))
		e.Time = at
		if r.IntN(50) == 0 {
			e.Time = time.Time{}
		}
		if _, err := chain.Next(e); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

// fill sets fields at random, each zero with chance 1/3.
func fill(r *rand.Rand, v reflect.Value) {
	if v.Kind() != reflect.Struct && r.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		// An Origin is not stored.
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[event.Origin]() {
			return
		}
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.String:
		v.SetString(text(r))
	case reflect.Slice:
		if n := r.IntN(4); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				v.Index(i).SetString(text(r))
			}
		}
	case reflect.Array: // the chain is set later
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt(int64(int32(r.Uint32() >> r.IntN(32))))
	default:
		v.SetUint(r.Uint64() >> r.IntN(64) & (1<<v.Type().Bits() - 1))
	}
}

// text is a word, words with quotes, or arbitrary bytes with NULs among them.
func text(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	case 1:
		return `it's "quoted" \ ` + "\x00\n\t€"
	}
	return fmt.Sprintf("/ws/dir-%d/file-%d.env", r.IntN(5), r.IntN(50))
}

// Split makes one delivery of records: batches of per records each, from the
// stream sequence seq on.
func Split(records []event.Event, per int, seq uint64) event.Delivery {
	d := event.Delivery{Stream: "REEVE@1", First: seq}
	for len(records) > 0 {
		n := min(per, len(records))
		d.Batches = append(d.Batches, event.Batch{
			Session: records[0].Session, First: records[0].Seq, Last: records[n-1].Seq, Events: records[:n],
		})
		records = records[n:]
	}
	d.Last = seq + uint64(len(d.Batches)) - 1
	return d
}

// Typical is a session of n records as a build makes them: mostly reads of
// files, for benchmarks. Chains are not computed.
func Typical(session string, n int) []event.Event {
	at := time.Date(2026, 11, 29, 13, 0, 0, 0, time.UTC)
	out := make([]event.Event, n)
	for i := range out {
		path := fmt.Sprintf("/usr/lib/gcc/x86_64-linux-gnu/12/include/header-%d.h", i%997)
		out[i] = event.Event{
			Session: session, Seq: uint64(i + 1), Time: at.Add(time.Duration(i) * 10 * time.Microsecond),
			BootNS: uint64(i) * 10000, Engine: "unotify", Kind: event.KindRequest, Op: event.OpOpen,
			Access: event.AccessRead,
			Task: event.Task{ID: fmt.Sprintf("%d-5678", 1000+i/50), PID: int32(1000 + i/50),
				TID: int32(1000 + i/50), PPID: 999, Exe: "/usr/lib/gcc/x86_64-linux-gnu/12/cc1"},
			Object: event.Object{Kind: event.ObjectFile, Path: path, Dev: 0xfe00, Ino: uint64(100000 + i%997), Mode: 0o100644},
			Action: event.ActionAllow, Rule: ":minimal", By: "policy:workspace-edit-no-net", Layer: "gate",
			HoldNS: 9000, Syscall: "openat", Arch: "x86_64",
		}
		out[i].Chain[0], out[i].Chain[31] = byte(i), 1
	}
	return out
}
