package escapes_test

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tests/trial"
)

// ofStatus is a field of /proc/PID/status as a program printed it.
func ofStatus(t *testing.T, r *trial.Result, field string) string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + field + `:\s*(.*)$`).FindStringSubmatch(r.Stdout)
	if m == nil {
		t.Fatalf("no %s is shown (status %d): %s", field, r.Status, r.Text())
	}
	return m[1]
}

func capsOf(t *testing.T, r *trial.Result, field string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(ofStatus(t, r, field), 16, 64)
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return n
}

func caps(list ...int) (set uint64) {
	for _, c := range list {
		set |= 1 << c
	}
	return set
}

// dangerous are capabilities that no profile but observe leaves to root.
var dangerous = map[string]int{
	"SYS_ADMIN": unix.CAP_SYS_ADMIN, "SYS_PTRACE": unix.CAP_SYS_PTRACE, "BPF": unix.CAP_BPF, "NET_RAW": unix.CAP_NET_RAW,
	"NET_ADMIN": unix.CAP_NET_ADMIN, "SYS_MODULE": unix.CAP_SYS_MODULE, "SYS_CHROOT": unix.CAP_SYS_CHROOT, "MKNOD": unix.CAP_MKNOD,
	"DAC_READ_SEARCH": unix.CAP_DAC_READ_SEARCH, "SETPCAP": unix.CAP_SETPCAP, "PERFMON": unix.CAP_PERFMON, "SYS_RAWIO": unix.CAP_SYS_RAWIO,
}

// TestCapabilities: root keeps what its profile names, in every set, and nothing
// more; programs that it starts get no other. No new privileges, ever.
func TestCapabilities(t *testing.T) {
	show := []string{"/bin/sh", "-c", "/bin/cat /proc/self/status; exit 0"}
	const (
		chown, override, fowner = unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER
		fsetid, setgid, setuid  = unix.CAP_FSETID, unix.CAP_SETGID, unix.CAP_SETUID
	)
	keeps := map[string]uint64{
		"":                             caps(chown, override, fowner, fsetid, setgid, setuid),
		"workspace-edit-net-allowlist": caps(chown, override, fowner, fsetid, setgid, setuid),
		"read-only":                    caps(override, setgid, setuid),
		"privileged-manual":            caps(chown, override, fowner, fsetid, setgid, setuid, unix.CAP_KILL, unix.CAP_NET_BIND_SERVICE),
		"observe":                      ^uint64(0),
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		root := !nobody && os.Geteuid() == 0
		native := trial.NewGround(t, nobody).Native(trial.Options{}, show...)
		had := capsOf(t, native, "CapEff")
		if got := ofStatus(t, native, "NoNewPrivs"); got != "0" {
			t.Fatalf("control: NoNewPrivs is %s", got)
		}
		if want := caps(unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_NET_RAW); root && had&want != want {
			t.Fatalf("control: root has the capabilities %#x", had)
		}
		for profile, keep := range keeps {
			r := trial.NewGround(t, nobody).Supervised(trial.Options{Profile: profile}, show...)
			if got := ofStatus(t, r, "NoNewPrivs"); got != "1" {
				t.Errorf("profile %q: NoNewPrivs is %s", profile, got)
			}
			for _, field := range []string{"CapPrm", "CapEff"} {
				if got := capsOf(t, r, field); got != keep&had {
					t.Errorf("profile %q: %s is %#x, want %#x", profile, field, got, keep&had)
				}
			}
			for _, field := range []string{"CapInh", "CapAmb"} {
				if got := capsOf(t, r, field); got != 0 {
					t.Errorf("profile %q: %s is %#x, want none", profile, field, got)
				}
			}
			if !root || profile == "observe" {
				continue // an ordinary user's bounding set is nobody's to change
			}
			if got := capsOf(t, r, "CapBnd"); got != keep&capsOf(t, native, "CapBnd") {
				t.Errorf("profile %q: CapBnd is %#x", profile, got)
			}
			for name, c := range dangerous {
				if capsOf(t, r, "CapBnd")&caps(c) != 0 {
					t.Errorf("profile %q: CAP_%s can be had", profile, name)
				}
			}
		}
	})
}

// TestUser: --user runs the command as somebody else, with that one's ids, groups
// and home, and without any capability; what it makes belongs to that user, and what
// that user may not do nobody does for it.
func TestUser(t *testing.T) {
	trial.NeedRoot(t)
	who, err := user.LookupId(strconv.Itoa(trial.Nobody))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := who.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(groups)
	const script = `id -u; id -g; id -G | tr ' ' '\n' | sort | tr '\n' ' '; echo; echo $USER $HOME; mktemp > temp; test -s temp; echo temp $?; echo x > made; mkdir dir; ln -s made link
grep -E '^(Uid|Gid|Cap|NoNew)' /proc/self/status; cat roots; echo read $?; echo x >> roots; echo write $?`
	ground := func() *trial.Ground {
		g := trial.NewGround(t, false)
		if err := os.Chown(g.Workspace, trial.Nobody, trial.Nobody); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(g.Workspace+"/roots", []byte("of root\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return g
	}
	c := ground()
	if r := c.Supervised(trial.Options{}, "/bin/sh", "-c", script); !strings.HasPrefix(r.Stdout, "0\n") || !strings.Contains(r.Stdout, "of root\nread 0\nwrite 0") || owner(t, c, "made") != 0 {
		t.Fatalf("control: as root: %s", r.Text())
	}
	for _, name := range []string{who.Username, who.Uid} {
		g := ground()
		r := g.Supervised(trial.Options{Flags: []string{"--user", name}}, "/bin/sh", "-c", script)
		want := fmt.Sprintf("%s\n%s\n%s \n%s %s\n", who.Uid, who.Gid, strings.Join(groups, " "), who.Username, who.HomeDir)
		if !strings.HasPrefix(r.Stdout, want) {
			t.Errorf("user %s: want %q first: %s", name, want, r.Text())
		}
		for field, want := range map[string]string{
			"Uid": strings.Repeat(who.Uid+"\t", 3) + who.Uid, "Gid": strings.Repeat(who.Gid+"\t", 3) + who.Gid, "NoNewPrivs": "1",
		} {
			if got := ofStatus(t, r, field); got != want {
				t.Errorf("user %s: %s is %q, want %q", name, field, got, want)
			}
		}
		for _, field := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
			if got := capsOf(t, r, field); got != 0 {
				t.Errorf("user %s: %s is %#x, want none", name, field, got)
			}
		}
		for _, made := range []string{"made", "dir", "link"} {
			if got := owner(t, g, made); got != trial.Nobody {
				t.Errorf("user %s: %s belongs to %d", name, made, got)
			}
		}
		if strings.Contains(r.Stdout, "of root") || strings.Contains(r.Stdout, "read 0") || strings.Contains(r.Stdout, "write 0") {
			t.Errorf("user %s: a file that is root's alone was opened: %s", name, r.Text())
		}
		if !strings.Contains(r.Stdout, "temp 0\n") {
			t.Errorf("user %s: no temporary file can be made: %s", name, r.Text())
		}
		if len(r.Events) == 0 {
			t.Errorf("user %s: nothing is recorded", name)
		}
	}
}

func owner(t *testing.T, g *trial.Ground, name string) int {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(g.Workspace+"/"+name, &st); err != nil {
		t.Errorf("%s: %v", name, err)
		return -1
	}
	return int(st.Uid)
}

// TestUserErrors: an unknown user, and anybody's wish to be somebody else: nothing
// runs.
func TestUserErrors(t *testing.T) {
	refused := func(g *trial.Ground, name string, say ...string) {
		r := g.Supervised(trial.Options{Flags: []string{"--user", name}, NoEvents: true}, "/bin/sh", "-c", "echo ran > {ws}/ran")
		if r.Status != 125 {
			t.Errorf("--user %s: status %d, want 125: %s", name, r.Status, r.Text())
		}
		for _, want := range say {
			if !strings.Contains(r.Stderr, want) {
				t.Errorf("--user %s: lacks %q: %s", name, want, r.Stderr)
			}
		}
		if _, err := os.Lstat(g.Workspace + "/ran"); err == nil {
			t.Errorf("--user %s: the command ran", name)
		}
	}
	if os.Geteuid() == 0 {
		refused(trial.NewGround(t, false), "no-such-user", "no-such-user", "hint: ", "getent passwd")
		refused(trial.NewGround(t, true), "root", "only root", "hint: ")
		return
	}
	refused(trial.NewGround(t, false), "root", "only root", "hint: ")
}

// TestEnvironment: tokens, keys and ways to agents stay outside, as does what no
// list names; --env lets one in.
func TestEnvironment(t *testing.T) {
	secrets := []string{
		"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "NPM_TOKEN",
		"DB_PASSWORD", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "KUBECONFIG", "DOCKER_HOST", "VAULT_ADDR", "REEVE_STATE_X", "LD_AUDIT", "BASH_ENV",
		"some_token", "Unheard_Of", "npm_config__authToken",
	}
	plain := []string{"LC_TIME", "GOFLAGS", "MAKEFLAGS"}
	wrap := []string{"env"}
	for _, name := range append(slices.Clone(secrets), plain...) {
		wrap = append(wrap, name+"=value-of-"+name)
	}
	wrap[slices.Index(wrap, "LD_AUDIT=value-of-LD_AUDIT")] = "LD_AUDIT=" // the loader would complain
	has := func(r *trial.Result, name string) bool {
		return regexp.MustCompile(`(?m)^` + name + `=`).MatchString(r.Stdout)
	}
	show := []string{"/bin/cat", "/proc/self/environ"}
	lines := func(r *trial.Result) *trial.Result {
		r.Stdout = strings.ReplaceAll(r.Stdout, "\x00", "\n")
		return r
	}
	tiers(t, false, func(t *testing.T, nobody bool) {
		c := lines(trial.NewGround(t, nobody).Native(trial.Options{Wrap: wrap}, show...))
		for _, name := range append(slices.Clone(secrets), plain...) {
			if !has(c, name) {
				t.Fatalf("control: %s is not in the environment: %s", name, c.Text())
			}
		}
		for _, let := range []string{"", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "Unheard_Of"} {
			g := trial.NewGround(t, nobody)
			o := trial.Options{Wrap: wrap}
			if let != "" {
				o.Flags = []string{"--env", let, "--env", "GIVEN=by flag"}
			}
			r := lines(g.Supervised(o, show...))
			for _, name := range append([]string{"PATH", "HOME", "TMPDIR"}, plain...) {
				if !has(r, name) {
					t.Errorf("--env %q: %s is missing: %s", let, name, r.Text())
				}
			}
			for _, name := range secrets {
				if has(r, name) != (name == let) {
					t.Errorf("--env %q: %s is there: %v", let, name, has(r, name))
				}
				if name != let && strings.Contains(g.Verb("events", "--json", "--session", "last").Stdout, "value-of-"+name) {
					t.Errorf("--env %q: the value of %s is in the record", let, name)
				}
			}
			if let != "" && (!strings.Contains(r.Stdout, "\n"+let+"=value-of-"+let+"\n") || !strings.Contains(r.Stdout, "GIVEN=by flag\n")) {
				t.Errorf("--env %q: %s", let, r.Text())
			}
		}
	})
}

// TestLinger: with --linger reeve waits for what the command leaves running, and
// without it that is ended.
func TestLinger(t *testing.T) {
	const rest = 1500 * time.Millisecond
	argv := []string{"/bin/sh", "-c", "setsid /bin/sh -c 'sleep 1.5; echo done > {ws}/left' > /dev/null 2>&1 < /dev/null & exit 4"}
	left := func(g *trial.Ground) bool { return read(g, "ws/left") == "done\n" }
	tiers(t, false, func(t *testing.T, nobody bool) {
		c := trial.NewGround(t, nobody)
		if r := c.Native(trial.Options{}, argv...); r.Status != 4 || left(c) || r.Took > rest {
			t.Fatalf("control: status %d after %v: %s", r.Status, r.Took, r.Text())
		}
		if !waitFor(t, 5*time.Second, func() bool { return left(c) }) {
			t.Fatal("control: what the command left running did nothing")
		}
		g := trial.NewGround(t, nobody)
		if r := g.Supervised(trial.Options{Flags: []string{"--linger"}}, argv...); r.Status != 4 || !left(g) || r.Took < rest {
			t.Errorf("--linger: status %d after %v, the rest was done: %v: %s", r.Status, r.Took, left(g), r.Text())
		}
		g = trial.NewGround(t, nobody)
		if r := g.Supervised(trial.Options{}, argv...); r.Status != 4 {
			t.Errorf("status %d after %v: %s", r.Status, r.Took, r.Text())
		}
		time.Sleep(rest + 500*time.Millisecond)
		if left(g) {
			t.Error("without --linger the rest was done")
		}
	})
}
