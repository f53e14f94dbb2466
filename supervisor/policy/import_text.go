package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// text is the draft as a policy file.
func (im *importer) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Translated from the policy of %s by `reeve policy import`.\n", im.from)
	fmt.Fprintf(&b, "# Secret files and protected configuration stay closed besides; so do reeve's own.\n")
	if im.whole != "" {
		b.WriteString(im.whole)
		return b.String()
	}
	head := "permissions." + tomlKey(im.name)
	fmt.Fprintf(&b, "default_permissions = %s\n\n[%s]\n", tomlString(im.name), head)
	if im.description != "" {
		fmt.Fprintf(&b, "description = %s\n", tomlString(im.description))
	}
	if im.extends != "" {
		fmt.Fprintf(&b, "extends = %s\n", tomlString(im.extends))
	}
	writeRules(&b, head+".filesystem", im.files)
	writeRules(&b, head+".always", im.always)
	writeRules(&b, head+".exec", im.programs)
	if n := im.network; n != nil {
		n.write(&b, head+".network")
	}
	im.env.write(&b, head+".env")
	if len(im.limits) > 0 {
		fmt.Fprintf(&b, "\n[%s.limits]\n", head)
		for _, l := range im.limits {
			fmt.Fprintf(&b, "%s = %s\n", l[0], l[1])
		}
	}
	im.writeCommands(&b, head+".commands")
	return b.String()
}

// writeRules writes a table of paths: first what stands by itself, then each
// special's table.
func writeRules(b *strings.Builder, head string, rules []draftRule) {
	if len(rules) == 0 {
		return
	}
	bases := []string{""}
	for _, r := range rules {
		if !slices.Contains(bases, r.base) {
			bases = append(bases, r.base)
		}
	}
	for _, base := range bases {
		if base == "" {
			if slices.ContainsFunc(rules, func(r draftRule) bool { return r.base == "" }) {
				fmt.Fprintf(b, "\n[%s]\n", head)
			}
		} else {
			fmt.Fprintf(b, "\n[%s.%s]\n", head, tomlString(base))
		}
		for _, r := range rules {
			if r.base != base {
				continue
			}
			word := r.word.String()
			if r.action != event.ActionNone {
				word = r.action.String()
			}
			fmt.Fprintf(b, "%s = %q%s\n", tomlString(r.pattern), word, lineComment(r.from))
		}
	}
}

// comment says which line of the other tool's policy a line comes from.
func lineComment(from Pos) string {
	if from.Line == 0 {
		return ""
	}
	return fmt.Sprintf("  # line %d", from.Line)
}

func (n *draftNetwork) write(b *strings.Builder, head string) {
	fmt.Fprintf(b, "\n[%s]\nenabled = %v\n", head, n.enabled)
	for _, kv := range [][2]string{{"mode", n.mode}, {"bind", n.bind}, {"local", n.local.String()}} {
		if kv[1] != "" {
			fmt.Fprintf(b, "%s = %q\n", kv[0], kv[1])
		}
	}
	writeRules(b, head+".domains", n.domains)
	writeRules(b, head+".addresses", n.addresses)
	sockets := n.sockets
	if n.socketsOfProjects != event.ActionNone {
		sockets = append(sockets, draftRule{pathRule: pathRule{base: ":workspace_roots", pattern: ".", action: n.socketsOfProjects}})
	}
	writeRules(b, head+".unix_sockets", sockets)
}

func (e *draftEnv) write(b *strings.Builder, head string) {
	if len(e.inherit)+len(e.deny)+len(e.mask) > 0 {
		fmt.Fprintf(b, "\n[%s]\n", head)
	}
	for _, list := range []struct {
		key   string
		names []string
	}{{"inherit", e.inherit}, {"deny", e.deny}, {"mask", e.mask}} {
		if len(list.names) == 0 {
			continue
		}
		var quoted []string
		for _, name := range list.names {
			quoted = append(quoted, tomlString(name))
		}
		fmt.Fprintf(b, "%s = [%s]\n", list.key, strings.Join(quoted, ", "))
	}
	if len(e.set) > 0 {
		fmt.Fprintf(b, "\n[%s.set]\n", head)
		for _, kv := range e.set {
			fmt.Fprintf(b, "%s = %s\n", tomlString(kv[0]), tomlString(kv[1]))
		}
	}
}
