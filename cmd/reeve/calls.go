package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/lsm"
)

// engineFlags choose the session that `policy check` shows the plan of, and that
// `policy explain` is asked about; what says what is shown of the engine NAME.
func engineFlags(what string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "engine", Usage: what + " engine `NAME`, as run takes it: auto, unotify or lsm"},
		&cli.StringFlag{Name: "ask", Usage: "with --engine: as if run with --ask `WHO`; what can be asked must be notified (default: deny, nobody)"},
		&cli.StringFlag{Name: "audit", Usage: "with --engine: as if run with --audit `HOW`; strict notifies of everything (default: async)"},
	}
}

// supposedPlan is the plan of a session with the flags of engineFlags; calls says
// that its calls are to be shown.
func supposedPlan(c *cli.Context, p *policy.Policy) (plan tracer.Plan, calls bool, err error) {
	ask, audit := or(c.String("ask"), askDeny), or(c.String("audit"), "async")
	switch {
	case c.String("engine") == "" && (c.IsSet("ask") || c.IsSet("audit")):
		return plan, false, withHint(usageErrorf("%s: --ask and --audit change what an engine is told", c.Command.Name), "name it with --engine lsm or --engine unotify")
	case ask != askDeny && ask != askTTY && ask != askControl && ask != askBus:
		return plan, false, withHint(usageErrorf("%s: --ask %q: no such approver", c.Command.Name, ask), "--ask takes tty, control, bus or deny")
	case audit != "async" && audit != "strict":
		return plan, false, withHint(usageErrorf("%s: --audit %q", c.Command.Name, audit), "--audit takes strict or async")
	}
	defer func() { plan.Gaps = append(plan.Gaps, undone(p)...) }()
	switch engine := c.String("engine"); engine {
	case "":
		plan, err = p.Lower()
		return plan, false, err
	case tracer.EngineUnotify:
		plan, err = p.Lower()
	case tracer.EngineLSM, engineAuto:
		if engine == engineAuto && (os.Geteuid() != 0 || lsm.Available() != nil) {
			plan, err = p.Lower()
			break
		}
		plan, err = p.LowerHooks(policy.Terms{Strict: audit == "strict", Asked: ask != askDeny})
	default:
		err = withHint(usageErrorf("%s: there is no engine %q", c.Command.Name, engine), "--engine takes auto, lsm or unotify")
	}
	return plan, true, err
}

// printCalls is the table of trapped calls, by class.
func printCalls(w io.Writer, plan *tracer.Plan) {
	scoped := plan.Floor.ScopeSignal
	if plan.Hooks != nil {
		scoped = !plan.Hooks.AnySignal
	}
	h := plan.Handling
	h[gate.Signal] = gate.Continue // whatever the plan says, if only for the record
	trapped := gate.Trap(h, plan.AllowKernel, h[gate.Kernel] == gate.Refuse, scoped)
	fmt.Fprintln(w, "\nnotified calls; of no other that it knows reeve is told")
	for class, handling := range h {
		fmt.Fprintf(w, "  %-9s %s\n", gate.Class(class), meanings[handling])
		printWrapped(w, trapped[class].String())
	}
	if h[gate.Read] == gate.Hook {
		fmt.Fprintf(w, "  of opens only: %s\n", gate.HookExceptions(h))
	}
}

// meanings are what becomes of the calls of a class.
var meanings = map[gate.Handling]string{
	gate.Untrapped: "not notified",
	gate.Continue:  "continue: judged, and let go on",
	gate.Perform:   "perform: judged, and made by reeve on the task's behalf",
	gate.Refuse:    "refuse: denied and recorded, but for what the policy opens",
	gate.Hook:      "hook: judged in the kernel; notified is only what hooks cannot judge alone",
}

// printWrapped prints words below a class.
func printWrapped(w io.Writer, text string) {
	const width = 88
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			fmt.Fprintf(w, "            %s\n", line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	if line != "" {
		fmt.Fprintf(w, "            %s\n", line)
	}
}
