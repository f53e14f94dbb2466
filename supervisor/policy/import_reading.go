package policy

import (
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// reading reads a table of another tool's policy. Keys that nobody asked for are
// listed in the end.
type reading struct {
	im   *importer
	t    *table
	what string // where the table stands: "sandbox.network"
}

func (r *reading) path(name string) string {
	if r.what == "" {
		return name
	}
	return r.what + "." + name
}

// get is the value of a key that has to be of a kind, nil where it is not there.
func (r *reading) get(name string, kinds ...unstable.Kind) *value {
	e := r.t.index[name]
	if e == nil {
		return nil
	}
	e.used = true
	for _, k := range kinds {
		if e.val.kind == k || k == unstable.InlineTable && e.val.table != nil {
			return e.val
		}
	}
	r.im.faults.add(e.val.pos, "expected "+kindName(kinds[0]), "%s is %s", r.path(name), kindName(e.val.kind))
	return nil
}

// sub is a table of the table; without one it is empty.
func (r *reading) sub(name string) *reading {
	out := &reading{r.im, newTable(Pos{}), r.path(name)}
	if v := r.get(name, unstable.InlineTable); v != nil {
		out.t = v.table
	}
	return out
}

func (r *reading) yes(name string) bool {
	v := r.get(name, unstable.Bool)
	return v != nil && v.yes
}

func (r *reading) str(name string) (string, Pos) {
	if v := r.get(name, unstable.String); v != nil {
		return v.str, v.pos
	}
	return "", Pos{}
}

// said is a text with its place.
type said struct {
	text string
	pos  Pos
}

// texts is a list of texts, or one text.
func (r *reading) texts(name string) []said {
	v := r.get(name, unstable.Array, unstable.String)
	if v == nil {
		return nil
	}
	if v.kind == unstable.String {
		return []said{{v.str, v.pos}}
	}
	var out []said
	for _, one := range v.list {
		if one.kind != unstable.String && one.kind != unstable.Integer {
			r.im.faults.add(one.pos, "expected a text", "%s holds %s", r.path(name), kindName(one.kind))
			continue
		}
		out = append(out, said{one.str, one.pos})
	}
	return out
}

// count is a whole number above zero, 0 where it is not there.
func (r *reading) count(name string) (uint64, Pos) {
	v := r.get(name, unstable.Integer)
	if v == nil {
		return 0, Pos{}
	}
	n, err := strconv.ParseUint(v.str, 0, 40)
	if err != nil {
		r.im.faults.add(v.pos, "expected a whole number that is not negative", "%s is %s", r.path(name), v.str)
	}
	return n, v.pos
}

// tables are the tables of a list.
func (r *reading) tables(name string) []*reading {
	v := r.get(name, unstable.Array)
	if v == nil {
		return nil
	}
	var out []*reading
	for _, one := range v.list {
		if one.table == nil {
			r.im.faults.add(one.pos, "expected a table", "%s holds %s", r.path(name), kindName(one.kind))
			continue
		}
		out = append(out, &reading{r.im, one.table, r.path(name)})
	}
	return out
}

// about says of keys that are there that they are no matter of a policy.
func (r *reading) about(f Fidelity, text string, names ...string) {
	for _, name := range names {
		if e := r.t.index[name]; e != nil && !e.used {
			e.used = true
			r.im.say(f, e.pos, r.path(name), "%s", text)
		}
	}
}

// set is about for flags: it says so only where one is true.
func (r *reading) set(f Fidelity, text string, names ...string) {
	for _, name := range names {
		if e := r.t.index[name]; e != nil && r.yes(name) {
			r.im.say(f, e.pos, r.path(name), "%s", text)
		}
	}
}

// rest lists the keys that nobody asked for.
func (r *reading) rest() {
	for _, e := range r.t.entries {
		if !e.used {
			e.used = true
			r.im.say(FidelityOpen, e.pos, r.path(e.name), "reeve does not know this key, and nothing stands for it: if it forbids something, write that into the policy by hand")
		}
	}
}

// home and workspace spots of other tools' paths.
func homeSpot(rest string) importSpot {
	if rest = strings.Trim(rest, "/"); rest == "" {
		return importSpot{"", "~"}
	}
	return importSpot{"", "~/" + rest}
}

func workspaceSpot(rest string) importSpot {
	for strings.HasPrefix(rest, "./") {
		rest = strings.TrimLeft(rest[2:], "/")
	}
	if rest = strings.Trim(rest, "/"); rest == "" {
		rest = "."
	}
	return importSpot{":workspace_roots", rest}
}

// resolved is an absolute pattern, where /var/run leads to /run as it does
// everywhere: our patterns are about where links lead.
func resolved(p string) importSpot {
	if rest, ok := strings.CutPrefix(p, "/var/run/"); ok {
		p = "/run/" + rest
	}
	return importSpot{"", p}
}

// literalBraces makes { and } of a pattern mean themselves, and \ too where the
// other tool knows no such thing.
func literalBraces(pattern string) string {
	return strings.NewReplacer(`\`, `\\`, "{", `\{`, "}", `\}`).Replace(pattern)
}

// ignored is a pattern of .gitignore in our language: a \ makes the next byte mean
// itself, and braces are none. ok is false for what has no such form.
func ignored(pattern string) (glob string, ok bool) {
	var b strings.Builder
	set := -1 // where the first byte of a set is that may close it
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 == len(pattern), strings.HasPrefix(pattern[i:], "[:") && set >= 0:
			return "", false
		case c == '\\':
			i++
			if c = pattern[i]; set >= 0 || strings.IndexByte(`*?[]{}\`, c) >= 0 {
				b.WriteByte('\\')
			}
		case set >= 0 && c == ']' && i > set:
			set = -1
		case set < 0 && c == '[':
			if set = i + 1; set < len(pattern) && strings.IndexByte("!^", pattern[set]) >= 0 {
				set++
			}
		case c == '{' || c == '}' || set >= 0 && c == ']':
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// climbs reports whether a relative path leads out of where it starts.
func climbs(p string) bool {
	return p == ".." || strings.HasPrefix(p, "../") || strings.Contains(p, "/../") || strings.HasSuffix(p, "/..")
}
