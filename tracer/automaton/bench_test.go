package automaton_test

import (
	"fmt"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

// Outcomes of the benchmark's rules; used as Tie and, where grouped, as Group.
const (
	allowRead = iota + 1
	allowWrite
	ask
	deny
)

var systemDirs = []string{
	"/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ssl", "/etc/ld.so.cache", "/etc/ld.so.conf.d", "/etc/passwd", "/etc/group",
	"/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/hosts", "/etc/localtime", "/etc/alternatives", "/etc/gitconfig",
	"/etc/ca-certificates", "/usr/share/zoneinfo", "/usr/share/locale", "/dev/null", "/dev/zero", "/dev/tty", "/dev/urandom",
	"/dev/pts", "/dev/shm", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu", "/opt/toolchain",
	"/home/user/.cargo", "/home/user/.rustup", "/home/user/.nvm", "/home/user/.pyenv", "/home/user/go/pkg/mod", "/home/user/.cache/pip",
}

var protected = []string{
	".git/hooks", ".git/config", ".github", ".gitlab-ci.yml", ".circleci", ".devcontainer", ".vscode", ".idea", ".reeve*", ".codex",
	".claude", ".agents", ".cursor", ".mcp.json", "AGENTS.md", "CLAUDE.md", ".pre-commit-config.yaml", "Jenkinsfile",
}

var secretFiles = []string{
	".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.kdbx", "id_rsa*", "id_ed25519*", "id_ecdsa*", "*.ppk", ".netrc",
	".npmrc", ".pypirc", ".pgpass", ".git-credentials", "*secret*", "*credential*", "*.ovpn", "*.keystore", "terraform.tfstate*",
	"*.tfvars", ".htpasswd", "kubeconfig*", "service-account*.json", "*token*", ".vault-token", "wp-config.php", "*.asc",
}

var secretDirs = []string{
	".ssh", ".aws", ".config/gcloud", ".azure", ".kube", ".docker/config.json", ".gnupg", ".netrc", ".npmrc", ".pypirc",
	".config/gh", ".config/hub", ".mozilla", ".config/google-chrome", ".config/chromium", ".local/share/keyrings", ".password-store",
	".config/op", ".terraform.d", ".m2/settings.xml", ".gradle/gradle.properties", ".cargo/credentials.toml", ".bash_history",
	".zsh_history", ".python_history", ".psql_history", ".mysql_history", ".config/rclone", ".config/sops", ".electrum",
}

// typicalRules are about 120 rules as a default policy has them: an envelope, the
// user's layer with system directories and secrets, a project and a session.
func typicalRules(grouped bool) []automaton.Rule {
	var rules []automaton.Rule
	add := func(layer, outcome int, glob string) {
		r := automaton.Rule{Glob: glob, Layer: layer, Below: true, Tie: outcome}
		if grouped {
			r.Group = outcome
		}
		rules = append(rules, r)
	}
	add(0, allowWrite, "/")
	for _, d := range []string{"/home/user/.local/state/reeve", "/etc/reeve", "/run/reeve", "/proc/sysrq-trigger", "/sys/kernel"} {
		add(0, deny, d)
	}
	for _, d := range systemDirs {
		add(1, allowRead, d)
	}
	add(1, allowWrite, "/home/user/src/project")
	add(1, allowWrite, "/tmp/reeve-session")
	for _, d := range secretDirs {
		add(1, deny, "/home/user/"+d)
	}
	for _, f := range secretFiles {
		add(1, deny, "/**/"+f)
		add(1, deny, "/home/user/src/project/**/"+f)
	}
	add(1, allowRead, "/home/user/src/project/**/.env.example")
	for _, f := range protected {
		add(1, ask, "/home/user/src/project/"+f)
	}
	add(2, allowWrite, "/home/user/src/project")
	for _, f := range []string{"**/*.env", "**/*secret*", "**/*credential*", "vendor", ".git"} {
		add(2, deny, "/home/user/src/project/"+f)
	}
	add(2, allowRead, "/**")
	add(3, allowWrite, "/**")
	return rules
}

// manyRules are the typical rules and more like them over a home directory, n in
// all. Seven in eight have ** and stars; what a pattern looks like mostly decides
// its outcome, as in real policies, but one in ten is an exception.
func manyRules(n int, grouped bool) []automaton.Rule {
	rules := typicalRules(grouped)
	for i := 0; len(rules) < n; i++ {
		r := automaton.Rule{Layer: 1, Below: true, Tie: deny}
		word := fmt.Sprintf("%c%c%cword%d", 'a'+i%26, 'a'+i/3%26, 'a'+i/7%26, i)
		switch i % 8 {
		case 0:
			r.Glob, r.Tie = "/home/user/dir"+word+"/sub", allowRead
		case 1:
			r.Glob = "/home/user/**/." + word
		case 2:
			r.Glob = "/**/*" + word + "*"
		case 3:
			r.Glob = "/home/user/**/" + word + "*"
		case 4:
			r.Glob, r.Layer = "/home/user/src/project/**/*."+word, 2
		case 5:
			r.Glob = "/**/" + word + "_*"
		case 6:
			r.Glob, r.Tie = "/home/user/proj"+word+"/**/*secret*", ask
		case 7:
			r.Glob, r.Layer = "/home/user/src/project/"+word+"/**/.env*", 2
		}
		if i%10 == 9 {
			r.Tie = allowRead
		}
		if grouped {
			r.Group = r.Tie
		}
		rules = append(rules, r)
	}
	return rules
}

func BenchmarkCompile(b *testing.B) {
	for _, grouped := range []bool{true, false} {
		for name, rules := range map[string][]automaton.Rule{
			"120": typicalRules(grouped)[:120], "typical": typicalRules(grouped), "500": manyRules(500, grouped),
		} {
			if name == "500" && !grouped {
				continue // beyond the limit, see TestLimits
			}
			b.Run(fmt.Sprintf("%s/grouped=%v", name, grouped), func(b *testing.B) {
				var s automaton.Stats
				for b.Loop() {
					a, err := automaton.Compile(rules, automaton.Config{})
					if err != nil {
						b.Fatal(len(rules), err)
					}
					s = a.Stats()
				}
				b.ReportMetric(float64(len(rules)), "rules")
				b.ReportMetric(float64(s.States), "states")
				b.ReportMetric(float64(s.Classes), "classes")
				b.ReportMetric(float64(s.Accepts), "accepts")
				b.ReportMetric(float64(s.TableBytes), "table-B")
			})
		}
	}
}

var benchPaths = []string{
	"/home/user/src/project/web/node_modules/some-package/dist/esm/index.js", "/usr/lib/x86_64-linux-gnu/libc.so.6",
	"/home/user/.cache/go-build/3a/3af0c1d0e6b3e5cf9f8a6b5-d", "/home/user/src/project/deploy/production.env",
}

func BenchmarkRun(b *testing.B) {
	a := compile(b, typicalRules(true))
	bytes := 0
	for _, p := range benchPaths {
		bytes += len(p)
	}
	b.SetBytes(int64(bytes))
	b.ReportAllocs()
	sum := uint32(0)
	for b.Loop() {
		for _, p := range benchPaths {
			sum += a.Accept(a.Run(a.Start(), p))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bytes), "ns/byte")
}

func BenchmarkLoad(b *testing.B) {
	for name, rules := range map[string][]automaton.Rule{"typical": typicalRules(true), "500": manyRules(500, true)} {
		data, err := compile(b, rules).MarshalBinary()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var a automaton.Automaton
				if err := a.UnmarshalBinary(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHole(b *testing.B) {
	a := compile(b, typicalRules(true))
	for _, dir := range []string{"/", "/home/user/src/project", "/usr"} {
		b.Run(dir, func(b *testing.B) {
			for b.Loop() {
				a.Hole(dir, func(uint32) bool { return false }) // the whole tree is walked
			}
		})
	}
}

// BenchmarkNarrowsTo compiles anew each time for "first", since walks are
// remembered.
func BenchmarkNarrowsTo(b *testing.B) {
	data, err := compile(b, typicalRules(true)).MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	always := func(x, y uint32) bool { return true }
	var a automaton.Automaton
	b.Run("load+first", func(b *testing.B) {
		for b.Loop() {
			if err := a.UnmarshalBinary(data); err != nil {
				b.Fatal(err)
			}
			a.NarrowsTo("/home/user/src/project/a", "/home/user/src/other", always)
		}
	})
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			a.NarrowsTo("/home/user/src/project/a", "/home/user/src/other", always)
		}
	})
}

func BenchmarkMatchGrouped(b *testing.B) {
	a := compile(b, typicalRules(true))
	for b.Loop() {
		a.Match("/home/user/src/project/deploy/production.env")
	}
}

func BenchmarkExplain(b *testing.B) {
	a := compile(b, typicalRules(true))
	for b.Loop() {
		a.Explain("/home/user/src/project/deploy/production.env")
	}
}
