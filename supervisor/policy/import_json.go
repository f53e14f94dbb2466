package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// lines finds places in a text.
type lines struct {
	file   string
	starts []int // byte offset of each line
}

func newLines(file string, text []byte) lines {
	l := lines{file, []int{0}}
	for i, b := range text {
		if b == '\n' {
			l.starts = append(l.starts, i+1)
		}
	}
	return l
}

func (l *lines) pos(offset int) Pos {
	r := reader{file: l.file, starts: l.starts}
	return r.pos(offset)
}

// readable reports whether a text of another tool is one at all.
func readable(src Source, format string, faults *faultList) bool {
	switch {
	case len(src.Text) > MaxSource:
		faults.add(Pos{File: src.Name}, "", "the file has %d bytes, more than %d", len(src.Text), MaxSource)
	case !utf8.Valid(src.Text):
		faults.add(Pos{File: src.Name}, format+" is UTF-8", "the file is not valid UTF-8")
	default:
		return true
	}
	return false
}

// readJSON reads a JSON object as a table: strictly, each key once, and with the
// place of every value.
func readJSON(src Source, faults *faultList) *table {
	root := newTable(Pos{src.Name, 1, 1})
	if !readable(src, "JSON", faults) {
		return root
	}
	r := &jsonReader{lines: newLines(src.Name, src.Text), text: src.Text, faults: faults}
	var whole any
	if err := json.Unmarshal(src.Text, &whole); err != nil {
		pos := Pos{File: src.Name}
		var at *json.SyntaxError
		if errors.As(err, &at) {
			pos = r.pos(max(0, int(at.Offset)-1))
		}
		faults.add(pos, "JSON without comments was expected", "%s", err)
		return root
	}
	r.dec = json.NewDecoder(bytes.NewReader(src.Text))
	r.dec.UseNumber()
	v := r.value(0)
	if v == nil || v.table == nil {
		faults.add(root.pos, "expected an object, { … }", "the file is not a JSON object")
		return root
	}
	return v.table
}

type jsonReader struct {
	lines
	text   []byte
	dec    *json.Decoder
	faults *faultList
}

// start is where the next token begins.
func (r *jsonReader) start() Pos {
	at := int(r.dec.InputOffset())
	for at < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[at]) >= 0 {
		at++
	}
	return r.pos(at)
}

// value reads one value of a text that is known to be JSON; nil for what was said
// to be a fault.
func (r *jsonReader) value(depth int) *value {
	pos := r.start()
	token, err := r.dec.Token()
	if err != nil {
		r.faults.add(pos, "", "%s", err)
		return nil
	}
	v := &value{pos: pos}
	switch t := token.(type) {
	case string:
		v.kind, v.str = unstable.String, t
	case bool:
		v.kind, v.yes = unstable.Bool, t
	case json.Number:
		v.kind, v.str = unstable.Float, t.String()
		if _, err := t.Int64(); err == nil {
			v.kind = unstable.Integer
		}
	case nil:
		r.faults.add(pos, "leave the key out", "null says nothing")
		return nil
	case json.Delim:
		if depth > maxDepth {
			r.faults.add(pos, "", "values are nested deeper than %d", maxDepth)
			return nil
		}
		if t == '[' {
			v.kind = unstable.Array
			r.list(v, depth)
		} else {
			v.kind, v.table = unstable.InlineTable, newTable(pos)
			r.object(v.table, depth)
		}
	}
	return v
}

func (r *jsonReader) list(v *value, depth int) {
	for r.dec.More() {
		one := r.value(depth + 1)
		if one == nil {
			return
		}
		v.list = append(v.list, one)
	}
	_, _ = r.dec.Token() // the closing bracket of what is known to be JSON
}

func (r *jsonReader) object(t *table, depth int) {
	for r.dec.More() {
		pos := r.start()
		token, err := r.dec.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			r.faults.add(pos, "", "expected a key")
			return
		}
		v := r.value(depth + 1)
		if v == nil {
			return
		}
		if was := t.index[name]; was != nil {
			r.faults.add(pos, "remove one of the two", "key %q is written twice, first at %s", name, was.pos)
			continue
		}
		t.put(name, pos, v)
	}
	_, _ = r.dec.Token()
}
