package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// beside holds what stands beside the records, and is in no chain, against them: the
// store's summary and the manifest in the session's directory. sum is what the records
// come to. A session that runs still has more records than its summary knew.
func (r *recording) beside(sum *storage.Session, report *replay.Report) {
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
	if !here || sum.Detail == "" {
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
