package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// splice puts an edit into the text of a policy file and leaves all else as it
// stands: over the value of a rule about the same, at the end of the table it
// belongs to, or in a table of its own at the end of the file.
func (e *edit) splice(name string, text []byte) ([]byte, error) {
	var faults faultList
	doc := readDocument(name, text, &faults)
	if err := faults.err(); err != nil {
		return nil, err
	}
	path := append([]string{"permissions", e.profile}, e.table...)
	owner, at := descendTo(doc, path[:2]), descendTo(doc, path)
	if owner == nil && builtInTexts[e.profile] == "" {
		return nil, fmt.Errorf("profile %q is not in it", e.profile)
	}
	if e.exact != nil {
		return e.spliceRule(text, path, owner)
	}
	if old := e.replaced(name, owner); old != nil {
		return e.replace(text, old)
	}
	switch {
	case at == nil, !at.header && !at.closed && !at.dotted:
		e.founds = owner == nil
		return e.appendTable(text), nil
	case !at.header:
		return nil, fmt.Errorf("%s is written at %s in a way that nothing can be added to: write it as [%s]",
			strings.Join(path, "."), at.pos, tomlPath(path))
	}
	return e.insert(text, at), nil
}

// spliceRule adds a rule to a profile's list of rules about commands.
func (e *edit) spliceRule(text []byte, path []string, owner *table) ([]byte, error) {
	if e.founds = owner == nil; owner != nil {
		commands := owner.index[e.table[0]]
		if commands != nil && (commands.val.table == nil || commands.val.table.closed) {
			return nil, fmt.Errorf("%s is written at %s in a way that nothing can be added to: write it as [%s]", tomlPath(path[:3]), commands.pos, tomlPath(path[:3]))
		}
		if commands != nil {
			if rules := commands.val.table.index[e.table[1]]; rules != nil && rules.val.kind != unstable.ArrayTable {
				return nil, fmt.Errorf("%s is written at %s in a way that nothing can be added to: write [[%s]] over each", tomlPath(path), rules.pos, tomlPath(path))
			}
		}
	}
	return e.appendTable(text), nil
}

// descendTo is a table of a document, or nil.
func descendTo(t *table, path []string) *table {
	for _, name := range path {
		e := t.index[name]
		if e == nil || e.val.table == nil {
			return nil
		}
		t = e.val.table
	}
	return t
}

// replaced is the entry of the edited profile that says otherwise about the same.
func (e *edit) replaced(file string, owner *table) *entry {
	if owner == nil {
		return nil
	}
	t := descendTo(owner, e.table)
	if t == nil {
		return nil
	}
	if same := t.index[e.key]; same != nil {
		return same
	}
	if e.old.File != file {
		return nil
	}
	// The same, called otherwise: "~/x", or "x" below ":workspace_roots".
	for _, one := range t.entries {
		if one.pos == e.old {
			return one
		}
		if one.val.table == nil {
			continue
		}
		for _, inner := range one.val.table.entries {
			if inner.pos == e.old {
				return inner
			}
		}
	}
	return nil
}

// replace writes another value over that of an entry.
func (e *edit) replace(text []byte, old *entry) ([]byte, error) {
	at := offset(text, old.val.pos)
	if old.val.kind != unstable.String || at < 0 {
		return nil, fmt.Errorf("%s is no text in quotes", old.val.pos)
	}
	for _, quote := range []string{`"`, "'"} {
		if was := quote + old.val.str + quote; bytes.HasPrefix(text[at:], []byte(was)) {
			e.was = tomlString(old.name) + " = " + tomlString(old.val.str)
			return slices.Concat(text[:at], []byte(tomlString(e.value)), text[at+len(was):]), nil
		}
	}
	return nil, fmt.Errorf("the value at %s is written in a way that is not understood: write it as %s", old.val.pos, tomlString(old.val.str))
}

// insert adds the line after the last of its table that stands on one line, else
// right after the table's header.
func (e *edit) insert(text []byte, t *table) []byte {
	after := t.pos.Line
	for _, one := range t.entries {
		direct := one.val.table == nil && one.val.kind == unstable.String
		if direct && one.val.pos.Line == one.pos.Line && !multiline(text, one) {
			after = max(after, one.pos.Line)
		}
	}
	at := offset(text, Pos{Line: after, Column: 1})
	if end := bytes.IndexByte(text[at:], '\n'); end >= 0 {
		at += end + 1
	} else {
		text = append(slices.Clone(text), '\n')
		at = len(text)
	}
	return slices.Concat(text[:at], []byte(e.line()), text[at:])
}

// multiline reports whether a value may go on in the next line.
func multiline(text []byte, e *entry) bool {
	at := offset(text, e.val.pos)
	return at < 0 || bytes.HasPrefix(text[at:], []byte(`"""`)) || bytes.HasPrefix(text[at:], []byte("'''"))
}

// appendTable adds the line in a table of its own at the end.
func (e *edit) appendTable(text []byte) []byte {
	out := slices.Clone(text)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	if len(out) > 0 {
		out = append(out, '\n')
	}
	if e.founds {
		out = append(out, e.profileLines()...)
		out = append(out, '\n')
	}
	return append(append(out, e.header()...), e.line()...)
}

// profileLines make the profile that is edited, as all that it was.
func (e *edit) profileLines() string {
	return "[" + tomlPath([]string{"permissions", e.profile}) + "]\nextends = " + tomlString(":"+e.profile) + "\n"
}

func (e *edit) header() string {
	header := "[" + tomlPath(append([]string{"permissions", e.profile}, e.table...)) + "]"
	if e.exact != nil {
		header = "[" + header + "]" // one of a list
	}
	return header + "\n"
}

func (e *edit) line() string {
	if e.exact != nil {
		return e.key
	}
	return tomlKey(e.key) + " = " + tomlString(e.value) + "\n"
}

// describe shows edits as they will stand in the file.
func describe(edits []edit) string {
	var b strings.Builder
	last := ""
	for i := range edits {
		e := &edits[i]
		if e.founds {
			b.WriteString(e.profileLines())
		}
		if h := e.header(); h != last || e.exact != nil {
			b.WriteString(h)
			last = h
		}
		line := e.line()
		if e.was != "" {
			line = strings.TrimSuffix(line, "\n") + "  # instead of " + e.was + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

// offset is the place of a position in the text, or -1.
func offset(text []byte, p Pos) int {
	at := 0
	for line := 1; line < p.Line; line++ {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return -1
		}
		at += n + 1
	}
	if at += p.Column - 1; p.Line < 1 || p.Column < 1 || at > len(text) {
		return -1
	}
	return at
}

func tomlPath(keys []string) string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = tomlKey(k)
	}
	return strings.Join(out, ".")
}
