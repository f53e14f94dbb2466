package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// claudeRules translates rules of the form Tool or Tool(what).
type claudeRules struct{ im *importer }

// Tools of Claude Code that read files, and those that change them.
var (
	claudeReaders = []string{"Read", "Glob", "Grep", "LS", "NotebookRead"}
	claudeWriters = []string{"Edit", "Write", "MultiEdit", "NotebookEdit", "Update"}
)

// ownTool is why a rule about a tool of its own has nothing to stand for it.
const ownTool = "is a tool inside Claude Code, which keeps this rule itself; what the tool does to files, network and programs is bound here"

// rules translates one of the lists. What opens more comes first, so that what
// opens less closes nothing of it.
func (c *claudeRules) rules(action event.Action, list []said) {
	writes := func(s said) bool {
		tool, _, _ := strings.Cut(s.text, "(")
		return contains(claudeWriters, strings.TrimSpace(tool))
	}
	for _, first := range []bool{true, false} {
		for _, s := range list {
			if writes(s) == first {
				c.rule(action, s, "permissions."+action.String()+" "+s.text)
			}
		}
	}
}

func (c *claudeRules) rule(action event.Action, s said, what string) {
	tool, spec, given := strings.Cut(s.text, "(")
	tool = strings.TrimSpace(tool)
	if given && !strings.HasSuffix(spec, ")") {
		c.im.say(worse(action), s.pos, what, "has no closing bracket, so it means nothing%s", instead(action))
		return
	}
	spec = strings.TrimSpace(strings.TrimSuffix(spec, ")"))
	if spec == "*" || spec == "**" {
		spec = ""
	}
	switch {
	case tool == "Bash":
		c.bash(action, spec, s, what)
	case contains(claudeReaders, tool):
		c.file(action, event.AccessRead, spec, s, what)
	case contains(claudeWriters, tool):
		c.file(action, event.AccessWrite, spec, s, what)
	case tool == "WebFetch":
		c.fetch(action, spec, s, what)
	case action == event.ActionAllow:
		c.im.say(FidelityExact, s.pos, what, ownTool)
	default:
		c.im.say(FidelityOpen, s.pos, what, ownTool)
	}
}

// bash translates a rule about commands: "npm run:*" and "npm run *" are what
// begins so, "npm run" just that.
func (c *claudeRules) bash(action event.Action, spec string, s said, what string) {
	if spec == "" {
		if action == event.ActionAllow {
			c.im.say(FidelityExact, s.pos, what, "no rule is written: programs run here unless a rule denies them, and risky commands ask all the same")
		} else {
			c.im.say(FidelityOpen, s.pos, what, "no rule is written: it is about every command, and would deny that which starts the session; Claude Code heeds it itself")
		}
		return
	}
	prefix, open := strings.CutSuffix(spec, ":*")
	line := splitCommand(prefix)
	line.exact = line.exact && !open
	if end := strings.LastIndexByte(prefix, '*'); !open && end == len(prefix)-1 && end > 0 && prefix[end-1] != ' ' && len(line.words) == len(strings.Fields(prefix))-1 {
		line.loose = true // "git*" is "gitk" too
	}
	if first, _, _ := strings.Cut(prefix, " "); strings.HasSuffix(first, "*") && len(line.words) > 0 {
		if stem := strings.TrimRight(first, "*"); action != event.ActionAllow && stem != "" && !strings.ContainsAny(stem, "*?[]$(") {
			line.words = []string{stem}
			c.im.say(FidelityOpen, s.pos, what, "holds for %q only: of programs whose names begin so nothing is said", stem)
		}
	}
	c.im.command(action, line, s.pos, what)
}

// fetch translates a rule about what may be fetched.
func (c *claudeRules) fetch(action event.Action, spec string, s said, what string) {
	domain, ok := strings.CutPrefix(spec, "domain:")
	switch {
	case spec == "" && action == event.ActionAllow:
		put(&c.im.net().domains, importSpot{"", "*"}.act(action, s.pos, what))
		c.im.net().enabled = true
	case spec == "":
		put(&c.im.net().domains, importSpot{"", "*"}.act(action, s.pos, what))
		c.im.say(FidelityOpen, s.pos, what, "holds for what no other rule names; a name that is allowed stays so for commands")
	case !ok || strings.Contains(domain, ":"):
		c.im.say(worse(action), s.pos, what, "is not domain:NAME%s", instead(action))
	default:
		c.im.domain(action, said{domain, s.pos}, what)
	}
}

// file translates a rule about files.
func (c *claudeRules) file(action event.Action, access event.Access, spec string, s said, what string) {
	if spec == "" {
		c.everyFile(action, access, s, what)
		return
	}
	at, ok := c.importSpot(spec, s, what)
	if !ok {
		return
	}
	im := c.im
	switch {
	case action == event.ActionAllow && access == event.AccessRead:
		im.widen(at.rule(wordRead, s.pos, what))
	case action == event.ActionAllow:
		im.widen(at.rule(wordWrite, s.pos, what))
	case access == event.AccessWrite && action == event.ActionDeny:
		put(&im.always, at.rule(wordRead, s.pos, what))
	case access == event.AccessWrite:
		put(&im.always, at.rule(wordAskWrite, s.pos, what))
	case action == event.ActionDeny:
		put(&im.always, at.rule(wordDeny, s.pos, what))
	default:
		put(&im.always, at.rule(wordAsk, s.pos, what))
	}
}

// widen adds a rule that opens: nothing that is open already is closed by it.
func (im *importer) widen(r draftRule) {
	at := importSpot{r.base, r.pattern}
	for i := range im.files {
		was := &im.files[i]
		if was.word >= r.word && !strings.HasPrefix(was.pattern, ":") && im.relate(importSpot{was.base, was.pattern}, at).covers {
			return
		}
	}
	im.reopen(r)
}

// everyFile translates a rule about a tool as a whole.
func (c *claudeRules) everyFile(action event.Action, access event.Access, s said, what string) {
	im := c.im
	places := []string{":workspace_roots", ":home", ":tmp"}
	w := map[event.Action]map[event.Access]word{
		event.ActionDeny: {event.AccessRead: wordDeny, event.AccessWrite: wordRead},
		event.ActionAsk:  {event.AccessRead: wordAsk, event.AccessWrite: wordAskWrite},
	}[action][access]
	switch {
	case action == event.ActionAllow && access == event.AccessRead:
		put(&im.files, importSpot{"", "/"}.rule(wordRead, s.pos, what))
	case action == event.ActionAllow:
		im.reopen(importSpot{":workspace_roots", "."}.rule(wordWrite, s.pos, what))
		im.say(FidelityStricter, s.pos, what, "opens the workspace and directories that are named, not everything")
	default:
		for _, p := range places {
			put(&im.always, importSpot{p, "."}.rule(w, s.pos, what))
		}
		if access == event.AccessRead {
			im.say(FidelityOpen, s.pos, what, "holds in the workspace, the home directory and temporary ones: the system stays readable, or nothing could start")
		}
	}
}

// importSpot is a pattern as .gitignore has it: //x is absolute, ~/x below the home
// directory, /x and what has a / inside below the project, and any other name
// stands at every depth.
func (c *claudeRules) importSpot(spec string, s said, what string) (importSpot, bool) {
	p, ok := ignored(spec)
	if !ok {
		c.im.say(FidelityOpen, s.pos, what, "is not a pattern here: it ends in a \\, or has a class of characters")
		return importSpot{}, false
	}
	var at importSpot
	switch {
	case strings.HasPrefix(p, "//"):
		at = resolved("/" + strings.Trim(p, "/"))
	case spec == "~" || strings.HasPrefix(spec, "~/"):
		at = homeSpot(p[1:])
	case strings.HasPrefix(spec, "!"):
		c.im.say(FidelityOpen, s.pos, what, "takes something out of other rules, which no rule here can: nothing stands for it")
		return at, false
	case climbs(p):
		return c.im.climbed(s, what, p)
	case strings.HasPrefix(p, "/"), strings.HasPrefix(p, "./"), strings.Contains(strings.TrimRight(p, "/"), "/"):
		at = workspaceSpot(p)
	default:
		at = workspaceSpot("**/" + p)
	}
	return at, c.im.known(at, s, what)
}
