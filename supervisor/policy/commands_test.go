package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// words splits a command line as these tests write it: single quotes keep a word
// together.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// execute is the exec of a command line in the workspace. A first word with a
// directory is the program's path; "path argv0 …" in brackets says both.
func execute(line string) *event.Request {
	argv := words(line)
	path := argv[0]
	if file, ok := strings.CutPrefix(path, "@"); ok {
		path, argv = file, argv[1:]
	}
	if !strings.HasPrefix(path, "/") {
		path = "/usr/bin/" + path
	}
	return &event.Request{
		Op: event.OpExec, Access: event.AccessExec, Argv: argv,
		Task:   event.Task{PID: 77, TID: 77, Exe: "/usr/bin/bash", Cwd: "/home/u/ws"},
		Object: event.Object{Kind: event.ObjectFile, Path: path, Raw: argv[0], Mode: 0o100755},
	}
}

// meanings are command lines with the rule that they meet.
var meanings = []string{
	"rm -rf src | destructive: rm -r",
	"rm -r -f . | destructive: rm -r",
	"rm -fR src/ build | destructive: rm -R",
	"rm --recursive --force ../ws | destructive: rm --recursive",
	"rm --recurs src | destructive: rm --recursive",
	"rm -rf -- src | destructive: rm -r",
	"rm src -rf | destructive: rm -r",
	"rm -rf /home/u/ws | destructive: rm -r",
	"rm -rf / | destructive: rm -r",
	"rm -rf build/../src | destructive: rm -r",
	"rm -rf .git | destructive: rm -r",
	"rm -rf /tmp | destructive: rm -r",
	"rm /home/u/notes | destructive: rm outside the workspace",
	"@/usr/bin/busybox rm -rf src | destructive: rm -r",
	"@/bin/busybox busybox rm -rf src | destructive: rm -r",
	"@/usr/bin/coreutils coreutils --coreutils-prog=rm -rf src | destructive: rm -r",
	"@/usr/bin/toybox toybox rm -r src | destructive: rm -r",
	"@/lib64/ld-linux-x86-64.so.2 ld.so /usr/bin/rm -rf src | destructive: rm -r",
	"@/lib64/ld-linux-x86-64.so.2 ld.so --library-path /x --argv0 ls /usr/bin/rm -rf src | destructive: rm -r",
	"find . -name '*.go' -delete | destructive: find -delete",
	"find -delete | destructive: find -delete",
	"find src build -type f -delete | destructive: find -delete",
	"find . -name '*.o' -o -delete | destructive: find -delete",
	"find . ! -name '*.o' -delete | destructive: find -delete",
	"find . -delete -name '*.o' | destructive: find -delete",
	"find . ( -name '*.o' -o -name '*.c' ) -delete | destructive: find -delete",
	"python3 -mtwine upload x | publish: twine upload",
	"python3 -Im twine upload x | publish: twine upload",
	"python3 -W ignore -m pip install x | install: pip install",
	"mysql -pabce -e 'DROP TABLE x' | destructive: mysql -e DROP",
	"psql -c'DROP TABLE x' | destructive: psql -c DROP",
	"psql -Xqc 'DROP TABLE x' | destructive: psql -c DROP",
	"git -cclean.requireForce=false clean -d | destructive: git -c clean.requireForce clean",
	"git checkout -- ':!x' | destructive: git checkout PATH",
	"rsync -a --delete build/ src | destructive: rsync --delete",
	"dd if=/dev/zero of=/dev/sda bs=1M | destructive: dd of=",
	"dd if=x of=/etc/passwd | destructive: dd of=",
	"mkfs.ext4 /dev/sdb1 | destructive: mkfs",
	"mkfs -t ext4 /dev/sdb1 | destructive: mkfs",
	"shred -u /dev/sda | destructive: shred",
	"shred -n 3 /home/u/notes | destructive: shred",
	"truncate -s 0 /etc/passwd | destructive: truncate",
	"wipefs -a /dev/sdc | destructive: wipefs",
	"chmod -R 777 / | destructive: chmod -R",
	"rsync -a --delete empty/ src/ | destructive: rsync --delete",
	"git push --force | destructive: git push --force",
	"git push -f origin main | destructive: git push -f",
	"git push -uf origin main | destructive: git push -f",
	"git push --force-with-lease=main:abc origin | destructive: git push --force-with-lease",
	"git push --force-w origin | destructive: git push --force-with-lease",
	"git push origin --mirr | destructive: git push --mirror",
	"git push origin +main | destructive: git push +ref",
	"git push origin HEAD:main :old | destructive: git push :ref",
	"git push --delete origin old | destructive: git push --delete",
	"git push -o --dry-run --force | destructive: git push --force",
	"git push --force --dry-run --no-dry-run | destructive: git push --force",
	"git -C /x -c user.name=a --git-dir=/y push --force | destructive: git push --force",
	"git --git-dir /y --work-tree /z push --force | destructive: git push --force",
	"git --no-pager push --force | destructive: git push --force",
	"@/usr/lib/git-core/git-push git-push --force | destructive: git push --force",
	"@/usr/bin/git git-push --force | destructive: git push --force",
	"git reset --hard | destructive: git reset --hard",
	"git reset --har HEAD~3 | destructive: git reset --hard",
	"git clean -f | destructive: git clean -f",
	"git clean -xdf | destructive: git clean -f",
	"git clean --force -d | destructive: git clean --force",
	"git -c clean.requireForce=false clean -d | destructive: git -c clean.requireForce clean",
	"git checkout -- . | destructive: git checkout PATH",
	"git rm -rf src | destructive: git rm -f -r",
	"git checkout . | destructive: git checkout PATH",
	"git checkout -q ../ws | destructive: git checkout PATH",
	"git checkout src/ | destructive: git checkout PATH",
	"git checkout -- src | destructive: git checkout -- PATH",
	"git checkout -b -- -- src | destructive: git checkout -- PATH",
	"git checkout HEAD -- src | destructive: git checkout -- PATH",
	"git checkout HEAD src | destructive: git checkout TREE PATH",
	"git checkout -q HEAD~1 src | destructive: git checkout TREE PATH",
	"git checkout --conflict diff3 src lib | destructive: git checkout TREE PATH",
	"git -C ../ws checkout HEAD src | destructive: git checkout TREE PATH",
	"git checkout --pathspec-from-file=list | destructive: git checkout --pathspec-from-file",
	"git checkout -f main | destructive: git checkout -f",
	"git checkout -qf | destructive: git checkout -f",
	"git checkout HEAD -- :/ | destructive: git checkout PATH",
	"git switch -f main | destructive: git switch -f",
	"git switch --discard main | destructive: git switch --discard-changes",
	"git restore . | destructive: git restore PATH",
	"git restore main.go src | destructive: git restore PATH",
	"git restore -s HEAD~1 src | destructive: git restore PATH",
	"git restore --pathspec-from-file list | destructive: git restore --pathspec-from-file",
	"git restore --staged --no-staged src | destructive: git restore PATH",
	"git restore --staged --worktree . | destructive: git restore --worktree",
	"git restore -SW . | destructive: git restore -W",
	"git reset --merge | destructive: git reset --merge",
	"git stash drop | destructive: git stash drop",
	"git submodule update --init -f | destructive: git submodule update -f",
	"git branch -D old | destructive: git branch -D",
	"git branch -d -f old | destructive: git branch -d -f",
	"git stash clear | destructive: git stash clear",
	"git filter-branch --all | destructive: git filter-branch",
	"git reflog expire --expire=now --all | destructive: git reflog expire",
	"git gc --prune=now | destructive: git gc --prune=now",
	"git -c help.autocorrect=immediate psuh | destructive: git -c help.autocorrect",
	"docker system prune -af | destructive: docker system prune",
	"docker --context x system prune | destructive: docker system prune",
	"docker --unknown y system prune | destructive: docker system prune",
	"podman volume rm x | destructive: docker volume rm",
	"kubectl delete pod x | destructive: kubectl delete",
	"kubectl -n prod delete pod x | destructive: kubectl delete",
	"kubectl delete pod x --dry-run=none | destructive: kubectl delete",
	"terraform destroy | destructive: terraform destroy",
	"terraform apply -auto-approve | destructive: terraform apply -auto-approve",
	"terraform -chdir=x apply --auto-approve | destructive: terraform apply -auto-approve",
	"aws s3 rm s3://b/p --recursive | destructive: aws s3 rm --recursive",
	"aws --profile x s3 rm --recursive s3://b | destructive: aws s3 rm --recursive",
	"psql -c 'DROP TABLE users' | destructive: psql -c DROP",
	"psql '--comm=select 1; truncate users' | destructive: psql -c DROP",
	"psql -qtc 'drop schema x' | destructive: psql -c DROP",
	"mysql -u root -e 'TRUNCATE TABLE t' db | destructive: mysql -e DROP",
	"mariadb -e 'delete from t' | destructive: mysql -e DROP",
	"sqlite3 x.db 'DROP TABLE t;' | destructive: sqlite3 DROP",
	"sqlite3 x.db 'delete from t; select 1' | destructive: sqlite3 DROP",
	"redis-cli -h x FLUSHALL | destructive: redis-cli FLUSHALL",
	"sudo ls | privileged: sudo",
	"su - root | privileged: su",
	"@/lib64/ld-linux-x86-64.so.2 x /usr/bin/sudo ls | privileged: sudo",
	"doas ls | privileged: doas",
	"systemctl restart nginx | privileged: systemctl restart",
	"systemctl --user --now enable x | privileged: systemctl enable",
	"mount /dev/sda /mnt | privileged: mount",
	"iptables -F | privileged: iptables",
	"@/usr/sbin/xtables-nft-multi iptables -F | privileged: iptables",
	"@/usr/bin/kmod modprobe x | privileged: modprobe",
	"useradd x | privileged: useradd",
	"crontab cron.txt | privileged: crontab",
	"ssh host ls | remote: ssh",
	"ssh -V host | remote: ssh",
	"scp a.txt host:b.txt | remote: scp",
	"rsync -a src/ user@host:dst/ | remote: rsync",
	"rsync -a rsync://host/mod . | remote: rsync",
	"docker ps | remote: docker",
	"kubectl get pods | remote: kubectl",
	"aws s3 ls | remote: aws",
	"psql -c 'select 1' | remote: psql",
	"psql -h db.example.com | remote: psql",
	"terraform plan | remote: terraform plan",
	"git push | publish: git push",
	"git push origin main | publish: git push",
	"npm publish | publish: npm publish",
	"npm --registry http://x pub | publish: npm pub",
	"@/usr/share/nodejs/npm/bin/npm-cli.js npm publish | publish: npm publish",
	"node /usr/share/nodejs/npm/bin/npm-cli.js publish | publish: npm publish",
	"cargo publish | publish: cargo publish",
	"twine upload dist/x | publish: twine upload",
	"python3 -m twine upload dist/x | publish: twine upload",
	"python3.11 /usr/bin/twine upload dist/x | publish: twine upload",
	"gh release create v1 | publish: gh release create",
	"gh -R o/r release create v1 | publish: gh release create",
	"docker push x | publish: docker push",
	"npm ci | install: npm ci",
	"pip3 install x | install: pip install",
	"python3 -m pip install x | install: pip install",
	"apt-get -y install x | install: apt install",
	"dpkg -i x.deb | install: dpkg -i",
	"cargo install x | install: cargo install",
	"go get x | install: go get",
	"python3.11 x.py | interpreter: python",
	"python3 -c 'import twine' upload | interpreter: python",
	"python3 -X dev x.py twine upload | interpreter: python",
	"bash -c 'git push --force' | interpreter: bash",
	"@/usr/bin/bash sh -c 'rm -rf src' | interpreter: bash",
	"@/usr/bin/busybox sh -c ls | interpreter: sh",
}

// meaningless are command lines that no rule may meet.
var meaningless = []string{
	"git commit -m 'rm -rf /'",
	"git commit -m 'git push --force'",
	"git commit -am --force",
	"echo 'git push --force'",
	"echo git push --force",
	"grep -r 'DROP TABLE' .",
	"cat push --force",
	"git log push",
	"git --no-pager log push",
	"git diff --stat",
	"git add -f .",
	"git add .",
	"git merge --no-ff topic",
	"git rebase -i main",
	"git rebase --force-rebase main",
	"git fetch --force origin",
	"git pull --force",
	"git branch -d merged",
	"git branch --list -f",
	"git branch topic",
	"git stash",
	"git stash pop",
	"git checkout main",
	"git rm main.go",
	"git rm -f main.go",
	"git rm -r src",
	"git rm -rf --cached src",
	"git rm -rf build",
	"psql -h /home/u/ws/run -Atc 'select 1'",
	"mysql --socket=/home/u/ws/m.sock",
	"git checkout -b reset--hard",
	"git checkout -p .",
	"git checkout -- main.go",
	"git checkout -q src/main.go",
	"git checkout HEAD~1 package-lock.json go.sum",
	"git checkout --theirs main.go",
	"git checkout -p HEAD src",
	"git checkout HEAD",
	"git checkout -q src",
	"git checkout -",
	"git checkout main --",
	"git checkout v1.2",
	"git checkout 2.x",
	"git checkout topic/HEAD~2",
	"git checkout -b x origin/main",
	"git checkout -qb x main",
	"git checkout -b --",
	"git checkout -b x --track origin/next.js",
	"git checkout -B x HEAD~1",
	"git checkout --detach v1.0",
	"git checkout --orphan pages main",
	"git checkout --conflict diff3 main",
	"git switch main",
	"git switch --detach HEAD~1",
	"git switch -c clean",
	"git restore --staged .",
	"git restore -S src",
	"git restore main.go",
	"git restore -SW main.go",
	"git reset HEAD~1",
	"git reset --soft HEAD~1",
	"git clean -n",
	"git clean -nfd",
	"git push --dry-run --force",
	"git gc",
	"git tag -d v1",
	"git worktree add ../ws/tmp-tree",
	"git reflog",
	"git config --get push.default",
	"rm -rf build",
	"rm -rf ./build/ node_modules dist",
	"rm -rf src/__pycache__",
	"rm -rf .venv",
	"rm -rf /tmp/x",
	"rm -rf /home/u/ws/target/debug",
	"rm -f src/main.o main.go",
	"rm -f -r conftest.err conftest.dSYM",
	"rm --version",
	"find . -name '*.pyc' -delete",
	"find build -delete",
	"find . -name -delete",
	"find . -type f",
	"dd if=/dev/zero of=disk.img bs=1M count=1",
	"dd if=x of=/dev/null",
	"truncate -s 0 log.txt",
	"mkfs.ext4 disk.img",
	"chmod -R u+w src",
	"make clean",
	"make -C /x install",
	"go build ./...",
	"go test -run 'git push --force' ./...",
	"npm test",
	"npm run publish",
	"npm view publish",
	"cargo build --release",
	"pip list",
	"systemctl status nginx",
	"systemctl --version",
	"mount",
	"sysctl kernel.osrelease",
	"scp a.txt b.txt",
	"scp ./a:b c",
	"rsync -a src/ dst/",
	"rsync -a --delete src/ build/",
	"docker --version",
	"kubectl --help",
	"terraform fmt",
	"sqlite3 x.db 'select * from t'",
	`sqlite3 x.db 'insert into t values ("DROP TABLE x")'`,
	"sqlite3 x.db 'delete from t where id = 1'",
	"sqlite3 x.db 'select 1 /* drop table t */'",
	"aws --version",
	"gcc -o push main.c -f",
	"tar -xf git.tar",
	"cp -r src build/",
	"@/usr/bin/busybox busybox ls -r",
	"@/usr/bin/busybox ls rm",
}

// TestMeanings: each command line meets its rule, and none that is worse.
func TestMeanings(t *testing.T) {
	p := load(t, "observe") // allows, and names the rule all the same
	if len(meanings) < 80 || len(meaningless) < 40 {
		t.Fatalf("%d and %d command lines", len(meanings), len(meaningless))
	}
	for _, text := range meanings {
		line, want, _ := strings.Cut(text, " | ")
		var worst commandVerdict
		for _, v := range p.judgeCommand(execute(line), surroundings{}) {
			worst.meet(v)
		}
		if got := strings.TrimPrefix(worst.label(), "commands."); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
		if worst.reason == "" {
			t.Errorf("%s: no explanation", line)
		}
	}
	for _, line := range meaningless {
		for _, v := range p.judgeCommand(execute(line), surroundings{}) {
			if v.name != "" {
				t.Errorf("%s: %s", line, v.label())
			}
		}
	}
}

// judgeLine is what a policy decides about a command line, in short.
func judgeLine(p *Policy, line string) string {
	d := p.Decide(execute(line))
	return d.Action.String() + " " + d.Rule
}

const ownText = `default_permissions = "own"
[permissions.base]
extends = ":workspace"
[[permissions.base.commands.rule]]
program = "git"
sub = "push"
action = "deny"
reason = "releases are made elsewhere"
[permissions.own]
extends = "base"
[permissions.own.commands]
remote = "deny"
bulk = { files = 5, window = "1s", action = "deny" }
[[permissions.own.commands.rule]]
program = ["deploy.sh", "deploy"]
class = "publish"
reason = "deploys"
[[permissions.own.commands.rule]]
program = "python3"
values = ["-m"]
texts = ["http.server"]
action = "ask"
[[permissions.own.commands.rule]]
program = "git"
sub = "push"
operands = ["backup"]
unless = ["--force", "-f"]
action = "allow"
`

// TestOwnRules: rules of one's own say an action or add to a class, the profile's
// before those that it extends, and the classes of a profile replace each other.
func TestOwnRules(t *testing.T) {
	p := load(t, "", source(Session, ownText))
	for _, c := range []struct{ line, want string }{
		{"git push", "deny commands.rule: git push"},
		{"git push backup", "allow commands.rule: git push"},
		{"git push --force backup", "deny commands.rule: git push"},
		{"@/home/u/ws/deploy.sh deploy.sh", "ask commands.publish: deploy.sh"},
		{"python3.12 -m http.server", "ask commands.rule: python"},
		{"python3.12 -m venv x", "allow :system"},
		{"ssh host", "deny commands.remote: ssh"},
		{"rm -rf src", "ask commands.destructive: rm -r"},
		{"sudo ls", "deny commands.privileged: sudo"},
		{"npm ci", "allow commands.install: npm ci"},
		{"ls", "allow :system"},
		{"@/home/u/ws/git git push backup", "allow commands.rule: git push"},
	} {
		if got := judgeLine(p, c.line); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
	if b := p.BulkLimit(); b.Files != 5 || b.Action != event.ActionDeny {
		t.Errorf("bulk: %+v", b)
	}
	// A file that is known by another name is that program, whatever it is called.
	req := execute("@/home/u/ws/git git push backup")
	req.Alike = []string{"/usr/bin/ssh"}
	if d := p.Decide(req); d.Action != event.ActionDeny || d.Risk != "remote" {
		t.Errorf("ssh called git: %+v", d)
	}
	req = execute("ls")
	req.Object.Mode |= 0o4000
	if d := p.Decide(req); d.Action != event.ActionDeny || d.Risk != "privileged" {
		t.Errorf("a set-user-ID program: %+v", d)
	}
}

// TestCommandLayers: across layers the stricter wins, and a workspace's own rule
// excepts from nothing.
func TestCommandLayers(t *testing.T) {
	envelope := "default_permissions = \"e\"\n[permissions.e.commands]\npublish = \"deny\"\ndestructive = \"ask\"\n"
	project := "default_permissions = \"x\"\n[permissions.x.commands]\ninstall = \"ask\"\n[[permissions.x.commands.rule]]\nprogram = \"git\"\naction = \"allow\"\n"
	session := "default_permissions = \"x\"\n[permissions.x]\nextends = \":observe\"\nrecord_only = false\n[permissions.x.commands]\ndestructive = \"allow\"\n"
	p := load(t, "", source(Envelope, envelope), source(Project, project), source(Session, session))
	for line, want := range map[string]string{
		"git push": "deny commands.publish: git push", "git reset --hard": "ask commands.destructive: git reset --hard",
		"npm ci": "ask commands.install: npm ci", "sudo x": "allow commands.privileged: sudo",
	} {
		if got := judgeLine(p, line); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	// What a closed profile does not speak of is as in the default profile.
	p = load(t, "", source(Session, "default_permissions = \"x\"\n[permissions.x.filesystem]\n\"/\" = \"read\"\n"))
	if got := judgeLine(p, "git push"); got != "ask commands.publish: git push" {
		t.Errorf("an unspoken class: %s", got)
	}
	if got := judgeLine(load(t, "observe"), "git push --force"); got != "allow commands.destructive: git push --force" {
		t.Errorf("observe: %s", got)
	}
}

// TestOrdinaryWork: nothing that a session does all the time is asked about.
func TestOrdinaryWork(t *testing.T) {
	p := load(t, "")
	for _, line := range append(meaningless[:len(meaningless):len(meaningless)],
		"npm ci", "npm install", "pip3 install -r requirements.txt", "python3 -m venv .venv", "@/home/u/ws/.venv/bin/pip pip install x",
		"go build ./...", "go get x", "cargo build", "make -j8", "bash -c x", "git clone /srv/x", "node x.js") {
		if d := p.Decide(execute(line)); d.Action != event.ActionAllow {
			t.Errorf("%s: %v %s", line, d.Action, d.Rule)
		}
	}
}

// TestInternals: what git runs as a part of a command is that command, and what an
// alias runs is not.
func TestInternals(t *testing.T) {
	p := load(t, "")
	for _, c := range []struct {
		by, line string
		want     event.Action
	}{
		{"git stash", "git reset --hard -q", event.ActionAllow},
		{"git gc --auto", "git reflog expire --all", event.ActionAllow},
		{"git worktree add x", "git reset --hard", event.ActionAllow},
		{"/usr/lib/git-core/git-stash", "git reset --hard", event.ActionAllow},
		{"git fetch", "ssh git@host 'git-upload-pack x'", event.ActionAllow},
		{"git x", "git reset --hard", event.ActionAsk},
		{"git -c alias.stash=y -c alias.x=z x", "git reset --hard", event.ActionAsk},
		{"git gc", "git push --force", event.ActionAsk},
		{"git", "git reset --hard", event.ActionAsk},
		{"", "git reset --hard", event.ActionAsk},
		{"git x", "ssh host", event.ActionAsk},
	} {
		req := execute(c.line)
		req.Task.Exe, req.Caller = "/usr/bin/git", words(c.by)
		if d := p.Decide(req); d.Action != c.want {
			t.Errorf("%s, by %s: %+v", c.line, c.by, d)
		}
		req.Task.Exe = "/home/u/ws/git" // one of the session's own
		if d := p.Decide(req); d.Action != event.ActionAsk {
			t.Errorf("%s, by a program called git: %+v", c.line, d)
		}
	}
}

// TestExplainCommand: an explanation names the rule and where it stands.
func TestExplainCommand(t *testing.T) {
	p := load(t, "", source(Session, ownText))
	e := p.Explain(execute("git push"))
	if e.Decision.Action != event.ActionDeny || e.Decision.Reason != "releases are made elsewhere" || e.Pos.Line != 4 || e.Layer == "" {
		t.Errorf("%+v", e)
	}
	e = p.Explain(execute("git push -f origin"))
	if e.Decision != p.Decide(execute("git push -f origin")) {
		t.Errorf("explained %+v", e.Decision)
	}
}

// TestCommandData: rules call programs what the tables do, or never match.
func TestCommandData(t *testing.T) {
	tables, err := embedded()
	if err != nil {
		t.Fatal(err)
	}
	for class, programs := range tables.commands.Programs() {
		for _, name := range programs {
			if c := tables.commands.Canonical(strings.TrimSuffix(name, "*")); c != name && !strings.HasSuffix(name, "*") {
				t.Errorf("a rule of class %v is about %q, which the tables call %q: it never matches", class, name, c)
			}
		}
	}
}

// FuzzCommand: whatever the words, the judgement ends, and quickly.
func FuzzCommand(f *testing.F) {
	for _, text := range meanings {
		line, _, _ := strings.Cut(text, " | ")
		f.Add("/usr/bin/"+strings.TrimPrefix(words(line)[0], "@"), strings.Join(words(line), "\x00"), "/home/u/ws")
	}
	p, err := Load([]Source{source(Session, ownText)}, "", testHost())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path, argv, cwd string) {
		req := execute("x")
		req.Object.Path, req.Object.Raw, req.Task.Cwd = path, path, cwd
		req.Argv = strings.Split(argv, "\x00")
		began := time.Now()
		d, e := p.Decide(req), p.Explain(req)
		if d != e.Decision {
			t.Errorf("decided %+v, explained %+v", d, e.Decision)
		}
		if took := time.Since(began); took > 2*time.Second+time.Duration(len(argv))*time.Microsecond {
			t.Errorf("took %v", took)
		}
		req.Argv = nil
		p.Decide(req)
	})
}
