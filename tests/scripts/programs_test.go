package scripts_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/tests/trial"
)

// gitEnv makes commits the same whenever and wherever they are made.
const gitEnv = `
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
export GIT_AUTHOR_DATE='2024-01-01T00:00:00Z' GIT_COMMITTER_DATE='2024-01-01T00:00:00Z' GIT_CONFIG_NOSYSTEM=1
set -e
`

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGit(t *testing.T) {
	// The index holds inode numbers and times.
	const ignore = `\.git/(worktrees/[^/]+/)?index$`
	files := func(t *testing.T, _ *trial.Ground, w string) {
		for i := range 40 {
			put(t, fmt.Sprintf("%s/src/f%d.txt", w, i), strings.Repeat(fmt.Sprintf("line %d\n", i), 20))
		}
	}
	script{
		name: "git work", calm: true, needs: []string{"git"}, prepare: files, ignore: ignore, want: "second",
		text: gitEnv + `
git init -q -b main . && git add -A && git commit -q -m first && git status --short && echo more >> src/f1.txt
git status --short && git commit -q -am second && git log --stat --oneline && git branch topic && git switch -q topic
echo topic > src/t.txt && git add . && git commit -q -m topic && git switch -q main && git merge -q --no-edit topic
echo stash >> src/f2.txt && git stash -q && git stash pop -q && git diff --stat && git checkout -q src/f2.txt
git switch -q -c side HEAD~1 && echo side > src/s.txt && git add . && git commit -q -m side && git rebase -q main
git tag v1 && git gc -q && git fsck && git log --graph --oneline --all && git ls-files -s | wc -l && git worktree add -q ../w/tree v1 && ls tree/src | wc -l
`,
	}.test(t)
	script{
		name: "git clone --local", calm: true, needs: []string{"git"}, prepare: files, ignore: ignore, want: "first",
		text: gitEnv + `
git init -q -b main one && mv src one/ && git -C one add -A && git -C one commit -q -m first
git clone -q --local one two && git -C two log --oneline && git -C two status --short --branch && echo x > two/x && git -C two add x && git -C two commit -q -m x
git -C one pull -q ../two main && git -C one log --oneline
`,
	}.test(t)
}

// TestGitBefore: ordinary work in repositories that stood there before the session
// touches nothing protected and asks nobody; one is this project's own.
func TestGitBefore(t *testing.T) {
	const ignore = `\.git/(index|ORIG_HEAD|FETCH_HEAD)$|\.git/objects/(pack|info)/`
	host := func(t *testing.T, dir, text string) {
		cmd := exec.Command("/bin/sh", "-c", gitEnv+text)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("prepare a repository: %v\n%s", err, out)
		}
	}
	script{
		name: "standing repository", calm: true, needs: []string{"git"}, ignore: ignore, want: "side", text: gitEnv + `
echo more >> src/f1.txt && git status --short && git add -A && git commit -q -m second && git diff HEAD~1 --stat && git branch topic && git switch -q topic
echo topic > src/t.txt && git add . && git commit -q -m topic && git switch -q main && echo m > src/m.txt && git add . && git commit -q -m m
git merge -q --no-edit topic && echo stash >> src/f2.txt && git stash -q && git stash list | wc -l && git stash pop -q && git checkout -q src/f2.txt
git switch -q -c side HEAD~1 && echo side > src/s.txt && git add . && git commit -q -m side && git rebase -q main && git tag v1 && git tag -a v2 -m v2
git rm -q src/f3.txt && git mv src/f4.txt src/g4.txt && git commit -q -m moved && git revert --no-edit HEAD > /dev/null
git gc -q && git fsck && git blame src/f1.txt | wc -l && git log --graph --format=%s --all && git ls-files -s | wc -l
git notes add -m note && git archive HEAD | tar t | wc -l
`,
		prepare: func(t *testing.T, _ *trial.Ground, w string) {
			for i := range 30 {
				put(t, fmt.Sprintf("%s/src/f%d.txt", w, i), strings.Repeat(fmt.Sprintf("line %d\n", i), 20))
			}
			host(t, w, "git init -q -b main . && git add -A && git commit -q -m first")
		},
	}.test(t)
	script{
		name: "own repository", calm: true, needs: []string{"git"}, ignore: `\.git/(worktrees/[^/]+/)?(index|packed-refs|objects/.*)$`, want: "tracer", timeout: 4 * time.Minute,
		text: gitEnv + `
git clone -q --local one two && cd two && git log --oneline | wc -l && git status --short --branch && ls && git ls-files -s | wc -l
echo x > x && git add x && git commit -q -m x && git diff HEAD~1 --stat && git -C ../one pull -q ../two && git -C ../one log --format=%s -1
git grep -c 'package gate' -- tracer/gate/gate.go && git switch -q -c other && git stash list && git worktree add -q ../three HEAD && ls ../three | wc -l
`,
		prepare: func(t *testing.T, _ *trial.Ground, w string) {
			if _, err := os.Lstat(filepath.Join(source(t), ".git")); err != nil {
				trial.Skip(t, "repository", "this source is no clone of a repository")
			}
			host(t, w, "git -c safe.directory='*' clone -q --no-hardlinks '"+source(t)+"' one")
		},
	}.test(t)
}

// source is this project's root.
func source(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestC(t *testing.T) {
	const parts = 24
	project := func(t *testing.T, _ *trial.Ground, w string) {
		var objects, calls, decls strings.Builder
		for i := range parts {
			put(t, fmt.Sprintf("%s/part%d.c", w, i), fmt.Sprintf("#include <stdio.h>\n#include <stdlib.h>\nint part%d(void) { return printf(\"\") + %d; }\n", i, i))
			fmt.Fprintf(&objects, " part%d.o", i)
			fmt.Fprintf(&decls, "int part%d(void);\n", i)
			fmt.Fprintf(&calls, " + part%d()", i)
		}
		put(t, w+"/main.c", "#include <stdio.h>\n"+decls.String()+"int main(void) { printf(\"sum %d\\n\", 0"+calls.String()+"); return 0; }\n")
		put(t, w+"/Makefile", "OBJS = main.o"+objects.String()+"\nprog: $(OBJS)\n\t@$(CC) -o $@ $(OBJS)\n%.o: %.c\n\t@$(CC) -O1 -c -o $@ $<\nclean:\n\t@rm -f *.o prog\n")
	}
	script{
		name: "make -j2", needs: []string{"make", "cc"}, prepare: project, want: "sum 276",
		text: "make -s -j2 && ./prog && make -s -j2 && touch main.c && make -s && ./prog && make -s clean && make -s -j2 prog && ./prog",
	}.test(t)
	script{
		name: "gcc 50 times", needs: []string{"gcc"}, want: "50",
		text: `echo 'int main(void){return 0;}' > a.c; n=0
while [ $n -lt 50 ]; do gcc -o a$((n % 2)) a.c && ./a$((n % 2)) || exit 1; n=$((n + 1)); done; echo $n`,
	}.test(t)
}

func TestPython(t *testing.T) {
	script{
		name: "venv without pip", needs: []string{"/usr/bin/python3"}, want: "inside True",
		text: `export PYTHONDONTWRITEBYTECODE=1
/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import sys; print("inside", sys.prefix != sys.base_prefix)' &&
v/bin/python -c 'import json, ssl, sqlite3, tempfile; f = tempfile.TemporaryFile(); f.write(b"x"); print(json.dumps({"a": 1}))' && cp -r v v2 && rm -rf v && ls`,
	}.test(t)
	script{
		name: "thread pool of subprocesses", needs: []string{"/usr/bin/python3"}, want: "640", timeout: 3 * time.Minute,
		text: `/usr/bin/python3 - <<'E'
import subprocess
from concurrent.futures import ThreadPoolExecutor
def one(n):
    return sum(subprocess.run(["/bin/sh", "-c", f"echo {i}"], capture_output=True, text=True).stdout == f"{i}\n" for i in range(20))
with ThreadPoolExecutor(32) as pool:
    print(sum(pool.map(one, range(32))))
E`,
	}.test(t)
	script{
		// What a task may run on is left alone, whatever wakes it.
		name: "processors", needs: []string{"/usr/bin/python3"}, want: "[True, True, True]",
		text: `/usr/bin/python3 - <<'E'
import os, subprocess, threading
open("f", "w").close()
mine = os.sched_getaffinity(0)
def opens(want, told):
    os.sched_setaffinity(0, want)
    for i in range(3000): os.close(os.open("f", os.O_RDONLY))
    told.append(os.sched_getaffinity(0) == want)
    told.append(subprocess.check_output(["nproc"]) == b"%d\n" % len(want))
same, one, told = [], [], []
threads = [threading.Thread(target=opens, args=a) for a in ((mine, same), ({min(mine)}, one))]
for t in threads: t.start()
for t in threads: t.join()
print([all(same), all(one), os.sched_getaffinity(0) == mine])
E`,
	}.test(t)
	script{
		name: "multiprocessing", needs: []string{"/usr/bin/python3"}, want: "285",
		text: `/usr/bin/python3 - <<'E'
import asyncio, multiprocessing, os, socket
def square(n): return n * n
async def main():
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await p.communicate(b"x" * 200000)
    return len(out)
if __name__ == "__main__":
    print(asyncio.run(main()))
    a, b = socket.socketpair(); a.send(b"hi"); print(b.recv(2))
    with multiprocessing.Pool(4) as pool: print(sum(pool.map(square, range(10))))
E`,
	}.test(t)
}

// TestNode installs a package from a tarball beside the project: no registry.
func TestNode(t *testing.T) {
	prepare := func(t *testing.T, _ *trial.Ground, w string) {
		put(t, w+"/dep/package.json", `{"name": "dep", "version": "1.0.0", "main": "index.js", "bin": {"dep": "index.js"}}`)
		put(t, w+"/dep/index.js", "#!/usr/bin/env node\nmodule.exports = () => 'from dep';\n")
		put(t, w+"/app/package.json", `{"name": "app", "version": "1.0.0", "private": true, "dependencies": {"dep": "file:../dep-1.0.0.tgz"}, "scripts": {"hello": "node -e \"console.log(require('dep')())\""}}`)
	}
	script{
		name: "npm ci", needs: []string{"npm", "node"}, prepare: prepare, want: "from dep", timeout: 4 * time.Minute,
		ignore: `\.package-lock\.json$|\.tgz$`, mask: `in \d+m?s`,
		text: `export npm_config_offline=true npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false npm_config_logs_max=0
(cd dep && npm pack -s --pack-destination ..) && cd app && npm install -s --package-lock-only && npm ci && npm run -s hello && node -e 'console.log(require("dep")())'`,
	}.test(t)
}

func TestShell(t *testing.T) {
	script{
		name: "300 pipelines", needs: []string{"dash"}, want: "300",
		text: `n=0; while [ $n -lt 300 ]; do [ "$(echo abc | cat | cat)" = abc ] || exit 1; n=$((n + 1)); done; echo $n`,
	}.test(t)
	script{
		name: "usual tools", needs: []string{"bash", "find", "tar", "gzip", "awk", "sed", "sort", "xargs", "diff", "grep"}, want: "40 files",
		text: `set -e; mkdir -p a/b; for i in $(seq 40); do echo "line $i" > a/b/f$i; done; find a -type f | wc -l | sed 's/$/ files/'
tar czf a.tgz --sort=name --mtime=@0 --owner=0 --group=0 a && mkdir x && tar xzf a.tgz -C x && diff -r a x/a && rm a.tgz
find a -name 'f1*' -print0 | sort -z | xargs -0 -n 3 cat | awk '{s += $2} END {print s}'; grep -rl 'line 3' a | sort | head -3
cp -a a c && mv c d && ln -s d e && ln a/b/f1 hard && chmod 600 d/b/f2 && touch -d @0 d/b/f3 && mkfifo p && rm -rf x a/b/f4 && ls -R d | wc -l
bash -c 'while read -r l; do echo "$l"; done < <(sort -r a/b/f1 a/b/f2); cat <<< here; exec 5<>p; echo fifo >&5; read -r l <&5; echo $l'
mktemp -d > t && rmdir "$(cat t)" && rm t; dd if=/dev/zero of=z bs=1k count=64 2> /dev/null; truncate -s 10 z; wc -c < z; install -m 700 z i; df . > /dev/null; id -u`,
	}.test(t)
}

// TestTmux: a session has a server of its own.
func TestTmux(t *testing.T) {
	script{
		name: "tmux", timeout: 30 * time.Second, calm: true, needs: []string{"tmux"}, want: "inside",
		text: `export SHELL=/bin/sh; tmux -L reeve-$$ -f /dev/null new-session -d 'echo inside > out; exec sleep 60' || exit
n=0; while [ ! -s out ] && [ $n -lt 100 ]; do sleep 0.1; n=$((n + 1)); done; cat out; tmux -L reeve-$$ list-sessions | wc -l; tmux -L reeve-$$ kill-server; rm -f "${TMUX_TMPDIR:-/tmp}/tmux-$(id -u)/reeve-$$"`,
	}.test(t)
}

// TestRuntime: a Go program with a collector that never rests.
func TestRuntime(t *testing.T) {
	script{name: "100000 opens", want: "opened=100000 failed=0", timeout: 3 * time.Minute, text: "../opens loop 100000 ../ok.txt"}.test(t)
}
