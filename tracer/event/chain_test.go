package event

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

func protoFieldOf(t *testing.T, m []string) *descriptorpb.FieldDescriptorProto {
	t.Helper()
	n, err := strconv.Atoi(m[4])
	if err != nil {
		t.Fatal(err)
	}
	f := &descriptorpb.FieldDescriptorProto{Name: &m[3], Number: proto.Int32(int32(n)),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if m[1] != "" {
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	if typ, ok := descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+upper(m[2])]; ok {
		f.Type = descriptorpb.FieldDescriptorProto_Type(typ).Enum()
	} else {
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
		f.TypeName = proto.String(".reeve.event.v1." + m[2])
	}
	return f
}

func upper(s string) string { return string(bytes.ToUpper([]byte(s))) }

// sealed is a session of n random records with seq and chain.
func sealed(t testing.TB, session string, n int) []Event {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	c := NewChain(session)
	events := make([]Event, n)
	for i := range events {
		e := random(r)
		e.Session, e.Seq = session, uint64(i+1)
		if _, err := c.Next(&e); err != nil {
			t.Fatal(err)
		}
		events[i] = e
	}
	return events
}

func TestChainIsTheDocumentedHash(t *testing.T) {
	events := sealed(t, "S", 2)
	prev := sha256.Sum256([]byte("S"))
	for i := range events {
		b, _ := events[i].AppendCanonical(nil)
		prev = sha256.Sum256(append(prev[:], b...))
		if prev != events[i].Chain {
			t.Errorf("record %d: chain %x, want %x", i+1, events[i].Chain, prev)
		}
	}
}

func TestVerifyNamesTheRecord(t *testing.T) {
	for name, tc := range map[string]struct {
		change func([]Event) []Event
		bad    []uint64
	}{
		"intact":  {func(e []Event) []Event { return e }, nil},
		"altered": {func(e []Event) []Event { e[4].Rule += "x"; return e }, []uint64{5}},
		"removed": {func(e []Event) []Event { return append(e[:4:4], e[5:]...) }, []uint64{6}},
		"swapped": {func(e []Event) []Event { e[4], e[5] = e[5], e[4]; return e }, []uint64{6, 5, 7}},
		"forged":  {func(e []Event) []Event { e[4].Chain[0]++; return e }, []uint64{5, 6}},
	} {
		var bad []uint64
		c := NewChain("S")
		events := tc.change(sealed(t, "S", 9))
		for i := range events {
			if c.Verify(&events[i]) != nil {
				bad = append(bad, events[i].Seq)
			}
		}
		if !reflect.DeepEqual(bad, tc.bad) {
			t.Errorf("%s: bad records %v, want %v", name, bad, tc.bad)
		}
	}
}

// TestEveryFieldIsChained changes each field of a record and wants the chain to
// notice.
func TestEveryFieldIsChained(t *testing.T) {
	e := full()
	want, _ := e.AppendCanonical(nil)
	var walk func(v reflect.Value, name string)
	walk = func(v reflect.Value, name string) {
		if v.Type() == reflect.TypeFor[Origin]() {
			return // no part of the record
		}
		if v.Kind() == reflect.Struct && v.NumField() > 3 {
			for i := range v.NumField() {
				walk(v.Field(i), name+"."+v.Type().Field(i).Name)
			}
			return
		}
		if name == ".Chain" || v.IsZero() {
			return
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		v.SetZero()
		if got, _ := e.AppendCanonical(nil); bytes.Equal(got, want) {
			t.Errorf("canonical bytes do not depend on %s", name)
		}
		v.Set(old)
	}
	walk(reflect.ValueOf(&e).Elem(), "")
}

func TestBatchRoundTrip(t *testing.T) {
	events := sealed(t, "S", 7)
	want := Batch{Session: "S", First: 3, Last: 7, Events: events[2:]}
	b, err := want.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := Batch{Events: sealed(t, "other", 4)} // to be overwritten
	err = got.UnmarshalBinary(b)
	if again, _ := got.AppendBinary(nil); !bytes.Equal(again, b) {
		t.Error("a batch that was decoded gives other bytes")
	}
	got.sealed = nil
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
	}
	part := got.Part(1, 3)
	if again, _ := part.AppendBinary(nil); part.First != 4 || part.Last != 5 || got.UnmarshalBinary(again) != nil {
		t.Errorf("part %d to %d", part.First, part.Last)
	}
	direct := AppendBatchHeader(nil, "S", 3, 7)
	for i := range want.Events {
		canonical, _ := want.Events[i].AppendCanonical(nil)
		direct = AppendSealed(direct, canonical, &want.Events[i].Chain)
	}
	if !bytes.Equal(direct, b) {
		t.Error("AppendSealed and AppendBinary differ")
	}
	for name, bad := range map[string]Batch{
		"none":     {Session: "S", First: 1, Last: 1},
		"too few":  {Session: "S", First: 3, Last: 8, Events: want.Events},
		"shifted":  {Session: "S", First: 4, Last: 8, Events: want.Events},
		"stranger": {Session: "T", First: 3, Last: 7, Events: want.Events},
		"huge":     {Session: "S", First: 3, Last: 1<<64 - 1, Events: want.Events},
	} {
		b, _ := bad.AppendBinary(nil)
		if err := got.UnmarshalBinary(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzUnmarshalBatch(f *testing.F) {
	events := sealed(f, "S", 3)
	b, _ := (&Batch{Session: "S", First: 1, Last: 3, Events: events}).AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(_ *testing.T, data []byte) {
		var b Batch
		_ = b.UnmarshalBinary(data)
	})
}

func BenchmarkSeal(b *testing.B) {
	e, c := full(), NewChain("S")
	var out []byte
	for b.Loop() {
		canonical, _ := c.Next(&e)
		out = AppendSealed(out[:0], canonical, &e.Chain)
	}
	b.ReportMetric(float64(len(out)), "B/event")
}

func BenchmarkUnmarshal(b *testing.B) {
	e := full()
	data, _ := e.MarshalBinary()
	for b.Loop() {
		_ = e.UnmarshalBinary(data)
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e := full()
	var out []byte
	for b.Loop() {
		out = e.AppendJSON(out[:0])
	}
}
