package main

import (
	"bufio"
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// The exit statuses of a replay under another policy. An error is statusReeve,
// which is none of them.
const (
	statusSame    = 0 // nothing would change
	statusChanged = 1
	statusOpen    = 3 // nothing known would change, but some operations cannot be decided anew
)

// whatIfHelp is the part of replay's help about deciding anew.
const whatIfHelp = `
With --policy, --profile or --redecide the operations are decided anew, and what would change is
listed, most frequent first. The host's facts, the envelope, the user's and the project's files are
those that the session recorded; --policy takes the place of the session's own --policy. What an
approver answered counts as asked. What the session made before counts as it did then, and so does
what was held as one of many changes, unless the limit is another. A command line that was recorded
in part is decided where the rest could not matter. Calls that failed by themselves, and what the
gate refused before a policy was asked, stay as they are. Ends with 0 if nothing would change, 1 if something would, 3 if
nothing known would but some operations cannot be decided anew, 125 for an error.

   reeve replay last --profile read-only               what would a narrower profile have refused?
   reeve replay s.reeve --policy new.toml --limit 5    from a file, under a policy of your own
   reeve replay last --redecide                        does its own policy still say the same?`

func whatIfFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "policy", TakesFile: true, Usage: "decide anew by the policy `FILE` (repeatable)"},
		&cli.StringFlag{Name: "profile", Usage: "decide anew by the profile `NAME`: one of the policy's, or " + strings.Join(policy.BuiltInProfiles(), ", ")},
		&cli.BoolFlag{Name: "redecide", Usage: "decide anew, by the session's own policy unless another is named"},
		&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Value: 20, Usage: "when deciding anew, show `N` lines of each kind of change; 0 shows all"},
	}
}

// asksWhatIf says that a replay is to decide anew.
func asksWhatIf(c *cli.Context) bool {
	return c.IsSet("policy") || c.IsSet("profile") || c.Bool("redecide")
}

// whatIf decides a session anew and says what would change.
func whatIf(c *cli.Context, name string) error {
	status, err := decideAnew(c, name)
	if err != nil {
		return failWith(statusReeve, err)
	}
	return exitStatus(status)
}

func decideAnew(c *cli.Context, name string) (status int, err error) {
	if c.Bool("tree") || c.IsSet("speed") {
		return 0, errors.New("replay: --tree and --speed show what happened, --policy, --profile and --redecide what would have")
	}
	if c.Int("limit") < 0 {
		return 0, errors.New("replay: --limit is negative")
	}
	r, err := openRecording(c, name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	g, err := r.ground(c)
	if err != nil {
		return 0, err
	}
	other, err := g.load(c)
	if err != nil {
		return 0, err
	}
	w := &whatIfReport{session: r.ID, own: g.own.Own().Name(), other: other.Own().Name(), rows: map[changeKey]*changeRow{}}
	review := policy.NewReview(g.own, other)
	for e, err := range r.events(c) {
		if err != nil {
			return 0, err
		}
		w.add(&e, review.Reconsider(&e))
	}
	limit := c.Int("limit")
	if c.Bool("all") {
		limit = 0
	}
	out := bufio.NewWriter(c.App.Writer)
	if c.Bool("json") {
		err = w.json(out)
	} else {
		w.text(out, inkFor(c.App.Writer), limit)
	}
	return w.status(), errors.Join(err, out.Flush())
}
