package policy

import (
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// codexPermissions takes over profiles that are in our language already. Keys
// that only Codex has, or that mean something else there, are translated.
func (im *importer) codexPermissions(root *reading) {
	var b strings.Builder
	if def, pos := root.str("default_permissions"); def != "" {
		name, builtIn := strings.CutPrefix(def, ":")
		switch {
		case !builtIn:
			fmt.Fprintf(&b, "default_permissions = %s\n", tomlString(def))
		case name == "read-only" || name == "workspace":
			fmt.Fprintf(&b, "default_permissions = %q\n", map[string]string{"read-only": "read-only", "workspace": DefaultProfile}[name])
		default:
			im.say(FidelityStricter, pos, "default_permissions "+def, "is not known: none is set, so %s is taken", DefaultProfile)
		}
	}
	perms := root.sub("permissions")
	for _, e := range perms.t.entries {
		e.used = true
		if e.val.table == nil || badName(e.name) != "" {
			im.faults.add(e.pos, "expected [permissions.NAME]", "permissions.%s is not a profile", e.name)
			continue
		}
		im.codexProfile(&b, &reading{im, e.val.table, "permissions." + e.name}, "permissions."+tomlKey(e.name))
	}
	im.whole = b.String()
}

func (im *importer) codexProfile(b *strings.Builder, r *reading, head string) {
	fmt.Fprintf(b, "\n[%s]\n", head)
	for _, key := range []string{"description", "extends"} {
		if text, _ := r.str(key); text != "" {
			fmt.Fprintf(b, "%s = %s\n", key, tomlString(text))
		}
	}
	fs := r.sub("filesystem")
	fs.about(FidelityExact, ofHost, "glob_scan_max_depth")
	fs.about(FidelityStricter, "is not taken over: a repository that stood there is protected as it is here", "allow_limited_git_writes")
	var tables []*entry
	if len(fs.t.entries) > 0 {
		fmt.Fprintf(b, "\n[%s.filesystem]\n", head)
	}
	for _, e := range fs.t.entries {
		if e.used {
			continue
		}
		e.used = true
		if e.val.table != nil {
			tables = append(tables, e)
		} else if name, ok := im.codexPlace(e, fs); ok {
			im.codexWord(b, e, name, fs)
		}
	}
	for _, e := range tables {
		name, ok := im.codexPlace(e, fs)
		if !ok {
			continue
		}
		fmt.Fprintf(b, "\n[%s.filesystem.%s]\n", head, tomlString(name))
		for _, sub := range e.val.table.entries {
			if msg := relative(sub.name); msg != "" || climbs(sub.name) {
				im.say(FidelityOpen, sub.pos, fs.path(e.name)+" "+sub.name, "is not a pattern below it")
				continue
			}
			im.codexWord(b, sub, sub.name, fs)
		}
	}
	im.codexNetwork(b, r.sub("network"), head+".network")
	r.rest()
}

// codexPlace is the key of an entry as it is here.
func (im *importer) codexPlace(e *entry, r *reading) (string, bool) {
	known := map[string]string{
		":minimal": ":minimal", ":workspace_roots": ":workspace_roots", ":project_roots": ":workspace_roots", ":cwd": ":workspace_roots",
		":root": "/", ":tmpdir": ":session_tmp", ":slash_tmp": "/tmp",
	}
	name := known[e.name]
	ok := name != ""
	if !strings.HasPrefix(e.name, ":") {
		name, ok = e.name, absolute(e.name) == "" && !climbs(e.name)
	}
	if e.val.table != nil && !contains(specialPlaces, name) {
		ok = false
	}
	if !ok {
		im.say(FidelityOpen, e.pos, r.path(e.name), "is not a place that is known here")
	}
	return name, ok
}

// codexWord writes one line of a table of files.
func (im *importer) codexWord(b *strings.Builder, e *entry, name string, r *reading) {
	w := e.val.str
	switch {
	case e.val.kind != unstable.String:
		im.faults.add(e.val.pos, "expected an access word", "%s is %s", r.path(e.name), kindName(e.val.kind))
		return
	case w == "none":
		w = "deny"
	case w != "read" && w != "write" && w != "deny":
		im.say(FidelityStricter, e.val.pos, r.path(e.name)+" "+w, "is not a known word: denied")
		w = "deny"
	}
	if !strings.HasPrefix(name, ":") && !im.valid(importSpot{map[bool]string{true: ":workspace_roots"}[!strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "~")], name}) {
		im.say(FidelityOpen, e.pos, r.path(e.name), "is not a pattern here")
		return
	}
	fmt.Fprintf(b, "%s = %q%s\n", tomlString(name), w, lineComment(e.pos))
}

func (im *importer) codexNetwork(b *strings.Builder, r *reading, head string) {
	if len(r.t.entries) == 0 {
		return
	}
	fmt.Fprintf(b, "\n[%s]\nenabled = %v\n", head, r.yes("enabled"))
	switch mode, pos := r.str("mode"); mode {
	case "":
	case "full":
		fmt.Fprintf(b, "mode = \"full\"\n")
	case "limited":
		fmt.Fprintf(b, "mode = \"limited\"\n")
		im.say(FidelityOpen, pos, r.path("mode")+" limited", "means that only what is listed is reached; that requests may only look is not held here")
	default:
		im.say(FidelityStricter, pos, r.path("mode")+" "+mode, "is not known: limited")
		fmt.Fprintf(b, "mode = \"limited\"\n")
	}
	fmt.Fprintf(b, "bind = %q\n", map[bool]string{true: "loopback", false: "none"}[r.yes("allow_local_binding")])
	domains, sockets := r.sub("domains"), r.sub("unix_sockets")
	im.codexList(b, domains, head+".domains", func(name string) (string, bool) {
		plain := strings.ToLower(strings.Replace(name, "**.", "*.", 1))
		if plain != strings.ToLower(name) {
			im.say(FidelityStricter, domains.t.index[name].pos, domains.path(name), "is said of names below it, not of itself")
		}
		return plain, isDomain(plain)
	})
	im.codexList(b, sockets, head+".unix_sockets", func(name string) (string, bool) { return name, im.valid(importSpot{"", name}) })
	r.set(FidelityStricter, notOpened, "dangerously_allow_all_unix_sockets", "dangerously_allow_non_loopback_proxy")
	r.about(FidelityStricter, otherProxy, "allow_upstream_proxy", "mitm")
	r.about(FidelityExact, ofHost, "proxy_url", "enable_socks5", "socks_url", "enable_socks5_udp")
	r.rest()
}

func (im *importer) codexList(b *strings.Builder, r *reading, head string, name func(string) (string, bool)) {
	if len(r.t.entries) == 0 {
		return
	}
	fmt.Fprintf(b, "\n[%s]\n", head)
	written := map[string]bool{}
	for _, e := range r.t.entries {
		e.used = true
		key, ok := name(e.name)
		w := map[string]string{"allow": "allow", "deny": "deny", "none": "deny"}[e.val.str]
		switch {
		case e.val.kind != unstable.String || w == "":
			im.faults.add(e.val.pos, "expected allow or deny", "%s is %q", r.path(e.name), e.val.str)
		case !ok || written[key]:
			im.say(map[bool]Fidelity{true: FidelityStricter, false: FidelityOpen}[w == "allow"], e.pos, r.path(e.name), "is left out: it is not a key that can be told here, or said twice")
		default:
			written[key] = true
			fmt.Fprintf(b, "%s = %q%s\n", tomlString(key), w, lineComment(e.pos))
		}
	}
}
