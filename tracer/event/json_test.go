package event

import (
	"encoding/json"
	"testing"
	"time"
)

// TestJSONForm holds the form that scripts rely on.
func TestJSONForm(t *testing.T) {
	denied := Event{
		Session: "01J", Seq: 12, Time: time.Date(2026, 11, 29, 13, 0, 0, 123456789, time.UTC), BootNS: 1,
		Engine: "unotify", Kind: KindRequest, Op: OpOpen, Access: AccessRead,
		Task: Task{ID: "1234-5678", PID: 1234, TID: 1234, PPID: 1, Exe: "/usr/bin/cat",
			Argv: []string{"cat", "x"}, Cwd: "/ws"},
		Object: Object{Kind: ObjectFile, Path: "/ws/.env", Raw: "../ws/.env", Dev: 254 << 8, Ino: 99},
		Action: ActionDeny, Rule: "**/*.env", Reason: "secret file", By: "policy:workspace-edit-no-net",
		Layer: "gate", Errno: 13, HoldNS: 9000,
	}
	for _, tc := range []struct {
		e    Event
		want string
	}{
		{denied, `{"v":1,"session":"01J","seq":12,"time":"2026-11-29T13:00:00.123456789Z","boot_ns":1,` +
			`"engine":"unotify","kind":"request","task":{"id":"1234-5678","pid":1234,"tid":1234,"ppid":1,` +
			`"exe":"/usr/bin/cat","argv":["cat","x"],"cwd":"/ws"},"op":"open","access":["read"],` +
			`"object":{"kind":"file","path":"/ws/.env","raw":"../ws/.env","dev":"254:0","ino":99},` +
			`"action":"deny","rule":"**/*.env","reason":"secret file","by":"policy:workspace-edit-no-net",` +
			`"layer":"gate","errno":"EACCES","hold_ns":9000}`},
		{Event{Kind: KindFact, Op: OpExit}, `{"v":1,"kind":"fact","op":"exit","exit_code":0}`},
		{Event{Op: 200, Errno: -5, Access: 1 << 12}, `{"v":1,"op":"#200","access":["#4096"],"errno":"#-5"}`},
		{Event{Object: Object{Path: "/a\xff\x1b[31m\u202e\u0085\u2028\"\\\n"}}, `{"v":1,"object":{"path":"/a` + "\ufffd" +
			`\u001b[31m\u202e\u0085\u2028\"\\\n","path_b64":"L2H/G1szMW3igK7CheKAqCJcCg=="}}`},
	} {
		if got := string(tc.e.AppendJSON(nil)); got != tc.want {
			t.Errorf("\n got %s\nwant %s", got, tc.want)
		}
		if b, err := json.Marshal(&tc.e); err != nil || !json.Valid(b) {
			t.Errorf("json.Marshal: %s, %v", b, err)
		}
	}
}

func TestUnmarshalJSONRefuses(t *testing.T) {
	for _, s := range []string{
		`{}`, `[]`, `{"v":2}`, `{"v":1,"op":"nothing"}`, `{"v":1,"op":"#256"}`, `{"v":1,"seq":-1}`,
		`{"v":1,"time":"yesterday"}`, `{"v":1,"chain":"00"}`, `{"v":1,"object":{"dev":"1"}}`,
		`{"v":1,"errno":"ENOTHING"}`, `{"v":1,"access":["fly"]}`, `{"v":1,"task":{"pid":"x"}}`,
	} {
		var e Event
		if err := json.Unmarshal([]byte(s), &e); err == nil {
			t.Errorf("%s was accepted", s)
		}
	}
}
