package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/gate"
)

func policyCommand() *cli.Command {
	return &cli.Command{
		Name:      "policy",
		Usage:     "check a policy, ask what it decides and why, have one proposed, or translate another tool's",
		UsageText: "reeve policy check|explain|learn|import",
		Description: `   reeve policy check                    what holds here and now, and which layer says it?
   reeve policy check my.toml            is it right, and is it what you meant?
   reeve policy explain open .env        what would happen, by which rule, and who enforces it
   reeve policy learn last > my.toml     what would have to be allowed for it to run through?
   reeve policy import --from srt FILE   the policy of another tool in reeve's language`,
		Subcommands: []*cli.Command{policyCheck(), policyExplain(), policyLearn(), policyImport()},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownWord(c, "verb of policy")
			}
			if err := cli.ShowSubcommandHelp(c); err != nil {
				return err
			}
			return exitStatus(statusUsage)
		},
	}
}

// builtinProfiles names the profiles that are there without any file.
func builtinProfiles() []string { return policy.BuiltInProfiles() }

func profileFlag() cli.Flag {
	return &cli.StringFlag{
		Name:  "profile",
		Usage: "`NAME` of a profile: one of the file's, or " + strings.Join(policy.BuiltInProfiles(), ", "),
	}
}

func workspaceFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "workspace", TakesFile: true, Usage: "`DIR` that a session would work in (default: the working directory)"}
}

func policyCheck() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "find mistakes in a policy file, or show what all layers make together",
		UsageText: "reeve policy check [FILE] [--profile NAME] [--expand] [--engine NAME [--ask WHO] [--audit HOW]]",
		Description: `Errors come with line, column and what was expected. Warnings tell of rules that never
decide, that open more than they look like, or that cannot be enforced here. The plan says
what happens to each class of operations: continue (the kernel itself holds the policy),
perform (reeve acts on the task's behalf), refuse, or untrapped; with --engine lsm also hook
(judged in the kernel). With --engine it names the calls that are notified. Ends with 0 for a policy
that loads, else with 1.

Without FILE it takes what a session started here and now would: the envelope in
/etc/reeve/envelope.toml and the one built into reeve, the user's file, the workspace's own
and those of --policy. It shows what they make together, and for each part the layer and line
it comes from. Nothing below an envelope widens it, and one that others than root can write
is refused.

   reeve policy check                      what holds here, and who says so
   reeve policy check my.toml
   reeve policy check my.toml --expand     with every pattern that the specials stand for
   reeve policy check --envelope my.toml   is it right as an envelope?
   reeve policy check --engine lsm         which calls does a session wait for reeve with?`,
		Flags: append(engineFlags("also show which calls are notified under"),
			profileFlag(), workspaceFlag(),
			&cli.BoolFlag{Name: "expand", Usage: "print every rule as it is on this machine"},
			&cli.BoolFlag{Name: "envelope", Usage: "check FILE as an envelope, whoever owns it"},
			&cli.StringSliceFlag{Name: "policy", TakesFile: true, Usage: "policy `FILE` of the session (repeatable); without FILE only"},
		),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 && !c.Bool("envelope") {
				return checkMerged(c)
			}
			file, err := oneArg(c, "", "a file")
			switch {
			case err != nil:
				return err
			case len(c.StringSlice("policy")) > 0:
				return withHint(usageErrorf("check: FILE and --policy at once"), "--policy is for the check of all layers, without FILE")
			}
			return checkPolicy(c, file)
		},
	}
}

// checkPolicy checks the profile that was named, or the one that the file names
// as its default, or else all that the file has. An envelope is checked as it
// stands over others.
func checkPolicy(c *cli.Context, file string) error {
	src, err := session.ReadSource(file, policy.Session)
	if err != nil {
		return err
	}
	h, err := supposedHost(c, nil)
	if err != nil {
		return err
	}
	names := []string{c.String("profile")}
	switch {
	case c.Bool("envelope"):
		src.Layer = policy.Envelope
		if names[0] == "" {
			names[0] = "observe"
		}
	case names[0] == "":
		names = profilesOf(src.Text)
	}
	seen := make(map[string]bool) // findings that several profiles share
	for i, name := range names {
		p, err := policy.Load([]policy.Source{src}, name, h)
		if err != nil {
			return reportFaults(c.App.ErrWriter, file, err)
		}
		if i > 0 {
			fmt.Fprintln(c.App.Writer)
		}
		if err := checkProfile(c, file, p, seen); err != nil {
			return err
		}
	}
	return nil
}

// profilesOf names the profiles of a file that are to be checked: "" leaves the
// choice to the file. A file that cannot be read has one, which tells why.
func profilesOf(text []byte) []string {
	var file struct {
		Default     string         `toml:"default_permissions"`
		Permissions map[string]any `toml:"permissions"`
	}
	if err := toml.Unmarshal(text, &file); err != nil || file.Default != "" || len(file.Permissions) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(file.Permissions))
}

func checkProfile(c *cli.Context, file string, p *policy.Policy, seen map[string]bool) error {
	w := c.App.Writer
	warnings := printFindings(w, inkFor(w), p.Check(), seen)
	plan, calls, err := supposedPlan(c, p)
	if err != nil {
		return fmt.Errorf("plan %s: %w", file, err)
	}
	if c.Bool("envelope") {
		fmt.Fprintf(w, "%s: holds as an envelope, %s\n", quote(file), plural(warnings, "warning"))
	} else {
		fmt.Fprintf(w, "%s: profile %s loads, %s\n", quote(file), escape(p.Name()), plural(warnings, "warning"))
	}
	if c.Bool("expand") {
		_, err := fmt.Fprintf(w, "\n%s", sanitizeLines(p.Expand()))
		return err
	}
	for _, line := range p.CommandLines(false) {
		fmt.Fprintf(w, "commands: %s\n", sanitize(line))
	}
	printPlan(w, &plan)
	if calls {
		printCalls(w, &plan)
	}
	return nil
}

// reportFaults prints each fault of a policy on a line of its own.
func reportFaults(w io.Writer, file string, err error) error {
	var faults policy.Faults
	if !errors.As(err, &faults) {
		return fmt.Errorf("load policy %s: %w", file, err)
	}
	for _, f := range faults {
		fmt.Fprintln(w, sanitize(f.Error()))
	}
	return fmt.Errorf("load policy %s: %s", file, plural(len(faults), "error"))
}

func printFindings(w io.Writer, colours ink, findings []policy.Finding, seen map[string]bool) (warnings int) {
	for _, f := range findings {
		text := sanitize(f.String())
		if seen[text] {
			continue
		}
		seen[text] = true
		if f.Severity == policy.Warning {
			warnings++
			text = colours.paint(yellow, text)
		}
		fmt.Fprintln(w, text)
	}
	return warnings
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// handlingTexts say what the words of a plan mean, in the order of its legend.
var handlingTexts = []struct {
	handling gate.Handling
	text     string
}{
	{gate.Continue, "reeve judges the call and lets the kernel make it, which holds to the policy by itself but for the gaps"},
	{gate.Perform, "reeve judges the call, and makes it in the task's place, on the very object that was judged"},
	{gate.Hook, "the kernel judges the call by the same policy, and records it; what it cannot judge alone is performed"},
	{gate.Refuse, "the call fails, whatever it is about, and that is recorded"},
	{gate.Untrapped, "reeve is not asked: the policy says nothing of these calls, or the kernel alone holds to it"},
}

func printPlan(w io.Writer, plan *tracer.Plan) {
	fmt.Fprintln(w, "\nplan")
	for class, handling := range plan.Handling {
		fmt.Fprintf(w, "  %-9s %s\n", gate.Class(class), handling)
	}
	fmt.Fprintln(w)
	for _, h := range handlingTexts {
		if slices.Contains(plan.Handling[:], h.handling) {
			fmt.Fprintf(w, "  %-9s = %s\n", h.handling, h.text)
		}
	}
	for _, gap := range plan.Gaps {
		fmt.Fprintf(w, "gap: %s\n", sanitize(gap))
	}
}

// sanitizeLines is sanitize for text of several lines.
func sanitizeLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = sanitize(l)
	}
	return strings.Join(lines, "\n")
}

// supposedHost is this machine as a session that started here and now would see
// it. Nothing is made for it: its temp directory is only a name.
func supposedHost(c *cli.Context, files []string) (policy.Host, error) {
	spaces, err := workspacesOf(c)
	if err != nil {
		return policy.Host{}, err
	}
	facts := session.Facts{
		User: session.CurrentUser(os.Getenv), Workspaces: spaces, Env: os.Environ(), ConfigFiles: files, Program: ownProgram(),
		TempDir: filepath.Join(os.TempDir(), "reeve-SESSION"),
	}
	if facts.StateDir = c.String("state"); facts.StateDir == "" {
		if facts.StateDir, err = session.DefaultStateDir(os.Getenv, os.Geteuid()); err != nil {
			return policy.Host{}, err
		}
	}
	if facts.StateDir, err = filepath.Abs(facts.StateDir); err != nil {
		return policy.Host{}, fmt.Errorf("find state directory: %w", err)
	}
	h, _ := session.Collect(facts)
	return h, nil
}

// workspacesOf are the workspaces that a command line names.
func workspacesOf(c *cli.Context) ([]session.Workspace, error) {
	dirs := c.StringSlice("workspace")
	if len(dirs) == 0 {
		cwd, err := session.WorkingDir()
		if err != nil {
			return nil, err
		}
		dirs = []string{cwd}
	}
	var spaces []session.Workspace
	for _, dir := range dirs {
		ws, err := session.OpenWorkspace(dir)
		if err != nil {
			return nil, err
		}
		spaces = append(spaces, ws)
	}
	return spaces, nil
}
