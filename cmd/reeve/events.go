package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

// followEvery is how often --follow looks for new records.
const followEvery = 200 * time.Millisecond

func eventsCommand() *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "list recorded operations and what was decided about them",
		UsageText: "reeve events [--session ID|last|all] [--op OP]… [--action ACTION]… [--path GLOB] [--since TIME] [--follow] [--json|--ocsf]",
		Description: `The conditions hold together; one that may be repeated is met by any of its values. A path
pattern without a leading / matches at any depth; ** stands for any directories.

   reeve events --action deny                    what the last session was refused
   reeve events --path '**/.git/**' --op open    who looked into .git
   reeve events --session all --since 24h --action deny --json
   reeve events --follow                         a running session, as it goes`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "session", Value: "last", Usage: "`ID` of a session, its beginning, last, or all"},
			&cli.StringSliceFlag{Name: "op", Usage: "only the operation `OP` (open, exec, connect, …)"},
			&cli.StringSliceFlag{Name: "action", Usage: "only what was decided so: `ACTION` is allow, ask or deny"},
			&cli.StringFlag{Name: "path", Usage: "only objects whose path matches `GLOB`"},
			&cli.StringFlag{Name: "since", Usage: "only records since `TIME`: 90s, 24h, or 2026-11-29T13:00:00Z"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "only the first `N`", DefaultText: "all"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "wait for more until the session has ended"},
			jsonFlag("print one JSON object a line"),
			&cli.BoolFlag{Name: "ocsf", Usage: "print one OCSF " + ocsfVersion + " event a line"},
			storeFlag(),
		},
		Action: listEvents,
	}
}

func listEvents(c *cli.Context) (err error) {
	q, err := eventQuery(c, time.Now())
	if err != nil {
		return err
	}
	r, err := openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if name := c.String("session"); name != "all" {
		s, err := r.find(c.Context, name)
		if err != nil {
			return err
		}
		q.Session = s.ID
	}
	p := newEventPrinter(c)
	if c.Bool("follow") {
		return errors.Join(r.follow(c, q, p), p.flush())
	}
	_, err = r.list(c, q, p)
	if err == nil && p.printed == 0 && isTerminal(c.App.Writer) {
		fmt.Fprintln(c.App.ErrWriter, "reeve: no record of "+cmp.Or(q.Session, "any session")+" matches")
	}
	return errors.Join(err, p.flush())
}

// eventQuery is what the flags ask for, but for the session.
func eventQuery(c *cli.Context, now time.Time) (storage.Query, error) {
	var q storage.Query
	if err := noArgs(c); err != nil {
		return q, err
	}
	if c.Bool("json") && c.Bool("ocsf") {
		return q, usageErrorf("events: --json and --ocsf exclude each other")
	}
	if c.Bool("follow") && c.String("session") == "all" {
		return q, withHint(usageErrorf("events: --follow needs one session"), "name it with --session ID")
	}
	var err error
	if q.Ops, err = parseOps(c.StringSlice("op")); err != nil {
		return q, err
	}
	if q.Actions, err = parseActions(c.StringSlice("action")); err != nil {
		return q, err
	}
	if q.Since, err = parseSince(c.String("since"), now); err != nil {
		return q, err
	}
	q.Path, q.Limit = c.String("path"), c.Int("limit")
	if err := q.Validate(); err != nil {
		return q, failWith(statusUsage, err)
	}
	return q, nil
}

// parseSince is a point in time: so long ago, or an RFC 3339 time.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	return time.Time{}, withHint(usageErrorf("--since %s: not a time", quote(s)), "a duration like 90s or 24h, or a time like 2026-11-29T13:00:00Z")
}

// list prints what q asks for, and returns the last record's sequence number.
func (r *records) list(c *cli.Context, q storage.Query, p *eventPrinter) (last uint64, err error) {
	for e, err := range r.Events(c.Context, q) {
		if err != nil {
			return last, err
		}
		if err := p.print(&e); err != nil {
			return last, err
		}
		last = e.Seq
	}
	return last, nil
}

// follow prints what q asks for as it arrives, until the session has ended. A
// limit ends it too.
func (r *records) follow(c *cli.Context, q storage.Query, p *eventPrinter) error {
	for {
		// Looked at before the records: what comes after it is seen next time.
		s, err := r.find(c.Context, q.Session)
		if err != nil {
			return err
		}
		over := s.Ended || !r.state.Live(s.ID)
		before := p.printed
		last, err := r.list(c, q, p)
		if err != nil {
			return err
		}
		if q.Limit > 0 {
			if q.Limit -= p.printed - before; q.Limit <= 0 {
				return nil
			}
		}
		if err := p.flush(); err != nil {
			return err
		}
		if over {
			return nil
		}
		// Records arrive in order, so all up to here were looked at.
		q.AfterSeq = max(s.LastSeq, last)
		select {
		case <-c.Done():
			return c.Err()
		case <-time.After(followEvery):
		}
	}
}

// eventPrinter writes records in the form that was asked for.
type eventPrinter struct {
	w       *bufio.Writer
	colours ink
	form    func(b []byte, e *event.Event) ([]byte, error)
	session string // of the last line, "" before the first
	many    bool   // lines of several sessions
	buf     []byte
	printed int
}

func newEventPrinter(c *cli.Context) *eventPrinter {
	p := &eventPrinter{w: bufio.NewWriterSize(c.App.Writer, 64<<10), colours: inkFor(c.App.Writer), many: c.String("session") == "all"}
	switch {
	case c.Bool("json"):
		p.form = func(b []byte, e *event.Event) ([]byte, error) { return e.AppendJSON(b), nil }
	case c.Bool("ocsf"):
		p.form = appendOCSF
	default:
		p.form = p.line
	}
	return p
}

func (p *eventPrinter) print(e *event.Event) error {
	var err error
	if p.buf, err = p.form(p.buf[:0], e); err != nil {
		return err
	}
	p.printed++
	p.buf = append(p.buf, '\n')
	_, err = p.w.Write(p.buf)
	return err
}

// line is the form for people; sessions are set apart by a headline.
func (p *eventPrinter) line(b []byte, e *event.Event) ([]byte, error) {
	if p.many && p.session != e.Session {
		if p.session != "" {
			b = append(b, '\n')
		}
		p.session = e.Session
		b = append(b, p.colours.paint(bold, "session "+escape(e.Session)+"  "+e.Time.Local().Format("2006-01-02"))...)
		b = append(b, '\n')
	}
	return append(b, eventLine(e, p.colours)...), nil
}

func (p *eventPrinter) flush() error { return p.w.Flush() }
