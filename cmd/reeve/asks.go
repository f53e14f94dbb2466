package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/approval/control"
)

// statusGone: the question is not pending, or its session is over.
const statusGone = 3

func asksCommand() *cli.Command {
	ls := asksLs()
	return &cli.Command{
		Name:      "asks",
		Usage:     "show and answer what running sessions ask",
		UsageText: "reeve asks [ls|allow|deny] [--follow] [--json]",
		Description: `An operation that the policy asks about waits at its session, which was started with
"reeve run --ask control", for the answer or its deadline. Whoever is of the session's user, or root, and
runs in no session, may answer; the first answer counts.

   reeve asks                               what waits now, of all sessions
   reeve asks --follow                      and what comes
   reeve asks allow QVTC-3                  this operation, now
   reeve asks allow QVTC-3 --scope session  and whenever the same program asks for the same
   reeve asks allow QVTC-3 --scope always   and in later sessions: a rule in your policy file
   reeve asks deny QVTC-3 --reason "no"

Ends with 0 when it was answered, 1 when it could not be, 2 for a command line that makes no sense, 3 when
the question is not pending any more: it was answered, its deadline passed, its task or session is gone.`,
		Subcommands: []*cli.Command{ls, asksAllow(), asksDeny()},
		Flags:       ls.Flags,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownWord(c, "verb of asks")
			}
			return ls.Action(c)
		},
	}
}

func asksLs() *cli.Command {
	return &cli.Command{
		Name:      "ls",
		Usage:     "list the questions of all running sessions, the oldest of each first",
		UsageText: "reeve asks ls [--follow] [--json]",
		Flags: []cli.Flag{
			jsonFlag("print one JSON object a line: questions, and with --follow also what became of them"),
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what is asked and answered, until interrupted"},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			a, err := openAsks(c)
			if err != nil {
				return err
			}
			out := &askPrinter{w: c.App.Writer, json: c.Bool("json"), colours: inkFor(c.App.Writer)}
			if c.Bool("follow") {
				return a.follow(c.Context, out)
			}
			list, err := a.pending(c.Context)
			for _, p := range list {
				err = errors.Join(err, out.question(&p.Question))
			}
			if len(list) == 0 && err == nil && !out.json {
				_, err = fmt.Fprintln(c.App.Writer, "nothing is asked")
			}
			return err
		},
	}
}

func scopeFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "scope", Value: approval.Once.String(), Usage: usage}
}

func reasonFlag() cli.Flag {
	return &cli.StringFlag{Name: "reason", Usage: "`TEXT` that is recorded with the answer"}
}

func asksAllow() *cli.Command {
	return &cli.Command{
		Name:      "allow",
		Usage:     "let an operation happen",
		UsageText: "reeve asks allow ID [--scope once|session|always] [--reason TEXT]",
		Description: `The letters of an ID may be shortened or left out where one running session alone is meant. With --scope always the rule and its file are
shown before it is written. It says no more than what was asked, in the profile of the session, and is for
sessions that start later; the running one takes the answer for the rest of it.

One command can need several operations, which are asked about once: the lines that begin with "also" say
what else the answer is for, yes or no. The record of each operation names its question in "detail".

   reeve asks allow QVTC-3
   reeve asks allow 3
   reeve asks allow QVTC-3 --scope always --reason "the build needs it"`,
		Flags: []cli.Flag{
			scopeFlag("`HOW` far it reaches: once, session (the same operation on the same object by the same program), always (and a rule)"),
			reasonFlag(),
		},
		Action: func(c *cli.Context) error { return answerAction(c, true) },
	}
}

func asksDeny() *cli.Command {
	return &cli.Command{
		Name:      "deny",
		Usage:     "refuse an operation",
		UsageText: "reeve asks deny ID [--scope once|session] [--reason TEXT]",
		Description: `The task gets the error that the policy denies with.

   reeve asks deny QVTC-3 --scope session --reason "not from here"`,
		Flags:  []cli.Flag{scopeFlag("`HOW` far it reaches: once, or session"), reasonFlag()},
		Action: func(c *cli.Context) error { return answerAction(c, false) },
	}
}

func answerAction(c *cli.Context, allow bool) error {
	id, err := oneArg(c, "", "the question's ID")
	if err != nil {
		return err
	}
	answer := approval.Answer{Allow: allow, Reason: c.String("reason")}
	if answer.Scope, err = approval.ParseScope(c.String("scope")); err != nil {
		return usageErrorf("--%w", err)
	}
	if !allow && answer.Scope == approval.Always {
		return withHint(usageErrorf("deny takes --scope once or session"), "write a rule that denies into the policy: `reeve policy --help`")
	}
	a, err := openAsks(c)
	if err != nil {
		return err
	}
	p, err := a.find(c.Context, strings.ToUpper(id))
	if err != nil {
		return askError(err)
	}
	var rule *control.Rule
	if answer.Scope == approval.Always {
		if rule, err = a.propose(c, p); err != nil {
			return askError(err)
		}
	}
	if err := p.client.Answer(c.Context, p.ID, answer, rule); err != nil {
		return askError(err)
	}
	word := "denied"
	if allow {
		word = "allowed"
	}
	e := questionEvent(&p.Question)
	_, err = fmt.Fprintf(c.App.Writer, "%s %s %v: %s %s\n", p.ID, word, answer.Scope, opText(e), objectText(e))
	return err
}

// propose shows the rule that will be written, and where.
func (a *asks) propose(c *cli.Context, p *pendingAsk) (*control.Rule, error) {
	rule, err := p.client.Propose(c.Context, p.ID)
	if err != nil {
		return nil, err
	}
	if rule.Text == "" {
		_, err = fmt.Fprintf(c.App.Writer, "%s allows it already\n", quote(rule.File))
		return &rule, err
	}
	if _, err = fmt.Fprintf(c.App.Writer, "%s gets:\n", quote(rule.File)); err != nil {
		return nil, err
	}
	for line := range strings.Lines(rule.Text) {
		if _, err = fmt.Fprintf(c.App.Writer, "  %s\n", sanitize(strings.TrimSuffix(line, "\n"))); err != nil {
			return nil, err
		}
	}
	return &rule, nil
}

// askError gives an error of an answer its status and its hint.
func askError(err error) error {
	var refused *control.RefusedError
	switch {
	case errors.Is(err, approval.ErrClosed), errors.Is(err, control.ErrOver):
		return failWith(statusGone, withHint(err, "`reeve asks` lists what is pending"))
	case errors.As(err, &refused):
		return fmt.Errorf("the session refuses: %w", err)
	}
	return err
}

// askPrinter writes questions and what became of them.
type askPrinter struct {
	w       io.Writer
	json    bool
	colours ink
	some    bool
}

func (o *askPrinter) question(q *approval.Question) error {
	if o.json {
		return encodeLines(o.w, []*approval.Question{q})
	}
	return o.text(q)
}

func (o *askPrinter) message(m *control.Message) error {
	switch {
	case m.Question == nil && m.Closed == nil:
		return nil
	case o.json:
		return encodeLines(o.w, []*control.Message{m})
	case m.Question != nil:
		return o.text(m.Question)
	}
	text := "is not pending any more"
	if c := m.Closed; c.By != "" {
		scope, err := approval.ParseScope(c.Scope)
		if err != nil {
			return err
		}
		o := approval.Outcome{Answer: approval.Answer{Allow: c.Allow, Scope: scope, By: c.By, Reason: c.Reason}}
		text = o.String()
	}
	o.some = true
	_, err := fmt.Fprintf(o.w, "%s  %s\n", escape(m.Closed.ID), sanitize(text))
	return err
}

// insideError says that answers are not given from where this process is.
func insideError() error {
	id := os.Getenv(sessionVariable)
	if id == "" && !insideSession() {
		return nil
	}
	return withHint(fmt.Errorf("this is inside session %s: what runs in a session cannot answer questions", or(escape(id), "of another reeve")),
		"answer on another terminal; if this is no session, unset "+sessionVariable)
}
