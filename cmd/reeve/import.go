package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// The exit statuses of `policy import` besides those of every verb.
const (
	statusStricter = 3
	statusNotHeld  = 4
)

// importStatus is how a translation ends by the worst that became of a part.
var importStatus = map[policy.Fidelity]int{policy.FidelityExact: statusOK, policy.FidelityStricter: statusStricter, policy.FidelityOpen: statusNotHeld}

func policyImport() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "translate the policy of another tool",
		UsageText: "reeve policy import --from codex|claude-code|srt|agentsh [-o FILE] FILE",
		Description: `Prints the policy, and on stderr every part that did not come over exactly: what was
written where, and what it became. What cannot be said here becomes stricter; what nothing
stricter can stand for is marked "not held"; nothing is left out without a word. Exceptions
for secret files and protected configuration are never made.

   codex         config.toml, or a file of rules (*.rules)
   claude-code   settings.json
   srt           settings of Anthropic's sandbox-runtime
   agentsh       a policy in YAML

Ends with 0 if everything is exact, 3 if something became stricter, 4 if something is not
held, 1 for an error, 2 for a command line that is none.

   reeve policy import --from claude-code -o claude.toml ~/.claude/settings.json
   reeve policy check claude.toml`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "the `TOOL` whose policy it is: " + strings.Join(policy.ImportFormats(), ", ")},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, TakesFile: true, Usage: "write the policy to `FILE`, which must not be there, instead of stdout"},
			workspaceFlag(),
		},
		Action: func(c *cli.Context) error {
			switch from, known := c.String("from"), policy.ImportFormats(); {
			case from == "":
				return withHint(usageErrorf("import: --from is missing"), "--from "+strings.Join(known, ", "))
			case !slices.Contains(known, from):
				return withHint(usageErrorf("import: --from %s: no tool of that name is known", quote(from)), "--from "+strings.Join(known, ", "))
			}
			file, err := oneArg(c, "", "a file")
			if err != nil {
				return err
			}
			return importPolicy(c, file)
		},
	}
}

func importPolicy(c *cli.Context, file string) error {
	src, err := session.ReadSource(file, policy.Session)
	if err != nil {
		return err
	}
	h, err := supposedHost(c, nil)
	if err != nil {
		return err
	}
	out, err := policy.Import(c.String("from"), src, h)
	var faults policy.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			fmt.Fprintln(c.App.ErrWriter, sanitize(f.Error()))
		}
		return fmt.Errorf("import policy %s: %s", file, plural(len(faults), "error"))
	case err != nil:
		return fmt.Errorf("import policy %s: %w", file, err)
	}
	printTranslations(c.App.ErrWriter, out)
	if err := writePolicy(c, out.Text); err != nil {
		return err
	}
	if status := importStatus[out.Fidelity()]; status != statusOK {
		return exitStatus(status)
	}
	return nil
}

func printTranslations(w io.Writer, out *policy.Imported) {
	colours, count := inkFor(w), map[policy.Fidelity]int{}
	for _, t := range out.Translations {
		text := sanitize(t.String())
		if count[t.Fidelity]++; t.Fidelity != policy.FidelityExact {
			text = colours.paint(map[policy.Fidelity]string{policy.FidelityStricter: yellow, policy.FidelityOpen: red}[t.Fidelity], text)
		}
		fmt.Fprintln(w, text)
	}
	if stricter, open := count[policy.FidelityStricter], count[policy.FidelityOpen]; stricter+open > 0 {
		fmt.Fprintf(w, "reeve: %s stricter, %s not held: see above\n", plural(stricter, "part"), plural(open, "part"))
	}
}

// writePolicy prints the policy, or writes it to a new file.
func writePolicy(c *cli.Context, text string) error {
	name := c.String("output")
	if name == "" || name == "-" {
		_, err := io.WriteString(c.App.Writer, text)
		return err
	}
	f, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return withHint(fmt.Errorf("write policy %s: it is there already", name), "move it away, or name another file")
	}
	if err != nil {
		return fmt.Errorf("write policy: %w", err)
	}
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write policy %s: %w", name, err)
	}
	return nil
}
