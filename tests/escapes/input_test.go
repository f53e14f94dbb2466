package escapes_test

import (
	"os"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tests/trial"
)

// A badInput is something that a person gets wrong about `reeve run`.
type badInput struct {
	name string
	// prepare lays it out; it may be nil.
	prepare func(*testing.T, *trial.Ground)
	// flags stand before the command, argv is the command; nil makes the file "made".
	flags, argv []string
	// wrap stands before reeve.
	wrap []string
	// status and says are the exit status and what it tells, a pattern; anybody's, but for
	// root where rootRuns: it may do what others may not, and the command runs.
	status   int
	says     string
	rootRuns bool
	// begins: the command was started, or tried, so that there is a session; makes: and
	// did its work.
	begins, makes bool
}

// file writes a file of the ground, for its user.
func file(name, text string, mode os.FileMode) func(*testing.T, *trial.Ground) {
	return func(t *testing.T, g *trial.Ground) {
		t.Helper()
		if i := strings.LastIndex(name, "/"); i > 0 {
			if err := os.MkdirAll(g.Expand(name[:i]), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		writeFile(t, g.Expand(name), text, mode)
		g.Own(g.Base)
	}
}

const (
	goodPolicy = "default_permissions = \"p\"\n[permissions.p]\nextends = \":workspace\"\n"
	badPolicy  = "default_permissions = \"p\"\n[permissions.p]\nextends = = 1\n"
	sayAllow   = `hint: check the owner and mode of the file`
)

var badInputs = []badInput{
	{name: "control", begins: true, makes: true, says: `^$`},
	{name: "policy", prepare: file("{base}/p.toml", goodPolicy, 0o644), flags: []string{"--policy", "{base}/p.toml"}, begins: true, makes: true, says: `^$`},

	{name: "policy that may not be read", prepare: file("{base}/p.toml", goodPolicy, 0), flags: []string{"--policy", "{base}/p.toml"},
		status: 125, says: `^reeve: read policy {base}/p\.toml: permission denied\n` + sayAllow, rootRuns: true},
	{name: "policy that is not there", flags: []string{"--policy", "{base}/none.toml"},
		status: 125, says: `^reeve: read policy {base}/none\.toml: no such file or directory\n`},
	{name: "policy that is a directory", flags: []string{"--policy", "{base}/outside"},
		status: 125, says: `^reeve: read policy {base}/outside: is a directory\n`},
	{name: "malformed policy", prepare: file("{base}/p.toml", badPolicy, 0o644), flags: []string{"--policy", "{base}/p.toml"},
		status: 125, says: `^reeve: {base}/p\.toml:3:11: unexpected character .*=.*\n`},
	{name: "policy that is no text", prepare: file("{base}/p.toml", "\xff\xfe\x00", 0o644), flags: []string{"--policy", "{base}/p.toml"},
		status: 125, says: `^reeve: {base}/p\.toml: the file is not valid UTF-8`},
	{name: "user's policy that may not be read", prepare: file("{home}/.config/reeve/policy.toml", goodPolicy, 0),
		status: 125, says: `^reeve: read policy {home}/\.config/reeve/policy\.toml: permission denied\n` + sayAllow, rootRuns: true},
	{name: "malformed user's policy", prepare: file("{home}/.config/reeve/policy.toml", badPolicy, 0o644),
		status: 125, says: `^reeve: {home}/\.config/reeve/policy\.toml:3:11: `},
	{name: "malformed workspace's policy", prepare: file("{ws}/.reeve.toml", badPolicy, 0o644),
		status: 125, says: `^reeve: {ws}/\.reeve\.toml:3:11: `},
	{name: "unknown profile", flags: []string{"--profile", "nonsense"},
		status: 125, says: `^reeve: there is no profile "nonsense"; expected one of: .*read-only.*observe\n$`},

	{name: "missing command", argv: []string{"no-such-program"}, status: 127, says: `^reeve: run "no-such-program": command not found\n$`},
	// root's PATH, that another user has.
	{name: "missing command, closed directory on the PATH", prepare: func(t *testing.T, g *trial.Ground) { chmod(t, g.Outside, 0) },
		wrap: []string{"env", "PATH={outside}:/usr/bin:/bin"}, argv: []string{"no-such-program"}, status: 127, says: `^reeve: run "no-such-program": command not found\n$`},
	{name: "not executable on the PATH", wrap: []string{"env", "PATH={ws}:/usr/bin:/bin"}, argv: []string{"ok.txt"},
		status: 126, says: `^reeve: run "ok.txt": {ok}: permission denied\n` + sayAllow},
	{name: "missing file", argv: []string{"./no-such-program"}, status: 127, says: `^reeve: run "./no-such-program": no such file or directory\n$`},
	{name: "no name", argv: []string{""}, status: 127, says: `^reeve: run "": command not found\n$`},
	{name: "not executable", argv: []string{"./ok.txt"}, status: 126, says: `^reeve: run "./ok.txt": permission denied\n` + sayAllow},
	{name: "a directory", argv: []string{"./sub"}, status: 126, says: `^reeve: run "./sub": is a directory\n`},
	{name: "no format", prepare: file("{ws}/text", "echo > made\n", 0o755), argv: []string{"./text"},
		status: 126, says: `^reeve: run ./text: exec format error\n`, begins: true},
	{name: "interpreter that is not there", prepare: file("{ws}/text", "#!/no/such/program\n", 0o755), argv: []string{"./text"},
		status: 127, says: `^reeve: run ./text: no such file or directory\n`, begins: true},

	{name: "workspace that is a symlink", prepare: symlink("{ws}", "{base}/link"), flags: []string{"--workspace", "{base}/link"},
		says: `^reeve: workspace {base}/link is {ws} \(symlink followed\)\n$`, begins: true, makes: true},
	{name: "workspace that leads nowhere", prepare: symlink("{base}/none", "{base}/link"), flags: []string{"--workspace", "{base}/link"},
		status: 125, says: `^reeve: open workspace {base}/link: no such file or directory\nhint: create it first`},
	{name: "workspace that leads to itself", prepare: symlink("{base}/link", "{base}/link"), flags: []string{"--workspace", "{base}/link"},
		status: 125, says: `^reeve: open workspace {base}/link: too many levels of symbolic links\n`},
	{name: "workspace that is not there", flags: []string{"--workspace", "{base}/none"},
		status: 125, says: `^reeve: open workspace {base}/none: no such file or directory\nhint: create it first, or name another one`},
	{name: "workspace that is a file", flags: []string{"--workspace", "{ok}"},
		status: 125, says: `^reeve: open workspace {ok}: not a directory\nhint: a workspace is a directory`},
	{name: "workspace that is not writable", prepare: func(t *testing.T, g *trial.Ground) { chmod(t, g.Workspace, 0o555) },
		status: 2, says: `^reeve: workspace {ws} is not writable: permission denied\n.*cannot create made: Permission denied\n$`, rootRuns: true, begins: true},
	{name: "working directory that is gone", wrap: []string{"/bin/sh", "-c", `mkdir gone && cd gone && rmdir ../gone && exec "$@"`, "sh"},
		status: 125, says: `^reeve: find working directory: it was deleted\nhint: cd to a directory that exists\n$`},
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(path, 0o755) }) // so that whoever made it can remove it
}

// TestBadInput: what a person gets wrong is said in a line, by its own status, and
// leaves nothing half done: no command that ran, no session, nothing that later verbs
// complain about.
func TestBadInput(t *testing.T) {
	for _, c := range badInputs {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			tiers(t, false, func(t *testing.T, nobody bool) { c.try(t, nobody) })
		})
	}
}

func (c badInput) try(t *testing.T, nobody bool) {
	g := trial.NewGround(t, nobody)
	if c.prepare != nil {
		c.prepare(t, g)
	}
	if c.rootRuns && g.UID() == 0 {
		c.status, c.says, c.begins, c.makes = 0, `^$`, true, true
	}
	argv := c.argv
	if argv == nil {
		argv = []string{"/bin/sh", "-c", "echo > made"}
	}
	line := append(append([]string{}, c.wrap...), g.Reeve, "run", "--state", g.State)
	if engine := trial.Engine(); engine != "" {
		line = append(line, "--engine", engine)
	}
	r := g.Native(trial.Options{}, append(append(append(line, c.flags...), "--"), argv...)...)
	said := summaryLine.ReplaceAllString(r.Stderr, "")
	if (said != r.Stderr) != c.begins {
		t.Errorf("there is a summary: %v, want %v", said != r.Stderr, c.begins)
	}
	if r.Status != c.status || r.Stdout != "" || !matches(g.Expand(c.says), said) {
		t.Errorf("status %d, want %d; says %q, want a match of %s", r.Status, c.status, r.Text(), c.says)
	}
	if exists(g.Expand("{ws}/made")) != c.makes {
		t.Errorf("the command did its work: %v, want %v", !c.makes, c.makes)
	}
	if left := g.Processes(); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
	if dirs, err := os.ReadDir(g.Expand("{state}/sessions")); !c.begins && err == nil && len(dirs) > 0 {
		t.Errorf("a session is left: %v", dirs)
	}
	list := g.Verb("sessions", "--json")
	if n := len(trial.SessionIDs(list.Stdout)); list.Status != 0 || list.Stderr != "" || (n == 1) != c.begins {
		t.Errorf("sessions: status %d, %d of them: %s", list.Status, n, list.Text())
	}
}
