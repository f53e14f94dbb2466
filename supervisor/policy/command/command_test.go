package command

import (
	"strings"
	"testing"
)

func TestSQL(t *testing.T) {
	for sql, want := range map[string]bool{
		"DROP TABLE t": true, "drop table t": true, "select 1; Drop View v": true, "truncate t": true, "TRUNCATE TABLE t": true,
		"ALTER TABLE t DROP COLUMN c": true, "delete from t": true, "delete from t; select * from t where x": true,
		"DO $$ BEGIN DROP TABLE t; END $$": true, "/*! DROP TABLE t */": true, "select 1--1; drop table t": true,
		`select 'a\'; drop table t; --'`: true, `select 'it\'s'; drop table t`: true, "db.dropDatabase()": true,
		"select 'drop table t'": false, "select \"drop\" from t": false, "select `drop` from t": false,
		"-- drop table t\nselect 1": false, "/* drop table t */ select 1": false, "select truncate(1.5, 1)": false,
		"delete from t where id = 1": false, "update t set dropped = 1": false, "select dropbox from t": false, "": false, "'": false, "/*": false,
	} {
		if got := destroys(sql); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
}

func TestRemote(t *testing.T) {
	for word, want := range map[string]bool{
		"host:file": true, "user@host:/x": true, "host:": true, "rsync://h/m": true, "[::1]:x": true,
		"./a:b": false, "/a:b": false, "dir/a:b": false, "file": false, ":x": false, "file:///x": false, "": false,
	} {
		if got := remote(word); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
}

// testTables are a few programs.
func testTables() *Tables {
	return New(Facts{
		Programs: []*Program{
			{Name: "python"}, {Name: "mkfs", Names: []string{"mkfs.*"}},
			{Name: "git", Names: []string{"git-*"}, Dashed: true, Values: map[string]bool{"-C": true, "--git-dir": true}, Switches: map[string]bool{"-p": true},
				Subs: map[string]map[string]bool{"push": {"-o": true, "--push-option": true}}},
		},
		Rules:     []*Rule{{Programs: []string{"rm"}, Class: Destructive}, {Programs: []string{"mount.*"}, Class: Privileged}},
		Multicall: []string{"busybox"}, Loaders: []string{"ld-linux"}, Interpreters: []string{"python"},
	})
}

func TestCanonical(t *testing.T) {
	tables := testTables()
	for name, want := range map[string]string{
		"python": "python", "python3": "python", "python3.11": "python", "python-3": "python", "mkfs.ext4": "mkfs", "git-push": "git",
		"mount.nfs": "mount.*", "rm": "rm", "rmdir": "rmdir", "pythonic": "pythonic", "3": "3", "": "", "..": "..", "-": "-",
	} {
		if got := tables.Canonical(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestRead: options with their values, and what is an operand.
func TestRead(t *testing.T) {
	git := testTables().program("git")
	for line, want := range map[string]string{
		"-C x push -o y -fu origin": "-C=x -o=y -f -u | push origin?", "push -oy origin": "-o=y | push origin", "--git-d=x push": "--git-d=x | push",
		"--git-d x push": "--git-d=x | push", "-p push": "-p | push", "-z push": "-z | push?", "push -- -f": " | push -f", "push --push-o": "--push-o | push",
		"push -": " | push -", "-C": "-C | ", "": " | ",
	} {
		l := git.read(strings.Fields(line))
		var options, operands []string
		for _, o := range l.options {
			text := o.name
			if o.valued {
				text += "=" + o.value
			}
			options = append(options, text)
		}
		for _, o := range l.operands {
			text := o.text
			if o.maybe {
				text += "?"
			}
			operands = append(operands, text)
		}
		if got := strings.Join(options, " ") + " | " + strings.Join(operands, " "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestIdentify: which programs a call runs as.
func TestIdentify(t *testing.T) {
	tables := testTables()
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{Program: "/usr/bin/git", Argv: []string{"ls", "push"}}, "git[push]"},
		{Call{Program: "/usr/bin/git", Argv: []string{"git-push", "-f"}}, "git[push -f]"},
		{Call{Program: "/x/y", Raw: "/z/rm", Argv: []string{"y"}}, "y[] rm[]"},
		{Call{Program: "/x/y", Alike: []string{"/usr/bin/rm"}, Argv: []string{"y", "-r"}}, "y[-r] rm[-r]"},
		{Call{Program: "/bin/busybox", Argv: []string{"busybox", "busybox", "rm", "-r"}}, "rm[-r]"},
		{Call{Program: "/bin/busybox", Argv: []string{"/bin/rm", "x"}}, "rm[x]"},
		{Call{Program: "/bin/ls", Alike: []string{"/bin/busybox"}, Argv: []string{"rm", "x"}}, "rm[x]"},
		{Call{Program: "/bin/busybox"}, ""},
		{Call{Program: "/lib/ld-linux.so.2", Argv: []string{"ld", "--argv0", "x", "/bin/rm", "-r"}}, "ld-linux.so.2[--argv0 x /bin/rm -r] rm[-r]"},
		{Call{Program: "/usr/bin/python3", Argv: []string{"python3", "-m", "git.x", "push"}}, "python[-m git.x push] git[push]"},
		{Call{Program: "/usr/bin/python3", Argv: []string{"python3", "/a/git", "push"}}, "python[/a/git push] git[push]"},
		{Call{Program: "/usr/bin/python3", Argv: []string{"python3", "/a/git"}, Interprets: true}, "python[/a/git]"},
		{Call{Program: "/usr/bin/python3", Argv: []string{"python3", "-c", "/a/git"}}, "python[-c /a/git]"},
	} {
		var got []string
		for _, id := range tables.Identify(&c.call) {
			got = append(got, id.Name+"["+strings.Join(id.args, " ")+"]")
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %q", c.call, got, c.want)
		}
	}
}

// TestPathspec: what git takes for a branch or a path, by its form.
func TestPathspec(t *testing.T) {
	for word, want := range map[string]bool{
		".": true, "..": true, "./x": true, "../x": true, "/x": true, "src/": true, ":/": true, ":(top)x": true, ":!x": true, "*": true, "src/*": true, "x?": true,
		".github": true, "main.go": true, "src/main.go": true, "a/Cargo.TOML": true, "sha256.go": true, "a.b.tar": true, `a\b`: true, "topic/next.js": true,
		"": false, "-": false, "@": false, "main": false, "src": false, "topic/x": false, "HEAD~1": false, "HEAD^": false, "HEAD^{/fix.*}": false, "main@{1.day.ago}": false,
		"v1.2": false, "1.x": false, "release-2.X": false, "v1.0.rc1": false, "v1.0-rc.1": false, "main...topic": false, "lodash-4.17.21": false, "x.": false, "a.b/c": false,
	} {
		if got := pathspec(word); got != want {
			t.Errorf("%q: %v", word, got)
		}
	}
	for word, want := range map[string]bool{
		".": true, "..": true, "src": true, "./src": true, "src/": true, "*.go": true, ":(top)x.go": true, ".github": true, "Makefile": true, "v1.2": true,
		"main.go": false, "../x/main.go": false, "go.sum": false, "": false,
	} {
		if got := several(word); got != want {
			t.Errorf("several: %q: %v", word, got)
		}
	}
}
