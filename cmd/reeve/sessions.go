package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/supervisor/session"
)

func sessionsCommand() *cli.Command {
	ls := sessionsLs()
	return &cli.Command{
		Name:      "sessions",
		Usage:     "list, show, export and remove recorded sessions",
		UsageText: "reeve sessions [ls|show|export|rm]",
		Description: `   reeve sessions                        list them, the latest last
   reeve sessions show last              what was run, by whom, under which policy
   reeve sessions export last > s.reeve  take one elsewhere; 'reeve replay s.reeve' shows it there
   reeve sessions rm 01J…                forget one for good`,
		Subcommands: []*cli.Command{ls, sessionsShow(), sessionsExport(), sessionsRm()},
		Flags:       ls.Flags,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownWord(c, "verb of sessions")
			}
			return ls.Action(c)
		},
	}
}

func sessionsLs() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list the sessions, the latest last",
		UsageText: "reeve sessions ls [--json] [--limit N]",
		Flags: []cli.Flag{
			jsonFlag("print one JSON object a line"), storeFlag(),
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "show only the latest `N`", DefaultText: "all"},
		},
		Action: func(c *cli.Context) (err error) {
			if err := noArgs(c); err != nil {
				return err
			}
			if c.Int("limit") < 0 {
				return usageErrorf("sessions: --limit is negative")
			}
			r, err := openRecords(c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			list, err := r.Sessions(c.Context, c.Int("limit"))
			if err != nil {
				return err
			}
			views := make([]sessionView, len(list))
			for i := range list {
				views[i] = r.view(&list[i])
			}
			if c.Bool("json") {
				return encodeLines(c.App.Writer, views)
			}
			return listSessions(c.App.Writer, views)
		},
	}
}

// sessionView is a session as it is shown.
type sessionView struct {
	ID       string    `json:"session"`
	Status   string    `json:"status"` // running, ended, crashed
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Events   uint64    `json:"events"`
	Requests uint64    `json:"requests"`
	Denied   uint64    `json:"denied"`
	Asked    uint64    `json:"asked"`
	Lost     uint64    `json:"lost"`
	// Manifest is what the session's first record says.
	Manifest *session.Manifest `json:"manifest,omitempty"`
}

// view puts together what the store and the state know about a session. The
// basis, whole policy files, is not for people.
func (r *records) view(s *storage.Session) sessionView {
	v := sessionView{
		ID: s.ID, Start: s.Start, End: s.End, Events: s.Events, Requests: s.Requests,
		Denied: s.Denied, Asked: s.Asked, Lost: s.Lost, Status: "crashed",
	}
	switch {
	case s.Ended:
		v.Status = "ended"
	case r.state.Live(s.ID):
		v.Status = "running"
	}
	var m session.Manifest
	if err := json.Unmarshal([]byte(s.Detail), &m); err == nil {
		v.Manifest = &m
	}
	// The state knows how a session of this machine ended. All else the chain
	// vouches for, as long as its first record is there.
	if own, err := r.state.Manifest(s.ID); err == nil {
		if v.Manifest == nil {
			v.Manifest = &own
		}
		v.Manifest.Ended, v.Manifest.Status = own.Ended, own.Status
	}
	if v.Manifest != nil {
		v.Manifest.Basis = nil
	}
	return v
}

func (v *sessionView) command() string {
	if v.Manifest == nil {
		return ""
	}
	return manifestCommand(v.Manifest)
}

func (v *sessionView) profile() string {
	if v.Manifest == nil {
		return ""
	}
	return escape(v.Manifest.Profile)
}

func encodeLines[T any](w io.Writer, list []T) error {
	enc := newJSON(w)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func listSessions(w io.Writer, list []sessionView) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no sessions yet: reeve run -- COMMAND makes one")
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "SESSION\tSTARTED\tTOOK\tSTATUS\tEVENTS\tDENIED\tLOST\tPROFILE\tCOMMAND")
	for i := range list {
		v := &list[i]
		command := []rune(v.command())
		if len(command) > 60 {
			command = append(command[:59], '…')
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%s\n", v.ID, v.Start.Local().Format("2006-01-02 15:04:05"),
			shortDuration(v.End.Sub(v.Start)), v.Status, v.Events, v.Denied, v.Lost, v.profile(), string(command))
	}
	return tw.Flush()
}

// shortDuration keeps what a person reads of a duration.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func sessionsShow() *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show what was run, by whom and under which policy",
		UsageText:   "reeve sessions show [ID|last] [--json]",
		Description: "   reeve sessions show last",
		Flags:       []cli.Flag{jsonFlag("print one JSON object"), storeFlag()},
		Action: func(c *cli.Context) (err error) {
			name, err := oneArg(c, "last", "a session")
			if err != nil {
				return err
			}
			r, err := openRecords(c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			s, err := r.find(c.Context, name)
			if err != nil {
				return err
			}
			v := r.view(&s)
			if c.Bool("json") {
				return encodeLines(c.App.Writer, []sessionView{v})
			}
			return showSession(c.App.Writer, &v)
		},
	}
}

func showSession(w io.Writer, v *sessionView) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, value)
		}
	}
	row("session", v.ID)
	row("command", v.command())
	row("status", v.Status)
	row("started", v.Start.Local().Format(time.RFC3339))
	row("took", shortDuration(v.End.Sub(v.Start)))
	row("records", fmt.Sprintf("%d: %d operations, %d denied, %d asked, %d lost", v.Events, v.Requests, v.Denied, v.Asked, v.Lost))
	if m := v.Manifest; m != nil {
		if m.Status != nil {
			row("exit status", fmt.Sprint(*m.Status))
		}
		row("directory", quote(string(m.Cwd)))
		for _, ws := range m.Workspaces {
			row("workspace", quote(string(ws)))
		}
		row("user", fmt.Sprintf("%s (%d) on %s", escape(m.User), m.UID, escape(m.Host)))
		row("profile", v.profile())
		row("policy digest", escape(m.PolicyDigest))
		for _, f := range m.PolicyFiles {
			row("policy file", quote(string(f)))
		}
		row("engine", escape(m.Engine))
		for _, g := range m.Gaps {
			row("gap", sanitize(g))
		}
		row("kernel", escape(strings.TrimSpace(m.Kernel+" "+m.Arch)))
		row("reeve", escape(m.Reeve))
	}
	return tw.Flush()
}

func sessionsRm() *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove sessions and all their records for good",
		UsageText: "reeve sessions rm ID…",
		Description: `A running session cannot be removed.

   reeve sessions rm 01J9ZS7W8N4RYH3K6E2B5XQVTC`,
		Flags: []cli.Flag{storeFlag()},
		Action: func(c *cli.Context) (err error) {
			if !c.Args().Present() {
				_, err := oneArg(c, "", "a session")
				return err
			}
			r, err := openRecords(c)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			var errs []error
			for _, name := range c.Args().Slice() {
				id, err := r.remove(c, name)
				if err == nil {
					fmt.Fprintln(c.App.Writer, "removed", id)
				}
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
}

// remove forgets one session: its records, then its directory.
func (r *records) remove(c *cli.Context, name string) (string, error) {
	s, err := r.find(c.Context, name)
	if err != nil {
		return "", err
	}
	claim, err := r.state.Claim(s.ID)
	if errors.Is(err, session.ErrLive) {
		return "", withHint(err, "wait until it has ended, or end it")
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := r.Remove(c.Context, s.ID); err != nil {
		if claim != nil {
			err = errors.Join(err, claim.Release())
		}
		return "", err
	}
	if claim != nil {
		return s.ID, claim.Remove()
	}
	return s.ID, nil
}
