package policy

import (
	"cmp"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// importClaude translates the settings of Claude Code: the rules about its tools
// as rules about what tools do, and its sandbox. A denial there wins over every
// question, and that over every permission; so denials and questions hold always.
func importClaude(im *importer) {
	root := &reading{im, readJSON(im.src, &im.faults), ""}
	im.name, im.description, im.extends = "claude-code", "Translated from Claude Code settings.", workspaceName
	perms, sandbox := root.sub("permissions"), root.sub("sandbox")
	if fs := sandbox.sub("filesystem"); fs.t.index["denyRead"] != nil && fs.t.index["allowRead"] != nil {
		im.plainGround()
	}
	ground := im.claudeGround(perms, sandbox)
	put(&im.files, importSpot{":workspace_roots", "."}.rule(ground, Pos{}, ""))
	for _, s := range perms.texts("additionalDirectories") {
		if at, ok := claudeSandboxPath(im, s, "additionalDirectories "+s.text); ok {
			put(&im.files, at.rule(ground, s.pos, "additionalDirectories "+s.text))
		}
	}
	c := &claudeRules{im: im}
	c.rules(event.ActionDeny, perms.texts("deny"))
	c.rules(event.ActionAsk, perms.texts("ask"))
	c.rules(event.ActionAllow, perms.texts("allow"))
	perms.about(FidelityExact, "holds by itself: nothing here gets past the policy", "disableBypassPermissionsMode", "disableAutoMode", "blockReadsOutsideWorkingDirectories")
	perms.rest()
	im.claudeSandbox(sandbox)
	for _, e := range root.sub("env").t.entries {
		if v := e.val; e.name == "" || strings.ContainsAny(e.name, "=\x00") || v.table != nil || v.list != nil || strings.Contains(v.str, "\x00") {
			im.faults.add(e.pos, "expected NAME: \"value\"", "env.%s is not a variable", e.name)
			continue
		}
		im.setVariable(e.name, e.val.str, e.pos)
	}
	root.about(FidelityExact, "is about Claude Code's own working, not about what commands may do", claudeOwn...)
	root.about(FidelityOpen, "Claude Code runs these programs itself and heeds what they say; inside reeve they run under this policy like everything else", "hooks", "apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "otelHeadersHelper", "statusLine", "fileSuggestion")
	root.about(FidelityOpen, "is about MCP servers, which Claude Code chooses itself; those that it starts run under this policy", "enableAllProjectMcpServers", "enabledMcpjsonServers", "disabledMcpjsonServers", "allowedMcpServers", "deniedMcpServers")
	root.rest()
}

// claudeOwn are the settings that are no matter of permissions.
var claudeOwn = []string{
	"$schema", "model", "availableModels", "cleanupPeriodDays", "includeCoAuthoredBy", "attribution", "outputStyle", "forceLoginMethod", "forceLoginOrgUUID", "companyAnnouncements",
	"enabledPlugins", "extraKnownMarketplaces", "spinnerTipsEnabled", "alwaysThinkingEnabled", "language", "autoUpdatesChannel", "theme", "verbose", "disableAllHooks", "allowManagedHooksOnly",
	"respectGitignore", "plansDirectory", "showTurnDuration", "effortLevel", "fastMode", "prefersReducedMotion", "terminalProgressBarEnabled", "teammateMode", "spinnerVerbs", "spinnerTipsOverride", "feedbackSurveyRate",
}

// claudeGround is what may be done in the workspace without being asked.
func (im *importer) claudeGround(perms, sandbox *reading) word {
	mode, pos := perms.str("defaultMode")
	mode = cmp.Or(mode, "default")
	what := "permissions.defaultMode " + mode
	auto := sandbox.t.index["autoAllowBashIfSandboxed"]
	free := sandbox.t.index["enabled"] != nil && sandbox.t.index["enabled"].val.yes && (auto == nil || auto.val.yes)
	ground := wordAskWrite
	switch mode {
	case "acceptEdits":
		ground = wordWrite
	case "plan":
		ground = wordRead
	case "dontAsk":
		ground = wordRead
	case "bypassPermissions":
		im.say(FidelityStricter, pos, what, notOpened)
		ground = wordWrite
	case "default":
	case "auto":
		im.say(FidelityStricter, pos, what, "asks where a model would have judged")
	default:
		im.say(FidelityStricter, pos, what, "is not known: changes of files ask")
	}
	if mode == "plan" || mode == "dontAsk" {
		im.say(FidelityOpen, pos, what, "Claude Code refuses commands that no rule allows; here commands run in what files and network allow, and classes of risky ones ask")
		return ground
	}
	if free {
		return wordWrite // commands in the sandbox change the workspace unasked
	}
	if ground == wordAskWrite {
		for _, shared := range im.place.tables.grounds[":tmp"].write {
			put(&im.files, importSpot{"", shared}.rule(wordAskWrite, Pos{}, ""))
		}
	}
	im.say(FidelityOpen, pos, what, "Claude Code asks before it runs a command that no rule allows; here commands run in what files and network allow, and classes of risky ones ask")
	return ground
}

// plainGround is the ground of :workspace but for what it opens in the home
// directory, which patterns that deny and open again by turns would lose to.
func (im *importer) plainGround() {
	im.extends = ""
	put(&im.files, importSpot{"", ":minimal"}.rule(wordRead, Pos{}, ""))
	put(&im.files, importSpot{"", ":system"}.rule(wordRead, Pos{}, ""))
	put(&im.files, importSpot{"", ":tmp"}.rule(wordWrite, Pos{}, ""))
	im.say(FidelityExact, Pos{}, "", "programs, caches and settings in the home directory stay closed, because some of denyRead and allowRead lie inside one another there: open what is missing in [permissions.*.filesystem]")
}

// claudeSandbox translates the settings of the sandbox for commands.
func (im *importer) claudeSandbox(r *reading) {
	if len(r.t.entries) == 0 {
		return
	}
	fs, net := r.sub("filesystem"), r.sub("network")
	im.srtFilesystem(fs, claudeSandboxPath)
	was := im.network
	im.srtNetwork(net)
	if was == nil && len(net.t.entries) == 0 {
		im.network = nil // as the profile that is extended: closed
	}
	im.srtCredentials(r.sub("credentials"), claudeSandboxPath)
	r.yes("enabled")
	r.yes("autoAllowBashIfSandboxed")
	for _, s := range r.texts("excludedCommands") {
		im.say(FidelityStricter, s.pos, "sandbox.excludedCommands "+s.text, "runs inside the policy like everything else")
	}
	r.set(FidelityStricter, "nothing runs outside the policy", "allowUnsandboxedCommands")
	r.about(FidelityExact, "reeve does not start where it cannot hold its policy", "failIfUnavailable")
	r.about(FidelityExact, ofHost, "ignoreViolations", "enableWeakerNestedSandbox", "ripgrep", "bwrapPath", "socatPath")
	r.about(FidelityExact, ofMac, "enableWeakerNetworkIsolation", "allowAppleEvents")
	r.rest()
}

// claudeSandboxPath is a path of the sandbox's settings: absolute with / or //,
// below ~, or relative to the project.
func claudeSandboxPath(im *importer, s said, what string) (importSpot, bool) {
	return srtPath(im, said{strings.Replace(s.text, "//", "/", 1), s.pos}, what)
}
