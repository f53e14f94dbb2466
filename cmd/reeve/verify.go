package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/tracer/event"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "see whether a record was changed, removed or moved since it was made",
		UsageText: "reeve verify [ID|last|all|FILE] [--head VALUE] [--json]",
		Description: `Each record carries a hash over itself and all before it. Ends with 1 when one of them does
not fit, and names it. What the chain alone cannot show is that the newest records were
cut off, or that somebody recomputed all of it: for that, keep the head that is printed
at another place, and compare with --head.

What stands beside the records is held against them: the store's summary, and the manifest
in the session's directory. Of a session of this machine and state directory it must be there.
With all, records of which the store lists no session are a fault as well.

   reeve verify last
   reeve verify session.reeve
   reeve verify 01J9ZS7W8N --head 5f0c…`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "head", Usage: "the chain's last `VALUE` as it was printed before"},
			jsonFlag("print one JSON object a session"), storeFlag(),
		},
		Action: func(c *cli.Context) error {
			name, err := oneArg(c, "last", "a session")
			if err != nil {
				return err
			}
			if name == "all" {
				return verifyAll(c)
			}
			return verifyNamed(c, name)
		},
	}
}

func verifyNamed(c *cli.Context, name string) (err error) {
	r, err := openRecording(c, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	ok, err := verifyOne(c, r)
	if err == nil && !ok {
		return exitStatus(statusFailed)
	}
	return err
}

func verifyAll(c *cli.Context) (err error) {
	if c.String("head") != "" {
		return usageErrorf("verify: --head is about one session")
	}
	store, err := openRecords(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	list, err := store.Sessions(c.Context, 0)
	if err != nil {
		return err
	}
	whole := true
	for _, s := range list {
		ok, err := verifyOne(c, &recording{Session: s, from: store, store: store})
		if err != nil {
			return err
		}
		whole = whole && ok
	}
	ok, err := verifyList(c, store, list)
	if err != nil {
		return err
	}
	if !ok || !whole {
		return exitStatus(statusFailed)
	}
	return nil
}

func verifyOne(c *cli.Context, r *recording) (ok bool, err error) {
	var sum storage.Session
	var end *event.Event
	report := replay.Verify(r.ID, r.LastSeq, func(yield func(event.Event, error) bool) {
		for e, err := range r.events(c) {
			if err == nil {
				sum.Add(&e)
				if e.Kind == event.KindSession && e.Op == event.OpEnd {
					last := e
					end = &last
				}
			}
			if !yield(e, err) {
				return
			}
		}
	})
	r.beside(&sum, end, &report)
	if head := strings.ToLower(c.String("head")); head != "" && head != report.Head {
		report.Problems = append(report.Problems, replay.Problem{
			Fault: replay.FaultAltered, Seq: report.LastSeq, Last: report.LastSeq, Detail: "the head is another one than the one given",
		})
	}
	// The state of this machine knows that a session ended; its own record of
	// that must then be there.
	if m := r.manifest(); r.store != nil && m != nil && m.Ended != nil && !report.Ended {
		report.Problems = append(report.Problems, replay.Problem{
			Fault: replay.FaultMissing, Seq: report.LastSeq + 1, Last: report.LastSeq + 1, Detail: "the session ended in order, and the record of it is not there",
		})
	}
	if c.Bool("json") {
		return report.OK(), newJSON(c.App.Writer).Encode(&report)
	}
	printReport(c.App.Writer, inkFor(c.App.Writer), &report)
	return report.OK(), nil
}

func printReport(w io.Writer, colours ink, r *replay.Report) {
	for _, p := range r.Problems {
		var place string
		switch {
		case p.Last > p.Seq:
			place = fmt.Sprintf("seq %d to %d ", p.Seq, p.Last)
		case p.Seq > 0:
			place = fmt.Sprintf("seq %d ", p.Seq)
		}
		fmt.Fprintf(w, "%s: %s%s: %s\n", r.Session, place, colours.paint(red, string(p.Fault)), sanitize(p.Detail))
	}
	if r.More > 0 {
		fmt.Fprintf(w, "%s: %d more problems\n", r.Session, r.More)
	}
	word := colours.paint(green, "whole")
	if !r.OK() {
		word = colours.paint(red, "TAMPERED WITH")
	}
	fmt.Fprintf(w, "%s: %s: %d records, head %s\n", r.Session, word, r.Events, r.Head)
	if !r.Ended {
		fmt.Fprintf(w, "%s: its last record is not its end: it runs still, or crashed, or what followed was cut off\n", r.Session)
	}
}
