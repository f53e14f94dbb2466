package event

import (
	"reflect"
	"strings"
	"testing"
)

// TestRequestOfItsRecord: what an exec was judged by comes out of its record.
func TestRequestOfItsRecord(t *testing.T) {
	req := Request{
		Op: OpExec, Access: AccessExec, Object: Object{Kind: ObjectFile, Path: "/ws/s"}, Flags: 1, Syscall: "execve", Arch: "x86_64",
		Task: Task{ID: "1-2", PID: 1, Exe: "/usr/bin/git", Argv: []string{"s", "a"}, Cwd: "/ws"}, Argv: []string{"s", "a"},
		Alike: []string{"/usr/bin/x", "/usr/bin/\xff"}, Caller: []string{"git", "gc"}, CallerLen: 9000,
		Interps: []Interp{
			{Path: "/ws/env", Line: "/usr/bin/env\t -S python3 -I", SetUser: true, Alike: []string{"/usr/bin/env", "/+"}},
			{Path: "/bin/sh", Line: "3"},
			{Path: "/usr/bin/git", Arg: 3, Alike: []string{"/bin/git"}},
			{Path: "/old/sh"},
		},
	}
	var e Event
	e.SetRequest(&req)
	b, err := e.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back Event
	if err := back.UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	if got := back.Request(); !reflect.DeepEqual(got, req) {
		t.Errorf("\n got %+v\nwant %+v", got, req)
	}
	// Too many names are cut at one, and that is said.
	req.Alike = nil
	for range 1000 {
		req.Alike = append(req.Alike, "/usr/bin/tool")
	}
	req.Interps = []Interp{{Path: "/bin/sh", Line: "/bin/sh", Alike: req.Alike}}
	e = Event{}
	e.SetRequest(&req)
	got := e.Request()
	if len(e.Alike) != maxKept/14 || e.AlikeLen != 14000 || !got.Interps[0].Cut || len(got.Interps[0].Alike) != maxKept/14 {
		t.Errorf("%d of %d names, length %d, %+v", len(e.Alike), len(req.Alike), e.AlikeLen, got.Interps[0].Cut)
	}
	// What somebody else wrote there is left out.
	e = Event{Op: OpExec, Interps: []string{"/bin/sh", "/bin/a"}, InterpLines: []string{"\x00x\x00-1\x0099999999999999999999\x00\x00/a", "sh\x003"}}
	want := []Interp{{Path: "/bin/sh", Alike: []string{"/a"}}, {Path: "/bin/a", Line: "sh"}}
	if got := e.Request().Interps; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestInterpRequest: an interpreter is told what the kernel tells it.
func TestInterpRequest(t *testing.T) {
	req := Request{Op: OpExec, Object: Object{Kind: ObjectFile, Path: "/ws/s", Raw: "./s"}, Argv: []string{"called", "-a", "b"}, Alike: []string{"/x"}}
	for _, tc := range []struct {
		interp Interp
		argv   string
		raw    string
		script bool
	}{
		{Interp{Path: "/usr/bin/dash", Line: "/bin/sh"}, "/bin/sh ./s -a b", "/bin/sh", true},
		{Interp{Path: "/usr/bin/env", Line: "/usr/bin/env  -S python3 -I"}, "/usr/bin/env -S python3 -I ./s -a b", "/usr/bin/env", true},
		{Interp{Path: "/usr/bin/git", Arg: 2}, "b", "b", false},
		{Interp{Path: "/usr/bin/git", Arg: 9}, "", "", false}, // it was cut
		{Interp{Path: "/bin/sh"}, "called -a b", "", true},
	} {
		got := tc.interp.Request(&req)
		if strings.Join(got.Argv, " ") != tc.argv || got.Object.Raw != tc.raw || got.Interprets != tc.script || got.Object.Path != tc.interp.Path || got.Alike != nil {
			t.Errorf("%+v: %q of %+v", tc.interp, got.Argv, got.Object)
		}
	}
	if i := (Interp{Path: "/x", Line: "/x", SetUser: true}); i.Request(&req).Object.Mode != 0o104000 {
		t.Errorf("mode %o", i.Request(&req).Object.Mode)
	}
}
