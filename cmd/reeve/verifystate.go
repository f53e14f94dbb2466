package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// beside holds what stands beside the records, and is in no chain, against them: the
// store's summary and the manifest in the session's directory. sum is what the records
// come to. A session that runs still has more records than its summary knew.
//
// end is the record of the session's end, nil without one.
func (r *recording) beside(sum *storage.Session, end *event.Event, report *replay.Report) {
	if r.store == nil {
		return
	}
	own, err := r.store.state.Manifest(r.ID)
	here := !errors.Is(err, os.ErrNotExist)
	altered := func(seq uint64, format string, args ...any) {
		report.Problems = append(report.Problems, replay.Problem{Fault: replay.FaultAltered, Seq: seq, Last: seq, Detail: fmt.Sprintf(format, args...)})
	}
	if report.OK() && (sum.Ended || here && !r.store.state.Live(r.ID)) {
		for _, f := range []struct {
			name         string
			store, chain uint64
		}{
			{"records", r.Events, sum.Events}, {"last seq", r.LastSeq, sum.LastSeq}, {"operations", r.Requests, sum.Requests},
			{"denied", r.Denied, sum.Denied}, {"asked", r.Asked, sum.Asked}, {"lost", r.Lost, sum.Lost},
		} {
			if f.store != f.chain {
				altered(report.LastSeq, "the store's summary says %s: %d, the records come to %d", f.name, f.store, f.chain)
			}
		}
		if r.Ended != sum.Ended || !r.Start.Equal(sum.Start) || !r.End.Equal(sum.End) {
			altered(report.LastSeq, "the store's summary states other times, or another end, than the records")
		}
	}
	if !here {
		if text := r.gone(sum.Detail, time.Now()); text != "" {
			report.Problems = append(report.Problems, replay.Problem{Fault: replay.FaultMissing, Detail: text})
		}
		return
	}
	if err == nil && own.Ended != nil && end != nil {
		for _, text := range otherEnd(&own, end) {
			altered(end.Seq, "%s", text)
		}
	}
	if sum.Detail == "" {
		return
	}
	if err != nil {
		altered(1, "the manifest in the session's directory cannot be read: %v", err)
		return
	}
	for _, name := range differing(own, sum.Detail) {
		altered(1, "the manifest in the session's directory has another %q than the first record", name)
	}
}

// gone says what is not there of a session without a manifest, "" when none has to be:
// a session of another machine or another state directory, whose records were collected
// here, has none, and of one whose records are in another store the directory is
// forgotten in time, see [prune].
func (r *recording) gone(detail string, now time.Time) string {
	state := r.store.state
	var first session.Manifest
	if err := json.Unmarshal([]byte(detail), &first); err != nil || !isHere(first.Host) {
		return ""
	}
	dir, known := first.Basis.StateDir()
	id, err := ulid.ParseStrict(r.ID)
	if known && dir != state.Dir || err != nil || r.store.elsewhere && now.Sub(id.Timestamp()) >= keepAge {
		return ""
	}
	if _, err := os.Lstat(state.SessionDir(r.ID)); err == nil {
		return "manifest.json is not in the session's directory any more, and was written before the first record"
	}
	return "the session's directory is not in the state directory any more, and its records are here still: `reeve sessions rm` takes both"
}

// verifyList holds the list of sessions against the records in the store: none of them
// may be of a session that is not listed. A server's store has no list besides them.
func verifyList(c *cli.Context, store *records, list []storage.Session) (ok bool, err error) {
	finder, can := store.Store.(interface {
		Strays(ctx context.Context) ([]int64, error)
	})
	if !can {
		return true, nil
	}
	sids, err := finder.Strays(c.Context)
	if err != nil || len(sids) == 0 {
		return err == nil, err
	}
	detail := fmt.Sprintf("the store holds records of %d session(s) that it does not list any more (sid %s)", len(sids), strings.Trim(fmt.Sprint(sids), "[]"))
	if ids := unlistedHere(store.state, list); len(ids) > 0 {
		detail += "; not listed, and in the state directory still: " + strings.Join(ids, ", ")
	}
	report := replay.Report{Problems: []replay.Problem{{Fault: replay.FaultMissing, Detail: detail}}}
	if c.Bool("json") {
		return false, newJSON(c.App.Writer).Encode(&report)
	}
	colours := inkFor(c.App.Writer)
	fmt.Fprintf(c.App.Writer, "the store: %s: %s\nthe store: %s\n", colours.paint(red, string(replay.FaultMissing)), sanitize(detail), colours.paint(red, "TAMPERED WITH"))
	return false, nil
}

// unlistedHere are the sessions of the state directory that ended and that a list does
// not have. Alone that is no fault: the store makes room, and records may go elsewhere.
func unlistedHere(st *session.State, list []storage.Session) []string {
	ids, err := st.Sessions()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(ids, func(id string) bool {
		return st.Live(id) || slices.ContainsFunc(list, func(s storage.Session) bool { return s.ID == id })
	})
}

// isHere reports whether a session's host is this machine.
func isHere(host string) bool {
	var un unix.Utsname
	return unix.Uname(&un) == nil && host == nodeName(&un)
}

// otherEnd says where a manifest has another end than the record of it. One that states
// no end is none: the session's reeve may have died before it wrote it.
func otherEnd(own *session.Manifest, end *event.Event) (differ []string) {
	const clocks = time.Minute // between the two a clock may have been set
	if own.Ended.Before(end.Time.Add(-clocks)) {
		differ = append(differ, fmt.Sprintf("the manifest says that the session ended at %s, the record of its end is of %s",
			own.Ended.Format(time.RFC3339), end.Time.UTC().Format(time.RFC3339)))
	}
	want := int(end.ExitCode)
	if end.ExitSignal != 0 {
		want = 128 + int(end.ExitSignal)
	}
	switch {
	case own.Status == nil && end.Reason == "": // with a reason nobody may have known it
		differ = append(differ, fmt.Sprintf("the manifest says no exit status, the record of the end says %d", want))
	case own.Status == nil, *own.Status == want:
	case end.ExitSignal != 0 && *own.Status >= statusReeve && *own.Status <= statusNotFound: // killed, and reeve failed
	default:
		differ = append(differ, fmt.Sprintf("the manifest says exit status %d, the record of the end says %d", *own.Status, want))
	}
	return differ
}

// differing names the fields in which a manifest is not what a first record says, but
// for those that are known only at the end.
func differing(own session.Manifest, detail string) (names []string) {
	var first session.Manifest
	if err := json.Unmarshal([]byte(detail), &first); err != nil {
		return []string{"form"}
	}
	own.Ended, own.Status, first.Ended, first.Status = nil, nil, nil, nil
	a, b := manifestFields(own), manifestFields(first)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if string(a[name]) != string(b[name]) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if _, known := b[name]; !known {
			names = append(names, name)
		}
	}
	return names
}

func manifestFields(m session.Manifest) (fields map[string]json.RawMessage) {
	text, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		panic("bug: a manifest that was read cannot be written: " + err.Error())
	}
	return fields
}
