package sqlite

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// scan reads the current row.
func (f *fields) scan(rows *sql.Rows, session string) (e event.Event, err error) {
	f.chain = nil
	if err := rows.Scan(f.dest...); err != nil {
		return e, err
	}
	f.ni, f.nt = 0, 0
	e.Session = session
	e.Seq = uint64(f.ints[0].Int64)
	for i, list := range [...]*[]string{&e.Interps, &e.InterpLines, &e.Alike, &e.Caller, &e.Task.Argv} {
		if *list, err = decodeArgv(f.lists[i]); err != nil {
			return e, fmt.Errorf("seq %d: %s: %w", e.Seq, listColumns[i], err)
		}
	}
	fits := f.head(&e) && f.task(&e.Task) && f.object(&e.Object) && f.object(&e.Target)
	if !fits || len(f.chain) != len(e.Chain) {
		return e, fmt.Errorf("seq %d: a column holds what never was in it", e.Seq)
	}
	copy(e.Chain[:], f.chain)
	return e, nil
}

func (f *fields) head(e *event.Event) bool {
	var ns int64
	ok := next(f, &e.Seq) && next(f, &ns) && next(f, &e.BootNS) && next(f, &e.Kind) && next(f, &e.Op) &&
		next(f, &e.Access) && next(f, &e.Action) && next(f, &e.Errno) && next(f, &e.HoldNS) &&
		next(f, &e.Count) && next(f, &e.ExitCode) && next(f, &e.ExitSignal) &&
		next(f, &e.Flags) && next(f, &e.Mode) && f.bool(&e.Born) && next(f, &e.AlikeLen) && next(f, &e.CallerLen)
	if ns != 0 {
		e.Time = time.Unix(0, ns).UTC()
	}
	for _, p := range []*string{
		&e.Engine, &e.Rule, &e.Reason, &e.By, &e.Layer, &e.Syscall, &e.Arch, &e.Detail,
	} {
		f.text(p)
	}
	return ok
}

func (f *fields) task(t *event.Task) bool {
	f.text(&t.ID)
	f.text(&t.Exe)
	f.text(&t.Cwd)
	return next(f, &t.PID) && next(f, &t.TID) && next(f, &t.PPID) && next(f, &t.ArgvLen)
}

func (f *fields) object(o *event.Object) bool {
	f.text(&o.Path)
	f.text(&o.Raw)
	f.text(&o.Addr)
	f.text(&o.Proto)
	return next(f, &o.Kind) && next(f, &o.PathLen) && next(f, &o.RawLen) && next(f, &o.Dev) &&
		next(f, &o.Ino) && next(f, &o.Mode) && next(f, &o.Port) && next(f, &o.Family) && f.bool(&o.Own)
}

func (f *fields) bool(p *bool) bool {
	var v uint8
	ok := next(f, &v)
	*p = v == 1
	return ok && v <= 1
}

func (f *fields) text(p *string) {
	*p = f.texts[f.nt].String
	f.nt++
}

// next stores the next number and reports whether it fits.
func next[T ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int32 | ~int64](f *fields, p *T) bool {
	v := f.ints[f.ni].Int64
	f.ni++
	*p = T(v)
	return int64(*p) == v
}
