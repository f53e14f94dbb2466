package policy

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// MaxSource is the most bytes that a policy file may have.
const MaxSource = 1 << 20

// maxDepth bounds the nesting of a policy file's tables and lists.
const maxDepth = 16

// value is one value of a TOML document with its place.
type value struct {
	pos  Pos
	kind unstable.Kind
	// str is the text of a string, and the raw text of numbers and dates.
	str   string
	yes   bool // of a Bool
	list  []*value
	table *table
}

// entry is one key of a table with its value.
type entry struct {
	name string
	pos  Pos
	val  *value
	used bool
}

// table is a TOML table in the order it was written.
type table struct {
	pos     Pos
	entries []*entry
	index   map[string]*entry
	// header is set once a [header] names the table, closed for inline tables,
	// which nothing outside may extend, and dotted for tables made by dotted keys.
	header, closed, dotted bool
}

func newTable(pos Pos) *table { return &table{pos: pos, index: make(map[string]*entry)} }

func (t *table) put(name string, pos Pos, v *value) {
	e := &entry{name: name, pos: pos, val: v}
	t.entries = append(t.entries, e)
	t.index[name] = e
}

// reader turns the syntax tree of one file into tables.
type reader struct {
	file   string
	parser unstable.Parser
	starts []int // byte offset of each line
	faults *faultList
}

// readDocument parses one file. What it cannot parse it adds to faults; the
// table holds what came before.
func readDocument(file string, text []byte, faults *faultList) *table {
	r := &reader{file: file, faults: faults}
	root := newTable(Pos{file, 1, 1})
	switch {
	case len(text) > MaxSource:
		faults.add(Pos{File: file}, "split it with extends", "the file has %d bytes, more than %d", len(text), MaxSource)
		return root
	case !utf8.Valid(text):
		faults.add(Pos{File: file}, "TOML is UTF-8", "the file is not valid UTF-8")
		return root
	}
	r.starts = append(r.starts, 0)
	for i, b := range text {
		if b == '\n' {
			r.starts = append(r.starts, i+1)
		}
	}
	r.parser.Reset(text)
	current := root
	for r.parser.NextExpression() {
		node := r.parser.Expression()
		switch node.Kind {
		case unstable.Table:
			current = r.header(root, node)
		case unstable.ArrayTable:
			current = r.listHeader(root, node)
		case unstable.KeyValue:
			r.keyValue(current, node, 0)
		}
	}
	r.syntax(r.parser.Error())
	return root
}

// syntax adds the parser's own fault, which may point into the text.
func (r *reader) syntax(err error) {
	if err == nil {
		return
	}
	pos := Pos{File: r.file}
	var at *unstable.ParserError
	if errors.As(err, &at) {
		pos = r.pos(int(r.parser.Range(at.Highlight).Offset))
	}
	r.faults.add(pos, "", "%s", strings.TrimPrefix(err.Error(), "toml: "))
}

func (r *reader) pos(offset int) Pos {
	lo, hi := 0, len(r.starts)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; r.starts[mid] <= offset {
			lo = mid
		} else {
			hi = mid
		}
	}
	return Pos{r.file, lo + 1, offset - r.starts[lo] + 1}
}

// keyPos is the place of a node's first key.
func (r *reader) keyPos(node *unstable.Node) Pos {
	it := node.Key()
	if it.Next() {
		return r.pos(int(it.Node().Raw.Offset))
	}
	return Pos{File: r.file}
}

// header finds or makes the table that a [header] names.
func (r *reader) header(root *table, node *unstable.Node) *table {
	at, pos := root, r.keyPos(node)
	for it := node.Key(); it.Next(); {
		key := it.Node()
		pos = r.pos(int(key.Raw.Offset))
		next, ok := r.descend(at, string(key.Data), pos)
		if !ok || next.dotted && it.IsLast() {
			if ok {
				r.faults.add(pos, "", "table %q was already made by a dotted key", string(key.Data))
			}
			return newTable(pos)
		}
		at = next
	}
	if at.header {
		r.faults.add(pos, "join the two", "the table is written twice, first at %s", at.pos)
		return newTable(pos)
	}
	at.header, at.pos = true, pos
	return at
}

// listHeader adds a table to the list of tables that a [[header]] names.
func (r *reader) listHeader(root *table, node *unstable.Node) *table {
	at, pos, name := root, r.keyPos(node), ""
	for it := node.Key(); it.Next(); {
		key := it.Node()
		name, pos = string(key.Data), r.pos(int(key.Raw.Offset))
		if it.IsLast() {
			break
		}
		next, ok := r.descend(at, name, pos)
		if !ok {
			return newTable(pos)
		}
		at = next
	}
	one := newTable(pos)
	one.header = true
	e := at.index[name]
	switch {
	case e == nil:
		at.put(name, pos, &value{pos: pos, kind: unstable.ArrayTable})
		e = at.index[name]
	case e.val.kind != unstable.ArrayTable:
		r.faults.add(pos, "", "%q is %s at %s and cannot be a list of tables", name, kindName(e.val.kind), e.pos)
		return one
	}
	e.val.list = append(e.val.list, &value{pos: pos, kind: unstable.InlineTable, table: one})
	return one
}

// descend goes to a table's subtable, making it where it is missing. Of a list of
// tables it is the last.
func (r *reader) descend(at *table, name string, pos Pos) (*table, bool) {
	e := at.index[name]
	if e == nil {
		sub := newTable(pos)
		at.put(name, pos, &value{pos: pos, kind: unstable.InlineTable, table: sub})
		return sub, true
	}
	if e.val.kind == unstable.ArrayTable {
		return e.val.list[len(e.val.list)-1].table, true
	}
	if e.val.table == nil || e.val.table.closed {
		r.faults.add(pos, "", "%q is a value at %s and cannot be extended as a table", name, e.pos)
		return nil, false
	}
	return e.val.table, true
}

// keyValue adds one, possibly dotted, key with its value to a table.
func (r *reader) keyValue(at *table, node *unstable.Node, depth int) {
	var name string
	pos := r.keyPos(node)
	for it := node.Key(); it.Next(); {
		key := it.Node()
		name, pos = string(key.Data), r.pos(int(key.Raw.Offset))
		if it.IsLast() {
			break
		}
		next, ok := r.descend(at, name, pos)
		if !ok {
			return
		}
		if next.header {
			r.faults.add(pos, "", "table %q is already written as [header] at %s", name, next.pos)
			return
		}
		next.dotted = true
		at = next
	}
	if was := at.index[name]; was != nil {
		r.faults.add(pos, "remove one of the two", "key %q is written twice, first at %s", name, was.pos)
		return
	}
	at.put(name, pos, r.value(node.Value(), pos, depth))
}

// value reads one value. Values without a place of their own (booleans have
// none in the syntax tree) take their key's.
func (r *reader) value(node *unstable.Node, pos Pos, depth int) *value {
	if node.Raw.Length > 0 {
		pos = r.pos(int(node.Raw.Offset))
	}
	v := &value{pos: pos, kind: node.Kind, str: string(node.Data)}
	if depth > maxDepth {
		r.faults.add(pos, "", "values are nested deeper than %d", maxDepth)
		return v
	}
	switch node.Kind {
	case unstable.Bool:
		v.yes = v.str == "true"
	case unstable.Array:
		for it := node.Children(); it.Next(); {
			if it.Node().Kind != unstable.Comment {
				v.list = append(v.list, r.value(it.Node(), pos, depth+1))
			}
		}
	case unstable.InlineTable:
		v.table = newTable(pos)
		for it := node.Children(); it.Next(); {
			if it.Node().Kind == unstable.KeyValue {
				r.keyValue(v.table, it.Node(), depth+1)
			}
		}
		v.table.closed = true
	}
	return v
}
