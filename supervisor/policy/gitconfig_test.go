package policy

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

func checkGit(p *Policy, path, content string) event.Decision {
	return p.CheckContent(&event.Request{Op: event.OpRename, Target: event.Object{Path: path}}, []byte(content))
}

// unknownSettings run something by ways that no look at names or values finds.
var unknownSettings = []string{
	"[alias]\nst = grep -O./evil.sh foo\n", "[alias]\nst = rebase -x ./evil.sh\n", "[alias]\nst = bisect run ./evil.sh\n", "[alias]\nst = difftool -x ./evil.sh\n",
	"[alias]\nst = submodule foreach ./evil.sh\n", "[alias]\nst = status -s\n", "[alias \"st\"]\ncommand = log\n", "[merge]\ntool = ../../../../home/u/ws/evil\n", "[diff]\nguitool = x\n",
	"[pull]\ntwohead = evil\n", "[pull]\noctopus = evil\n", "[branch \"x\"]\nmergeOptions = -s evil\n", "[gitflow \"path\"]\nhooks = x\n", "[a]\nk = v\n", "[http]\nproxy = x\n",
	"[remote \"o\"]\nurl = evil://x\n", "[remote \"o\"]\nurl = ext://sh\n", "[remote \"o\"]\npushurl = fd::7\n", "[remote \"o\"]\nurl = ssh://-oProxyCommand=x/y\n",
	"[remote]\npushDefault = ext::x\n", "[branch \"x\"]\npushRemote = ext::x\n", "[remote \"ext::x\"]\nfetch = y\n", "[remote \"o\"]\ntagOpt = --upload-pack=x\n",
	"[submodule \"x\"]\nupdate = \" !x\"\n", "[submodule \"x\"]\ngitdir = ../evil\n", "[core]\nsharedRepository = world\n", "[core]\nfsmonitor = yes\n", "[core]\nattributesFile = x\n",
	"[core \"x\"]\nbare = true\n", "[user]\nsigningKey = -x\n", "[extensions]\nrefStorage = files:///home/u/ws/evil\n", "[format]\npretty = x\n", "[url \"x\"]\ninsteadOf = y\n",
}

func TestGitSettings(t *testing.T) {
	p := load(t, "")
	const path, module = "/home/u/ws/.git/config", "/home/u/ws/.git/modules/a/config"
	good := []string{
		"", "# comment\n; comment\n", "\xef\xbb\xbf[core]\n\tbare = false\n",
		"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
		"[remote \"origin\"]\n\turl = git@github.com:a/b.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
		"[remote \"o\"]\n\turl = ssh://[::1]/x\n", "[remote \"o\"] url = /home/u/ws/repo\n", "[user]\nname=A \"B\" C\nemail = x@y\n",
		"[submodule \"sub/mod\"]\n\turl = ../repo\n\tactive = true\n", "[pull]\nrebase\n", "[core]\r\n\tbare = true\r\n",
		"[remote \"o\"]\nurl = https://x/y.git\n\tpushurl = file:///srv/y\n\ttagOpt = --no-tags\n", "[branch]\nautoSetupRebase = always\n", "[gc]\nauto = 0\n", "[color \"diff\"]\nmeta = blue\n",
		"[submodule \"x\"]\nupdate = rebase\n", "[lfs]\nrepositoryformatversion = 0\n", "[lfs \"https://x/y\"]\naccess = basic\n", "[advice]\ndetachedHead = false\n", "[core]\nsharedrepository = 1\n",
		"[extensions]\nworktreeConfig = true\n", "[diff \"x\"]\nxfuncname = \"^f\\\\(.*\\\\)\"\n", "[core] fsmonitor = false\n", "[pager] log = false\n", "[protocol] version = 2\n",
		"[user]\nname = v \\\n continued\n", "[core]\nautocrlf = input ; why\n",
	}
	for _, text := range good {
		if d := checkGit(p, path, text); d.Action != event.ActionAllow {
			t.Errorf("%q: denied by %s: %s", text, d.Rule, d.Reason)
		}
	}
	bad := []string{
		"[core]\nhooksPath = x\n", "[CORE]\nHOOKSPATH = x\n", "[core] hookspath=x", "[core]hooksPath=x", "[core]\n\teditor = vi\n", "[core]\npager = x\n",
		"[core]\nfsmonitor = ./x\n", "[core]\nsshCommand = x\n", "[core]\naskPass = x\n", "[core]\ngitProxy = x\n", "[core]\nalternateRefsCommand = x\n", "[core]\nworktree = /home/u\n",
		"[core]\nworktree = ../../..\n", "[filter \"x\"]\nclean = x\n", "[filter \"x\"]\nsmudge = x\n", "[filter \"x\"]\nprocess = x\n", "[filter.x]\nclean = x\n",
		"[diff]\nexternal = x\n", "[diff \"x\"]\ncommand = x\n", "[diff \"x\"]\ntextconv = x\n", "[merge \"x\"]\ndriver = x\n", "[mergetool \"x\"]\ncmd = x\n",
		"[difftool \"x\"]\npath = x\n", "[alias]\nst = !sh\n", "[alias]\nst = \"!sh\"\n", "[alias]\nst = \"\"!sh\n", "[alias \"x\"]\ncommand = !sh\n", "[credential]\nhelper = x\n",
		"[credential \"https://x\"]\nhelper = !x\n", "[include]\npath = x\n", "[includeIf \"gitdir:x\"]\npath = x\n", "[INCLUDE]\npath = x\n", "[gpg]\nprogram = x\n",
		"[gpg \"ssh\"]\ndefaultKeyCommand = x\n", "[sequence]\neditor = x\n", "[pager]\nlog = x\n", "[interactive]\ndiffFilter = x\n", "[init]\ntemplateDir = x\n",
		"[remote \"o\"]\nurl = ext::sh -c x\n", "[remote \"o\"]\nuploadpack = x\n", "[remote \"o\"]\nreceivepack = x\n", "[remote \"o\"]\nvcs = x\n", "[remote \"o\"]\nurl = --upload-pack=x\n",
		"[url \"ext::x\"]\ninsteadOf = y\n", "[url \"x\"]\ninsteadOf = ext::y\n", "[submodule \"x\"]\nupdate = !x\n", "[submodule \"x\"]\nurl = ext::x\n", "[branch \"x\"]\nremote = ext::x\n",
		"[protocol \"ext\"]\nallow = always\n", "[tar \"x\"]\ncommand = x\n", "[trailer \"x\"]\ncmd = x\n", "[pack]\npackObjectsHook = x\n", "[uploadpack]\npackObjectsHook = x\n",
		"[gc]\nrecentObjectsHook = x\n", "[sendemail]\nsmtpServer = /x\n", "[guitool \"x\"]\ncmd = x\n", "[web]\nbrowser = x\n", "[man \"x\"]\npath = x\n", "[lfs \"customtransfer.x\"]\npath = x\n",
		"[lfs \"extension.x\"]\nclean = x\n", "[hook \"x\"]\ncommand = x\n", "[core] # c\n hooksPath \\\n = x\n", "[a] k = \"x\\\ny\"\n[core]\nhooksPath=x\n",
		// what cannot be parsed
		"key = x\n", "[core\nbare = x\n", "[core]\n1a = x\n", "[core]\nk = \"x\n", "[core]\nk = \\x\n", "[core \"x]\nk = 1\n", "[core x]\nk = 1\n", "[co_re]\nk = 1\n", "[core]\nk x\n",
		"[core]\nk = \x00\n", "[]\nk=1\n", "[core]\n\vhooksPath = x\n", "[core]\nk_x = 1\n",
	}
	for _, text := range append(bad, unknownSettings...) {
		if d := checkGit(p, path, text); d.Action != event.ActionDeny || d.Reason == "" {
			t.Errorf("%q: allowed", text)
		}
	}
	if d := checkGit(p, path, "[alias]\nst = grep -O./x\n"); d.Rule != "alias.st" || !strings.Contains(d.Reason, "alias.st") {
		t.Errorf("the denial does not name the setting: %+v", d)
	}
	if d := checkGit(p, module, "[core]\nworktree = ../../../a\n"); d.Action != event.ActionAllow {
		t.Errorf("a submodule's working directory: %s", d.Reason)
	}
	if d := checkGit(p, module, "[core]\nworktree = /home/u\n"); d.Action != event.ActionDeny {
		t.Error("a submodule's working directory elsewhere")
	}
	if d := checkGit(p, path, "[a]\nk = "+strings.Repeat("x", maxGitConfig)); d.Action != event.ActionDeny {
		t.Error("a file too large was read")
	}
}

// TestGitAgrees compares our reading with git's own, where git is installed.
func TestGitAgrees(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "git") {
			t.Fatal("REQUIRE=git, but this test found no git")
		}
		t.Skip("git is not installed")
	}
	file := filepath.Join(t.TempDir(), "config")
	for _, text := range []string{
		"[core]\n\tbare = false\n", "[A \"b c\"]d=e;f\n", "[a.B]\nc = \" x \"  # y\n", "[a \"q\\\"\\\\r\"] k = \\t\\n\\b\\\"\n", "[a]b\n[c]d=\n", "[a]\nk = one \\\n   two\n",
		"[a]\r\nk=v\r\n", "[a]k=v ; x \"y\n", "[a.B \"c\"] k = 1\n", "[a]k = x\"y;z\"w\n", "[a] k = v\\\n# no comment\n", "\xef\xbb\xbf[a]k=1\n", "[a]k=  \n", "[a] b.c = 1\n", "[a]k\t=\tv\t\n",
		"[a \"b\"x]k=1\n", "[ a]k=1\n", "[a ]k=1\n", "[a]\n\fk=1\n", "[a]k=\"x\n", "[-]k=1\n", "[a]-k=1\n", "k=1\n", "[a]k=1 \\q\n", "[a]k = v\r x\n",
	} {
		compareGit(t, git, file, text)
	}
}

// compareGit fails where git reads variables that we read otherwise. Refusing
// what git reads is allowed to us.
func compareGit(t *testing.T, git, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(git, "config", "-f", file, "--no-includes", "--null", "--list").Output()
	settings, ours := parseGitConfig([]byte(text))
	if ours != nil {
		return
	}
	if err != nil {
		t.Errorf("%q: git refuses it, we read %v", text, settings)
		return
	}
	var got strings.Builder
	for _, s := range settings {
		got.WriteString(s.name())
		if !s.implied {
			got.WriteString("\n" + s.value)
		}
		got.WriteByte(0)
	}
	// Versions of git differ in whether blanks inside a value stay as they are.
	blanks := strings.NewReplacer("\t", " ", "\r", " ")
	if blanks.Replace(got.String()) != blanks.Replace(string(out)) {
		t.Errorf("%q:\n git %q\nours %q", text, out, got.String())
	}
}

// TestGitPrograms: whatever way a value has of naming a file of the work tree, one of
// its words is that name, whether the file is there yet or not.
func TestGitPrograms(t *testing.T) {
	for value, want := range map[string]string{
		"!cd t && ./b": "t/b", "!$(git rev-parse --show-toplevel)/t/e": "t/e", "!`git rev-parse --show-toplevel`/t/e": "t/e", `!"$GIT_DIR"/../t/f`: "t/f",
		`!t/\p`: "t/p", `!"t"/'q'`: "t/q", `!"$PWD"/tools/cred`: "tools/cred", "tools/merge-missing %O %A": "tools/merge-missing", "!cd a; cd b && sh ./c": "a/b/c",
		"!git -C x status; ./y/z": "y/z", "!${GIT_DIR}/x": ".git/x", "!sh -c '\"$HOME\"/m/n'": "~/m/n",
	} {
		text := "[alias]\n\tx = \"" + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + "\"\n"
		leads, err := GitLeads([]byte(text))
		found := slices.ContainsFunc(leads, func(l GitLead) bool { return l.Kind == GitProgram && l.ToCome && path.Clean(l.Name) == want })
		if err != nil || !found {
			t.Errorf("%s: %v, %+v; want %s", value, err, leads, want)
		}
	}
	leads, err := GitLeads([]byte("[alias]\n\tl = log --oneline build\n"))
	if err != nil || slices.ContainsFunc(leads, func(l GitLead) bool { return l.ToCome }) {
		t.Errorf("words that are no paths: %v, %+v", err, leads)
	}
}
