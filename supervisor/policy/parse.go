package policy

import (
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// parseFile reads one policy file. Faults are added to faults; what could be
// read is returned in any case.
func parseFile(src Source, faults *faultList) *file {
	root := &section{faults: faults, table: readDocument(src.Name, src.Text, faults), what: "the file"}
	f := &file{source: src, profiles: make(map[string]*profile)}
	f.def, f.defPos = root.str("default_permissions")
	if perms := root.sub("permissions"); perms != nil {
		perms.what = "permissions"
		for _, e := range perms.table.entries {
			e.used = true
			if e.val.table == nil {
				faults.add(e.val.pos, "expected [permissions."+e.name+"]", "permissions.%s is %s", e.name, kindName(e.val.kind))
				continue
			}
			if msg := badName(e.name); msg != "" {
				faults.add(e.pos, msg, "a profile cannot be called %q", e.name)
			}
			f.profiles[e.name] = parseProfile(e, faults)
			f.order = append(f.order, e.name)
		}
	}
	if s := root.sub("limits"); s != nil {
		s.what = "limits"
		f.limits = parseLimits(s)
	}
	if s := root.sub("approval"); s != nil {
		s.what = "approval"
		f.approval = parseApproval(s)
	}
	root.finish()
	return f
}

func badName(name string) string {
	switch {
	case name == "":
		return "give it a name"
	case strings.HasPrefix(name, ":"):
		return "names with : in front are built in"
	case strings.ContainsAny(name, "\n\r\t\x00"):
		return "leave control characters out"
	}
	return ""
}

func parseProfile(e *entry, faults *faultList) *profile {
	s := &section{faults: faults, table: e.val.table, what: "permissions." + e.name}
	p := &profile{name: e.name, pos: e.val.table.pos}
	p.description, _ = s.str("description")
	p.extends, p.extendsPos = s.str("extends")
	p.recordOnly = s.yes("record_only")
	p.signals = s.choice("signals", "session", "any")
	if t := s.sub("filesystem"); t != nil {
		p.files = parsePaths(t, accessWords, specialFiles)
	}
	if t := s.sub("always"); t != nil {
		p.always = parsePaths(t, alwaysWords, specialPlaces)
	}
	if t := s.sub("exec"); t != nil {
		p.memory = parseMemory(t)
		p.interpreters = parseInterpreters(t)
		p.programs = parsePaths(t, ruleWords, append([]string{memoryKey, interpretersKey}, specialPlaces...))
	}
	if t := s.sub("commands"); t != nil {
		p.commands = parseCommands(t)
	}
	if t := s.sub("secrets"); t != nil {
		p.secrets = parsePaths(t, exemptionWords, specialPlaces)
	}
	if t := s.sub("protected"); t != nil {
		p.protected = parsePaths(t, []string{"write"}, specialPlaces)
	}
	if t := s.sub("env"); t != nil {
		p.env = parseEnv(t)
	}
	if t := s.sub("network"); t != nil {
		p.network = parseNetwork(t)
	}
	if t := s.sub("capabilities"); t != nil {
		p.caps = parseNames(t, "keep", capabilityNames)
	}
	if t := s.sub("kernel"); t != nil {
		p.kernel = parseNames(t, "allow", surfaceNames)
	}
	if t := s.sub("limits"); t != nil {
		p.limits = parseLimits(t)
	}
	if t := s.sub("approval"); t != nil {
		p.approval = parseApproval(t)
	}
	s.finish()
	return p
}

// memoryKey stands for anonymous files in a table of programs.
const memoryKey = ":memory"

// parseMemory reads the rule about running anonymous files, before the paths.
func parseMemory(s *section) *bool {
	e := s.table.index[memoryKey]
	if e == nil {
		return nil
	}
	e.used = true
	if e.val.kind != unstable.String || e.val.str != "allow" && e.val.str != "deny" {
		s.faults.add(e.val.pos, expected(e.val.str, []string{"allow", "deny"}), "%s.%q is %q", s.what, memoryKey, e.val.str)
		return nil
	}
	yes := e.val.str == "allow"
	return &yes
}

// interpretersKey stands for all interpreters in a table of programs.
const interpretersKey = ":interpreters"

func parseInterpreters(s *section) *classRule {
	e := s.table.index[interpretersKey]
	if e == nil {
		return nil
	}
	action := parseAction(s.choice(interpretersKey, ruleWords...))
	return &classRule{action, e.pos}
}

// parsePaths reads a table of patterns. Specials may be tables of patterns
// relative to them.
func parsePaths(s *section, words, specials []string) []pathRule {
	var out []pathRule
	for _, e := range s.table.entries {
		if e.used {
			continue
		}
		e.used = true
		special := strings.HasPrefix(e.name, ":")
		if special && !contains(specials, e.name) {
			s.faults.add(e.pos, expected(e.name, specials), "unknown special %q in %s", e.name, s.what)
			continue
		}
		switch {
		case special && e.val.table != nil:
			out = append(out, parseRelative(s, e, words)...)
		case special:
			allowed := words
			if len(words) == len(accessWords) {
				allowed = specialWords
			}
			out = append(out, parsePath(s, "", e, allowed)...)
		default:
			if msg := absolute(e.name); msg != "" {
				s.faults.add(e.pos, msg, "pattern %q in %s is not absolute", e.name, s.what)
				continue
			}
			out = append(out, parsePath(s, "", e, words)...)
		}
	}
	return out
}

// parseRelative reads the table of a special: patterns below its places.
func parseRelative(s *section, special *entry, words []string) []pathRule {
	if !contains(specialPlaces, special.name) {
		s.faults.add(special.pos, "tables of patterns can stand below "+strings.Join(specialPlaces, ", "),
			"%q cannot be a table", special.name)
		return nil
	}
	var out []pathRule
	for _, e := range special.val.table.entries {
		if msg := relative(e.name); msg != "" {
			s.faults.add(e.pos, msg, "pattern %q below %q is not relative", e.name, special.name)
			continue
		}
		out = append(out, parsePath(s, special.name, e, words)...)
	}
	return out
}

func parsePath(s *section, base string, e *entry, words []string) []pathRule {
	if e.val.kind != unstable.String {
		s.faults.add(e.val.pos, "expected one of: "+strings.Join(words, ", "), "%s.%q is %s", s.what, e.name, kindName(e.val.kind))
		return nil
	}
	if !contains(words, e.val.str) {
		s.faults.add(e.val.pos, expected(e.val.str, words), "%s.%q is %q", s.what, e.name, e.val.str)
		return nil
	}
	r := pathRule{base: base, pattern: e.name, pos: e.pos}
	if contains(words, "allow") {
		r.action = parseAction(e.val.str)
	} else {
		r.word = parseWord(e.val.str)
	}
	return []pathRule{r}
}

// absolute says what is wrong with a pattern that should be absolute, or "".
func absolute(p string) string {
	if strings.HasPrefix(p, "/") || p == "~" || strings.HasPrefix(p, "~/") {
		return ""
	}
	if strings.HasPrefix(p, "~") {
		return "only ~/ is expanded, to the home directory; write other users' homes in full"
	}
	return `begin it with / or ~/, or put it below ":workspace_roots" to make it relative to the workspaces`
}

// relative says what is wrong with a pattern that should be relative, or "".
func relative(p string) string {
	switch {
	case strings.HasPrefix(p, "/"), strings.HasPrefix(p, "~"), strings.HasPrefix(p, ":"):
		return "write it one table higher, or leave its beginning out"
	case p == "":
		return `"." is the directory itself`
	}
	return ""
}

func contains(words []string, w string) bool {
	for _, one := range words {
		if one == w {
			return true
		}
	}
	return false
}
