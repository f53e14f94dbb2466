package policy

import (
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

const userFile = "/home/u/.config/reeve/policy.toml"

func userSource(text string) Source { return Source{userFile, User, []byte(text)} }

// askNet is a request to connect: "ADDR PORT".
func askNet(addr string, port uint16) *event.Request {
	family := uint16(2)
	if strings.Contains(addr, ":") {
		family = 10
	}
	return &event.Request{
		Op: event.OpConnect, Access: event.AccessConnect, Task: event.Task{PID: 77, TID: 78},
		Object: event.Object{Kind: event.ObjectAddr, Addr: addr, Port: port, Family: family, Proto: "tcp"},
	}
}

func askUnix(path string) *event.Request {
	return &event.Request{
		Op: event.OpConnect, Access: event.AccessConnect, Task: event.Task{PID: 77, TID: 78},
		Object: event.Object{Kind: event.ObjectSocket, Path: path, Family: 1, Proto: "unix"},
	}
}

func askRename(from, to string) *event.Request {
	return &event.Request{
		Op: event.OpRename, Access: event.AccessDelete | event.AccessCreate, Task: event.Task{PID: 77, TID: 78},
		Object: event.Object{Kind: event.ObjectFile, Path: from}, Target: event.Object{Kind: event.ObjectMissing, Path: to},
	}
}

// mine is a profile of the user's that asks in every way there is.
const mine = `# my own
default_permissions = "mine"   # always

[permissions.mine]
extends = ":workspace"
[permissions.mine.filesystem]
"/srv"       = "ask"           # shared
"/srv/[x]/f" = "ask-write"
"~/notes"    = "ask"
[permissions.mine.filesystem.":workspace_roots"]
"plans"      = "ask"
[permissions.mine.exec]
"/usr/bin/git" = "ask"
# the end of exec
[permissions.mine.network]
enabled = true
[permissions.mine.network.addresses]
"192.0.2.0/24" = "ask"
[permissions.mine.network.unix_sockets]
"/run/docker.sock" = "ask"
`

func TestAmend(t *testing.T) {
	const no, manual = "", "privileged-manual"
	project := func(text string) Source { return Source{"/home/u/ws/.reeve.toml", Project, []byte(text)} }
	named := func(text string) Source { return Source{"/home/u/build.toml", Session, []byte(text)} }
	envelope := func(text string) Source { return Source{"/etc/reeve/policy.toml", Envelope, []byte(text)} }
	for _, c := range []struct {
		name, user, profile string
		others              []Source
		req                 *event.Request
		// lines are those of the amendment, fault what an error says.
		lines, fault string
	}{
		{"read", mine, no, nil, ask("read /srv/a"), "[permissions.mine.filesystem]\n\"/srv/a\" = \"read\"\n", ""},
		{"write", mine, no, nil, ask("write /srv/a"), "[permissions.mine.filesystem]\n\"/srv/a\" = \"write\"\n", ""},
		{"make", mine, no, nil, ask("make /srv/new"), "[permissions.mine.filesystem]\n\"/srv/new\" = \"write\"\n", ""},
		{"delete", mine, no, nil, ask("delete /srv/a"), "[permissions.mine.filesystem]\n\"/srv/a\" = \"write\"\n", ""},
		{"run", mine, no, nil, ask("exec /srv/tool"), "[permissions.mine.filesystem]\n\"/srv/tool\" = \"read\"\n", ""},
		{"list", mine, no, nil, ask("read /srv/d/"), "[permissions.mine.filesystem]\n\"/srv/d\" = \"list\"\n", ""},
		{"the very rule", mine, no, nil, ask("read /srv/"), "[permissions.mine.filesystem]\n\"/srv\" = \"list\"  # instead of \"/srv\" = \"ask\"\n", "also change what is decided about"},
		{"the very rule, a file", mine, no, nil, ask("write /home/u/notes"), "[permissions.mine.filesystem]\n\"/home/u/notes\" = \"write\"  # instead of \"~/notes\" = \"ask\"\n", ""},
		{"in the workspace", mine, no, nil, ask("write /home/u/ws/plans"), "\"/home/u/ws/plans\" = \"write\"  # instead of \"plans\" = \"ask\"\n", ""},
		{"odd name", mine, no, nil, ask("read /srv/a*[\"b\"]\\\n\u202e{é}"), `"/srv/a\\*\\[\"b\"\\]\\\\\u000A\u202E\\{é\\}" = "read"` + "\n", ""},
		{"quoted pattern", mine, no, nil, ask("write /srv/x/f"), "\"/srv/x/f\" = \"write\"\n", ""},
		{"program", mine, no, nil, ask("exec /usr/bin/git"), "[permissions.mine.exec]\n\"/usr/bin/git\" = \"allow\"  # instead of \"/usr/bin/git\" = \"ask\"\n", ""},
		{"address", mine, no, nil, askNet("192.0.2.7", 443), "[permissions.mine.network]\nmode = \"full\"\n[permissions.mine.network.addresses]\n\"192.0.2.7:443\" = \"allow\"\n", ""},
		{"socket", mine, no, nil, askUnix("/run/docker.sock"), "[permissions.mine.network.unix_sockets]\n\"/run/docker.sock\" = \"allow\"  # instead of", ""},
		{"protected configuration", "", no, nil, ask("write /home/u/ws/.github/ci.yml"),
			"extends = \":workspace-edit-no-net\"\n[permissions.workspace-edit-no-net.protected]\n\"/home/u/ws/.github/ci.yml\" = \"write\"\n", ""},
		{"a hook", mine, no, nil, ask("make /home/u/ws/.git/hooks/pre-commit"), "[permissions.mine.protected]\n\"/home/u/ws/.git/hooks/pre-commit\" = \"write\"\n", ""},
		{"protected and asked", strings.Replace(mine, "plans", ".github/plans", 1), no, nil, ask("write /home/u/ws/.github/plans"), "[permissions.mine.protected]\n\"/home/u/ws/.github/plans\" = \"write\"\n[permissions.mine.filesystem]\n\"/home/u/ws/.github/plans\" = \"write\"  # instead of \".github/plans\" = \"ask\"\n", ""},
		{"a policy of reeve's", mine, no, nil, ask("write /home/u/ws/.reeve.toml"), "", "denies it"},
		{"both names", mine, no, nil, askRename("/srv/a", "/srv/b"), "[permissions.mine.filesystem]\n\"/srv/a\" = \"write\"\n\"/srv/b\" = \"write\"\n", ""},

		{"first rule", "", manual, nil, ask("write /srv/a"),
			"[permissions.privileged-manual]\nextends = \":privileged-manual\"\n[permissions.privileged-manual.filesystem]\n\"/srv/a\" = \"write\"\n", ""},
		{"first address", "# mine\n", manual, nil, askNet("2001:db8::7", 443),
			"extends = \":privileged-manual\"\n[permissions.privileged-manual.network.addresses]\n\"[2001:db8::7]:443\" = \"allow\"\n", ""},
		{"mapped address", "", manual, nil, askNet("::ffff:192.0.2.7", 443), "\"192.0.2.7:443\" = \"allow\"\n", ""},
		{"beside other profiles", mine, manual, nil, ask("write /srv/a"), "extends = \":privileged-manual\"\n", ""},
		{"the default is built in", "default_permissions = \"privileged-manual\"\n", no, nil, ask("write /srv/a"), "extends = \":privileged-manual\"\n", ""},

		{"directory", mine, no, nil, ask("mkdir /srv/d"), "", "everything in it"},
		{"change of a directory", mine, no, nil, ask("chmod /srv/d/"), "", "everything in it"},
		{"not UTF-8", mine, no, nil, ask("read /srv/\xff"), "", "not UTF-8"},
		{"a process", "", manual, nil, ask("write /proc/99/oom_score_adj"), "", "another one next time"},
		{"denied", mine, no, nil, ask("read /home/u/ws/.env"), "", "denies it"},
		{"reeve's own", "", manual, nil, ask("write /home/u/.local/state/reeve/x"), "", "opened by no policy"},
		{"the project asks", "", no, []Source{project("[permissions.workspace-edit-no-net.filesystem.\":workspace_roots\"]\n\"a\" = \"ask\"\n")},
			ask("write /home/u/ws/a"), "", "(project), /home/u/ws/.reeve.toml:2:1 that asks"},
		{"the envelope asks", mine, no, []Source{envelope("default_permissions = \"e\"\n[permissions.e]\nextends=\":workspace\"\n[permissions.e.filesystem]\n\"/srv\" = \"ask\"\n")},
			ask("read /srv/a"), "", "(envelope), /etc/reeve/policy.toml:5:1 that asks"},
		{"a named file asks", "", "b", []Source{named("[permissions.b]\nextends=\":workspace\"\n[permissions.b.filesystem]\n\"/srv\" = \"ask\"\n")},
			ask("read /srv/a"), "", "(session), /home/u/build.toml:4:1 that asks"},
		{"a named file asks about the network", "", "b", []Source{named("[permissions.b]\nextends=\":workspace\"\n[permissions.b.network]\nenabled = true\nmode = \"ask\"\n")},
			askNet("192.0.2.7", 443), "", "(session), /home/u/build.toml"},
		{"no port", "", manual, nil, askNet("192.0.2.7", 0), "", "hold for all of them"},
		{"inline table", "[permissions.m]\nextends = \":workspace\"\nfilesystem = { \"/srv\" = \"ask\" }\n", "m", nil, ask("read /srv/a"), "", "write it as [permissions.m.filesystem]"},
		{"dotted table", "[permissions.m]\nextends = \":workspace\"\nfilesystem.\"/srv\" = \"ask\"\n", "m", nil, ask("read /srv/a"), "", "write it as [permissions.m.filesystem]"},
	} {
		t.Run(c.name, func(t *testing.T) { amendRow(t, c.user, c.profile, c.others, c.req, c.lines, c.fault) })
	}
}

func amendRow(t *testing.T, user, profile string, others []Source, req *event.Request, lines, fault string) {
	am, err := Amend(others, profile, testHost(), userSource(user), req, nil)
	if fault != "" {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Fatalf("%v, want %q; lines:\n%s", err, fault, am.Lines)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(am.Lines, lines) {
		t.Errorf("lines:\n%s\nwant:\n%s", am.Lines, lines)
	}
	before, after := load(t, profile, append(others, userSource(user))...), load(t, profile, append(others, userSource(string(am.Text)))...)
	if d := after.Decide(req); d.Action != event.ActionAllow {
		t.Errorf("afterwards it is %v (%s, %s)", d.Action, d.Rule, d.Reason)
	}
	keepsText(t, user, string(am.Text))
	for _, other := range neighbours(req) {
		if a, b := before.Decide(other), after.Decide(other); a.Action != b.Action || a.Reason != b.Reason {
			t.Errorf("%v %s%s: was %v, is %v", other.Op, other.Object.Path, other.Object.Addr, a, b)
		}
	}
	again, err := Amend(others, profile, testHost(), userSource(string(am.Text)), req, nil)
	if err != nil || again.Lines != "" || string(again.Text) != string(am.Text) {
		t.Errorf("a second time: %v, %q", err, again.Lines)
	}
}

// keepsText: what stood in the file stands there still, in its order, but for
// one word at most.
func keepsText(t *testing.T, before, after string) {
	t.Helper()
	missing, rest := 0, strings.Split(after, "\n")
	for _, line := range strings.Split(strings.TrimSuffix(before, "\n"), "\n") {
		at := -1
		for i, l := range rest {
			if l == line {
				at = i
				break
			}
		}
		if at < 0 {
			missing++
			continue
		}
		rest = rest[at+1:]
	}
	if missing > 1 {
		t.Errorf("%d lines are gone or moved:\n%s", missing, after)
	}
}

// neighbours are requests beside one that must be decided as before.
func neighbours(req *event.Request) []*event.Request {
	path := req.Object.Path
	if req.Object.Kind == event.ObjectAddr {
		var out []*event.Request
		for _, a := range []string{"192.0.2.6", "192.0.2.8", "198.51.100.1", "169.254.169.254", "127.0.0.1", "10.0.0.1", "2001:db8::8"} {
			out = append(out, askNet(a, 443), askNet(a, 80))
		}
		return append(out, askNet(req.Object.Addr, req.Object.Port+1), ask("read /srv/x/y"), askUnix("/run/other.sock"))
	}
	parent, _, _ := strings.Cut(path+"//", "//")
	parent = parent[:strings.LastIndexByte(parent, '/')]
	out := []*event.Request{askNet("192.0.2.6", 443), askUnix("/run/other.sock"), askUnix("/srv/x.sock")}
	for _, verb := range []string{"read", "write", "make", "exec", "delete", "mkdir", "chmod"} {
		for _, p := range []string{path + "2", path[:len(path)-1], parent + "/sibling", parent + "/sib/ling", "/usr/bin/gi", "/etc/passwd", "/home/u/ws/main.go", "/home/u/ws/.git/config"} {
			if !strings.HasSuffix(p, "/") && p != "" {
				out = append(out, ask(verb+" "+p))
			}
		}
	}
	if parent != "" {
		out = append(out, ask("read "+parent+"/"), ask("mkdir "+parent+"/newdir"), ask("delete "+parent))
	}
	return out
}

// TestAmendIsExact: a change that would reach further is not made, which needs a
// profile where the word for a directory decides about what is in it.
func TestAmendTwoLayers(t *testing.T) {
	// The user's default narrows the profile that was chosen by a file: naming
	// that profile in the user's file would drop the default.
	named := Source{"/s.toml", Session, []byte("default_permissions = \"privileged-manual\"\n")}
	user := "default_permissions = \"mine\"\n[permissions.mine]\nextends = \":observe\"\n[permissions.mine.filesystem]\n\"/opt\" = \"read\"\n"
	_, err := Amend([]Source{named}, "", testHost(), userSource(user), ask("write /srv/a"), nil)
	if err == nil || !strings.Contains(err.Error(), "also change what is decided about") {
		t.Errorf("%v", err)
	}
}

func FuzzAmend(f *testing.F) {
	f.Add(mine, "/srv/a", uint8(0))
	f.Add("[permissions.mine]\nextends = \":privileged-manual\"", "/srv/a\"b", uint8(1))
	f.Add("[permissions.mine.filesystem]\r\n\"/\" = \"ask\"\r\n# end", "/x", uint8(2))
	verbs := []string{"read ", "write ", "exec ", "delete "}
	f.Fuzz(func(t *testing.T, text, path string, verb uint8) {
		if len(text) > 4096 || len(path) > 200 || !strings.HasPrefix(path, "/") || len(path) > 1 && strings.HasSuffix(path, "/") || strings.Contains(path, "\x00") {
			return
		}
		req := ask(verbs[int(verb)%len(verbs)] + path)
		am, err := Amend(nil, "mine", testHost(), userSource(text), req, nil)
		if err != nil {
			return
		}
		p, err := Load([]Source{userSource(string(am.Text))}, "mine", testHost())
		if err != nil {
			t.Fatalf("%q cannot be loaded: %v", am.Text, err)
		}
		if d := p.Decide(req); d.Action != event.ActionAllow {
			t.Fatalf("%q: %v", am.Text, d)
		}
	})
}
