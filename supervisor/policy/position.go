package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pos is a place in a policy file. The zero Pos is nowhere.
type Pos struct {
	File string
	// Line and Column start at 1; Column counts bytes.
	Line, Column int
}

// String is "file:line:column", "file" without a line, "" for nowhere.
func (p Pos) String() string {
	switch {
	case p.File == "":
		return ""
	case p.Line == 0:
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Fault is one thing wrong with a policy file.
type Fault struct {
	Pos Pos
	// Found says what is there, Want what was expected or how to put it right.
	Found, Want string
}

// Error is "file:line:column: found; want".
func (f *Fault) Error() string {
	s := f.Found
	if f.Want != "" {
		s += "; " + f.Want
	}
	if at := f.Pos.String(); at != "" {
		return at + ": " + s
	}
	return s
}

// Faults are all the faults of the files of one policy, in their order.
type Faults []*Fault

// Error is one line a fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single faults to errors.As.
func (f Faults) Unwrap() []error {
	out := make([]error, len(f))
	for i, one := range f {
		out[i] = one
	}
	return out
}

// faultList gathers faults, so that a person sees all of them at once.
type faultList struct{ faults Faults }

func (l *faultList) add(pos Pos, want, format string, args ...any) {
	l.faults = append(l.faults, &Fault{Pos: pos, Found: fmt.Sprintf(format, args...), Want: want})
}

// err is nil without faults. Faults of one file are sorted by place.
func (l *faultList) err() error {
	if len(l.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(l.faults, func(a, b *Fault) int {
		if a.Pos.File != b.Pos.File {
			return 0
		}
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	return l.faults
}

// expected says which words were expected instead of got, the nearest first as
// a question.
func expected(got string, words []string) string {
	list := strings.Join(words, ", ")
	if near := nearest(got, words); near != "" {
		return fmt.Sprintf("did you mean %q? Expected one of: %s", near, list)
	}
	return "expected one of: " + list
}

// nearest is the word that got was most likely meant to be, or "".
func nearest(got string, words []string) string {
	best, bestAt := "", max(1, len(got)/3)+1
	for _, w := range words {
		if d := distance(strings.ToLower(got), strings.ToLower(w)); d < bestAt {
			best, bestAt = w, d
		}
	}
	return best
}

// distance is the number of edits between two words, a swap of neighbours
// counting as one.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
