package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// importCodex translates the configuration of OpenAI's Codex CLI, or one of its
// files of rules about commands.
func importCodex(im *importer) {
	im.name, im.description = "codex", "Translated from a Codex configuration."
	if strings.HasSuffix(im.src.Name, ".rules") || strings.HasSuffix(im.src.Name, ".codexpolicy") {
		im.extends = workspaceName
		im.codexRules()
		return
	}
	root := &reading{im, readDocument(im.src.Name, im.src.Text, &im.faults), ""}
	if perms := root.t.index["permissions"]; perms != nil && perms.val.table != nil {
		im.codexPermissions(root)
		root.about(FidelityExact, "does not count beside default_permissions", "sandbox_mode", "sandbox_workspace_write")
	} else {
		im.codexSandbox(root)
		im.codexEnvironment(root.sub("shell_environment_policy"))
	}
	im.codexApproval(root)
	root.about(FidelityExact, "is about Codex's own working, not about what commands may do", codexOwn...)
	root.about(FidelityOpen, "is about servers of tools, which Codex starts itself; what they do is bound here", "mcp_servers", "apps", "plugins", "skills")
	root.about(FidelityExact, "are programs or settings of Codex itself, bound here like everything else", "notify", "hooks", "allow_login_shell", "zsh_path")
	for _, name := range []string{"profiles", "projects", "profile"} {
		root.about(FidelityOpen, "is not followed: import what it names as a file of its own", name)
	}
	root.rest()
}

// codexOwn are the settings that are no matter of permissions.
var codexOwn = []string{
	"model", "review_model", "model_provider", "model_providers", "model_context_window", "model_auto_compact_token_limit", "model_reasoning_effort", "plan_mode_reasoning_effort",
	"model_reasoning_summary", "model_verbosity", "model_supports_reasoning_summaries", "model_instructions_file", "model_catalog_json", "personality", "service_tier", "instructions",
	"developer_instructions", "compact_prompt", "project_doc_max_bytes", "project_doc_fallback_filenames", "project_root_markers", "tool_output_token_limit", "history", "file_opener", "tui",
	"hide_agent_reasoning", "show_raw_agent_reasoning", "chatgpt_base_url", "openai_base_url", "forced_login_method", "forced_chatgpt_workspace_id", "preferred_auth_method",
	"cli_auth_credentials_store", "mcp_oauth_credentials_store", "mcp_oauth_callback_port", "mcp_oauth_callback_url", "sqlite_home", "log_dir", "features", "analytics", "feedback", "otel", "notice",
	"disable_paste_burst", "check_for_update_on_startup", "commit_attribution", "suppress_unstable_features_warning", "background_terminal_max_timeout", "web_search", "tools", "memories", "agents", "audio",
	"include_permissions_instructions", "include_environment_context", "include_apps_instructions", "experimental_use_unified_exec_tool", "windows", "approvals_reviewer", "auto_review",
}

// codexSandbox translates sandbox_mode: everything may be read; what may be
// written depends.
func (im *importer) codexSandbox(root *reading) {
	mode, pos := root.str("sandbox_mode")
	what := "sandbox_mode " + mode
	put(&im.files, importSpot{"", "/"}.rule(wordRead, pos, what))
	im.startable()
	ws := root.sub("sandbox_workspace_write")
	switch mode {
	case "workspace-write":
	case "read-only":
		im.sealed(ws, "does not count in the mode read-only")
		return
	case "danger-full-access":
		im.say(FidelityStricter, pos, what, "%s; it is taken as workspace-write", notOpened)
	case "":
		im.say(FidelityExact, Pos{}, "sandbox_mode", "is not set: taken as read-only, which is the narrowest")
		im.sealed(ws, "does not count in the mode read-only")
		return
	default:
		im.say(FidelityStricter, pos, what, "is not known: taken as read-only")
		im.sealed(ws, "does not count in the mode read-only")
		return
	}
	im.codexRoot(importSpot{":workspace_roots", "."}, pos, what)
	for _, s := range ws.texts("writable_roots") {
		if at, ok := im.placed(quote(s.text), s, ws.path("writable_roots")+" "+s.text); ok {
			im.codexRoot(at, s.pos, ws.path("writable_roots")+" "+s.text)
		}
	}
	if !ws.yes("exclude_slash_tmp") {
		put(&im.files, importSpot{"", "/tmp"}.rule(wordWrite, pos, "/tmp"))
	}
	ws.about(FidelityExact, "the session has a temporary directory of its own in any case", "exclude_tmpdir_env_var")
	n := im.net()
	n.enabled, n.bind, n.mode = ws.yes("network_access"), "loopback", "full"
	if !n.enabled {
		n.mode, n.bind = "limited", "none"
	}
	ws.rest()
}

// sealed says of what is in a table that it does not count.
func (im *importer) sealed(r *reading, text string) {
	for _, e := range r.t.entries {
		r.about(FidelityExact, text, e.name)
	}
	im.net().mode, im.net().bind = "limited", "none"
}

// codexRoot opens a directory for writing, but for what Codex keeps in it.
func (im *importer) codexRoot(at importSpot, pos Pos, what string) {
	put(&im.files, at.rule(wordWrite, pos, what))
	for _, kept := range []string{".git", ".codex", ".agents"} {
		below := importSpot{at.base, path.Join(at.pattern, kept)}
		put(&im.always, below.rule(wordRead, pos, what))
	}
}

// codexApproval: what would be asked for is to run outside the sandbox, and
// nothing does.
func (im *importer) codexApproval(root *reading) {
	e := root.t.index["approval_policy"]
	if e == nil {
		return
	}
	e.used = true
	what := "approval_policy " + e.val.str
	switch e.val.str {
	case "never":
	case "untrusted":
		im.say(FidelityOpen, e.val.pos, what, "Codex asks before it runs a command that it does not trust; here commands run in what files and network allow, and classes of risky ones ask")
	default:
		im.say(FidelityStricter, e.val.pos, what, "nothing runs outside the policy, asked or not")
	}
}

// codexCore are the variables that inherit = "core" means.
var codexCore = []string{"PATH", "SHELL", "TMPDIR", "TEMP", "TMP", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"}

// noVariable is a name that no variable has: an empty list would say nothing.
const noVariable = "NO_VARIABLE_IS_INHERITED"

// codexEnvironment translates shell_environment_policy. Codex compares names
// without regard to case.
func (im *importer) codexEnvironment(r *reading) {
	names := func(key string) (out []string) {
		for _, s := range r.texts(key) {
			if s.text == "" || strings.ContainsAny(s.text, "=[]{}\\\x00:") {
				im.say(FidelityOpen, s.pos, r.path(key)+" "+s.text, "is not a pattern of names here")
				continue
			}
			out = append(out, s.text)
		}
		return out
	}
	only := names("include_only")
	switch inherit, pos := r.str("inherit"); inherit {
	case "", "all":
		im.env.inherit = []string{"*"}
	case "core":
		im.env.inherit = codexCore
	case "none":
		im.env.inherit = []string{noVariable}
	default:
		im.say(FidelityStricter, pos, r.path("inherit")+" "+inherit, "is not known: taken as none")
		im.env.inherit = []string{noVariable}
	}
	if len(only) > 0 && im.env.inherit[0] == "*" {
		im.env.inherit = only
	} else if len(only) > 0 {
		im.env.inherit = slices.DeleteFunc(slices.Clone(im.env.inherit), func(name string) bool { return !matchAny(only, name) })
		if len(im.env.inherit) == 0 {
			im.env.inherit = []string{noVariable}
		}
	}
	deny := names("exclude")
	if e := r.t.index["ignore_default_excludes"]; e == nil || !r.yes("ignore_default_excludes") {
		deny = append(deny, "*KEY*", "*SECRET*", "*TOKEN*")
	}
	for _, name := range deny {
		for _, form := range []string{name, strings.ToUpper(name), strings.ToLower(name)} {
			if !slices.Contains(im.env.deny, form) {
				im.env.deny = append(im.env.deny, form)
			}
		}
	}
	im.env.deny = append(im.env.deny, ":secrets")
	for _, e := range r.sub("set").t.entries {
		if e.name == "" || strings.ContainsAny(e.name, "=\x00") || e.val.table != nil || e.val.list != nil || strings.Contains(e.val.str, "\x00") {
			im.faults.add(e.pos, "expected NAME = \"value\"", "%s is not a variable", r.path("set."+e.name))
		} else if len(only) == 0 || matchAny(only, e.name) {
			im.setVariable(e.name, e.val.str, e.pos)
		}
	}
	r.about(FidelityExact, "the environment is that of the caller", "experimental_use_profile")
	r.rest()
}

// codexDecision is the action of a decision of Codex's rules.
func codexDecision(word string) (event.Action, bool) {
	a, ok := map[string]event.Action{"": event.ActionAllow, "allow": event.ActionAllow, "prompt": event.ActionAsk, "forbidden": event.ActionDeny, "deny": event.ActionDeny}[word]
	return a, ok
}
