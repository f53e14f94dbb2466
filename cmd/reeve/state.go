package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/session"
)

// openState opens the state directory that a command line means.
func openState(getenv func(string) string, flag string) (*session.State, error) {
	dir := flag
	if dir == "" {
		var err error
		if dir, err = session.DefaultStateDir(getenv, os.Geteuid()); err != nil {
			return nil, err
		}
	}
	return session.OpenState(dir)
}

// stateOf is the state directory of a verb.
func stateOf(c *cli.Context) (*session.State, error) {
	return openState(os.Getenv, c.String("state"))
}

// noArgs is the error of a verb that takes no arguments and got some.
func noArgs(c *cli.Context) error {
	if !c.Args().Present() {
		return nil
	}
	return withHint(usageErrorf("%s: unexpected argument %s", c.Command.Name, quote(c.Args().First())),
		fmt.Sprintf("`%s --help` shows what it takes", c.Command.HelpName))
}
