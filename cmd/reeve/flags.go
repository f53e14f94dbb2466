package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/tracer/event"
)

func jsonFlag(usage string) cli.Flag { return &cli.BoolFlag{Name: "json", Usage: usage} }

// storeFlag is the store of the verbs that read.
func storeFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "store", EnvVars: []string{"REEVE_STORE"},
		Usage: "read from the store at `URL` (sqlite:///FILE, clickhouse://USER@HOST:9000/DATABASE); default: the one in the state directory",
	}
}

// operationWords are the words that --op takes.
func operationWords() []string {
	var out []string
	for op := event.Op(1); int(op) < event.NumOps; op++ {
		out = append(out, op.String())
	}
	return out
}

// parseOps is the operations of --op words.
func parseOps(words []string) ([]event.Op, error) {
	var out []event.Op
	for _, w := range words {
		op, ok := event.ParseOp(w)
		if !ok {
			return nil, withHint(usageErrorf("--op %s: no such operation", quote(w)), "one of "+strings.Join(operationWords(), ", "))
		}
		out = append(out, op)
	}
	return out, nil
}

// parseActions is the actions of --action words.
func parseActions(words []string) ([]event.Action, error) {
	var out []event.Action
	for _, w := range words {
		a, ok := event.ParseAction(w)
		if !ok || a == event.ActionNone {
			return nil, withHint(usageErrorf("--action %s: no such action", quote(w)), "one of allow, ask, deny")
		}
		out = append(out, a)
	}
	return out, nil
}

// oneArg is the single argument of a verb, or what stands for it when there is
// none; without that, it must be given.
func oneArg(c *cli.Context, instead, what string) (string, error) {
	switch {
	case c.NArg() == 1:
		return c.Args().First(), nil
	case c.NArg() == 0 && instead != "":
		return instead, nil
	case c.NArg() == 0:
		return "", withHint(usageErrorf("%s: %s is missing", c.Command.Name, what), fmt.Sprintf("`%s --help` has examples", c.Command.HelpName))
	}
	return "", withHint(usageErrorf("%s: unexpected argument %s", c.Command.Name, quote(c.Args().Get(1))),
		fmt.Sprintf("`%s --help` shows what it takes", c.Command.HelpName))
}
