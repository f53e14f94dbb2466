package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// completeVerb is the hidden verb that the scripts ask what could come next. A
// shell hands it the words so far; it never runs any of them.
const completeVerb = "__complete"

var completionScripts = map[string]string{
	"bash": `_reeve() {
	local IFS=$'\n' word=${COMP_WORDS[COMP_CWORD]}
	COMPREPLY=($(compgen -W "$(reeve __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)" -- "$word"))
}
complete -o default -o bashdefault -F _reeve reeve
`,
	"zsh": `#compdef reeve
_reeve() {
	local -a answers
	answers=("${(@f)$(reeve __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${answers[1]}" ]]; then compadd -a answers; else _files; fi
}
compdef _reeve reeve
`,
	"fish": `function __reeve_complete
	set -l words (commandline -opc) (commandline -ct)
	reeve __complete $words[2..-1] 2>/dev/null
end
complete -c reeve -n 'count (__reeve_complete) >/dev/null' -f -a '(__reeve_complete)'
`,
}

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes reeve's verbs, options and sessions",
		UsageText: "reeve completion bash|zsh|fish",
		Description: `Put the script where your shell looks for it:
   reeve completion bash > ~/.local/share/bash-completion/completions/reeve
   reeve completion zsh  > "${fpath[1]}/_reeve"
   reeve completion fish > ~/.config/fish/completions/reeve.fish`,
		Action: func(c *cli.Context) error {
			script, ok := completionScripts[c.Args().First()]
			if c.NArg() != 1 || !ok {
				return withHint(usageErrorf("completion: name one shell"), "reeve completion bash, zsh or fish")
			}
			_, err := fmt.Fprint(c.App.Writer, script)
			return err
		},
	}
}

func completeCommand() *cli.Command {
	return &cli.Command{
		Name: completeVerb, Hidden: true, SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			for _, answer := range complete(c.App, c.Args().Slice()) {
				fmt.Fprintln(c.App.Writer, answer)
			}
			return nil
		},
	}
}

// complete lists what the last of words could become. No answer leaves it to the
// shell, which knows files.
func complete(app *cli.App, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	prefix, before := words[len(words)-1], words[:len(words)-1]
	p := position{subs: app.Commands, flags: app.Flags}
	for _, w := range before {
		p.pass(w)
	}
	var out []string
	switch {
	case p.over:
	case p.pending != nil:
		out = valuesOf(p.pending)
	case strings.HasPrefix(prefix, "-"):
		out = flagNames(append(slices.Clone(p.flags), app.Flags...))
	case len(p.subs) > 0 && p.words == 0:
		out = verbNames(p.subs)
	default:
		out = argumentsOf(p.verb)
	}
	return slices.DeleteFunc(out, func(s string) bool { return !strings.HasPrefix(s, prefix) })
}

// position is where on a command line the next word stands.
type position struct {
	subs    []*cli.Command
	flags   []cli.Flag
	pending cli.Flag // its value comes next
	verb    string
	words   int  // arguments of the verb so far
	over    bool // a command of somebody else's began
}

func (p *position) pass(w string) {
	switch {
	case p.over:
	case p.pending != nil:
		p.pending = nil
	case w == "--":
		p.over = true
	case strings.HasPrefix(w, "-"):
		name, _, joined := strings.Cut(strings.TrimLeft(w, "-"), "=")
		if f, ok := find(p.flags, name).(cli.DocGenerationFlag); ok && f.TakesValue() && !joined {
			p.pending = find(p.flags, name)
		}
	default:
		for _, c := range p.subs {
			if p.words == 0 && c.HasName(w) {
				p.verb = strings.TrimSpace(p.verb + " " + c.Name)
				p.subs, p.flags = c.Subcommands, c.Flags
				return
			}
		}
		p.words++
		p.over = p.verb == "run"
	}
}

func verbNames(list []*cli.Command) []string {
	var out []string
	for _, c := range list {
		if !c.Hidden {
			out = append(out, c.Name)
		}
	}
	return out
}

func flagNames(list []cli.Flag) []string {
	var out []string
	for _, f := range list {
		for _, n := range f.Names() {
			if len(n) > 1 && !slices.Contains(out, "--"+n) {
				out = append(out, "--"+n)
			}
		}
	}
	return out
}

// argumentsOf lists what the arguments of a verb can be.
func argumentsOf(verb string) []string {
	switch verb {
	case "replay", "verify", "sessions show", "sessions export", "sessions rm", "policy learn":
		return append(sessionIDs(), "last")
	case "asks allow", "asks deny":
		return pendingIDs()
	case "completion":
		return []string{"bash", "fish", "zsh"}
	case "policy explain":
		return explainable
	}
	return nil
}

// valuesOf lists what the value of a flag can be.
func valuesOf(f cli.Flag) []string {
	switch f.Names()[0] {
	case "session":
		return append(sessionIDs(), "last")
	case "profile", "base":
		return builtinProfiles()
	case "action":
		return []string{"allow", "ask", "deny"}
	case "op":
		return operationWords()
	case "from":
		return policy.ImportFormats()
	case "engine":
		return []string{"auto", "lsm", "unotify"}
	case "ask":
		return []string{"auto", "bus", "control", "deny", "tty"}
	case "audit":
		return []string{"async", "strict"}
	case "scope":
		return []string{"always", "once", "session"}
	}
	return nil
}

// sessionIDs lists the sessions of the default state. A completion has no place
// to report an error in.
func sessionIDs() []string {
	st, err := openState(os.Getenv, "")
	if err != nil {
		return nil
	}
	ids, err := st.Sessions()
	if err != nil {
		return nil
	}
	slices.Reverse(ids)
	return ids
}
