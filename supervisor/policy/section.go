package policy

import (
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// section reads a table whose keys are known beforehand, and says which are not.
type section struct {
	faults *faultList
	table  *table
	// what names the table in messages: "permissions.x.network".
	what  string
	known []string
}

func (s *section) get(name string, kind unstable.Kind, want string) *value {
	s.known = append(s.known, name)
	e := s.table.index[name]
	if e == nil {
		return nil
	}
	e.used = true
	isTable := kind == unstable.InlineTable && e.val.table != nil
	if e.val.kind != kind && !isTable {
		s.faults.add(e.val.pos, want, "%s.%s is %s", s.what, name, kindName(e.val.kind))
		return nil
	}
	return e.val
}

func (s *section) sub(name string) *section {
	v := s.get(name, unstable.InlineTable, "expected a table")
	if v == nil {
		return nil
	}
	return &section{faults: s.faults, table: v.table, what: s.what + "." + name}
}

func (s *section) str(name string) (string, Pos) {
	v := s.get(name, unstable.String, "expected a text in quotes")
	if v == nil {
		return "", Pos{}
	}
	return v.str, v.pos
}

func (s *section) yes(name string) *bool {
	v := s.get(name, unstable.Bool, "expected true or false")
	if v == nil {
		return nil
	}
	return &v.yes
}

// count is a whole number above zero.
func (s *section) count(name string) uint64 {
	v := s.get(name, unstable.Integer, "expected a whole number")
	if v == nil {
		return 0
	}
	n, err := strconv.ParseUint(v.str, 0, 63)
	if err != nil || n == 0 {
		s.faults.add(v.pos, "expected a whole number above zero", "%s.%s is %s", s.what, name, v.str)
		return 0
	}
	return n
}

// sizeUnits are the units of sizes, the longest first.
var sizeUnits = []struct {
	name  string
	bytes uint64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

// size is a number of bytes such as "512MiB".
func (s *section) size(name string) uint64 {
	text, pos := s.str(name)
	if text == "" {
		return 0
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 32); ok && err == nil && n > 0 && n*u.bytes < 1<<62 {
			return n * u.bytes
		}
	}
	s.faults.add(pos, `expected a size such as "512MiB" or "4GiB"`, "%s.%s is %q", s.what, name, text)
	return 0
}

// texts is a list of texts; said is false when the key is not there.
func (s *section) texts(name string) (out []string, at Pos, said bool) {
	v := s.get(name, unstable.Array, `expected a list of texts, ["a", "b"]`)
	if v == nil {
		return nil, Pos{}, false
	}
	for _, one := range v.list {
		if one.kind != unstable.String || one.str == "" {
			s.faults.add(one.pos, "expected a text in quotes that is not empty", "%s.%s holds %s", s.what, name, kindName(one.kind))
			continue
		}
		out = append(out, one.str)
	}
	return out, v.pos, true
}

// words is a text, or a list of texts.
func (s *section) words(name string) (out []string, at Pos) {
	if e := s.table.index[name]; e != nil && e.val.kind == unstable.String {
		text, at := s.str(name)
		if text == "" {
			s.faults.add(at, "expected a text that is not empty", "%s.%s is empty", s.what, name)
			return nil, at
		}
		return []string{text}, at
	}
	out, at, _ = s.texts(name)
	return out, at
}

// tables is a list of tables, written [[name]] or as a list of inline tables.
func (s *section) tables(name string) []*section {
	s.known = append(s.known, name)
	e := s.table.index[name]
	if e == nil {
		return nil
	}
	e.used = true
	if e.val.kind != unstable.ArrayTable && e.val.kind != unstable.Array {
		s.faults.add(e.val.pos, "write [["+s.what+"."+name+"]] over each", "%s.%s is %s", s.what, name, kindName(e.val.kind))
		return nil
	}
	var out []*section
	for _, one := range e.val.list {
		if one.table == nil {
			s.faults.add(one.pos, "expected a table", "%s.%s holds %s", s.what, name, kindName(one.kind))
			continue
		}
		out = append(out, &section{faults: s.faults, table: one.table, what: s.what + "." + name})
	}
	return out
}

// choice is one of words, or "".
func (s *section) choice(name string, words ...string) string {
	got, pos := s.str(name)
	if got == "" && pos == (Pos{}) {
		return ""
	}
	for _, w := range words {
		if w == got {
			return got
		}
	}
	s.faults.add(pos, expected(got, words), "%s.%s is %q", s.what, name, got)
	return ""
}

// duration is a time such as "90s" or "2h".
func (s *section) duration(name string) time.Duration {
	text, pos := s.str(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		s.faults.add(pos, `expected a time above zero such as "90s", "10m" or "2h"`, "%s.%s is %q", s.what, name, text)
		return 0
	}
	return d
}

// finish adds a fault for every key that nobody asked for.
func (s *section) finish() {
	for _, e := range s.table.entries {
		if !e.used {
			s.faults.add(e.pos, expected(e.name, s.known), "unknown key %q in %s", e.name, s.what)
		}
	}
}

func kindName(k unstable.Kind) string {
	switch k {
	case unstable.String:
		return "a text"
	case unstable.Bool:
		return "a truth value"
	case unstable.Integer, unstable.Float:
		return "a number"
	case unstable.Array:
		return "a list"
	case unstable.InlineTable:
		return "a table"
	case unstable.ArrayTable:
		return "a list of tables"
	}
	return "a date"
}
