package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// gitLine makes the request of one line of testdata/git.txt.
func gitLine(line string) *event.Request {
	verb, rest, _ := strings.Cut(line, " ")
	paths := strings.Fields(rest)
	kindOf := func(p string) (string, event.ObjectKind) {
		if dir, ok := strings.CutSuffix(p, "/"); ok {
			return dir, event.ObjectDir
		}
		return p, event.ObjectFile
	}
	switch verb {
	case "rename", "link":
		req := &event.Request{Op: event.OpRename, Access: event.AccessDelete}
		if verb == "link" {
			req.Op, req.Access = event.OpLink, event.AccessCreate
		}
		req.Object.Path, req.Object.Kind = kindOf(paths[0])
		req.Target = event.Object{Path: paths[1], Kind: event.ObjectMissing}
		if len(paths) > 2 && paths[2] == "over" {
			req.Target.Kind = event.ObjectFile
		}
		return req
	case "symlink":
		return &event.Request{
			Op: event.OpSymlink, Object: event.Object{Kind: event.ObjectSymlink, Raw: "testing"}, Target: event.Object{Path: paths[0], Kind: event.ObjectMissing},
		}
	case "gone":
		req := ask("delete " + rest)
		req.Object.Kind = event.ObjectMissing
		return req
	case "rw":
		req := ask("write " + rest)
		req.Access |= event.AccessRead
		return req
	}
	return ask(line)
}

// decideBorn asks as the gate does: again, with Born set, when it is wanted.
func decideBorn(p *Policy, req *event.Request) (d event.Decision, asked bool) {
	return decideIf(p, req, true)
}

func decideIf(p *Policy, req *event.Request, born bool) (d event.Decision, asked bool) {
	if d = p.Decide(req); d.AskBorn {
		req.Born, asked = born, true
		if born {
			d = p.Decide(req)
		}
	}
	return d, asked
}

// births are the directories that a session made, as the gate remembers them.
type births map[string]bool

// note follows what a request that was carried out does to directories.
func (b births) note(req *event.Request) {
	switch from := req.Object.Path; {
	case req.Op == event.OpMkdir && req.Object.Kind == event.ObjectMissing:
		b[from] = true
	case req.Op == event.OpRename && req.Object.Kind == event.ObjectDir:
		for dir := range b {
			if isBelow(dir, from) {
				delete(b, dir)
				b[req.Target.Path+strings.TrimPrefix(dir, from)] = true
			}
		}
	}
}

// born is what the gate answers to AskBorn: whether the session made the
// repository that the new name, or the only one, is in; for a ".git" itself, the
// directory that it is in. For a directory that is a repository, or administers
// its work trees or submodules, and is moved, it is about where that comes from.
func (b births) born(req *event.Request) bool {
	path := req.Object.Path
	switch {
	case req.Op == event.OpRename && req.Object.Kind == event.ObjectDir && administration(path) != "":
		if administration(path) == path {
			return b[path]
		}
	case req.Target.Path != "":
		path = req.Target.Path
	}
	if last(path) == ".git" {
		return b[parent(path)]
	}
	for dir := parent(path); dir != "/"; dir = parent(dir) {
		if (strings.HasSuffix(dir, ".git") || last(parent(dir)) == "worktrees") && b[dir] {
			return true
		}
	}
	return false
}

func gitCommands(t *testing.T) (commands []string, lines map[string][]string) {
	t.Helper()
	text, err := os.ReadFile("testdata/git.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines = make(map[string][]string)
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			commands = append(commands, name)
		} else {
			name := commands[len(commands)-1]
			lines[name] = append(lines[name], line)
		}
	}
	return commands, lines
}

// TestGitInBornRepositories: what git does in repositories that the session made
// passes, commands that make them included.
func TestGitInBornRepositories(t *testing.T) {
	p := load(t, "")
	commands, lines := gitCommands(t)
	made := births{}
	for _, command := range commands {
		for _, line := range lines[command] {
			req := gitLine(line)
			d, asked := decideIf(p, req, made.born(req))
			made.note(req)
			failsAnyway := req.Object.Kind == event.ObjectMissing && d.Errno == 2 || d.Errno == 17
			if d.Action != event.ActionAllow && !failsAnyway {
				t.Errorf("%s: %s: denied by %q (%s), asked %v", command, line, d.Rule, d.Reason, asked)
			}
			toConfig := strings.HasSuffix(req.Target.Path, "/config") && strings.Contains(req.Target.Path, ".git/")
			name := last(req.Object.Path)
			written := (name == ".git" || name == "commondir") && (req.Op == event.OpCreate || req.Op == event.OpOpen && req.Access&event.AccessWrite != 0)
			if d.GuardContent != (toConfig && req.Op == event.OpRename || written) {
				t.Errorf("%s: %s: guard %v", command, line, d.GuardContent)
			}
		}
	}
}

// TestGitInStandingRepositories: ordinary work in a repository that stood there
// touches no protected file and asks for nothing, but for what it adds in
// directories that it makes itself.
func TestGitInStandingRepositories(t *testing.T) {
	p := load(t, "")
	commands, lines := gitCommands(t)
	ordinary := []string{"add", "commit", "branch b", "switch", "stash", "merge", "rebase", "log", "status", "tag", "gc", "fetch", "push", "worktree add"}
	checked, made := 0, births{}
	for _, command := range commands {
		is := false
		for _, o := range ordinary {
			is = is || strings.HasPrefix(command, "git "+o)
		}
		if !is {
			continue
		}
		for _, line := range lines[command] {
			req := gitLine(line)
			born := made.born(req)
			d, asked := decideIf(p, req, born)
			made.note(req)
			checked++
			if asked && !born || d.Action != event.ActionAllow && req.Object.Kind != event.ObjectMissing && d.Errno != 17 {
				t.Errorf("%s: %s: denied by %q (%s)", command, line, d.Rule, d.Reason)
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d lines checked", checked)
	}
}

func TestGitAttacks(t *testing.T) {
	const ws, old = "/home/u/ws/.git", "/home/u/ws/old/.git"
	rename := func(from, to string) *event.Request { return gitLine("rename " + from + " " + to + " new") }
	symlink := func(to string) *event.Request { return gitLine("symlink " + to) }
	link := func(from, to string) *event.Request { return gitLine("link " + from + " " + to) }
	for name, req := range map[string]*event.Request{
		"live hook":                  ask("make " + ws + "/hooks/pre-commit"),
		"live hook in a new dir":     ask("make " + ws + "/hooks/sub/x.sample"),
		"sample renamed to live":     rename(ws+"/hooks/pre-commit.sample", ws+"/hooks/pre-commit"),
		"script renamed to live":     rename("/home/u/ws/x", ws+"/hooks/pre-commit"),
		"hooks directory moved in":   rename("/home/u/ws/evil/", ws+"/hooks"),
		"hooks directory moved away": rename(ws+"/hooks/", "/home/u/ws/away"),
		"repository moved away":      rename(ws+"/", "/home/u/ws/away"),
		"prepared repository":        rename("/home/u/ws/evil/", old),
		"config written directly":    ask("write " + ws + "/config"),
		"config made directly":       ask("make " + ws + "/config"),
		"config moved away":          rename(ws+"/config", ws+"/x"),
		"other file over config":     rename("/home/u/ws/x", ws+"/config"),
		"other lock over config":     rename(old+"/config.lock", ws+"/config"),
		"lock linked to config":      link(ws+"/config.lock", ws+"/config"),
		"config linked out":          link(ws+"/config", "/home/u/ws/x"),
		"hook linked in":             link("/home/u/ws/x", ws+"/hooks/pre-commit"),
		"lock is a symlink":          symlink(ws + "/config.lock"),
		"config is a symlink":        symlink(ws + "/config"),
		"hooks is a symlink":         symlink(ws + "/hooks"),
		"repository is a symlink":    symlink("/home/u/ws/new/.git"),
		"bare is a symlink":          symlink("/home/u/ws/new.git"),
		"symlink renamed to .git":    {Op: event.OpRename, Object: event.Object{Kind: event.ObjectSymlink, Path: "/home/u/ws/l"}, Target: event.Object{Kind: event.ObjectMissing, Path: "/home/u/ws/n.git"}},
		"common directory":           ask("make " + ws + "/commondir"),
		"CI symlink":                 symlink("/home/u/ws/.claude"),
	} {
		if d, _ := decideBorn(p(t), req); d.Action == event.ActionAllow && !d.GuardContent {
			t.Errorf("%s: allowed by %q", name, d.Rule)
		}
	}
	exchange := rename("/home/u/ws/evil/", ws)
	exchange.Flags, exchange.Target.Kind = renameExchange, event.ObjectDir
	if d, _ := decideBorn(p(t), exchange); d.Action == event.ActionAllow {
		t.Error("repository exchanged")
	}
	lock := rename(ws+"/config.lock", ws+"/config")
	lock.Flags, lock.Target.Kind = renameExchange, event.ObjectFile
	if d, _ := decideBorn(p(t), lock); d.Action == event.ActionAllow {
		t.Error("config exchanged with its lock")
	}
}

func p(t *testing.T) *Policy { return load(t, "") }
