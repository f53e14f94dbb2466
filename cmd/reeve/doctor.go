package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/probe"
)

// automatic names the engines that --engine auto takes, the best first.
var automatic = []string{probe.LSM, probe.UnotifyRoot, probe.Unotify}

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "try what this machine can enforce, and say what holds, what does not, and why",
		UsageText: "reeve doctor [--json]",
		Description: `Every mechanism is really used, in a child process or by loading a program: versions and
configuration files prove nothing. What holds for root may not hold for you: run it as the
user who will run reeve. What the engine that run takes does not hold is listed, whatever the
policy says; in brackets are the names of the tests in tests/escapes that are about it.
Ends with 0 when an engine holds, else with 1.

   reeve doctor            for people
   reeve doctor --json     for machines`,
		Flags: []cli.Flag{jsonFlag("print the answers as one JSON object")},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return diagnose(c)
		},
	}
}

// probeMain is a probing child.
func probeMain() int { return probe.Child(os.Args[1:]) }

// diagnosis is what doctor found out.
type diagnosis struct {
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	UID    int    `json:"uid"`
	// Engine is the one that `run` would choose; empty when none holds.
	Engine string `json:"engine"`
	// Engines hold when all of their mechanisms do and this version has them.
	Engines []probe.Engine `json:"engines"`
	// Inside says that this is a session of another reeve, in which there is no engine
	// to be had, but sessions inside it.
	Inside bool           `json:"inside,omitempty"`
	Probes []probe.Result `json:"probes"`
	// Gaps are what Engine does not hold, whatever the policy says.
	Gaps []probe.Gap `json:"gaps"`
	// State says why no session could be recorded here; empty when one could.
	State string `json:"state,omitempty"`

	stateErr error
}

func diagnose(c *cli.Context) error {
	d := diagnosis{UID: os.Geteuid(), Probes: probe.All(c.Context, probe.Config{})}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil {
		d.Kernel, d.Arch = unix.ByteSliceToString(uts.Release[:]), unix.ByteSliceToString(uts.Machine[:])
	}
	d.Engines = offered(probe.Engines(d.Probes))
	d.Inside = insideSession()
	d.Engine = chooseEngine(d.Engines)
	d.Gaps = probe.Gaps(d.Engine)
	if _, d.stateErr = stateOf(c); d.stateErr != nil {
		d.State = d.stateErr.Error()
	}
	if c.Bool("json") {
		enc := newJSON(c.App.Writer)
		enc.SetIndent("", "  ")
		if err := enc.Encode(d); err != nil {
			return err
		}
	} else {
		d.print(c.App.Writer, inkFor(c.App.Writer))
	}
	return d.verdict(c)
}

// offered is engines, of which those that `run` refuses do not hold.
func offered(engines []probe.Engine) []probe.Engine {
	for i := range engines {
		if e := &engines[i]; !slices.Contains(automatic, e.Name) {
			e.Holds, e.Missing = false, append(e.Missing, "not in this version")
		}
	}
	return engines
}

// chooseEngine is the best engine that holds, which is the one that `run` takes.
func chooseEngine(engines []probe.Engine) string {
	for _, e := range engines {
		if e.Holds {
			return e.Name
		}
	}
	return ""
}

func (d *diagnosis) verdict(c *cli.Context) error {
	switch {
	case d.Engine == "" && c.Bool("json"):
		return exitStatus(statusFailed)
	case d.Engine == "" && d.Inside:
		return withHint(errors.New("no engine holds inside a session of reeve"),
			"`reeve run` makes a session inside this one, which needs none; see `reeve doctor` outside for this machine")
	case d.Engine == "":
		return withHint(errors.New("no engine holds on this machine: nothing can be supervised"),
			"the hints above say what is missing")
	}
	return d.stateErr
}

var stateWords = map[probe.State]struct{ word, colour string }{
	probe.Yes: {"yes", green}, probe.No: {"no", red}, probe.Unknown: {"unknown", yellow},
}

func (d *diagnosis) print(w io.Writer, colours ink) {
	fmt.Fprintf(w, "kernel %s (%s), uid %d\n\n", escape(d.Kernel), escape(d.Arch), d.UID)
	width := 0
	for _, r := range d.Probes {
		width = max(width, len(r.Name))
	}
	page := columns(w)
	for _, r := range d.Probes {
		s := stateWords[r.State]
		at := len("  unknown  ") + width + len("  ")
		fmt.Fprintf(w, "  %s  %s  %s\n", colours.paint(s.colour, pad(s.word, 7)), pad(r.Name, width), hang(sanitize(r.Reason), at, page))
		if r.State != probe.Yes && r.Hint != "" {
			fmt.Fprintf(w, "%s%s\n", pad("", at), colours.paint(faint, hang("hint: "+sanitize(r.Hint), at, page)))
		}
	}
	fmt.Fprintln(w)
	for _, e := range d.Engines {
		d.printEngine(w, colours, e)
	}
	if d.Engine != "" {
		fmt.Fprintf(w, "\n`reeve run` uses %s. What it cannot hold here:\n", colours.paint(bold, d.Engine))
	}
	for _, g := range d.Gaps {
		rows := strings.Join(g.Rows, " ")
		if rows != "" {
			rows = " (" + rows + ")"
		}
		text := hang(g.What+rows, len("    "), page)
		what := len(text)
		if rows != "" {
			what = strings.LastIndexByte(text, '(')
		}
		fmt.Fprintf(w, "  - %s%s\n", text[:what], colours.paint(faint, text[what:]))
	}
}

func (d *diagnosis) printEngine(w io.Writer, colours ink, e probe.Engine) {
	word, why := colours.paint(red, "missing"), strings.Join(e.Missing, "; ")
	if e.Holds {
		word, why = colours.paint(green, "holds  "), ""
		if len(e.Weaker) > 0 {
			why = "without: " + strings.Join(e.Weaker, "; ")
		}
	}
	start := fmt.Sprintf("  %s  engine %s  ", word, pad(e.Name, 14))
	why = hang(sanitize(why), len("  missing  engine unotify (root)  "), columns(w))
	fmt.Fprintln(w, strings.TrimRight(start+why, " "))
}
