package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// changeKey is what operations have in common that are one line.
type changeKey struct {
	from, to           event.Action // both none: cannot be decided anew
	op, object, target string
	rule, why          string
}

// changeRow is one line of the report.
type changeRow struct {
	changeKey
	text  string // the object for people
	count int
	first uint64 // sequence number
}

// whatIfReport collects what came of deciding a session anew.
type whatIfReport struct {
	session, own, other                     string
	decided, unasked, changed, same, opened int
	rows                                    map[changeKey]*changeRow
}

func (w *whatIfReport) add(e *event.Event, r policy.Reconsidered) {
	if e.Kind != event.KindRequest {
		return
	}
	w.decided++
	key := changeKey{op: opText(e), object: objectName(&e.Object), target: objectName(&e.Target)}
	switch {
	case !r.Asked:
		w.unasked++
		return
	case r.Open != "":
		w.opened++
		key.why = r.Open
	case !r.Changed():
		w.same++
		return
	default:
		w.changed++
		key.from, key.to = r.From, r.To
		key.rule, key.why = r.Decision.Rule, r.Decision.Reason
	}
	row := w.rows[key]
	if row == nil {
		text := oneObject(&e.Object)
		if e.Target != (event.Object{}) {
			text += " -> " + oneObject(&e.Target)
		}
		row = &changeRow{changeKey: key, text: text, first: e.Seq}
		w.rows[key] = row
	}
	row.count++
}

// objectName names an object among others, with every byte.
func objectName(o *event.Object) string {
	if o.Kind == event.ObjectAddr && o.Addr != "" {
		return oneObject(o)
	}
	if o.Path == "" {
		return o.Raw
	}
	return o.Path
}

func (w *whatIfReport) status() int {
	switch {
	case w.changed > 0:
		return statusChanged
	case w.opened > 0:
		return statusOpen
	}
	return statusSame
}

// sorted are the rows, kind of change by kind of change, the most frequent first.
func (w *whatIfReport) sorted() []*changeRow {
	out := make([]*changeRow, 0, len(w.rows))
	for _, r := range w.rows {
		out = append(out, r)
	}
	totals := w.totals()
	slices.SortFunc(out, func(a, b *changeRow) int {
		ka, kb := a.kind(), b.kind()
		return cmp.Or(
			cmp.Compare(ka.rank(), kb.rank()), cmp.Compare(totals[kb], totals[ka]), cmp.Compare(ka.from, kb.from), cmp.Compare(ka.to, kb.to),
			cmp.Compare(b.count, a.count), cmp.Compare(a.first, b.first))
	})
	return out
}

// kindOfChange is a heading of the report.
type kindOfChange struct{ from, to event.Action }

func (r *changeRow) kind() kindOfChange { return kindOfChange{r.from, r.to} }

func (k kindOfChange) String() string {
	if k.from == event.ActionNone {
		return "cannot be decided anew"
	}
	return k.from.String() + " -> " + k.to.String()
}

// rank puts what is open last.
func (k kindOfChange) rank() int {
	if k.from == event.ActionNone {
		return 1
	}
	return 0
}

func (w *whatIfReport) totals() map[kindOfChange]int {
	out := map[kindOfChange]int{}
	for _, r := range w.rows {
		out[r.kind()] += r.count
	}
	return out
}

func (w *whatIfReport) text(out io.Writer, colours ink, limit int) {
	fmt.Fprintf(out, "%s, decided anew under profile %s", colours.paint(bold, "session "+escape(w.session)), escape(w.other))
	if w.other != w.own {
		fmt.Fprintf(out, " instead of %s", escape(w.own))
	}
	fmt.Fprintln(out)
	rows, totals := w.sorted(), w.totals()
	var summary []string
	for len(rows) > 0 {
		kind, n := rows[0].kind(), 1
		for n < len(rows) && rows[n].kind() == kind {
			n++
		}
		fmt.Fprintf(out, "\n%s  %s\n", colours.paint(changeColour(kind), kind.String()), plural(totals[kind], "operation"))
		writeRows(out, colours, rows[:n], limit)
		if rows = rows[n:]; kind.from != event.ActionNone {
			summary = append(summary, fmt.Sprintf("%d %s", totals[kind], kind))
		}
	}
	changes := "would change"
	if len(summary) > 0 {
		changes += " (" + strings.Join(summary, ", ") + ")"
	}
	fmt.Fprintf(out, "\n%s: %d %s, %d would not, %d are no policy's to decide, %d cannot be decided anew\n",
		plural(w.decided, "operation"), w.changed, changes, w.same, w.unasked, w.opened)
}

// writeRows shows the first rows of a kind, and counts the others.
func writeRows(out io.Writer, colours ink, rows []*changeRow, limit int) {
	hidden, operations := 0, 0
	for i, r := range rows {
		if limit > 0 && i >= limit {
			hidden, operations = hidden+1, operations+r.count
			continue
		}
		fmt.Fprintf(out, "%7d  %s  %s%s\n", r.count, colours.paint(cyan, pad(r.op, 12)), r.text, colours.paint(faint, r.because()))
	}
	if hidden > 0 {
		fmt.Fprintf(out, "         and %s more in %s (--limit 0 shows them)\n", plural(operations, "operation"), plural(hidden, "line"))
	}
}

func changeColour(k kindOfChange) string {
	if k.from == event.ActionNone {
		return faint
	}
	return actionColours[k.to]
}

// because says which rule would decide, in parentheses.
func (r *changeRow) because() string {
	var parts []string
	if r.why != "" {
		parts = append(parts, escape(r.why))
	}
	if r.rule != "" {
		parts = append(parts, "rule "+quote(r.rule))
	}
	if len(parts) == 0 {
		return ""
	}
	return "  (" + strings.Join(parts, ", ") + ")"
}

// changeView is a row in JSON.
type changeView struct {
	From   string       `json:"from,omitempty"`
	To     string       `json:"to,omitempty"`
	Op     string       `json:"op"`
	Object session.Text `json:"object,omitempty"`
	Target session.Text `json:"target,omitempty"`
	Rule   session.Text `json:"rule,omitempty"`
	Reason session.Text `json:"reason,omitempty"`
	Count  int          `json:"count"`
	// FirstSeq is the first record of it.
	FirstSeq uint64 `json:"first_seq"`
}

// json prints all rows; those without from and to cannot be decided anew.
func (w *whatIfReport) json(out io.Writer) error {
	view := struct {
		Session    string         `json:"session"`
		OwnProfile string         `json:"own_profile"`
		Profile    string         `json:"profile"`
		Requests   int            `json:"requests"`
		Changed    int            `json:"changed"`
		Unchanged  int            `json:"unchanged"`
		Unasked    int            `json:"unasked"`
		Open       int            `json:"open"`
		Kinds      map[string]int `json:"kinds"`
		Changes    []changeView   `json:"changes"`
	}{w.session, w.own, w.other, w.decided, w.changed, w.same, w.unasked, w.opened, map[string]int{}, []changeView{}}
	for k, n := range w.totals() {
		view.Kinds[k.String()] = n
	}
	for _, r := range w.sorted() {
		view.Changes = append(view.Changes, changeView{
			r.from.String(), r.to.String(), r.op, session.Text(r.object), session.Text(r.target),
			session.Text(r.rule), session.Text(r.why), r.count, r.first,
		})
	}
	enc := newJSON(out)
	enc.SetEscapeHTML(false) // of "allow -> deny"
	return enc.Encode(&view)
}
