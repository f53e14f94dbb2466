package policy

import (
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// standing is the default policy on a host where repositories stand in the
// workspace: at its root, and one that was not found when the session began.
func standing(t *testing.T) *Policy {
	t.Helper()
	h := testHost()
	h.Repositories = []string{"/home/u/ws", "/home/u/ws/deep/repo"}
	p, err := Load(nil, "", h)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestRepositoryIsNotReplaced plays whole attacks: the session makes what it may,
// and the last step, which would have the user's own git obey other files, fails.
func TestRepositoryIsNotReplaced(t *testing.T) {
	const ws = "/home/u/ws"
	attacks := map[string][]string{
		"moved into a new directory":        {"mkdir " + ws + "/d", "rename " + ws + "/.git/ " + ws + "/d/.git new"},
		"moved under another name":          {"rename " + ws + "/.git/ " + ws + "/x.git new"},
		"moved with what it is in":          {"mkdir " + ws + "/d", "rename " + ws + "/deep/ " + ws + "/d/deep new"},
		"moved with its work tree":          {"rename " + ws + "/deep/repo/ " + ws + "/deep/old new"},
		"one not found at the start":        {"mkdir " + ws + "/d", "rename " + ws + "/lost/.git/ " + ws + "/d/.git new"},
		"a bare one":                        {"mkdir " + ws + "/d", "rename " + ws + "/bare.git/ " + ws + "/d/bare.git new"},
		"a work tree's administration":      {"rename " + ws + "/.git/worktrees/w/ " + ws + "/.git/worktrees/v new"},
		"all work trees' administration":    {"rename " + ws + "/.git/worktrees/ " + ws + "/.git/modules/worktrees new"},
		"a submodule's repository":          {"rename " + ws + "/.git/modules/a/ " + ws + "/.git/modules/b new"},
		"moved into a repository just made": {"mkdir " + ws + "/d", "mkdir " + ws + "/d/.git", "rename " + ws + "/.git/worktrees/w/ " + ws + "/d/.git/worktrees/w new"},
		"a link in its place":               {"make " + ws + "/.git"},
		"a link in an old directory":        {"make " + ws + "/src/.git"},
		"a link moved there":                {"make " + ws + "/x", "rename " + ws + "/x " + ws + "/src/.git new"},
		"a link hard-linked there":          {"make " + ws + "/x", "link " + ws + "/x " + ws + "/src/.git new"},
		"a symbolic link":                   {"symlink " + ws + "/src/.git"},
		"a work tree's common directory":    {"make " + ws + "/.git/worktrees/w/commondir"},
		"common directory moved in":         {"make " + ws + "/x", "rename " + ws + "/x " + ws + "/.git/worktrees/w/commondir over"},
	}
	for name, lines := range attacks {
		p, made := standing(t), births{}
		for i, line := range lines {
			req := gitLine(line)
			d, _ := decideIf(p, req, made.born(req))
			allowed := d.Action == event.ActionAllow
			if final := i == len(lines)-1; allowed == final {
				t.Errorf("%s: %s: %v (%s)", name, line, d.Action, d.Reason)
			} else if final && req.Object.Kind == event.ObjectDir && isBelow("/home/u/ws/deep/repo", req.Object.Path) && d.Reason != reasonRepository {
				t.Errorf("%s: denied for another reason: %s", name, d.Reason)
			}
			made.note(req)
		}
	}
	linked := gitLine("rename " + ws + "/d/.git/ " + ws + "/old/.git over")
	linked.Flags = renameExchange
	if d, _ := decideBorn(p(t), linked); d.Action == event.ActionAllow {
		t.Error("exchange: a work tree's link for a repository: allowed")
	}
	bare := gitLine("rename " + ws + "/new.git/ " + ws + "/old.git over")
	bare.Flags, bare.Target.Kind = renameExchange, event.ObjectDir
	if d, _ := decideBorn(p(t), bare); d.Action == event.ActionAllow {
		t.Error("exchange: a new repository for an old one: allowed")
	}
	for _, other := range []string{ws + "/d/", ws + "/d/.git/", ws + "/d/x.git/"} {
		for _, line := range []string{"rename " + ws + "/.git/ " + other, "rename " + other + " " + ws + "/.git"} {
			req := gitLine(line)
			req.Target = event.Object{Path: trimSlash(req.Target.Path), Kind: event.ObjectDir}
			req.Flags = renameExchange
			if d, _ := decideBorn(p(t), req); d.Action == event.ActionAllow {
				t.Errorf("exchange: %s: allowed", line)
			}
		}
	}
}

func trimSlash(p string) string {
	if len(p) > 1 && p[len(p)-1] == '/' {
		return p[:len(p)-1]
	}
	return p
}

// TestOwnRepositoriesMove: what the session made is moved, linked and removed as
// before, also where other repositories stand.
func TestOwnRepositoriesMove(t *testing.T) {
	const ws = "/home/u/ws"
	for name, lines := range map[string][]string{
		"init where none stood": {
			"mkdir " + ws + "/new/.git", "make " + ws + "/new/.git/config.lock", "rename " + ws + "/new/.git/config.lock " + ws + "/new/.git/config new",
			"delete " + ws + "/new/.git/config", "delete " + ws + "/new/.git/",
		},
		"init by libgit2": {
			"mkdir " + ws + "/new/.git", "make " + ws + "/new/.git/config", "make " + ws + "/new/.git/config.lock",
			"rename " + ws + "/new/.git/config.lock " + ws + "/new/.git/config over",
		},
		"init below a standing one": {"mkdir " + ws + "/src/.git", "make " + ws + "/src/.git/hooks/x.sample"},
		"a clone moved":             {"mkdir " + ws + "/c", "mkdir " + ws + "/c/.git", "rename " + ws + "/c/ " + ws + "/d new", "make " + ws + "/d/.git/config.lock"},
		"its .git moved to a place without one": {
			"mkdir " + ws + "/c", "mkdir " + ws + "/c/.git", "rename " + ws + "/c/.git/ " + ws + "/src/.git new", "make " + ws + "/src/.git/config.lock",
		},
		"a bare clone moved": {"mkdir " + ws + "/c.git", "rename " + ws + "/c.git/ " + ws + "/d.git new"},
		"a work tree": {
			"mkdir " + ws + "/wt", "mkdir " + ws + "/.git/worktrees/wt", "make " + ws + "/.git/worktrees/wt/gitdir", "make " + ws + "/wt/.git",
			"make " + ws + "/.git/worktrees/wt/commondir", "delete " + ws + "/wt/.git",
		},
		"ordinary directories": {"rename " + ws + "/src/ " + ws + "/lib new", "rename " + ws + "/.git/rebase-apply/ " + ws + "/.git/rebase-old new"},
	} {
		p, made := standing(t), births{}
		for _, line := range lines {
			req := gitLine(line)
			if d, _ := decideIf(p, req, made.born(req)); d.Action != event.ActionAllow {
				t.Errorf("%s: %s: denied by %q (%s)", name, line, d.Rule, d.Reason)
			}
			made.note(req)
		}
	}
}

const unprotected = "[permissions.x]\nextends = \":workspace\"\n[permissions.x.protected]\n\"/\" = \"write\"\n"

// TestRepositoryExceptions: who lifts the protection may move repositories.
func TestRepositoryExceptions(t *testing.T) {
	for _, p := range []*Policy{load(t, "observe"), load(t, "x", source(Session, unprotected))} {
		req := gitLine("rename /home/u/ws/.git/ /home/u/ws/old.git new")
		if d := p.Decide(req); d.Action != event.ActionAllow {
			t.Errorf("%s: %s", p.Name(), d.Reason)
		}
	}
}

func TestStrangeSockets(t *testing.T) {
	p, observe := load(t, ""), load(t, "observe")
	for _, op := range []event.Op{event.OpLink, event.OpRename} {
		for _, to := range []string{"/home/u/ws/s", "/tmp/reeve-01S/s", "/tmp/t"} {
			req := &event.Request{Op: op, Object: event.Object{Kind: event.ObjectSocket, Path: "/tmp/s"}, Target: event.Object{Kind: event.ObjectMissing, Path: to}}
			if d := p.Decide(req); d.Action != event.ActionDeny {
				t.Errorf("%v to %s: allowed", op, to)
			}
			if d := observe.Decide(req); d.Action != event.ActionAllow {
				t.Errorf("observe: %v: %s", op, d.Reason)
			}
			req.Object.Own = true
			if d := p.Decide(req); d.Action != event.ActionAllow && to != "/home/u/ws/s" {
				t.Errorf("the session's own, %v to %s: %s", op, to, d.Reason)
			}
		}
	}
	exchange := &event.Request{
		Op: event.OpRename, Flags: renameExchange,
		Object: event.Object{Kind: event.ObjectFile, Path: "/tmp/x"}, Target: event.Object{Kind: event.ObjectSocket, Path: "/tmp/s"},
	}
	if d := p.Decide(exchange); d.Action != event.ActionDeny {
		t.Error("exchanged for a socket of another program")
	}
	// Nor in a directory, even where nothing else keeps directories apart.
	lifted := load(t, "x", source(Session, unprotected+"[permissions.x.secrets]\n\"/\" = \"write\"\n"))
	if d := lifted.Decide(gitLine("rename /tmp/d/ /home/u/ws/d new")); outcome(d) != "EXDEV" {
		t.Errorf("a directory of sockets moved into the workspace: %s", outcome(d))
	}
}

// TestSocketsInTemporaryWorkspaces: a workspace in or around /tmp does not make
// all of /tmp the project's.
func TestSocketsInTemporaryWorkspaces(t *testing.T) {
	for _, row := range []struct{ workspace, socket, want string }{
		{"/tmp/work", "/tmp/work/s", "ok"}, {"/tmp/work", "/tmp/s", "no"}, {"/tmp", "/tmp/s", "no"}, {"/tmp", "/tmp/reeve-01S/s", "no"},
	} {
		h := testHost()
		h.Workspaces = []string{row.workspace}
		p, err := Load(nil, "", h)
		if err != nil {
			t.Fatal(err)
		}
		req := &event.Request{Op: event.OpConnect, Object: event.Object{Kind: event.ObjectSocket, Path: row.socket}}
		if d := p.Decide(req); outcome(d) != row.want {
			t.Errorf("workspace %s: %s: %s, want %s", row.workspace, row.socket, outcome(d), row.want)
		}
	}
}

func TestSetID(t *testing.T) {
	p, observe := load(t, ""), load(t, "observe")
	for _, mode := range []uint32{0o4755, 0o2755, 0o2645, 0o2644, 0o4000, 0o6000} {
		make, mknod, chmod := ask("make /home/u/ws/x"), ask("make /home/u/ws/x"), ask("chmod /home/u/ws/x")
		make.Mode, mknod.Mode, chmod.Mode = mode, mode|0o100000, mode
		mknod.Op = event.OpMknod
		for _, req := range []*event.Request{make, mknod, chmod} {
			if d := p.Decide(req); outcome(d) != "EPERM" {
				t.Errorf("%v %o: %s", req.Op, mode, outcome(d))
			}
			if d := observe.Decide(req); outcome(d) != "ok" {
				t.Errorf("observe: %v %o: %s", req.Op, mode, outcome(d))
			}
		}
		dir := ask("chmod /home/u/ws/d/")
		if dir.Mode = mode; outcome(p.Decide(dir)) != "ok" {
			t.Errorf("a directory of mode %o", mode)
		}
	}
}

func TestOwnTerminals(t *testing.T) {
	p := load(t, "")
	for _, text := range []string{"read /dev/pts/3", "write /dev/pts/3", "chmod /dev/pts/3"} {
		req := ask(text)
		req.Object.Kind, req.Object.Own = event.ObjectDevice, true
		if d := p.Decide(req); outcome(d) != "ok" {
			t.Errorf("%s: %s", text, d.Reason)
		}
		if req.Object.Own = false; outcome(p.Decide(req)) != "no" {
			t.Errorf("%s of another: allowed", text)
		}
	}
}

// TestBornTakesNothing: what stood there before does not get into a repository of the
// session's own, where it could be changed, or leave its place for another.
func TestBornTakesNothing(t *testing.T) {
	policy := load(t, "")
	const ws, own = "/home/u/ws", "/home/u/ws/own"
	for _, c := range []struct {
		op       event.Op
		from, to string
		want     bool
	}{
		{event.OpRename, ws + "/.github/ci.yml", own + "/.hg/hgrc", false},
		{event.OpLink, ws + "/.github/ci.yml", own + "/.hg/hgrc", false},
		{event.OpLink, ws + "/.github/ci.yml", own + "/.git", false},
		{event.OpRename, ws + "/sub/.git", own + "/.git", false},
		{event.OpRename, ws + "/plain", own + "/.hg/hgrc", true},
		{event.OpLink, ws + "/plain", own + "/.hg/hgrc", true},
	} {
		req := &event.Request{
			Op: c.op, Access: event.AccessWrite, Task: event.Task{PID: 77, TID: 77, Exe: "/usr/bin/mv", Cwd: ws},
			Object: event.Object{Kind: event.ObjectFile, Path: c.from}, Target: event.Object{Kind: event.ObjectMissing, Path: c.to},
		}
		if d, _ := decideBorn(policy, req); (d.Action == event.ActionAllow) != c.want {
			t.Errorf("%v %s to %s: %v %s", c.op, c.from, c.to, d.Action, d.Reason)
		}
	}
}

// TestLinkRemoved: a work tree or submodule that stood there may go when somebody
// says so, and nothing else may be done to the file that says where its repository is.
func TestLinkRemoved(t *testing.T) {
	p := load(t, "")
	for line, want := range map[string]event.Action{
		"delete /home/u/ws/tree/.git":                                event.ActionAsk,
		"delete /home/u/ws/.git/worktrees/tree/gitdir":               event.ActionAsk,
		"delete /home/u/ws/.git/worktrees/tree/commondir":            event.ActionAsk,
		"delete /home/u/ws/.git/commondir":                           event.ActionDeny,
		"rename /home/u/ws/tree/.git /home/u/ws/x new":               event.ActionDeny,
		"rename /home/u/ws/x /home/u/ws/tree/.git over":              event.ActionDeny,
		"update /home/u/ws/tree/.git":                                event.ActionDeny,
		"update /home/u/ws/.git/worktrees/tree/gitdir":               event.ActionDeny,
		"symlink /home/u/ws/tree/.git":                               event.ActionDeny,
		"rename /home/u/ws/x /home/u/ws/.git/worktrees/t/gitdir new": event.ActionDeny,
	} {
		if d := p.Decide(gitLine(line)); d.Action != want {
			t.Errorf("%s: %+v", line, d)
		}
	}
}

// TestRepositoryNames: what git obeys is protected wherever a repository can be, and
// branches, remotes and files of work trees may be called like that.
func TestRepositoryNames(t *testing.T) {
	p := load(t, "")
	for path, want := range map[string]string{
		".git/refs/heads/config": "ok", ".git/refs/heads/config.lock": "ok", ".git/refs/heads/a/hooks/b": "ok", ".git/refs/tags/config.lock": "ok", ".git/refs/tags/hooks": "ok",
		".git/logs/refs/heads/hooks": "ok", ".git/logs/refs/heads/config.lock": "ok", ".git/refs/remotes/origin/HEAD": "ok", ".git/logs/HEAD": "ok", ".git/refs/remotes/origin/config.lock": "ok",
		".git/modules/m/refs/heads/config.lock": "ok", ".git/modules/m/HEAD": "ok", ".git/worktrees/w/HEAD": "ok", ".git/worktrees/w/logs/HEAD": "ok",
		"x.git/HEAD": "ok", "x.git/worktrees/w/HEAD": "ok", "x.git/main/src/hooks/use.ts": "ok", "x.git/main/config": "ok", "x.git/main/src/remotes/a": "ok", "src/hooks/use.ts": "ok",
		"x.git/core/HEAD": "no", ".git/hooks/pre-commit": "no", ".git/worktrees/w/hooks/pre-commit": "no", ".git/modules/m/hooks/x": "no", ".git/a/b/hooks/x": "no", "x.git/worktrees/w/hooks/x": "no",
		".git/config": "no", ".git/a/config": "no", ".git/a/config.lock": "no", ".git/modules/m/config.lock": "no", ".git/worktrees/w/config.worktree": "no", "x.git/worktrees/w/modules/m/config": "no",
		".git/remotes/origin": "no", ".git/branches/origin": "no", ".git/modules/m/commondir": "no", "x.git/worktrees/w/modules/m/commondir": "no",
	} {
		if d := p.Decide(ask("make /home/u/ws/" + path)); outcome(d) != want {
			t.Errorf("%s: %s (%s, %s), want %s", path, outcome(d), d.Rule, d.Reason, want)
		}
	}
	for link, want := range map[string]bool{
		"../.git/modules/m": true, "../.git/modules/libs/m": true, "../.git/worktrees/w": true, "../x.git": true, "/home/u/ws/logs/refs/a/.git/modules/m": true,
		"../.git/modules/refs/heads": false, "../.git/modules/m/refs/heads/y.git": false, "../.git/modules/logs/refs": false, "../.git/refs/heads/y.git": false, "../.git/refs": false,
		"../.git/a": false, "../.git/modules": false, "../.git/worktrees/w/modules/m": false,
	} {
		req := &event.Request{Op: event.OpCreate, Object: event.Object{Path: "/home/u/ws/sub/.git"}}
		if d := p.CheckContent(req, []byte("gitdir: "+link+"\n")); d.Action == event.ActionAllow != want {
			t.Errorf("%s: %+v", link, d)
		}
	}
}

// TestNothingAmongBranches: no link leads from where repositories are administered, and
// no directory among branches is one, by any operation, not even in a repository of
// the session's own.
func TestNothingAmongBranches(t *testing.T) {
	const git = "/home/u/ws/.git"
	link := func(text, path string) *event.Request {
		return &event.Request{Op: event.OpSymlink, Object: event.Object{Kind: event.ObjectSymlink, Raw: text}, Target: event.Object{Kind: event.ObjectMissing, Path: path}}
	}
	move := func(kind event.ObjectKind, from, to string) *event.Request {
		return &event.Request{Op: event.OpRename, Object: event.Object{Kind: kind, Path: from}, Target: event.Object{Kind: event.ObjectMissing, Path: to}}
	}
	for name, req := range map[string]*event.Request{
		"work tree": link("../refs/remotes/o", git+"/worktrees/x"), "in one": link("/home/u/ws/x", git+"/worktrees/w/x"), "module": link("../../x", git+"/modules/a/b/x"),
		"branches": link("refs", git+"/modules/m/x"), "logs": link("logs", git+"/modules/m/x"), "other's": link("../x", "/home/u/ws/y.git/worktrees/x"),
		"moved link": move(event.ObjectSymlink, "/home/u/ws/l", git+"/modules/m/x"), "moved repository": move(event.ObjectDir, "/home/u/ws/d", git+"/refs/remotes/x.git"),
		"repository": ask("mkdir " + git + "/refs/remotes/o/x.git"), "deeper": ask("mkdir " + git + "/modules/m/refs/heads/a/b/.git"), "in logs": ask("mkdir /home/u/ws/y.git/logs/refs/x.git"),
		"hard link": {Op: event.OpLink, Object: event.Object{Kind: event.ObjectSymlink, Path: "/home/u/ws/l"}, Target: event.Object{Kind: event.ObjectMissing, Path: git + "/worktrees/x"}},
	} {
		for _, born := range []bool{false, true} {
			req.Born = born
			if d := load(t, "").Decide(req); d.Action != event.ActionDeny {
				t.Errorf("%s, born %v: %+v", name, born, d)
			}
			if d := load(t, "observe").Decide(req); d.Action != event.ActionAllow {
				t.Errorf("%s is only observed: %+v", name, d)
			}
		}
	}
	for name, req := range map[string]*event.Request{
		"a try": link("testing", git+"/modules/m/tAbc"), "a branch": ask("mkdir " + git + "/refs/heads/feature"), "beside": ask("mkdir /home/u/ws/refs/x.git"), "of a file": link("../x", "/home/u/ws/worktrees/x"),
	} {
		if d := load(t, "").Decide(req); d.Action != event.ActionAllow {
			t.Errorf("%s: %+v", name, d)
		}
	}
	whiteout := move(event.ObjectFile, "/home/u/ws/a", "/home/u/ws/b")
	whiteout.Flags = renameWhiteout
	if d := load(t, "").Decide(whiteout); d.Action != event.ActionDeny {
		t.Errorf("a device left behind: %+v", d)
	}
}
