package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/sqlite"
	"github.com/reeve-audit/reeve/storage/storagetest"
	"github.com/reeve-audit/reeve/tracer/event"
	"golang.org/x/sys/unix"
)

func sequence(events []event.Event, last error) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if last != nil {
			yield(event.Event{}, last)
		}
	}
}

func TestVerify(t *testing.T) {
	type found struct {
		Fault     Fault
		Seq, Last uint64
	}
	for name, tc := range map[string]struct {
		change func([]event.Event) []event.Event
		last   error
		want   []found
	}{
		"intact":  {func(e []event.Event) []event.Event { return e }, nil, nil},
		"altered": {func(e []event.Event) []event.Event { e[4].Rule += "x"; return e }, nil, []found{{FaultAltered, 5, 5}}},
		"removed": {func(e []event.Event) []event.Event { return slices.Delete(e, 4, 6) }, nil, []found{{FaultMissing, 5, 6}}},
		"first":   {func(e []event.Event) []event.Event { return e[1:] }, nil, []found{{FaultMissing, 1, 1}}},
		"tail":    {func(e []event.Event) []event.Event { return e[:7] }, nil, []found{{FaultMissing, 8, 9}}},
		"all":     {func([]event.Event) []event.Event { return nil }, nil, []found{{FaultMissing, 1, 9}}},
		"twice":   {func(e []event.Event) []event.Event { return slices.Insert(e, 4, e[3]) }, nil, []found{{FaultOrder, 4, 4}}},
		"swapped": {func(e []event.Event) []event.Event { e[3], e[4] = e[4], e[3]; return e }, nil, []found{{FaultMissing, 4, 4}, {FaultOrder, 4, 4}}},
		"foreign": {func(e []event.Event) []event.Event { x := e[3]; x.Session = "02"; return slices.Insert(e, 4, x) }, nil, []found{{FaultForeign, 4, 4}}},
		"renamed": {func(e []event.Event) []event.Event { e[3].Seq = 20; return e }, nil, []found{{FaultMissing, 4, 19}, {FaultOrder, 5, 5}, {FaultOrder, 6, 6}, {FaultOrder, 7, 7}, {FaultOrder, 8, 8}, {FaultOrder, 9, 9}}},
		"rechained": {func(e []event.Event) []event.Event {
			e[4].Rule = "forged"
			chain := event.ResumeChain(e[3].Chain)
			_, _ = chain.Next(&e[4])
			return e
		}, nil, []found{{FaultAltered, 6, 6}}},
		"unreadable": {func(e []event.Event) []event.Event { return e[:3] }, errors.New("bad column"), []found{{FaultUnreadable, 4, 4}}},
	} {
		r := Verify("01V", 9, sequence(tc.change(storagetest.Records(t, "01V", 9)), tc.last))
		var got []found
		for _, p := range r.Problems {
			got = append(got, found{p.Fault, p.Seq, p.Last})
		}
		if !reflect.DeepEqual(got, tc.want) || r.OK() != (tc.want == nil) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestVerifyBoundsItsReport(t *testing.T) {
	events := storagetest.Records(t, "01V", MaxProblems+10)
	for i := range events {
		events[i].Rule += "x"
	}
	if r := Verify("01V", 0, sequence(events, nil)); len(r.Problems) != MaxProblems || r.More != 10 {
		t.Errorf("%d problems and %d more", len(r.Problems), r.More)
	}
}

func export(t testing.TB, events []event.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, "01F", sequence(events, nil)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readAll(data []byte) ([]event.Event, error) {
	f, err := NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	var out []event.Event
	for e, err := range f.Events() {
		if err != nil {
			return out, err
		}
		out = append(out, e)
	}
	return out, nil
}

func TestFileRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 512, 1500} {
		want := storagetest.Records(t, "01F", n)
		got, err := readAll(export(t, want))
		if err != nil || len(got) != n || n > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%d records: %d came back, %v", n, len(got), err)
		}
	}
	gaps := storagetest.Records(t, "01F", 900)
	gaps = slices.Delete(gaps, 100, 200)
	if got, err := readAll(export(t, gaps)); err != nil || !reflect.DeepEqual(got, gaps) {
		t.Errorf("a session with a gap: %d records, %v", len(got), err)
	}
	if err := Export(io.Discard, "01F", sequence(gaps, errors.New("torn"))); err == nil {
		t.Error("half a session was exported")
	}
}

// TestFileTampered cuts the file at every place and flips every byte, of the
// gzip and of what is inside it.
func TestFileTampered(t *testing.T) {
	want := storagetest.Records(t, "01F", 12)
	data := export(t, want)
	for n := range data {
		if _, err := readAll(data[:n]); !errors.Is(err, ErrFile) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(data), err)
		}
	}
	if _, err := readAll(append(bytes.Clone(data), 'x')); !errors.Is(err, ErrFile) {
		t.Errorf("with a byte more: %v", err)
	}
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	for i := range plain {
		var b bytes.Buffer
		zw := gzip.NewWriter(&b)
		_, _ = zw.Write(plain[:i])
		_, _ = zw.Write([]byte{plain[i] ^ 1})
		_, _ = zw.Write(plain[i+1:])
		_ = zw.Close()
		got, err := readAll(b.Bytes())
		if err == nil && Verify("01F", 12, sequence(got, nil)).OK() {
			t.Fatalf("byte %d (%q) of the content was changed, and nothing noticed", i, plain[i])
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add(export(f, storagetest.Records(f, "01F", 3)))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = readAll(data)
		// And without the checksum in the way.
		var b bytes.Buffer
		zw := gzip.NewWriter(&b)
		_, _ = zw.Write(data)
		_ = zw.Close()
		_, _ = readAll(b.Bytes())
	})
}

func TestFileReaderAnswersLikeAStore(t *testing.T) {
	records := storagetest.Records(t, "01F", 3000)
	path := filepath.Join(t.TempDir(), "session.reeve")
	if err := os.WriteFile(path, export(t, records), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.New(filepath.Join(t.TempDir(), "reeve.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	osFile, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = osFile.Close() }()
	f, err := NewFile(osFile)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Import(t.Context(), f, store); err != nil || n != 3000 {
		t.Fatalf("imported %d, %v", n, err)
	}
	for name, q := range map[string]storage.Query{
		"all": {}, "session": {Session: "01F"}, "other": {Session: "01G"}, "after": {Session: "01F", AfterSeq: 2900},
		"ops":  {Ops: []event.Op{event.OpExec, event.OpNone}},
		"path": {Path: "*.env", Actions: []event.Action{event.ActionDeny}}, "limit": {Limit: 7},
		"kinds": {Kinds: []event.Kind{event.KindFact}}, "since": {Since: time.Date(2026, 11, 29, 13, 5, 0, 0, time.UTC)},
		"until": {Until: time.Date(2026, 11, 29, 13, 5, 0, 0, time.UTC)},
	} {
		var got [2][]event.Event
		for i, r := range []storage.Reader{file, store} {
			for e, err := range r.Events(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				got[i] = append(got[i], e)
			}
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			t.Errorf("%s: the file gives %d records, the store %d", name, len(got[0]), len(got[1]))
		}
	}
	a, errA := file.Session(t.Context(), "last")
	b, errB := store.Session(t.Context(), "01F")
	b.Lost, a.Lost = 0, 0 // random counts overflow
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("summaries\n%+v %v\n%+v %v", a, errA, b, errB)
	}
	if _, err := file.Session(t.Context(), "02"); !errors.Is(err, storage.ErrNoSession) {
		t.Errorf("another session: %v", err)
	}
	if _, err := OpenFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was opened")
	}
}

func task(id string, pid, ppid int32) event.Task {
	return event.Task{ID: id, PID: pid, TID: pid, PPID: ppid}
}

func TestTreeAndTimeline(t *testing.T) {
	at := time.Date(2026, 11, 29, 13, 0, 0, 0, time.UTC)
	sh := event.Task{ID: "10-1", PID: 10, PPID: 1, Argv: []string{"sh", "-c", "x"}}
	cat := event.Task{ID: "11-2", PID: 11, PPID: 10, Argv: []string{"cat", ".env"}}
	file := func(p string) event.Object { return event.Object{Kind: event.ObjectFile, Path: p} }
	events := []event.Event{
		{Kind: event.KindSession, Op: event.OpStart},
		{Kind: event.KindRequest, Op: event.OpExec, Access: event.AccessExec, Task: sh, Object: file("/bin/sh"), Action: event.ActionAllow},
		{Kind: event.KindFact, Op: event.OpExec, Task: sh, Object: file("/bin/sh"), Action: event.ActionAllow},
		{Kind: event.KindFact, Op: event.OpFork, Task: task("11-2", 11, 10), Object: event.Object{Kind: event.ObjectTask, Path: "10-1"}},
		{Kind: event.KindRequest, Op: event.OpExec, Task: cat, Object: file("/bin/cat"), Action: event.ActionAllow},
		{Kind: event.KindRequest, Op: event.OpOpen, Access: event.AccessRead, Task: task("11-2", 11, 10), Object: file("/ws/.env"), Action: event.ActionDeny},
		{Kind: event.KindRequest, Op: event.OpOpen, Access: event.AccessRead, Task: task("11-2", 11, 10), Object: file("/ws/.env"), Action: event.ActionDeny},
		{Kind: event.KindFact, Op: event.OpExit, Task: event.Task{ID: "11-2", PID: 11}, ExitCode: 1},
		{Kind: event.KindFact, Op: event.OpFork, Task: task("11-9", 11, 10), Object: event.Object{Kind: event.ObjectTask, Path: "10-1"}},
		{Kind: event.KindRequest, Op: event.OpConnect, Access: event.AccessConnect, Task: task("11-9", 11, 10), Object: event.Object{Kind: event.ObjectAddr, Addr: "::1", Port: 80}, Action: event.ActionDeny},
	}
	for i := range events {
		events[i].Seq = uint64(i + 1)
		events[i].BootNS = uint64(1e9 + i*1e6)
		events[i].Time = at.Add(time.Duration(-i) * time.Second) // the wall clock is being set back
	}
	events[7].BootNS -= 5e6 // late, from another thread
	tree := NewTree()
	var waits, total time.Duration
	for s, err := range Timeline(sequence(events, nil), tree) {
		if err != nil || s.Wait < 0 || s.At < total {
			t.Fatalf("seq %d: wait %s at %s, %v", s.Event.Seq, s.Wait, s.At, err)
		}
		waits, total = waits+s.Wait, s.At
		if (s.Process == nil) != (s.Event.Kind == event.KindSession) {
			t.Errorf("seq %d: process %v", s.Event.Seq, s.Process)
		}
	}
	if waits != 9*time.Millisecond || total != waits {
		t.Errorf("the session lasted %s, %s", waits, total)
	}
	var ids []string
	tree.Walk(func(p *Process, depth int) bool {
		ids = append(ids, string(rune('0'+depth))+" "+p.ID+" "+p.Exe)
		return true
	})
	if want := []string{"0 10-1 /bin/sh", "1 11-2 /bin/cat", "1 11-9 /bin/sh"}; !slices.Equal(ids, want) {
		t.Errorf("tree %q, want %q", ids, want)
	}
	p := tree.Process("11-2")
	if !p.Exited || p.ExitCode != 1 || p.Denied != 2 || p.Requests != 3 || len(p.Objects) != 2 {
		t.Errorf("process %+v", p)
	}
	if o := p.Objects[1]; o.Name != "/ws/.env" || o.Refused != event.AccessRead || o.Allowed != 0 || o.Count != 2 || o.Denied != 2 {
		t.Errorf("touch %+v", o)
	}
	if sh := tree.Process("10-1"); len(sh.Programs) != 1 || !sh.Programs[0].Confirmed || !slices.Equal(sh.Argv, []string{"sh", "-c", "x"}) {
		t.Errorf("programs %+v", sh.Programs)
	}
	if o := tree.Process("11-9").Objects[0]; o.Name != "[::1]:80" {
		t.Errorf("address %q", o.Name)
	}
	b, err := json.Marshal(tree.Roots)
	if err != nil || !bytes.Contains(b, []byte(`"refused":"read"`)) {
		t.Errorf("%s %v", b, err)
	}
}

// TestTreeOfHostileRecords feeds what no kernel reports: cycles and strangers.
func TestTreeOfHostileRecords(t *testing.T) {
	tree := NewTree()
	for i, e := range storagetest.Records(t, "01H", 5000) {
		e.Task.ID = []string{"a", "b", "c"}[i%3]
		e.Object.Path = []string{"b", "c", "a"}[i%3]
		e.Object.Kind = event.ObjectTask
		e.Op = event.OpFork
		e.Task.PID, e.Task.PPID = int32(i%3), int32((i+1)%3)
		tree.Add(&e)
	}
	n := 0
	tree.Walk(func(*Process, int) bool { n++; return n < 100 })
	if n != 3 {
		t.Errorf("%d processes", n)
	}
	if _, err := json.Marshal(tree.Roots); err != nil {
		t.Error(err)
	}
}

// TestTreeFailed: what was allowed and failed all the same was not done.
func TestTreeFailed(t *testing.T) {
	task := event.Task{ID: "1-1", PID: 1}
	made := func(seq uint64, errno int32) event.Event {
		return event.Event{
			Seq: seq, Kind: event.KindRequest, Op: event.OpCreate, Task: task, Access: event.AccessCreate | event.AccessWrite, Action: event.ActionAllow,
			Object: event.Object{Kind: event.ObjectMissing, Path: "/d/x"}, Errno: errno,
		}
	}
	tree := NewTree()
	for _, e := range []event.Event{made(1, int32(unix.EACCES)), made(2, 0)} {
		tree.Add(&e)
	}
	o := tree.Roots[0].Objects[0]
	if both := event.AccessCreate | event.AccessWrite; o.Failed != 1 || o.Tried != both || o.Allowed != both || o.Count != 2 {
		t.Errorf("%+v", o)
	}
}
