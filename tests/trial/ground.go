package trial

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tests/victims"
)

// Nobody is the ordinary user that a test by root runs as.
const Nobody = 65534

// Ground is a workspace with what must be kept in and around it. Every run has
// a ground of its own, so that a control that succeeds spoils nothing.
//
//	ws/          the workspace: victims, ok.txt, .env (secret), a repository
//	  p1/x/      allowed: f, tool        p2/x/   denied by policy.toml: f (secret), tool, linked
//	home/        .ssh/id_rsa (secret)    outside/  secret.txt (secret), tool
//	state/       reeve's own
type Ground struct {
	Kit
	Base, Workspace, Home, Outside, State string
	// Token stands in every secret file, after "TOKEN=", and nowhere else.
	Token string
	// Cred is the user to run as; nil is the test's own.
	Cred *syscall.Credential

	t      testing.TB
	before map[string]string
}

// TrialPolicy is the policy file that `Policy` runs under: the built-in
// workspace, and a directory of it denied by name.
const TrialPolicy = `default_permissions = "trial"
[permissions.trial]
description = "A workspace with a denied corner."
extends = ":workspace"
[permissions.trial.filesystem]
":minimal" = "read"
[permissions.trial.filesystem.":workspace_roots"]
"." = "write"
"p2/x" = "deny"
"**/*.env" = "deny"
`

// NewGround lays out a ground for the test's own user, or for Nobody, who cannot
// have engine lsm.
func NewGround(t testing.TB, asNobody bool) *Ground {
	t.Helper()
	k := Build(t)
	if asNobody && Engine() == "lsm" {
		Skip(t, "user", "engine lsm is root's alone")
	}
	needEngine(t)
	g, err := layout(k)
	if g != nil {
		g.t = t
		t.Cleanup(g.clean)
	}
	if err != nil {
		t.Fatalf("lay out ground: %v", err)
	}
	if asNobody {
		NeedRoot(t)
		g.Cred = &syscall.Credential{Uid: Nobody, Gid: Nobody}
		if err := giveAway(g.Base, g.Cred); err != nil {
			t.Fatalf("give ground to nobody: %v", err)
		}
	}
	g.before = g.snapshot()
	return g
}

func layout(k Kit) (*Ground, error) {
	base, err := scratch("ground")
	if err != nil {
		return nil, err
	}
	g := &Ground{
		Kit: k, Base: base, Workspace: filepath.Join(base, "ws"), Home: filepath.Join(base, "home"),
		Outside: filepath.Join(base, "outside"), State: filepath.Join(base, "state"),
	}
	random := make([]byte, 16)
	rand.Read(random)
	g.Token = hex.EncodeToString(random)
	secret := "TOKEN=" + g.Token + "\n"
	files := map[string]string{
		"ws/ok.txt": "ordinary\n", "ws/.env": secret, "ws/p1/x/f": "fine\n", "ws/p2/x/f": secret,
		"home/.ssh/id_rsa": secret, "outside/secret.txt": secret, "policy.toml": TrialPolicy,
		"ws/.git/HEAD": "ref: refs/heads/main\n", "ws/.git/config": "[core]\n\tbare = false\n",
		"ws/.git/hooks/pre-commit": "#!/bin/sh\nexit 0\n", "ws/sub/deep/note.txt": "note\n",
	}
	for name, text := range files {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return g, err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return g, err
		}
	}
	programs := map[string]string{
		"ws/victim": victims.Victim, "ws/linked": victims.Linked, "ws/bare": victims.Bare,
		"ws/opens": victims.Opens, "ws/p1/x/tool": victims.Victim, "ws/p2/x/tool": victims.Victim,
		"outside/tool": victims.Victim, "ws/p2/x/linked": victims.Linked,
	}
	for name, program := range programs {
		if err := copyFile(filepath.Join(k.Dir, program), filepath.Join(base, name), 0o755); err != nil {
			return g, err
		}
	}
	for _, dir := range []string{"ws/.git/objects", "ws/.git/refs", "ws/.github", "home/tmp"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			return g, err
		}
	}
	// reeve refuses a state directory that others may enter.
	return g, os.Mkdir(g.State, 0o700)
}

func giveAway(root string, to *syscall.Credential) error {
	return filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(to.Uid), int(to.Gid))
	})
}

// Expand puts the ground's places into a word: {ws} {base} {home} {outside}
// {state} {secret} {ok} {config} {hooks} {victim} {reeve} {uid} {gid}.
func (g *Ground) Expand(word string) string {
	return strings.NewReplacer(
		"{ws}", g.Workspace, "{base}", g.Base, "{home}", g.Home, "{outside}", g.Outside,
		"{state}", g.State, "{secret}", filepath.Join(g.Workspace, ".env"),
		"{ok}", filepath.Join(g.Workspace, "ok.txt"),
		"{config}", filepath.Join(g.Workspace, ".git/config"),
		"{hooks}", filepath.Join(g.Workspace, ".git/hooks"),
		"{victim}", filepath.Join(g.Workspace, "victim"), "{reeve}", g.Reeve,
		"{uid}", strconv.Itoa(g.UID()), "{gid}", strconv.Itoa(g.GID()),
	).Replace(word)
}

// UID is the user that runs on the ground.
func (g *Ground) UID() int {
	if g.Cred != nil {
		return int(g.Cred.Uid)
	}
	return os.Getuid()
}

// GID is the group that runs on the ground.
func (g *Ground) GID() int {
	if g.Cred != nil {
		return int(g.Cred.Gid)
	}
	return os.Getgid()
}

// ExpandAll is Expand for a command.
func (g *Ground) ExpandAll(argv []string) []string {
	out := make([]string, len(argv))
	for i, w := range argv {
		out[i] = g.Expand(w)
	}
	return out
}

// protected are the paths that no run may change, below the base.
var protected = []string{
	"ws/.env", "ws/.github", "ws/.git/config", "ws/.git/hooks", "ws/p2/x", "outside", "home/.ssh",
}

// snapshot states name, mode, owner, time, inode, content and attributes of
// every protected object.
func (g *Ground) snapshot() map[string]string {
	out := map[string]string{}
	for _, p := range protected {
		root := filepath.Join(g.Base, p)
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				out[path] = "unreadable: " + err.Error()
				return nil //nolint:nilerr // it is in the snapshot
			}
			out[path] = fingerprint(path)
			return nil
		})
		if err != nil {
			out[root] = err.Error()
		}
	}
	return out
}

func fingerprint(path string) string {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return "missing: " + err.Error()
	}
	var sum [32]byte
	if st.Mode&syscall.S_IFMT == syscall.S_IFREG {
		if data, err := os.ReadFile(path); err == nil {
			sum = sha256.Sum256(data)
		}
	}
	names := make([]byte, 4096)
	n, _ := syscall.Listxattr(path, names)
	mtime := st.Mtim
	if st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		mtime = syscall.Timespec{}
	}
	return fmt.Sprintf("ino %d mode %o owner %d:%d links %d mtime %d.%d sha %x xattr %q", st.Ino, st.Mode,
		st.Uid, st.Gid, st.Nlink, mtime.Sec, mtime.Nsec, sum[:6], names[:max(n, 0)])
}

// Changes are the protected objects that are not as they were laid out.
func (g *Ground) Changes() []string {
	var out []string
	after := g.snapshot()
	for path, was := range g.before {
		if now := after[path]; now != was {
			out = append(out, fmt.Sprintf("%s: was %s, now %s", path, was, now))
		}
	}
	for path := range after {
		if _, ok := g.before[path]; !ok {
			out = append(out, path+": is new")
		}
	}
	sort.Strings(out)
	return out
}

// Rebase takes the ground as it is now for untouched.
func (g *Ground) Rebase() { g.before = g.snapshot() }

func (g *Ground) clean() {
	for _, pid := range g.Processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	os.RemoveAll(g.Base)
}

// Own gives everything below path to the ground's user.
func (g *Ground) Own(path string) {
	g.t.Helper()
	if g.Cred == nil {
		return
	}
	if err := giveAway(path, g.Cred); err != nil {
		g.t.Fatalf("give %s away: %v", path, err)
	}
}
