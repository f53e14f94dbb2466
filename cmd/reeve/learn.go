package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

func policyLearn() *cli.Command {
	return &cli.Command{
		Name:      "learn",
		Usage:     "propose a policy that would have allowed what sessions did, without asking",
		UsageText: "reeve policy learn [SESSION|last|FILE]… [--base NAME] [--policy FILE]… [--name NAME] [--why] [--include-sensitive]",
		Description: `Prints a profile that extends the one the last named session ran under, or --base, and adds only
what was denied or asked about: files, or several of one kind as a directory or a pattern, programs,
addresses, unix sockets. Run the command under 'observe' to learn from all that it does, and name
with --base what the profile is to build on.

Secret files, protected configuration, what a profile denies by name, services that act for whoever
reaches them and surfaces of the kernel are left out unless --include-sensitive is given, and what an
approver refused always. What the envelope denies cannot be proposed: no other layer widens it. The
end of the file lists what was left out and why. What a session did after a denial stopped it nobody
has seen: run it again under the proposal, and learn again.

   reeve policy learn last > my.toml
   reeve run --policy my.toml --profile learned -- make
   reeve policy learn 01J… 01K… s.reeve --base read-only --why`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "base", Aliases: []string{"profile"}, Usage: "`NAME` of the profile to extend (default: the session's)"},
			&cli.StringSliceFlag{Name: "policy", TakesFile: true, Usage: "policy `FILE` that holds it, in place of the session's own --policy (repeatable)"},
			&cli.StringFlag{Name: "name", Value: "learned", Usage: "`NAME` of the profile that is proposed"},
			&cli.BoolFlag{Name: "why", Usage: "write the operations behind each rule"},
			&cli.BoolFlag{Name: "include-sensitive", Usage: "also propose exceptions for what is closed on purpose"},
			storeFlag(),
		},
		Action: learn,
	}
}

// lesson is a session to learn from.
type lesson struct {
	*recording
	own, base, learned policy.Stack
	ground             *ground
}

func learn(c *cli.Context) (err error) {
	names := c.Args().Slice()
	if len(names) == 0 {
		names = []string{"last"}
	}
	var lessons []*lesson
	defer func() {
		for _, s := range lessons {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, name := range names {
		r, err := openRecording(c, name)
		if err != nil {
			return err
		}
		lessons = append(lessons, &lesson{recording: r})
	}
	text, err := baseOf(c, lessons)
	if err != nil {
		return err
	}
	learner := policy.NewLearner(policy.LearnConfig{Sensitive: c.Bool("include-sensitive")})
	for _, s := range lessons {
		text.Sessions = append(text.Sessions, s.ID)
		base := policy.NewReview(s.own, s.base)
		for e, err := range s.events(c) {
			if err != nil {
				return err
			}
			learner.Add(&e, base)
		}
	}
	proposal := learner.Propose()
	worse, err := tryOut(c, lessons, learner, learner.Text(proposal, text), text.Name)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(c.App.Writer, learner.Text(proposal, text)); err != nil {
		return err
	}
	left := learner.LeftOut()
	fmt.Fprintf(c.App.ErrWriter, "reeve: %s over profile %s; %s left out", plural(proposal.Rules(), "rule"), escape(lessons[0].base.Own().Name()), plural(len(left), "object"))
	if len(left) > 0 {
		fmt.Fprint(c.App.ErrWriter, ", see the end of the proposal")
	}
	fmt.Fprintln(c.App.ErrWriter)
	if worse > 0 {
		return withHint(fmt.Errorf("the proposal refuses %s that %s allows", plural(worse, "operation"), lessons[0].base.Own().Name()), "please report this; do not use the proposal")
	}
	return nil
}

// baseOf loads the profile to extend on the host of each session, from the
// policies of the last one.
func baseOf(c *cli.Context, lessons []*lesson) (policy.LearnText, error) {
	t := policy.LearnText{Why: c.Bool("why")}
	for _, s := range lessons {
		g, err := s.recording.ground(c)
		if err != nil {
			return t, err
		}
		s.ground, s.own = g, g.own
	}
	last := lessons[len(lessons)-1].ground
	name := c.String("base")
	if name == "" {
		p, err := last.load(c)
		if err != nil {
			return t, err
		}
		name = p.Own().Name()
	}
	for _, s := range lessons {
		s.ground.sources, s.ground.profile = last.sources, name
		var err error
		if s.base, err = s.ground.load(c); err != nil {
			return t, err
		}
	}
	if lessons[0].base.Own().HoldsNothing() {
		return t, withHint(fmt.Errorf("profile %s holds nothing back, so there is nothing to add to it", name), "name what to build on: --base "+policy.DefaultProfile)
	}
	var err error
	t.Extends, t.Base, err = policy.Extendable(last.sources, name)
	if err != nil {
		return t, withHint(err, "name another with --base, such as "+policy.DefaultProfile)
	}
	t.Name, err = policy.FreeName(t.Base, c.String("name"))
	return t, err
}

// tryOut decides the sessions anew under the proposal, and notes what it does not
// reach. worse counts operations that only the base allows.
func tryOut(c *cli.Context, lessons []*lesson, learner *policy.Learner, text, name string) (worse int, err error) {
	for _, s := range lessons {
		s.ground.profile = name
		s.ground.sources = slices.DeleteFunc(slices.Clone(s.ground.sources), func(src policy.Source) bool { return src.Layer == policy.Session })
		s.ground.sources = append(s.ground.sources, policy.Source{Name: "the proposal", Layer: policy.Session, Text: []byte(text)})
		if s.learned, err = s.ground.load(c); err != nil {
			return 0, fmt.Errorf("bug: the proposal does not load: %w", err)
		}
		base, learned := policy.NewReview(s.own, s.base), policy.NewReview(s.own, s.learned)
		for e, err := range s.events(c) {
			if err != nil {
				return 0, err
			}
			if learner.Check(&e, base, learned) {
				worse++
			}
		}
	}
	return worse, nil
}
