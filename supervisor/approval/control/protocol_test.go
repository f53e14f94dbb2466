package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

func TestParseRequest(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"v":1,"do":"list"}`, ""},
		{`{"v":1,"do":"watch"}`, ""},
		{`{"v":1,"do":"propose","id":"QVTC-1"}`, ""},
		{`{"v":1,"do":"allow","id":"QVTC-1"}`, ""},
		{`{"v":1,"do":"allow","id":"QVTC-1","scope":"session","reason":"fine"}`, ""},
		{`{"v":1,"do":"allow","id":"QVTC-1","scope":"always","rule":{"file":"/f","text":"t"}}`, ""},
		{`{"v":1,"do":"deny","id":"QVTC-1","scope":"once","who":"alice"}`, ""},
		{`{"v":1,"do":"allow","id":"QVTC-1","scope":"always"}`, "propose it first"},
		{`{"v":1,"do":"deny","id":"QVTC-1","scope":"always","rule":{"file":"/f","text":"t"}}`, "propose it first"},
		{`{"v":1,"do":"allow","id":"QVTC-1","rule":{"file":"/f","text":"t"}}`, "propose it first"},
		{`{"v":1,"do":"allow","id":"QVTC-1","scope":"ever"}`, "expected once, session or always"},
		{`{"v":1,"do":"allow"}`, "do not fit"},
		{`{"v":1,"do":"list","id":"QVTC-1"}`, "do not fit"},
		{`{"v":1,"do":"list","reason":"x"}`, "takes no"},
		{`{"v":1,"do":"allow","id":"` + strings.Repeat("x", 65) + `"}`, "do not fit"},
		{`{"v":1,"do":"allow","id":"QVTC-1","reason":"` + strings.Repeat("x", 1025) + `"}`, "1024 bytes"},
		{`{"v":1,"do":"allow","id":"QVTC-1","who":"` + strings.Repeat("x", 65) + `"}`, "64 bytes"},
		{`{"v":1,"do":"allow","id":"QVTC-1","only_if":"read"}`, "unknown field"},
		{`{"v":1,"do":"allow","id":"QVTC-1"}{"v":1,"do":"list"}`, "more than one"},
		{`{"v":1,"do":"allow","id":"QVTC-1"} x`, "more than one"},
		{`{"v":2,"do":"list"}`, "version 2"},
		{`{"do":"list"}`, "version 0"},
		{`{"v":1,"do":"drop"}`, "expected list"},
		{`null`, "version 0"},
		{`[]`, "read request"},
		{``, "read request"},
		{strings.Repeat(" ", MaxRequest+1), "more than"},
	} {
		_, err := ParseRequest([]byte(c.line))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v, want %q", c.line, err, c.want)
		}
	}
}

// FuzzParseRequest: what is taken means the same when it is written again.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"v":1,"do":"allow","id":"QVTC-1","scope":"always","reason":"é","rule":{"file":"/f","text":"\"/x\" = \"read\"\n"}}`))
	f.Add([]byte(`{"v":1,"do":"deny","id":"QVTC-1","who":"alice"}`))
	f.Add([]byte(`{"v":1,"do":"list"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRequest(line)
		if err != nil {
			return
		}
		again, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > MaxRequest {
			return // escapes make it longer
		}
		back, err := ParseRequest(again)
		if err != nil || !reflect.DeepEqual(back, r) {
			t.Fatalf("%s: %+v, then %+v, %v", line, r, back, err)
		}
	})
}

// FuzzReceive: an approver survives what it is told, and loses none of it.
func FuzzReceive(f *testing.F) {
	q := open("/a\xff\x1b\n")
	q.ID, q.Session = "QVTC-1", session
	for _, m := range []Message{{Question: &q}, {Closed: &Closed{ID: "QVTC-1", By: "x"}}, {Status: StatusRefused, Error: "no"}} {
		m.V = Version
		line, err := json.Marshal(&m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(line, '\n'))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := receive(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		_ = m.err()
		if m.Question == nil {
			return
		}
		line, err := json.Marshal(m.Question)
		if err != nil {
			return // a time that cannot be written
		}
		var back approval.Question
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		want := *m.Question
		want.Asked, want.Deadline, back.Asked, back.Deadline = want.Asked.UTC(), want.Deadline.UTC(), back.Asked.UTC(), back.Deadline.UTC()
		if !reflect.DeepEqual(back, want) {
			t.Fatalf("%+v, then %+v", want, back)
		}
	})
}
