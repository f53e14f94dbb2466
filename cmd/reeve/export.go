package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage/replay"
)

func sessionsExport() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write a session into one file that can be replayed and verified anywhere",
		UsageText: "reeve sessions export [ID|last] [--output FILE]",
		Description: `   reeve sessions export last > s.reeve
   reeve sessions export last -o s.reeve`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, TakesFile: true, Usage: "write to `FILE`, which must not be there yet"},
			storeFlag(),
		},
		Action: func(c *cli.Context) (err error) {
			name, err := oneArg(c, "last", "a session")
			if err != nil {
				return err
			}
			file := c.String("output")
			if file == "" && isTerminal(c.App.Writer) {
				return withHint(usageErrorf("export: this would fill the terminal with compressed data"), "reeve sessions export last > s.reeve")
			}
			r, err := openRecording(c, name)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, r.Close()) }()
			if file == "" {
				return r.export(c, c.App.Writer)
			}
			return r.exportFile(c, file)
		},
	}
}

func (r *recording) export(c *cli.Context, w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := replay.Export(out, r.ID, r.events(c)); err != nil {
		return fmt.Errorf("export session %s: %w", r.ID, err)
	}
	return out.Flush()
}

// exportFile leaves a whole file, or none.
func (r *recording) exportFile(c *cli.Context, file string) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".reeve-export-*")
	if err != nil {
		return fmt.Errorf("export session %s: %w", r.ID, err)
	}
	err = errors.Join(r.export(c, tmp), tmp.Close())
	if err == nil {
		// Unlike rename, link does not replace what is there.
		err = os.Link(tmp.Name(), file)
	}
	return errors.Join(err, os.Remove(tmp.Name()))
}
