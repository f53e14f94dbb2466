// Command reeve runs a command tree under supervision and shows what it did.
//
// This package is the only place that knows all the others: it reads flags,
// wires the parts of a verb together and turns errors into exit statuses. There
// is one file a verb.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	_ "github.com/reeve-audit/reeve/supervisor/gocache" // the hidden verb go-cache, which is done before main
	"github.com/reeve-audit/reeve/tracer/probe"
)

// version is set at link time (-X main.version); a `go install` has it from the
// module instead.
var version string

// helpers are the roles in which reeve starts itself, by argv[0]. They must not
// meet the command line: a helper's arguments are not a person's. The session's
// init is none of them; it never gets as far as main, see package spawn.
var helpers = map[string]func() int{
	probe.ChildName: probeMain,
}

func main() {
	if helper, ok := helpers[os.Args[0]]; ok {
		os.Exit(helper())
	}
	os.Exit(reeveMain())
}

// reeveMain is the whole program but for the exit, so that a test can be it.
func reeveMain() int {
	return execute(os.Args, stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}

// stdio is where a verb reads and writes.
type stdio struct {
	In       io.Reader
	Out, Err io.Writer
}

// execute runs one command line and returns the exit status.
func execute(args []string, std stdio) int {
	app := newApp(std)
	err := app.RunContext(context.Background(), arrange(app, args))
	return report(std.Err, err)
}

func newApp(std stdio) *cli.App {
	app := &cli.App{
		Name:      "reeve",
		Usage:     "run a command under supervision, and show afterwards what it did",
		UsageText: "reeve [--state DIR] VERB [options] [arguments]",
		Description: `reeve decides every open, connect and exec of a command and of everything it starts
before it happens, and keeps a record of all of them that can be searched and replayed.

Start here:
   reeve run -- ./untrusted.sh     run it: the working directory and /tmp are writable, secrets and the network closed
   reeve replay last               see what it did, in order
   reeve events --action deny      see what was refused
   reeve doctor                    see what this machine can enforce`,
		Version:         buildVersion(),
		HideHelpCommand: true,
		Reader:          std.In,
		Writer:          std.Out,
		ErrWriter:       std.Err,
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "state", TakesFile: true,
				Usage: "`DIR` of sessions and the default store (default: $REEVE_STATE, /var/lib/reeve for root, ~/.local/state/reeve)",
			},
		},
		Commands: []*cli.Command{
			runCommand(), asksCommand(), sessionsCommand(), eventsCommand(), replayCommand(), verifyCommand(),
			policyCommand(), doctorCommand(), collectCommand(), completionCommand(), completeCommand(),
		},
		// Errors come back to execute, which alone prints them and picks the status.
		ExitErrHandler: func(*cli.Context, error) {},
		Action:         noVerb,
	}
	app.OnUsageError = usageHandler(statusUsage)
	for _, c := range app.Commands {
		prepare(c)
	}
	cli.VersionPrinter = func(c *cli.Context) { fmt.Fprintln(c.App.Writer, "reeve", c.App.Version) }
	return app
}

// prepare gives a command and its subcommands what all of them have.
func prepare(c *cli.Command) {
	c.HideHelpCommand = true
	if c.OnUsageError == nil {
		c.OnUsageError = usageHandler(statusUsage)
	}
	if c.Name == "run" {
		c.OnUsageError = usageHandler(statusReeve)
	}
	for _, f := range c.Flags {
		if b, ok := f.(*cli.BoolFlag); ok {
			b.DisableDefaultText = true
		}
	}
	for _, sub := range c.Subcommands {
		prepare(sub)
	}
}

func noVerb(c *cli.Context) error {
	if c.Args().Present() {
		return unknownWord(c, "verb")
	}
	if err := cli.ShowAppHelp(c); err != nil {
		return err
	}
	return exitStatus(statusUsage)
}

// unknownWord is the error of a word where a verb was expected.
func unknownWord(c *cli.Context, kind string) error {
	word := c.Args().First()
	err := usageErrorf("%s: no such %s", quote(word), kind)
	if s := cli.SuggestCommand(c.Command.Subcommands, word); s != "" && s != "help" && word != "" && strings.Contains(s, `"`+word[:1]) {
		return withHint(err, s)
	}
	return withHint(err, fmt.Sprintf("`%s --help` lists them", c.Command.HelpName))
}

func buildVersion() string {
	v := version
	if v == "" {
		v = "devel"
		if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
			v = info.Main.Version
		}
	}
	return fmt.Sprintf("%s (%s, %s/%s)", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// interruptible is a context that ends with ^C or a request to terminate.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}
