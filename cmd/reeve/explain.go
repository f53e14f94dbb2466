package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// The exit statuses of `policy explain`. An error is statusReeve, which is none
// of them.
var explainStatus = map[event.Action]int{event.ActionAllow: 0, event.ActionDeny: 1, event.ActionAsk: 2}

func policyExplain() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "say what would be decided, by which rule of which file, and who enforces it",
		UsageText: "reeve policy explain [--profile NAME] [--policy FILE]… [--engine NAME] OP OBJECT [TARGET]\n   reeve policy explain [--profile NAME] exec PROGRAM [ARG]…",
		Description: `OP is open, write, create, exec, connect, delete, rename, … The answer is that of a session
started here and now, with the same files. Who enforces it is the floor (the kernel, without
asking reeve), the gate (reeve, for whom the task waits), or both; under the engine lsm a hook
in the kernel, alone or behind the gate. Without --engine it is said of the engine unotify.
Ends with 0 for allow, 1 for deny, 2 for ask, 125 for an error.

   reeve policy explain open ~/.ssh/id_ed25519
   reeve policy explain write .git/hooks/pre-commit
   reeve policy explain rename notes.txt .envrc
   reeve policy explain exec git push --force     also says what the command means
   reeve policy explain --profile observe connect 192.0.2.1:443`,
		Flags: append(engineFlags("say who enforces it under"),
			profileFlag(), workspaceFlag(),
			&cli.StringSliceFlag{Name: "policy", TakesFile: true, Usage: "policy `FILE` of the session (repeatable)"},
			jsonFlag("print one JSON object"),
		),
		OnUsageError: usageHandler(statusReeve),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return failWith(statusReeve, withHint(fmt.Errorf("explain: no operation given"), "reeve policy explain open .env"))
			}
			action, err := explain(c)
			if err != nil {
				return failWith(statusReeve, err)
			}
			return exitStatus(explainStatus[action])
		},
	}
}

func explain(c *cli.Context) (event.Action, error) {
	spaces, err := workspacesOf(c)
	if err != nil {
		return 0, err
	}
	sources, files, err := policySources(spaces, c.StringSlice("policy"))
	if err != nil {
		return 0, err
	}
	h, err := supposedHost(c, files)
	if err != nil {
		return 0, err
	}
	p, err := policy.Load(sources, c.String("profile"), h)
	if err != nil {
		return 0, fmt.Errorf("load policy: %w", err)
	}
	cwd, err := session.WorkingDir()
	if err != nil {
		return 0, err
	}
	req, note, err := question(c.Args().Slice(), cwd, os.Environ())
	if err != nil {
		return 0, err
	}
	plan, _, err := supposedPlan(c, p)
	if err != nil {
		return 0, err
	}
	e := p.ExplainUnder(&req, &plan)
	if c.Bool("json") {
		return e.Decision.Action, explainJSON(c.App.Writer, &req, &e, p.Name())
	}
	return e.Decision.Action, explainText(c.App.Writer, &req, &e, p.Name(), note)
}

// asEvent is a question in the form in which answers are shown.
func asEvent(req *event.Request) *event.Event {
	return &event.Event{Kind: event.KindRequest, Op: req.Op, Access: req.Access, Object: req.Object, Target: req.Target}
}

func explainText(w io.Writer, req *event.Request, e *policy.Explanation, profile, note string) error {
	colours := inkFor(w)
	q := asEvent(req)
	fmt.Fprintf(w, "%s  %s %s\n\n", colours.paint(actionColours[e.Decision.Action], e.Decision.Action.String()), opText(q), objectText(q))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tw, "%s\t%s\n", name, value)
		}
	}
	d := &e.Decision
	row("reason", sanitize(d.Reason))
	row("class", d.Risk)
	row("rule", escape(d.Rule))
	row("where", escape(e.Pos.String()))
	row("layer", escape(e.Layer))
	row("profile", escape(profile))
	row("enforced by", e.Enforced)
	row("errno", event.ErrnoName(d.Errno))
	row("note", sanitize(note))
	if err := tw.Flush(); err != nil {
		return err
	}
	return explainLayers(w, colours, e.Layers)
}

// explainLayers shows what each layer says; the strictest of them decided.
func explainLayers(w io.Writer, colours ink, layers []policy.LayerVerdict) error {
	if len(layers) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nwhat each layer says, of which the strictest counts:\n")
	path := ""
	for _, l := range layers {
		if l.Action == event.ActionNone {
			continue // it says nothing about this access
		}
		if l.Path != path {
			path = l.Path
			fmt.Fprintf(w, "  %s\n", quote(path))
		}
		line := fmt.Sprintf("    %s  %s", colours.paint(actionColours[l.Action], pad(l.Action.String(), 5)), escape(l.Layer))
		if l.Rule != "" {
			line += ": " + escape(l.Rule)
			if l.Word != "" {
				line += " = " + l.Word
			}
		}
		if at := l.Pos.String(); at != "" {
			line += "  " + colours.paint(faint, escape(at))
		}
		if l.Note != "" {
			line += "  (" + sanitize(l.Note) + ")"
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// explained is an answer in JSON.
type explained struct {
	Op       string         `json:"op"`
	Object   string         `json:"object"`
	Profile  string         `json:"profile"`
	Action   string         `json:"action"`
	Rule     string         `json:"rule,omitempty"`
	Class    string         `json:"class,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Where    string         `json:"where,omitempty"`
	Layer    string         `json:"layer,omitempty"`
	Enforced string         `json:"enforced_by"`
	Errno    string         `json:"errno,omitempty"`
	Layers   []explainedOne `json:"layers,omitempty"`
}

type explainedOne struct {
	Path   string `json:"path"`
	Layer  string `json:"layer"`
	Action string `json:"action"`
	Rule   string `json:"rule,omitempty"`
	Word   string `json:"word,omitempty"`
	Where  string `json:"where,omitempty"`
	Note   string `json:"note,omitempty"`
}

func explainJSON(w io.Writer, req *event.Request, e *policy.Explanation, profile string) error {
	out := explained{
		Op: req.Op.String(), Object: objectText(asEvent(req)), Profile: profile, Action: e.Decision.Action.String(),
		Rule: e.Decision.Rule, Class: e.Decision.Risk, Reason: e.Decision.Reason, Where: e.Pos.String(), Layer: e.Layer,
		Enforced: e.Enforced, Errno: event.ErrnoName(e.Decision.Errno),
	}
	for _, l := range e.Layers {
		out.Layers = append(out.Layers, explainedOne{l.Path, l.Layer, l.Action.String(), l.Rule, l.Word, l.Pos.String(), l.Note})
	}
	return newJSON(w).Encode(&out)
}
