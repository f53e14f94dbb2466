package event

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// full is a record with every field set, some of them not UTF-8.
func full() Event {
	return Event{
		Session: "01JZZZZZZZZZZZZZZZZZZZZZZZ", Seq: 1 << 60, Time: time.Unix(1780000000, 123456789).UTC(),
		BootNS: 1<<64 - 1, Engine: "unotify", Kind: KindRequest, Op: OpRename,
		Access: AccessCreate | AccessDelete,
		Task: Task{ID: "12-34", PID: 12, TID: 13, PPID: 1, Exe: "/usr/bin/m\xffv",
			Argv: []string{"mv", "", "a\x00b\xfe"}, ArgvLen: 70000, Cwd: "/ws"},
		Object: Object{Kind: ObjectFile, Path: "/ws/\xc3\x28", Raw: "../\n\u202e", PathLen: 5000, RawLen: 6000,
			Dev: 1<<63 | 0xfe00, Ino: 1<<63 + 1, Mode: 0o100644, Addr: "::1", Port: 65535, Family: 10,
			Proto: "tcp", Own: true},
		Target: Object{Kind: ObjectMissing, Path: "/ws/b"},
		Action: ActionDeny, Rule: "**/*.env", Reason: "secret \"file\"", By: "policy:p", Layer: "gate",
		Errno: 13, HoldNS: 9000, Syscall: "renameat2", Arch: "x86_64", Count: 3, ExitCode: -1,
		ExitSignal: 9, Detail: `{"a":1}`,
		Flags: 1 << 63, Mode: 0o100644, Born: true, Interps: []string{"/bin/sh", "", "/b\xffn"}, InterpLines: []string{"/bin/sh -e", "", "\x003\x00/b\xff"},
		Alike: []string{"/usr/bin/\xff"}, AlikeLen: 9000, Caller: []string{"git", "", "gc"}, CallerLen: 1 << 31, Chain: [32]byte{1, 31: 2},
	}
}

// random fills every field of a record at random, each zero with chance 1/3.
func random(r *rand.Rand) Event {
	var e Event
	fill(r, reflect.ValueOf(&e).Elem())
	e.Time = time.Unix(0, int64(r.Uint64()|1)).UTC()
	return e
}

func fill(r *rand.Rand, v reflect.Value) {
	if v.Kind() != reflect.Struct && r.IntN(3) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[Origin]() {
			return
		}
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.String:
		b := make([]byte, r.IntN(12))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		v.SetString(string(b))
	case reflect.Slice:
		n := r.IntN(4)
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetUint(uint64(r.Uint32() & 0xff))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt(int64(int32(r.Uint32() >> r.IntN(32))))
	default:
		v.SetUint(r.Uint64() >> r.IntN(64) & (1<<v.Type().Bits() - 1))
	}
}

func TestBinaryAndJSONRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	events := []Event{{}, full()}
	for range 3000 {
		events = append(events, random(r))
	}
	for i := range events {
		want := &events[i]
		b, err := want.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		var got Event
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatalf("%v\n%+v", err, want)
		}
		if !reflect.DeepEqual(&got, want) {
			t.Fatalf("binary:\n got %+v\nwant %+v", got, *want)
		}
		line := want.AppendJSON(nil)
		got = Event{}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		if !reflect.DeepEqual(&got, want) {
			t.Fatalf("JSON %s:\n got %+v\nwant %+v", line, got, *want)
		}
	}
}

// TestFullSetsEveryField keeps full honest when Event grows.
func TestFullSetsEveryField(t *testing.T) {
	e := full()
	for _, v := range []any{e, e.Task, e.Object} {
		rv := reflect.ValueOf(v)
		for i := range rv.NumField() {
			if rv.Field(i).IsZero() && rv.Type().Field(i).Name != "Origin" {
				t.Errorf("%s.%s is zero in full()", rv.Type(), rv.Type().Field(i).Name)
			}
		}
	}
}

func TestTimeOutsideRange(t *testing.T) {
	e := Event{Time: time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)}
	if _, err := e.AppendBinary(nil); err == nil {
		t.Error("year 3000 was encoded")
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	e := full()
	good, _ := e.MarshalBinary()
	for name, b := range map[string][]byte{
		"empty":            {},
		"no version":       {0x18, 1},
		"later version":    {0x08, 2},
		"zero field":       {0x08, 1, 0x18, 0},
		"long varint":      {0x08, 0x81, 0x00},
		"descending":       {0x08, 1, 0x28, 1, 0x18, 1},
		"twice":            {0x08, 1, 0x18, 1, 0x18, 1},
		"unknown field":    {0x08, 1, 0xd8, 0x01, 1},
		"born twice over":  {0x08, 1, 0xc8, 0x01, 2},
		"op over 8 bits":   {0x08, 1, 0x40, 0x80, 0x02},
		"group":            {0x08, 1, 0x1b, 0x1c},
		"empty string":     {0x08, 1, 0x12, 0},
		"short chain":      {0x08, 1, 0xa2, 0x06, 1, 1},
		"cut":              good[:len(good)-1],
		"length past end":  {0x08, 1, 0x12, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"trailing garbage": append(bytes.Clone(good), 0xff),
	} {
		var e Event
		if err := e.UnmarshalBinary(b); err == nil {
			t.Errorf("%s: accepted % x", name, b)
		}
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	e := full()
	b, _ := e.MarshalBinary()
	f.Add(b)
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		e := random(r)
		b, _ := e.MarshalBinary()
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Event
		if e.UnmarshalBinary(data) != nil {
			return
		}
		b, err := e.MarshalBinary()
		if err != nil || !bytes.Equal(b, data) {
			t.Fatalf("one record, two encodings: %v\n% x\n% x", err, data, b)
		}
		var back Event
		if err := json.Unmarshal(e.AppendJSON(nil), &back); err != nil || !reflect.DeepEqual(&back, &e) {
			t.Fatalf("JSON: %v\n%+v\n%+v", err, back, e)
		}
	})
}

func FuzzUnmarshalJSON(f *testing.F) {
	e := full()
	f.Add(e.AppendJSON(nil))
	f.Add([]byte(`{"v":1,"op":"#200","access":["#512"],"errno":"#-5","object":{"dev":"1:2"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		_ = e.AppendJSON(nil)
	})
}

// TestProtoFile reads our bytes by the published event.proto.
func TestProtoFile(t *testing.T) {
	file := protoFile(t)
	e := full()
	e.Engine = "unotify"
	b, _ := e.MarshalBinary()
	m := dynamicpb.NewMessage(file.Messages().ByName("Event"))
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	if n := len(m.GetUnknown()); n > 0 {
		t.Errorf("event.proto lacks fields of %d bytes", n)
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		name := fields.Get(i).Name()
		if !m.Has(fields.Get(i)) && !strings.HasPrefix(string(name), "target_") {
			t.Errorf("event.proto: no value of %s in a full record", name)
		}
	}
	for name, want := range map[protoreflect.Name]any{
		"seq": e.Seq, "time_unix_ns": e.Time.UnixNano(), "exit_code": int64(-1), "errno": int64(13),
		"object_path": e.Object.Path, "target_path": "/ws/b", "task_id": "12-34", "object_own": true,
	} {
		got := m.Get(fields.ByName(name)).Interface()
		switch v := got.(type) {
		case []byte:
			got = string(v)
		case int32:
			got = int64(v)
		}
		if got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil || !bytes.Equal(canonical, b) {
		t.Errorf("protobuf's own encoding differs: %v\n% x\n% x", err, canonical, b)
	}
}

var (
	protoMessage = regexp.MustCompile(`^message (\w+) \{$`)
	protoField   = regexp.MustCompile(`^  (repeated )?(\w+) (\w+) = (\d+);$`)
)

// protoFile compiles the subset of the language that event.proto uses.
func protoFile(t *testing.T) protoreflect.FileDescriptor {
	t.Helper()
	text, err := os.ReadFile("event.proto")
	if err != nil {
		t.Fatal(err)
	}
	fd := &descriptorpb.FileDescriptorProto{Name: proto.String("event.proto"),
		Package: proto.String("reeve.event.v1"), Syntax: proto.String("proto3")}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if m := protoMessage.FindStringSubmatch(line); m != nil {
			fd.MessageType = append(fd.MessageType, &descriptorpb.DescriptorProto{Name: &m[1]})
		}
		if m := protoField.FindStringSubmatch(line); m != nil {
			msg := fd.MessageType[len(fd.MessageType)-1]
			msg.Field = append(msg.Field, protoFieldOf(t, m))
		}
	}
	file, err := protodesc.NewFile(fd, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
