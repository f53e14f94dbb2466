package approval

import (
	"encoding/json"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/reeve-audit/reeve/tracer/event"
)

// withSteps is a question whose answer is for more than its operation.
func withSteps() Question {
	q := open("/d/f.lock")
	q.Also = []event.Request{
		{Op: event.OpChmod, Access: event.AccessMeta, Object: event.Object{Path: "/d/f.lock"}},
		{Op: event.OpRename, Access: event.AccessDelete | event.AccessCreate, Object: event.Object{Path: "/d/f.lock"}, Target: event.Object{Kind: event.ObjectFile, Path: "/d/f\xff\n", Dev: 1, Ino: 9}},
		{Op: event.OpExec, Access: event.AccessExec, Object: event.Object{Kind: event.ObjectFile, Path: "/bin/\xfe", Ino: 3}, Argv: []string{"a", "\xff"}},
	}
	return q
}

// TestAlso: whoever waits, or asks again in the session, gets with the answer its
// question's ID and what that showed, not what it would have shown itself.
func TestAlso(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, rec := newDesk(t, Config{})
		q := withSteps()
		first := ask(d, t.Context(), q)
		second := ask(d, t.Context(), open("/d/f.lock"))
		if err := d.Answer("ABCD-1", yes(Always)); err == nil {
			t.Error("there are no rules to write always into")
		}
		if err := d.Answer("ABCD-1", yes(Session)); err != nil {
			t.Fatal(err)
		}
		plain := open("/d/f.lock")
		known, ok := d.Known(&plain)
		for _, a := range []Answer{<-first, <-second, known} {
			if !a.Allow || a.Question != "ABCD-1" || !reflect.DeepEqual(a.Also, q.Also) {
				t.Errorf("answer %+v", a)
			}
			if got := a.Decide(event.Decision{Action: event.ActionAsk}); got.Question != "ABCD-1" {
				t.Errorf("decision %+v", got)
			}
		}
		if !ok {
			t.Error("the session's answer is not known")
		}
		var detail Record
		want := []string{"chmod", `rename "/d/f\xff\n"`, `exec "/bin/\xfe"`}
		if err := json.Unmarshal([]byte(rec.events[0].Detail), &detail); err != nil || !reflect.DeepEqual(detail.Also, want) {
			t.Errorf("recorded %s: %v", rec.events[0].Detail, err)
		}
		// What no question was made of names none.
		d.Close()
		if a := <-ask(d, t.Context(), open("/other")); a.Allow || a.Question != "" || a.Also != nil {
			t.Errorf("after the end: %+v", a)
		}
	})
}

// TestAlsoJSON: the steps survive their JSON form, every byte of them.
func TestAlsoJSON(t *testing.T) {
	q := withSteps()
	text, err := json.Marshal(&q)
	if err != nil {
		t.Fatal(err)
	}
	var back Question
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Also, q.Also) {
		t.Errorf("%s\ngave %+v\nof   %+v", text, back.Also, q.Also)
	}
}
