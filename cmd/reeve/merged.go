package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// checkMerged checks the policy of a session that started here and now, and shows
// what its layers make together.
func checkMerged(c *cli.Context) error {
	spaces, err := workspacesOf(c)
	if err != nil {
		return err
	}
	sources, files, err := policySources(spaces, c.StringSlice("policy"))
	if err != nil {
		return err
	}
	h, err := supposedHost(c, files)
	if err != nil {
		return err
	}
	p, err := policy.Load(sources, c.String("profile"), h)
	if err != nil {
		return reportFaults(c.App.ErrWriter, "of all layers", err)
	}
	w := c.App.Writer
	warnings := printFindings(w, inkFor(w), p.Check(), make(map[string]bool))
	plan, calls, err := supposedPlan(c, p)
	if err != nil {
		return fmt.Errorf("plan the policy of all layers: %w", err)
	}
	fmt.Fprintf(w, "profile %s, %s\n", escape(p.Name()), plural(warnings, "warning"))
	if err := printMerged(w, sources, p); err != nil {
		return err
	}
	if c.Bool("expand") {
		_, err := fmt.Fprintf(w, "\n%s", sanitizeLines(p.Expand()))
		return err
	}
	printPlan(w, &plan)
	if calls {
		printCalls(w, &plan)
	}
	return nil
}

// printMerged shows the files, the layers, and what each plane comes to.
func printMerged(w io.Writer, sources []policy.Source, p *policy.Policy) error {
	fmt.Fprintln(w, "\nsources")
	if len(sources) == 0 {
		fmt.Fprintln(w, "  none but what is built in")
	}
	for _, s := range sources {
		fmt.Fprintf(w, "  %-9s %s\n", s.Layer, escape(s.Name))
	}
	if err := printSaid(w, "", p.Layers()); err != nil {
		return err
	}
	all := p.Merged()
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Plane == all[0].Plane {
			n++
		}
		if err := printSaid(w, all[0].Plane, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// printSaid is one plane as a table.
func printSaid(w io.Writer, plane string, said []policy.Said) error {
	if plane == "" {
		plane = "layers, of which the strictest counts"
	}
	fmt.Fprintf(w, "\n%s\n", plane)
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, s := range said {
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", escape(s.Rule), escape(s.Word), escape(s.By), escape(s.Pos.String()))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
