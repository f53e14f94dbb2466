package policy

import (
	"path"
	"strconv"
	"strings"
)

const (
	ofHost     = "is about the other tool's own working: nothing stands for it, and nothing needs to"
	ofMac      = "is about macOS only"
	notOpened  = "opens more than a translation should: not taken over; open it by hand if it must be"
	otherProxy = "another proxy's decisions are not known here: what only it allows is denied"
)

// importSRT translates the settings of Anthropic's sandbox-runtime: everything
// may be read but for denyRead, nothing written but for allowWrite, nothing
// reached but for allowedDomains.
func importSRT(im *importer) {
	root := &reading{im, readJSON(im.src, &im.faults), ""}
	im.name, im.description = "srt", "Translated from sandbox-runtime settings."
	put(&im.files, importSpot{"", "/"}.rule(wordRead, Pos{}, ""))
	im.startable()
	im.env.inherit, im.env.deny = []string{"*"}, []string{":secrets"}
	im.srtFilesystem(root.sub("filesystem"), srtPath)
	im.srtNetwork(root.sub("network"))
	im.srtCredentials(root.sub("credentials"), srtPath)
	root.about(FidelityExact, ofHost, "ignoreViolations", "ripgrep", "seccomp", "bwrapPath", "socatPath", "mandatoryDenySearchDepth", "git", "enableWeakerNestedSandbox")
	root.about(FidelityExact, ofMac, "enableWeakerNetworkIsolation", "allowAppleEvents", "allowPty")
	root.about(FidelityExact, "is about Windows only", "windows")
	root.rest()
}

// startable opens what programs cannot start without, and a private place for
// their temporary files.
func (im *importer) startable() {
	put(&im.files, importSpot{"", ":minimal"}.rule(wordRead, Pos{}, ""))
	put(&im.files, importSpot{":session_tmp", "."}.rule(wordWrite, Pos{}, ""))
}

// keepsStarting reports whether a place holds something that every program needs.
func (im *importer) keepsStarting(at importSpot) bool {
	for _, need := range []string{"/etc/ld.so.cache", "/usr/lib", "/lib", "/lib64", "/dev/null", "/proc/self"} {
		if !at.wild() && im.relate(at, importSpot{"", need}).covers {
			return true
		}
	}
	return false
}

// setVariable sets a variable, unless our language would fill something in.
func (im *importer) setVariable(name, value string, pos Pos) {
	for _, filled := range []string{"{home}", "{tmp}", "{cache}"} {
		if strings.Contains(value, filled) {
			im.say(FidelityStricter, pos, "env "+name, "is left out: reeve would put something else in the place of %s", filled)
			return
		}
	}
	im.env.set = append(im.env.set, [2]string{name, value})
}

// pathOf reads a path of another tool.
type pathOf func(im *importer, s said, what string) (importSpot, bool)

// srtPath is a path of sandbox-runtime: absolute, below ~, or relative to the
// working directory, with the wildcards of .gitignore; "x/**" is "x".
func srtPath(im *importer, s said, what string) (importSpot, bool) {
	return im.placed(literalBraces(s.text), s, what)
}

// placed is a pattern's place.
func (im *importer) placed(p string, s said, what string) (importSpot, bool) {
	if trimmed := strings.TrimSuffix(p, "/**"); trimmed != "" {
		p = trimmed
	}
	var at importSpot
	switch {
	case p == "~" || strings.HasPrefix(p, "~/"):
		at = homeSpot(p[1:])
	case strings.HasPrefix(p, "/"):
		at = resolved(path.Clean(p))
	case climbs(p):
		return im.climbed(s, what, p)
	default:
		at = workspaceSpot(p)
	}
	return at, im.known(at, s, what)
}

// climbed is a path that leads out of the workspace; it is taken from where the
// workspace is now.
func (im *importer) climbed(s said, what, p string) (importSpot, bool) {
	ws := im.place.host.Workspaces
	if len(ws) == 0 {
		im.say(FidelityOpen, s.pos, what, "leads out of a workspace that is not known")
		return importSpot{}, false
	}
	at := importSpot{"", path.Join(quote(ws[0]), p)}
	im.say(FidelityExact, s.pos, what, "is %s, as seen from the workspace %s", at, ws[0])
	return at, im.known(at, s, what)
}

// known reports whether a importSpot is a pattern here, and says it where not.
func (im *importer) known(at importSpot, s said, what string) bool {
	if im.valid(at) && !climbs(at.pattern) {
		return true
	}
	im.say(FidelityOpen, s.pos, what, "is not a path or pattern here")
	return false
}

// srtFilesystem translates the lists of paths, of Claude Code's sandbox too.
func (im *importer) srtFilesystem(r *reading, read pathOf) {
	type entry struct {
		at importSpot
		said
	}
	list := func(name string) (out []entry) {
		for _, s := range r.texts(name) {
			if at, ok := read(im, s, r.path(name)+" "+s.text); ok {
				out = append(out, entry{at, s})
			}
		}
		return out
	}
	denyRead, allowRead := list("denyRead"), list("allowRead")
	// The nearest of both lists that covers a place decides about reading it.
	unreadable := func(at importSpot) bool {
		var nearest *entry
		for i := range denyRead {
			if d := &denyRead[i]; !d.at.wild() && im.relate(d.at, at).may && (nearest == nil || im.relate(nearest.at, d.at).may) {
				nearest = d
			}
		}
		if nearest == nil {
			return false
		}
		for _, a := range allowRead {
			if im.relate(a.at, at).covers && im.relate(nearest.at, a.at).may {
				return false
			}
		}
		return true
	}
	for _, e := range denyRead {
		what := r.path("denyRead") + " " + e.text
		if im.keepsStarting(e.at) {
			im.say(FidelityOpen, e.pos, what, "what programs cannot start without stays readable in it")
			put(&im.files, e.at.rule(wordDeny, e.pos, what))
			continue
		}
		var reopened []importSpot
		for _, a := range allowRead {
			// Where the workspace will lie is not known.
			if im.relate(e.at, a.at).meet || a.at.base != "" && e.at.base == "" {
				reopened = append(reopened, a.at)
			}
		}
		// Specials, and an extended profile, have more specific patterns than this.
		if !e.at.wild() && im.extends == "" && len(reopened) > 0 {
			put(&im.files, e.at.rule(wordDeny, e.pos, what))
			continue
		}
		put(&im.always, e.at.rule(wordDeny, e.pos, what))
		for _, at := range reopened {
			im.say(FidelityStricter, e.pos, what, "holds in %s too, which allowRead opens again", at)
		}
	}
	var writable []importSpot
	for _, e := range list("allowWrite") {
		what := r.path("allowWrite") + " " + e.text
		switch {
		case e.at.wild():
			im.say(FidelityStricter, e.pos, what, "is skipped, as on Linux there: paths to write to have no wildcards")
		case unreadable(e.at):
			im.say(FidelityStricter, e.pos, what, "stays closed: denyRead covers it")
		default:
			writable = append(writable, e.at)
			put(&im.files, e.at.rule(wordWrite, e.pos, what))
		}
	}
	for _, e := range allowRead {
		w, in := wordRead, false
		for _, at := range writable {
			in = in || im.relate(at, e.at).covers
		}
		if in {
			w = wordWrite
		}
		im.reopen(e.at.rule(w, e.pos, r.path("allowRead")+" "+e.text))
	}
	for _, e := range list("denyWrite") {
		put(&im.always, e.at.rule(wordRead, e.pos, r.path("denyWrite")+" "+e.text))
	}
	r.set(FidelityStricter, notOpened, "disabled")
	r.set(FidelityStricter, "is an exception, which a translation does not make: add it to [permissions."+im.name+".protected]", "allowGitConfig")
	r.about(FidelityExact, ofHost, "allowManagedReadPathsOnly")
	r.rest()
}

// reopen puts a rule in the place of one about the same pattern.
func (im *importer) reopen(r draftRule) {
	for i := range im.files {
		if im.files[i].base == r.base && im.files[i].pattern == r.pattern {
			if im.files[i].word < r.word {
				im.files[i] = r
			}
			return
		}
	}
	im.files = append(im.files, r)
}

// srtCredentials translates what is to be kept from the session.
func (im *importer) srtCredentials(r *reading, read pathOf) {
	for _, f := range r.tables("files") {
		p, pos := f.str("path")
		mode, _ := f.str("mode")
		what := f.path(p)
		if at, ok := read(im, said{p, pos}, what); ok {
			put(&im.always, at.rule(wordDeny, pos, what))
		}
		if mode != "deny" {
			im.say(FidelityStricter, pos, what, "is closed: content cannot be masked")
		}
		f.about(FidelityExact, ofHost, "extract", "onExtractNoMatch", "decode", "maskClaims", "maskDuplicates", "injectHosts")
		f.rest()
	}
	for _, v := range r.tables("envVars") {
		name, pos := v.str("name")
		mode, _ := v.str("mode")
		if name == "" || strings.ContainsAny(name, "=*?[]{}\\\x00:") {
			im.faults.add(v.t.pos, "", "%s has no name of a variable: %s", v.what, strconv.Quote(name))
			continue
		}
		if mode == "mask" {
			im.env.mask = append(im.env.mask, name)
			im.say(FidelityStricter, pos, v.path(name), "is masked, and no proxy puts the real value back")
		} else {
			im.env.deny = append(im.env.deny, name)
		}
		v.about(FidelityExact, ofHost, "extract", "onExtractNoMatch", "decode", "maskClaims", "injectHosts")
		v.rest()
	}
	r.about(FidelityExact, ofHost, "allowPlaintextInject", "awsPairs", "sigv4")
	r.rest()
}
