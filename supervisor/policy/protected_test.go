package policy

import (
	"strings"
	"syscall"
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

// inPlaces decides rows "verb PATH | outcome" with the default profile on a host.
func inPlaces(t *testing.T, h Host, rows map[string]string) {
	t.Helper()
	p, err := Load(nil, DefaultProfile, h)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range rows {
		if d := p.Decide(ask(text)); outcome(d) != want {
			t.Errorf("%s: %s (%s, %s), want %s", text, outcome(d), d.Rule, d.Reason, want)
		}
	}
}

// TestHomeAsWorkspace: what the person's login and programs start is not the
// session's to write, whatever else of the home directory is.
func TestHomeAsWorkspace(t *testing.T) {
	h := testHost()
	h.Workspaces = []string{"/home/u"}
	inPlaces(t, h, map[string]string{
		"make /home/u/.xprofile": "no", "make /home/u/.config/autostart/x.desktop": "no", "mkdir /home/u/.config/autostart/": "EEXIST",
		"make /home/u/.config/systemd/user/default.target.wants/x.service": "no", "make /home/u/.config/environment.d/x.conf": "no",
		"make /home/u/.local/lib/python3.11/site-packages/x.pth": "no", "make /home/u/.local/lib/python3.11/site-packages/usercustomize.py": "no",
		"make /home/u/.gradle/init.d/x.gradle": "no", "write /home/u/.nvm/nvm.sh": "no", "make /home/u/bin/ls": "no", "make /home/u/.config/zsh/.zshrc": "no",
		"make /home/u/.local/share/applications/x.desktop": "no", "make /home/u/.oh-my-zsh/custom/x.zsh": "no", "make /home/u/.pam_environment": "no",
		"make /home/u/.bashrc": "no", "read /home/u/.config/systemd/user/x.service": "ok", "read /home/u/.xprofile": "ok",
		"exec /home/u/bin/mine": "ok", "exec /home/u/.cargo/bin/rg": "ok", "exec /home/u/.local/bin/black": "ok",
		"make /home/u/.config/mine/x.conf": "no", "make /home/u/.local/lib/python3.11/site-packages/x/y.py": "no", // in the PATH's toolchain
		"make /home/u/.gradle/caches/x": "no", "make /home/u/src/bin/x": "ok", "make /home/u/.local/share/mine/x": "ok",
	})
}

// TestHomeSettings: in a home directory that is the workspace a new file of a secret's
// name is no secret, and a program of the host obeys it nevertheless.
func TestHomeSettings(t *testing.T) {
	h := testHost()
	h.Workspaces = []string{"/home/u"}
	p, err := Load(nil, DefaultProfile, h)
	if err != nil {
		t.Fatal(err)
	}
	for want, names := range map[event.Action]string{
		event.ActionDeny: `.ssh/authorized_keys .ssh/authorized_keys2 .ssh/rc .ssh/config .ssh/environment .gnupg/gpg.conf .gnupg/gpg-agent.conf .k5login .zcompdump
			.forward .config/hypr/x.conf .kshrc`,
		event.ActionAsk: `.kube/config .aws/config .docker/config.json .claude.json .netrc .npmrc .m2/settings.xml .terraform.d/plugins/x .password-store/.extensions/x.bash .Rprofile
			.julia/config/startup.jl .wgetrc .config/gh/config.yml .terraformrc .yarnrc.yml .yarnrc .gradle/gradle.properties .curlrc .pypirc .psqlrc .bundle/config .lldbinit
			.muttrc .somenewtoolrc .sdkman/bin/sdkman-init.sh .Xresources .bashrc_d .asoundrc .bunfig.toml .gradle/x.gradle.kts .newtool/settings .a .config/mine/x.conf .eslintrc.js .cargo/config.toml .config/yt-dlp/config .latexmkrc .pgpass .s3cfg .mozilla/native-messaging-hosts/x.json .ssh/id_new .config/pip/pip.conf
			.gitconfig.local .pg_service.conf .node_modules/x.js .local/share/nvim/site/plugin/x.lua .vscode/extensions/x/main.js`,
		event.ActionAllow: `.venv/bin/x .cache/x .pytest_cache/x .gitmodules src/.npmrc src/.ssh/config .local/share/mine/x .coverage .npm/x .npm/x/HEADS notes/.Rprofile`,
	} {
		for _, name := range strings.Fields(names) {
			d := p.Decide(ask("make /home/u/" + name))
			readOnly := want == event.ActionAsk && d.Action == event.ActionDeny && strings.Contains(d.Reason, "read")
			if d.Action != want && !readOnly {
				t.Errorf("make ~/%s: %v (%s, %s), want %v", name, d.Action, d.Rule, d.Reason, want)
			}
		}
	}
	for _, text := range []string{"mkdir /home/u/.ssh/", "mkdir /home/u/.kube/", "make /home/u/.local/share/x/.git/hooks/pre-commit", "make /home/u/.cache/x/.git/config"} {
		if d := p.Decide(ask(strings.TrimSuffix(text, "/"))); d.Action == event.ActionAllow {
			t.Errorf("%s: allowed", text)
		}
	}
}

// TestWorkspaceInProtectedPlace: a person who names such a place means it.
func TestWorkspaceInProtectedPlace(t *testing.T) {
	h := testHost()
	h.Workspaces = []string{"/home/u/.config/zsh", "/home/u/bin", "/home/u/.oh-my-zsh/custom/plugins/mine"}
	inPlaces(t, h, map[string]string{
		"make /home/u/.config/zsh/.zshrc": "ok", "make /home/u/bin/x": "ok", "make /home/u/.oh-my-zsh/custom/plugins/mine/x.zsh": "ok",
		"make /home/u/bin/.git/hooks/pre-commit": "no", "make /home/u/.oh-my-zsh/custom/x.zsh": "no",
	})
}

// TestProtectedSiblings: of a name that a tool takes in several forms every one is
// protected.
func TestProtectedSiblings(t *testing.T) {
	rows := map[string]string{"make /home/u/ws/sub/lefthook.yaml": "ok", "read /home/u/ws/.hg/hgrc": "ok", "make /home/u/ws/.hg/store/x": "ok"}
	for _, name := range []string{
		".hg/hgrc", "sub/.hg/hgrc", "lefthook.yml", "lefthook.yaml", ".lefthook.yaml", ".lefthook.toml", "lefthook.toml", ".drone.yaml", ".drone.yml", ".gitlab-ci.yml", ".gitlab-ci.yaml",
		".zed/tasks.json", ".kiro/hooks/x", ".pre-commit-config.yml", ".pre-commit-config.yaml", ".travis.yaml", ".woodpecker.yaml", ".cirrus.yaml", "mise.toml",
	} {
		rows["make /home/u/ws/"+name] = "no"
	}
	inPlaces(t, testHost(), rows)
}

// TestOtherTemporaryDirectories: another session's is closed wherever below the
// shared directories it is; this one's, and those of sessions within it, are open.
func TestOtherTemporaryDirectories(t *testing.T) {
	const a, b, c = "reeve-01K0AAAAAAAAAAAAAAAAAAAAAA", "reeve-01K0BBBBBBBBBBBBBBBBBBBBBB", "reeve-01K0CCCCCCCCCCCCCCCCCCCCCC"
	h := testHost()
	h.Workspaces, h.Tmp, h.Cache = []string{"/home/u/ws", "/tmp/x", "/var/tmp/" + b + "/ws"}, "/tmp/x/tmp/"+a, ""
	inPlaces(t, h, map[string]string{
		"make /tmp/" + b + "/x": "no", "read /tmp/" + b + "/x": "no", "make /tmp/y/" + b + "/cache/x": "no", "make /var/tmp/a/b/" + b + "/x": "no",
		"make /tmp/x/tmp/" + b + "/x": "no", "make /tmp/x/tmpB/" + b + "/x": "no", "make /tmp/x/" + b + "/x": "no", "make /var/tmp/" + b + "/ws/x": "ok",
		"make /tmp/x/tmp/" + a + "/x": "ok", "make /tmp/x/tmp/" + a + "/cache/x": "ok", "make /tmp/x/tmp/" + a + "/" + b + "/x": "ok",
		"make /tmp/x/tmp/" + a + "/y/" + b + "/x": "ok", "make /tmp/y/reeve-01-notes": "ok", "make /tmp/x/reeve.txt": "ok", "make /home/u/ws/" + b: "ok",
	})
	h.Workspaces, h.Tmp = []string{"/tmp/" + a + "/ws"}, "/tmp/"+a+"/"+b // a session within another
	inPlaces(t, h, map[string]string{
		"make /tmp/" + a + "/ws/x": "ok", "make /tmp/" + a + "/x": "ok", "make /tmp/" + a + "/" + b + "/x": "ok",
		"make /tmp/" + a + "/" + c + "/x": "no", "make /tmp/" + c + "/x": "no", "make /tmp/y/" + c + "/x": "no",
	})
}

// TestOwnDirectories: what the session keeps for itself is removed at its end, so it
// stays where it is; what is in it goes anywhere.
func TestOwnDirectories(t *testing.T) {
	h := testHost()
	h.Workspaces, h.Tmp, h.Cache = append(h.Workspaces, "/srv/w"), "/srv/w/t/reeve-01K0AAAAAAAAAAAAAAAAAAAAAA", "/srv/w/t/reeve-01K0AAAAAAAAAAAAAAAAAAAAAA/cache"
	p, err := Load(nil, DefaultProfile, h)
	if err != nil {
		t.Fatal(err)
	}
	const dir, none = event.ObjectDir, event.ObjectMissing
	exchange := rename("/srv/w/d", h.Tmp, dir, dir)
	exchange.Flags = renameExchange
	rmdir := ask("delete " + h.Cache + "/")
	rmdir.Op = event.OpRmdir
	for name, req := range map[string]*event.Request{
		"moved": rename(h.Tmp, "/srv/w/d", dir, none), "its cache moved": rename(h.Cache, "/srv/w/d", dir, none), "exchanged": exchange, "removed": rmdir,
		"with its parent": rename("/srv/w/t", "/srv/w/d", dir, none), "replaced": rename("/srv/w/d", h.Tmp, dir, dir),
	} {
		if d := p.Decide(req); outcome(d) != syscall.EBUSY.Error() || d.Reason != reasonOwn {
			t.Errorf("%s: %s (%s)", name, outcome(d), d.Reason)
		}
	}
	for _, req := range []*event.Request{rename(h.Tmp+"/a", h.Tmp+"/b", dir, none), ask("delete " + h.Tmp + "/a"), rename("/srv/w/d", "/srv/w/e", dir, none)} {
		if d := p.Decide(req); outcome(d) != "ok" {
			t.Errorf("%s: %s (%s)", req.Object.Path, outcome(d), d.Reason)
		}
	}
}

// TestGivenInHome: what a person gives to a session by name is given, but for what
// programs start from.
func TestGivenInHome(t *testing.T) {
	const text = `
[permissions.agent]
extends = ":workspace"
[permissions.agent.filesystem]
"~/.agent" = "write"
"/home/u/.newtool/data" = "write"
"~/.zsh" = "write"
"~/.ssh" = "write"
`
	for layer, given := range map[Layer]event.Action{Session: event.ActionAllow, Project: event.ActionDeny} {
		p := load(t, "agent", source(layer, text))
		if layer == Project {
			p = load(t, "", source(layer, "default_permissions = \"agent\"\n"+text))
		}
		for name, want := range map[string]event.Action{
			".agent/x": given, ".newtool/data/x": given, ".other/x": event.ActionDeny, ".zsh/x": event.ActionDeny, ".ssh/authorized_keys": event.ActionDeny,
		} {
			if d := p.Decide(ask("make /home/u/" + name)); d.Action != want {
				t.Errorf("%v: make ~/%s: %v (%s, %s), want %v", layer, name, d.Action, d.Rule, d.Reason, want)
			}
		}
	}
}
