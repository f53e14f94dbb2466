package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/approval/terminal"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer"
)

// Statuses of run that are not the command's own; statusReeve is the third.
const (
	statusDenied   = 126
	statusNotFound = 127
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name: "run", Usage: "run a command under supervision",
		UsageText: "reeve run [options] -- COMMAND [ARG...]",
		Description: `Runs COMMAND and everything it starts. Each open, connect and exec is decided before it
happens, by a profile of the policy, and recorded. The exit status is the command's own (128+n for a
signal n); 125 means that reeve itself failed before the command ran, 126 that the command was denied or
cannot be executed, 127 that it was not found.

What the policy asks about waits for an answer. On a terminal you are asked there, also while a
full-screen program runs: the command gets a terminal of its own, which reeve shows on yours, and a
question covers it until it is answered, withdrawn or too old. y allows the operation once, s for the
session, a always (a rule, which is shown before it is written); n and N deny it once and for the session;
v shows what was cut. ^C denies and interrupts the command as well.

Examples:
   reeve run -- ./untrusted.sh                          the working directory is writable, no network
   reeve run --profile read-only -- make -n             nothing can be changed
   reeve run --policy my.toml --profile build -- make   a policy of your own
   reeve run --env AWS_PROFILE -- terraform plan        pass one more variable on`,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "policy", TakesFile: true, Usage: "policy `FILE` for this session (repeatable)"},
			&cli.StringFlag{Name: "profile", Usage: "`NAME` of the profile to run under (default: what the policy says, else " + policy.DefaultProfile + ")"},
			&cli.StringSliceFlag{Name: "workspace", TakesFile: true, Usage: "`DIR` the session works in (default: the working directory)"},
			&cli.StringFlag{Name: "engine", Value: engineAuto, Usage: "`NAME` of the engine: lsm (BPF LSM, which needs root and bpf in the lsm= list), unotify, or auto: lsm where it can be had"},
			&cli.StringFlag{Name: "ask", Value: askAuto, Usage: "`WHO` answers what the policy asks about: tty (you, on this terminal), control (reeve asks on another terminal), bus (also whoever may publish on reeve.answers.> at the --nats server), deny (nobody) or auto (tty on a terminal, else deny)"},
			&cli.DurationFlag{Name: "ask-timeout", Value: time.Minute, Usage: "deny a question after `DURATION`"},
			&cli.StringFlag{Name: "audit", Value: "async", Usage: "`HOW` sure the record is: strict releases each operation only when its record is on the bus; async batches"},
			&cli.StringFlag{Name: "nats", Usage: "also forward the records to the NATS server at `URL`"},
			&cli.StringFlag{Name: "store", Usage: "keep the records at `URL`: sqlite:///FILE or clickhouse://HOST:PORT/DB (default: the state directory)"},
			&cli.StringSliceFlag{Name: "env", Usage: "pass the environment variable `NAME` on, whatever the profile says; NAME=VALUE sets it (repeatable)"},
			&cli.StringFlag{Name: "user", Usage: "run the command as user `NAME` (root only)"},
			&cli.BoolFlag{Name: "linger", Usage: "wait for what the command leaves running instead of ending it"},
			&cli.BoolFlag{Name: "allow-degraded", Usage: "run although this machine cannot enforce all of the policy"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "no summary line"},
		},
		Action: runAction,
	}
}

// The values of --ask.
const (
	askAuto    = "auto" // resolved when the flags are read
	askTTY     = "tty"
	askDeny    = "deny"
	askControl = "control"
	askBus     = "bus" // control, and approvers at the server of --nats
)

// runOptions are the flags of run, checked.
type runOptions struct {
	state, profile, store, nats, user string
	engine                            string
	policies, workspaces, env         []string
	strict, linger, degraded, quiet   bool
	ask                               string
	askTimeout                        time.Duration
	argv                              []string
	outer                             []string // flags given that are the outer session's, inside one
}

// outerFlags are the flags of run that a session inside another cannot have: it is
// supervised, asked about and recorded by the outer one's reeve.
var outerFlags = []string{"engine", "ask", "ask-timeout", "audit", "nats", "store", "user"}

func runAction(c *cli.Context) error {
	o, err := parseRun(c)
	if err != nil {
		return failWith(statusReeve, err)
	}
	status, err := run(c.Context, o)
	if err != nil {
		return err
	}
	return exitStatus(status)
}

func parseRun(c *cli.Context) (*runOptions, error) {
	o := &runOptions{
		state: c.String("state"), profile: c.String("profile"), store: c.String("store"), nats: c.String("nats"),
		user: c.String("user"), policies: c.StringSlice("policy"), workspaces: c.StringSlice("workspace"),
		env: c.StringSlice("env"), linger: c.Bool("linger"), degraded: c.Bool("allow-degraded"),
		quiet: c.Bool("quiet"), argv: c.Args().Slice(),
	}
	for _, name := range outerFlags {
		if c.IsSet(name) {
			o.outer = append(o.outer, "--"+name)
		}
	}
	if len(o.argv) == 0 {
		return nil, withHint(errors.New("no command given"), "reeve run -- COMMAND [ARG...]")
	}
	for name, form := range map[string]string{"store": storeForms, "nats": natsForms} {
		if c.IsSet(name) && c.String(name) == "" {
			return nil, withHint(fmt.Errorf("--%s is empty", name), "leave it out, or give "+form)
		}
	}
	if err := checkTargets(o.store, o.nats); err != nil {
		return nil, err
	}
	switch engine := c.String("engine"); engine {
	case engineAuto, tracer.EngineLSM, tracer.EngineUnotify:
		o.engine = engine
	case "ptrace":
		return nil, withHint(fmt.Errorf("engine %s is not part of this version", engine), "use --engine auto; `reeve doctor` lists what this machine has")
	default:
		return nil, withHint(fmt.Errorf("there is no engine %q", engine), "--engine takes auto, lsm or unotify")
	}
	switch c.String("audit") {
	case "strict":
		o.strict = true
	case "async":
	default:
		return nil, withHint(fmt.Errorf("--audit %q", c.String("audit")), "--audit takes strict or async")
	}
	switch o.ask = c.String("ask"); o.ask {
	case askDeny, askControl, askTTY:
	case askAuto:
		o.ask = askDeny
		if terminal.Interactive() {
			o.ask = askTTY
		}
	case askBus:
		if o.nats == "" {
			return nil, withHint(errors.New("--ask bus: at which server?"), "name it with --nats URL")
		}
	default:
		return nil, withHint(fmt.Errorf("--ask %q: no such approver", o.ask), "--ask takes tty, control, bus, deny or auto")
	}
	if o.askTimeout = c.Duration("ask-timeout"); o.askTimeout <= 0 {
		return nil, withHint(fmt.Errorf("--ask-timeout %v: a question that waits for no time cannot be answered", o.askTimeout), "--ask deny asks nobody")
	}
	if o.user != "" && os.Geteuid() != 0 {
		return nil, withHint(fmt.Errorf("--user %s: only root can run a command as somebody else", o.user), "run reeve as root, or leave --user out")
	}
	return o, nil
}
