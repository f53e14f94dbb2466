package escapes_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// inPython is a command that does all in one task. no says of a call whether it was
// refused, and waits waits for a file.
func inPython(script string) []string {
	const head = `import ctypes, os, sys, time
def no(f, *a):
    try: f(*a)
    except OSError as e: print("no", e.errno)
    else: print("DONE")
def make(p): os.close(os.open(p, os.O_WRONLY | os.O_CREAT, 0o600))
def wait(p):
    while not os.path.exists(p): time.sleep(0.01)
`
	return []string{python, "-c", head + script}
}

// exact is a way to make more of an answer than the question showed.
type exact struct {
	name string
	argv []string
	// allow are the questions that are answered yes, as "OP PATH"; others no.
	allow []string
	// beside runs beside the command, with reeve and without, while while a question waits.
	beside, while func(g *trial.Ground)
	// session answers hold for the session.
	session bool
	// want and native match the outputs with reeve and without.
	want, native string
	asked        int
}

// another puts another file under a name.
func another(g *trial.Ground, name string) {
	_ = os.Remove(g.Workspace + "/" + name)
	_ = os.WriteFile(g.Workspace+"/"+name, []byte("another\n"), 0o666)
}

// onceThere runs f when a file is there, and then makes the file go.
func onceThere(name string, f func(g *trial.Ground)) func(*trial.Ground) {
	return func(g *trial.Ground) {
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Lstat(g.Workspace + "/" + name); err == nil {
				break
			}
		}
		f(g)
		another(g, "go")
	}
}

// again is a script that runs itself with the same words once more.
const again = "#!/usr/bin/env bash\n[ \"$AGAIN\" ] && echo twice && exit\nexport AGAIN=1\n"

var exactly = []exact{
	{name: "another file", argv: inPython(`make("p/new"); no(os.chmod, "p/old", 0o777)`), allow: []string{"create p/new"}, asked: 2},
	{name: "another name", argv: inPython(`make("p/new"); no(os.rename, "p/new", "p/other")`), allow: []string{"create p/new"}, asked: 2},
	{name: "onto another file", argv: inPython(`make("p/x.tmp"); no(os.rename, "p/x.tmp", "p/old")`), allow: []string{"create p/x.tmp"}, asked: 2},
	{name: "onto nothing", argv: inPython(`make("p/x.tmp"); no(os.rename, "p/x.tmp", "p/x")`), allow: []string{"create p/x.tmp"}, asked: 2},
	{name: "onto another name that nothing has", argv: inPython(`make("p/n.lock"); no(os.rename, "p/n.lock", "p/other")`), allow: []string{"create p/n.lock"}, asked: 2},
	{name: "exchange", argv: inPython(`make("p/old.tmp")
print("DONE" if ctypes.CDLL(None).renameat2(-100, b"p/old.tmp", -100, b"p/old", 2) == 0 else "no 13")`), allow: []string{"create p/old.tmp"}, asked: 2},
	{name: "link", argv: inPython(`make("p/new"); no(os.link, "p/new", "p/other")`), allow: []string{"create p/new"}, asked: 2},
	{name: "removal of what it replaced", argv: inPython(`make("p/old.tmp"); os.rename("p/old.tmp", "p/old"); no(os.unlink, "p/old")`), allow: []string{"create p/old.tmp"}, asked: 2},
	{name: "mode of what was there", argv: inPython(`make("p/old"); no(os.chmod, "p/old", 0o777)`), allow: []string{"open p/old"}, asked: 2},
	{name: "removal of what was there", argv: inPython(`make("p/old"); no(os.unlink, "p/old")`), allow: []string{"open p/old"}, asked: 2},
	{name: "opened again", argv: inPython(`make("p/new"); no(make, "p/new")`), allow: []string{"create p/new"}, asked: 2},
	{name: "made again", argv: inPython(`make("p/new"); os.unlink("p/new"); make("p/new"); print("DONE")`), allow: []string{"create p/new"}, want: "DONE", asked: 2},
	{name: "in a directory that was made", argv: inPython(`os.mkdir("p/d"); no(make, "p/d/new")`), allow: []string{"mkdir p/d"}, asked: 2},
	{name: "a child", argv: inPython(`make("p/new"); os.fork() and (os.wait(), os._exit(0)); no(os.chmod, "p/new", 0o777)`), allow: []string{"create p/new"}, asked: 2},
	{name: "another program", argv: inPython(`make("p/new"); os.execv("/bin/sh", ["sh", "-c", "chmod 777 p/new && echo DONE || echo no 13"])`), allow: []string{"create p/new"}, asked: 2},
	{name: "the same program again", argv: inPython(`make("p/new"); os.execv(sys.executable, ["python3", "-c", "import os\ntry: os.chmod('p/new', 0o777); print('DONE')\nexcept OSError: print('no 13')"])`),
		allow: []string{"create p/new"}, asked: 2},
	{name: "another file of the name", argv: inPython(`make("p/new"); wait("go"); no(os.chmod, "p/new", 0o777)`), allow: []string{"create p/new"},
		beside: onceThere("p/new", func(g *trial.Ground) { another(g, "p/new"); g.Own(g.Workspace + "/p") }), asked: 2},
	{name: "the file elsewhere", argv: inPython(`make("p/new"); wait("go"); no(os.chmod, "p/sub/new", 0o777)`), allow: []string{"create p/new"},
		beside: onceThere("p/new", func(g *trial.Ground) {
			_ = os.Mkdir(g.Workspace+"/p/sub", 0o755)
			_ = os.Rename(g.Workspace+"/p/new", g.Workspace+"/p/sub/new")
		}), asked: 2},
	{name: "another target of the name", argv: inPython(`make("p/old.tmp"); wait("go"); no(os.rename, "p/old.tmp", "p/old")`), allow: []string{"create p/old.tmp"},
		beside: onceThere("p/old.tmp", func(g *trial.Ground) { another(g, "p/old") }), asked: 2},
	{name: "a target that was not there", argv: inPython(`make("p/n.lock"); wait("go"); no(os.rename, "p/n.lock", "p/n")`), allow: []string{"create p/n.lock"},
		beside: onceThere("p/n.lock", func(g *trial.Ground) { another(g, "p/n") }), asked: 2},
	{name: "a target that is a link", argv: inPython(`make("p/l.tmp"); no(os.rename, "p/l.tmp", "p/l")`), allow: []string{"create p/l.tmp"}, asked: 2},
	{name: "capabilities", argv: inPython(`make("p/new"); no(os.setxattr, "p/new", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))`),
		allow: []string{"create p/new"}, native: `DONE|no 1\b`, asked: 2},
	{name: "a script twice", argv: []string{"sh", "-c", "e/deploy one; e/deploy one || echo no 13"}, allow: []string{"exec e/deploy"}, want: "deployed one\ndeployed one", native: "deployed one\ndeployed one", asked: 2},
	{name: "a script in itself", argv: []string{"sh", "-c", "a/deploy; true"}, allow: []string{"exec a/deploy"}, want: "denied", native: "twice", asked: 2},
	{name: "a script after itself", argv: []string{"sh", "-c", "x/deploy; true"}, allow: []string{"exec x/deploy"}, want: "denied", native: "twice", asked: 2},
	{name: "other words", argv: []string{"sh", "-c", "w/deploy; true"}, allow: []string{"exec w/deploy"}, want: "denied", native: "twice more", asked: 2},
	{name: "another rule", argv: []string{"sh", "-c", "m/tool || echo no 13"}, allow: []string{"exec m/tool"}, asked: 2},
	{name: "other words of the shell", argv: inPython(`no(os.execv, "s/deploy", ["deploy", "now"]); os.execv("/bin/sh", ["/bin/sh", "s/deploy", "then"])`),
		allow: []string{"exec s/deploy"}, want: "PermissionError", native: "deployed then", asked: 2},
	{name: "the same words elsewhere", argv: inPython(`no(os.execv, "s/deploy", ["deploy", "now"]); os.chdir("e"); os.execv("/bin/sh", ["/bin/sh", "s/deploy", "now"])`),
		allow: []string{"exec s/deploy"}, want: "PermissionError", native: "s/deploy", asked: 2},
	{name: "another shell", argv: inPython(`no(os.execv, "s/deploy", ["deploy", "now"]); os.execv("/bin/bash", ["/bin/sh", "s/deploy", "now"])`),
		allow: []string{"exec s/deploy"}, want: "PermissionError", native: "deployed now", asked: 2},
	{name: "another interpreter", argv: []string{"sh", "-c", "PATH=$PWD/q:$PATH; e/deploy now; true"}, allow: []string{"exec e/deploy"},
		while: func(g *trial.Ground) { writeFileAt(g.Workspace+"/q/bash", "#!/bin/sh\necho deployed here\n") }, want: "deployed here", native: "deployed now", asked: 2}, // with a question that shows it
	{name: "what the kernel ran already", argv: []string{"sh", "-c", "k/deploy; true"}, allow: []string{"exec k/deploy"}, want: "denied", native: "twice", asked: 2},

	// What is another act by the time of the answer is asked about anew.
	{name: "another directory meanwhile", argv: inPython(`import threading
deploy = os.path.abspath("b/deploy"); os.chdir("p")
threading.Timer(0.7, os.chdir, ["../s"]).start()
ctypes.CDLL(None).execv(deploy.encode(), (ctypes.c_char_p * 3)(b"deploy", b"now", None))`), allow: []string{"exec b/deploy"}, while: pending, want: "deployed now", native: "deployed now", asked: 2},
	{name: "another first line meanwhile", argv: []string{"sh", "-c", "b/deploy now"}, allow: []string{"exec b/deploy"},
		while: func(g *trial.Ground) { writeFileAt(g.Workspace+"/b/deploy", "#!/bin/bash\necho deployed $*\n") }, want: "deployed now", native: "deployed now", asked: 2},
	{name: "another text of a link meanwhile", argv: inPython(`import threading
text = ctypes.create_string_buffer(b"harmless", 64)
threading.Timer(0.7, lambda: setattr(text, "value", b"old")).start()
print("DONE" if ctypes.CDLL(None).symlink(text, b"p/l2") == 0 else "no")`), allow: []string{"symlink "}, while: pending, want: "DONE", asked: 2},
	{name: "another attribute meanwhile", argv: inPython(`import threading
name = ctypes.create_string_buffer(b"user.one", 64)
threading.Timer(0.7, lambda: setattr(name, "value", b"user.two")).start()
print("DONE" if ctypes.CDLL(None).setxattr(b"p/old", name, b"x", 1, 0) == 0 else "no")`), allow: []string{"setxattr p/old"}, while: pending, want: "DONE", asked: 2},

	// A yes for the session is for the same again.
	{name: "mode, for the session", argv: inPython(`no(os.chmod, "p/old", 0o600); no(os.chmod, "p/old", 0o600); no(os.chmod, "p/old", 0o777)`),
		allow: []string{"chmod p/old"}, session: true, want: "DONE\nDONE\nDONE", asked: 2},
	{name: "owner, for the session", argv: inPython(`no(os.chown, "p/old", -1, os.getgid()); no(os.chown, "p/old", os.getuid(), -1)`),
		allow: []string{"chown p/old"}, session: true, want: "DONE\nDONE", asked: 2},
	{name: "attribute, for the session", argv: inPython(`for v in b"1", b"1", b"2": no(os.setxattr, "p/old", "user.a", v)
no(os.setxattr, "p/old", "user.b", b"1")`), allow: []string{"setxattr p/old"}, session: true, want: "DONE\nDONE\nDONE\nDONE", asked: 3},
	{name: "kind of file, for the session", argv: inPython(`os.mkfifo("p/f"); os.unlink("p/f"); no(os.mknod, "p/f", 0o140600)`),
		allow: []string{"mknod p/f", "delete p/f"}, session: true, want: "DONE", asked: 2},
	{name: "exchange, for the session", argv: inPython(`make("p/a"); make("p/b"); r = ctypes.CDLL(None).renameat2
os.unlink("p/b"); r(-100, b"p/a", -100, b"p/b", 1); make("p/a"); print("DONE" if r(-100, b"p/a", -100, b"p/b", 2) == 0 else "no")`),
		allow: []string{"create p/a", "create p/b", "rename p/a"}, session: true, want: "DONE", asked: 4},
}

// pending is while a question waits for longer than those who change things do.
func pending(*trial.Ground) { time.Sleep(1500 * time.Millisecond) }

func writeFileAt(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		panic(err)
	}
}

// exactGround is an actGround with more to try.
func exactGround(t *testing.T, nobody bool) (*trial.Ground, trial.Options) {
	g, o := actGround(t, nobody)
	for _, dir := range []string{"a", "x", "w", "q", "m", "k"} {
		if err := os.Mkdir(g.Workspace+"/"+dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../ok.txt", g.Workspace+"/p/l"); err != nil {
		t.Fatal(err)
	}
	writeFile(t, g.Workspace+"/a/deploy", again+"bash a/deploy\n", 0o755)
	writeFile(t, g.Workspace+"/x/deploy", again+"exec bash x/deploy\n", 0o755)
	writeFile(t, g.Workspace+"/k/deploy", "#!/bin/sh\n[ \"$AGAIN\" ] && echo twice && exit\nexport AGAIN=1\nexec /bin/sh k/deploy\n", 0o755)
	writeFile(t, g.Workspace+"/w/deploy", "#!/usr/bin/env bash\n[ \"$1\" ] && echo twice $1 && exit\nexec bash w/deploy more\n", 0o755)
	writeFile(t, g.Workspace+"/m/tool", "#!/usr/bin/mawk -f\nBEGIN { print \"DONE\" }\n", 0o755)
	g.Own(g.Workspace)
	return g, o
}

// TestActIsExact: an answer is for what the question showed, by the task that it
// was given to, and for nothing beside it.
func TestActIsExact(t *testing.T) {
	for _, c := range exactly {
		t.Run(c.name, func(t *testing.T) {
			trial.NeedProgram(t, "mawk")
			needPython(t, c.argv...)
			tiers(t, false, func(t *testing.T, nobody bool) {
				if c.native == "" {
					c.native = "DONE"
				}
				if c.want == "" {
					c.want = "^no 13"
				}
				g, o := exactGround(t, nobody)
				run := func(run func() *trial.Result) *trial.Result {
					done := make(chan struct{})
					go func() {
						defer close(done)
						if c.beside != nil {
							c.beside(g)
						}
					}()
					r := run()
					<-done
					return r
				}
				if r := run(func() *trial.Result { return g.Native(trial.Options{}, c.argv...) }); !regexp.MustCompile(c.native).MatchString(r.Text()) {
					t.Fatalf("control: %s", r.Text())
				}
				g, o = exactGround(t, nobody)
				a := g.Approve(func(q trial.Question) []string {
					if c.while != nil {
						c.while(g)
					}
					path := strings.TrimPrefix(q.Operation.Object.Path, g.Workspace+"/")
					switch yes := slices.Contains(c.allow, q.Operation.Op+" "+path); {
					case yes && c.session:
						return []string{"allow", "--scope", "session"}
					case yes:
						return []string{"allow"}
					}
					return []string{"deny"}
				})
				r := run(func() *trial.Result { return g.Supervised(o, c.argv...) })
				a.Stop()
				asked, _ := a.Asked()
				if len(asked) != c.asked || !regexp.MustCompile(c.want).MatchString(r.Text()) {
					var list []string
					for _, q := range asked {
						list = append(list, fmt.Sprint(q.Operation.Op, " ", q.Operation.Object.Path, " ", q.Operation.Task.Argv))
					}
					t.Errorf("%d questions, status %d: %s\n%s", len(asked), r.Status, r.Text(), strings.Join(list, "\n"))
				}
			})
		})
	}
}

// TestActFlip: a thread that flips the path while the steps after an answer are
// made gets nothing but the object that was asked about.
func TestActFlip(t *testing.T) {
	const script = `import threading
make("p/new")
libc, name = ctypes.CDLL(None), ctypes.create_string_buffer(b"p/new", 16)
def flip():
    while True:
        name.value = b"p/old"; time.sleep(0.0003); name.value = b"p/new"; time.sleep(0.0003)
threading.Thread(target=flip, daemon=True).start()
end = time.time() + 1
while time.time() < end: libc.chmod(name, 0o604)
for p in "p/new", "p/old": print(p, oct(os.stat(p).st_mode & 0o777))
`
	trial.NeedProgram(t, python)
	tiers(t, false, func(t *testing.T, nobody bool) {
		g, o := actGround(t, nobody)
		const both = "p/new 0o604\np/old 0o604\n"
		if c := g.Native(trial.Options{}, inPython(script)...); c.Stdout != both {
			t.Fatalf("control: %s", c.Text())
		}
		g, o = actGround(t, nobody)
		a := g.Approve(func(q trial.Question) []string {
			if q.Operation.Op == "create" {
				return []string{"allow"}
			}
			return []string{"deny", "--scope", "session"}
		})
		o.Timeout = 2 * time.Minute
		r := g.Supervised(o, inPython(script)...)
		a.Stop()
		if asked, _ := a.Asked(); r.Stdout != "p/new 0o604\np/old 0o644\n" || len(asked) != 2 {
			t.Errorf("%d questions: %s", len(asked), r.Text())
		}
		hit := 0
		for i := range r.Events {
			if e := &r.Events[i]; e.Op == "chmod" && e.Action == "allow" {
				if hit++; e.Object.Path != g.Workspace+"/p/new" {
					t.Errorf("%v", e)
				}
			}
		}
		if hit == 0 {
			t.Error("no chmod came through")
		}
	})
}
