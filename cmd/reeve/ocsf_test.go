package main

import (
	"encoding/json"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Every operation has a class, and every record comes out as one JSON object
// whose numbers fit together.
func TestOCSF(t *testing.T) {
	for op := event.Op(1); int(op) < event.NumOps; op++ {
		e := event.Event{
			Session: "s", Seq: 7, Op: op, Kind: event.KindRequest, Action: event.ActionDeny, Errno: 13, Rule: "r", Reason: "why",
			Task:   event.Task{ID: "1-2", PID: 1, PPID: 3, Exe: "/bin/sh", Argv: []string{"sh"}},
			Object: event.Object{Kind: event.ObjectFile, Path: "/x\xff"}, Time: tapeStart,
		}
		line, err := appendOCSF(nil, &e)
		if err != nil {
			t.Fatalf("%v: %v", op, err)
		}
		var got struct {
			Class    int `json:"class_uid"`
			Category int `json:"category_uid"`
			Activity int `json:"activity_id"`
			Type     int `json:"type_uid"`
			Action   int `json:"action_id"`
			Status   int `json:"status_id"`
			Time     int64
			Metadata struct{ UID string }
			Unmapped event.Event
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %s: %v", op, line, err)
		}
		if got.Type != got.Class*100+got.Activity || got.Category != got.Class/1000 || got.Activity == 0 {
			t.Errorf("%v: class %d, category %d, activity %d, type %d do not fit", op, got.Class, got.Category, got.Activity, got.Type)
		}
		if got.Action != 2 || got.Status != 2 || got.Metadata.UID != "s:7" || got.Time != tapeStart.UnixMilli() {
			t.Errorf("%v: %s", op, line)
		}
		if got.Unmapped.Object.Path != e.Object.Path {
			t.Errorf("%v: the bytes of the path are lost: %q", op, got.Unmapped.Object.Path)
		}
	}
}
