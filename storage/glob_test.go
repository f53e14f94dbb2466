package storage

import "testing"

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"", "anything", true},
		{"*.env", "/ws/a/.env", true},
		{"*.env", "/x.env", true},
		{"*.env", "/x.env/y", false},
		{"/ws/*", "/ws/a", true},
		{"/ws/*", "/ws/a/b", false},
		{"/ws/**", "/ws/a/b", true},
		{"/ws/**", "/ws", true},
		{"/ws/**", "/wsx", false},
		{"/ws/**/c", "/ws/c", true},
		{"/ws/**/c", "/ws/a/b/c", true},
		{"/ws/**/c", "/ws/a/b/cd", false},
		{"/**/a/**/b", "/x/a/y/a/z/b", true},
		{"/ws/[ab]?", "/ws/a1", true},
		{"/ws/[ab]?", "/ws/c1", false},
		{`/ws/\*`, "/ws/*", true},
		{"/etc/passwd", "/etc/passwd", true},
		{"/etc/passwd", "/etc/passwd2", false},
		{"/ws/\xff*", "/ws/\xffa", true},
		{"*", "not-absolute", false},
	} {
		g, err := NewGlob(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Match(tc.path); got != tc.want {
			t.Errorf("%q on %q: %v, want %v", tc.pattern, tc.path, got, tc.want)
		}
	}
	if _, err := NewGlob("/a/[b"); err == nil {
		t.Error("an open set was accepted")
	}
}

func FuzzGlobPrefixIsSound(f *testing.F) {
	f.Add("/ws/**/x*", "/ws/a/xy")
	f.Add("/a/**", "/a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		g, err := NewGlob(pattern)
		if err != nil || len(name) == 0 || name[0] != '/' {
			return
		}
		loose := &Glob{parts: g.parts}
		if loose.Match(name) != g.Match(name) {
			t.Errorf("prefix %q of %q loses %q", g.Prefix(), pattern, name)
		}
	})
}
