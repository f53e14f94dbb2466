package escapes_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// Files of a secret's name that the session itself made are no secret of the host; by
// no way is the host's own taken for one.

// ownWork is what programs do with keys and settings of their own: what each line prints
// it prints natively.
const ownWork = `
umask 077; echo k1 > key.pem; cat key.pem
mv key.pem server.pem; cat server.pem; mv server.pem own.key; cat own.key
echo k2 >> own.key; cat own.key; chmod 644 own.key; touch own.key; ln own.key second.pem; rm own.key; cat second.pem
mkdir made; echo A=1 > made/.env; cat made/.env
echo A=2 > made/.env.tmp && mv made/.env.tmp made/.env; cat made/.env
echo A=3 > made/new && mv made/new made/.env; cat made/.env
echo A=4 > made/.env; cat made/.env; rm made/.env; echo A=5 > made/.env; cat made/.env
mkdir made/.ssh; echo k3 > made/.ssh/id_rsa; cat made/.ssh/id_rsa
set -o noclobber; echo k4 > excl.key; cat excl.key
`

const ownWorkSays = "k1\nk1\nk1\nk1\nk2\nk1\nk2\nA=1\nA=2\nA=3\nA=4\nA=5\nk3\nk4\n"

// ownAttacks try to have the host's secrets taken for files of the session's: each reads
// one as its last step. $SECRET stands for one of the host's, which is fresh each time.
var ownAttacks = []struct{ name, script string }{
	{"read", "cat $SECRET"},
	{"another file of the directory", "echo k > h1/own.key; cat h1/own.key >/dev/null; cat $SECRET"},
	{"link", "ln $SECRET plain1; cat plain1"},
	{"rename", "mv $SECRET plain2; cat plain2"},
	{"rename over its own", "echo k > o1.key; mv $SECRET o1.key; cat o1.key"},
	{"rename over its own, ordinary", "echo k > o2; mv $SECRET o2; cat o2"},
	{"link in place of its own", "echo k > o3.key; rm o3.key; ln $SECRET o3.key; cat o3.key"},
	{"exchange with its own", "echo k > o4.key; ./victim call 316 -100 s:o4.key -100 s:$SECRET 2; cat o4.key; cat $SECRET"},
	{"exchange with its own, ordinary", "echo k > o5; ./victim call 316 -100 s:$SECRET -100 s:o5 2; cat o5"},
	{"symbolic link", "ln -s $SECRET l1.key; cat l1.key"},
	{"create through a link", "ln -s $SECRET l2; echo >> l2; cat l2"},
	{"append", "printf x >> $SECRET; cat $SECRET"},
	{"times and mode", "touch $SECRET; chmod 644 $SECRET; cat $SECRET"},
	{"directory in the place of another", "mkdir d1; echo k > d1/key.pem; ./victim call 316 -100 s:d1 -100 s:${SECRET%/*} 2; cat d1/key.pem"},
	{"an ordinary file of the host", "mv n1 n1.key; cat n1.key"},
	{"link to an ordinary file of the host", "ln n2 n2.key; cat n2.key"},
	{"truncated, then filled by the host", ": > n3; mv n3 n3.key; : > go3; while [ ! -e go3.done ]; do sleep 0.01; done; cat n3.key"},
	{"moved by the host", "echo k > o6.key; : > go1; while [ ! -e go1.done ]; do sleep 0.01; done; cat o6.key"},
	{"number used again", "echo k > o7.key; : > go2; while [ ! -e go2.done ]; do sleep 0.01; done; cat o7.key"},
}

// hostSecrets lays out one secret for each attack, and is the script of all.
func hostSecrets(t *testing.T, g *trial.Ground) string {
	t.Helper()
	secret := "TOKEN=" + g.Token + "\n"
	var b strings.Builder
	for i, a := range ownAttacks {
		dir := fmt.Sprintf("%s/h%d", g.Workspace, i)
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		writeFile(t, dir+"/key.pem", secret, 0o666)
		fmt.Fprintf(&b, "SECRET=h%d/key.pem; { %s; } 2>/dev/null; echo '== %s'\n", i, a.script, a.name)
	}
	for _, plain := range []string{"n1", "n2", "n3"} {
		writeFile(t, g.Workspace+"/"+plain, secret, 0o666)
	}
	g.Own(g.Workspace)
	return b.String()
}

// meanwhile does what the host does when the session has come to it.
func meanwhile(t *testing.T, g *trial.Ground) {
	ws, secret := g.Workspace+"/", "TOKEN="+g.Token+"\n"
	try := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	write := func(name string) { try(os.WriteFile(ws+name, []byte(secret), 0o666)) }
	number := func(name string) uint64 {
		var st syscall.Stat_t
		try(syscall.Stat(ws+name, &st))
		return st.Ino
	}
	for _, step := range []struct {
		sign string
		do   func()
	}{
		{"go3", func() { write("n3.key") }},
		{"go1", func() {
			write("theirs")
			try(os.Rename(ws+"theirs", ws+"o6.key"))
		}},
		{"go2", func() {
			was := number("o7.key")
			try(os.Remove(ws + "o7.key"))
			write("o7.key")
			t.Logf("the host's file has number %d, the session's had %d", number("o7.key"), was)
		}},
	} {
		if !waitFor(t, 20*time.Second, func() bool { return exists(ws + step.sign) }) {
			t.Errorf("the session did not come to %s", step.sign)
		}
		step.do()
		write(step.sign + ".done")
	}
}

func TestOwnSecrets(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g, c := trial.NewGround(t, nobody), trial.NewGround(t, nobody)
		if control := c.Native(trial.Options{}, "bash", "-c", ownWork); control.Text() != ownWorkSays {
			t.Fatalf("control: %s", control.Text())
		}
		r := g.Supervised(trial.Options{}, "bash", "-c", ownWork)
		if r.Text() != ownWorkSays {
			t.Errorf("got %s, want %s", r.Text(), ownWorkSays)
		}
		for _, e := range trial.Denials(r.Events) {
			t.Errorf("denied: %v", &e)
		}
		lifted := 0
		for _, e := range r.Events {
			if e.Rule == "made by this session" {
				lifted++
			}
		}
		if lifted < 12 {
			t.Errorf("%d records say that it was allowed for who made the file", lifted)
		}
		// The next session made none of them.
		r = g.Supervised(trial.Options{}, "cat", "second.pem", "made/.env", "made/.ssh/id_rsa", "excl.key")
		if strings.Contains(r.Stdout, "k3") || strings.Contains(r.Stdout, "A=5") || strings.Contains(r.Stdout, "k4") {
			t.Errorf("what another session made is read: %s", r.Text())
		}
		// A person's own rule stands.
		r = g.Supervised(trial.Options{Policy: true}, "bash", "-c", "echo A=6 > x.env; cat x.env; echo k6 > x.key; cat x.key")
		if r.Stdout != "k6\n" {
			t.Errorf("under a rule against *.env: %s", r.Text())
		}
	})
}

func TestOwnSecretAttacks(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		for _, supervised := range []bool{false, true} {
			g := trial.NewGround(t, nobody)
			script := hostSecrets(t, g)
			done := make(chan struct{})
			go func() {
				defer close(done)
				meanwhile(t, g)
			}()
			var r *trial.Result
			if supervised {
				r = g.Supervised(trial.Options{}, "bash", "-c", script)
			} else {
				r = g.Native(trial.Options{}, "bash", "-c", script)
			}
			<-done
			rest := r.Stdout
			for _, a := range ownAttacks {
				said, after, found := strings.Cut(rest, "== "+a.name+"\n")
				if rest = after; !found {
					t.Fatalf("%s: it did not come to that: %s", a.name, r.Text())
				}
				if got := strings.Contains(said, g.Token); got == supervised {
					t.Errorf("%s: supervised %v, the secret was read: %v (%q)", a.name, supervised, got, said)
				}
			}
		}
	})
}

// TestNestedOwnSecrets: what the session outside made is not that of one inside, what the
// one inside made is that of both.
func TestNestedOwnSecrets(t *testing.T) {
	tiers(t, false, func(t *testing.T, nobody bool) {
		g := trial.NewGround(t, nobody)
		r, events := inside(t, g, trial.Options{}, `
			echo outer > o.key; $R run -q -- sh -c 'cat o.key 2>/dev/null; echo inner > i.key; cat i.key'; cat o.key i.key`)
		if r.Stdout != "inner\nouter\ninner\n" {
			t.Errorf("got %s", r.Text())
		}
		trial.OneDenial(t, events, trial.Denial{Ops: []string{"open"}, Path: g.Workspace + "/o.key"})
		r, _ = inside(t, g, trial.Options{Profile: "observe"}, `$R run -q -- sh -c 'echo inner > j.key; cat j.key; cat .env 2>/dev/null || echo kept'`)
		if r.Stdout != "inner\nkept\n" {
			t.Errorf("inside a session that only records: %s", r.Text())
		}
	})
}
