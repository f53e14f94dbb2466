package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fidelity says how a part of another tool's policy came over.
type Fidelity uint8

// The fidelities, the best first.
const (
	// FidelityExact is worth knowing, and nothing was changed by it.
	FidelityExact Fidelity = iota
	// FidelityStricter allows less than it did where it came from.
	FidelityStricter
	// FidelityOpen is not held here, and nothing stricter could stand for it.
	FidelityOpen
)

// String is how a translation is marked.
func (f Fidelity) String() string { return [...]string{"note", "stricter", "not held"}[f] }

// Translation says what became of a part of another tool's policy.
type Translation struct {
	Fidelity Fidelity
	Pos      Pos
	// Rule is the part as it was written, Text what it became, and why.
	Rule, Text string
}

// String is "file:line:column: fidelity: rule: text".
func (t Translation) String() string {
	s := t.Fidelity.String() + ": "
	if at := t.Pos.String(); at != "" {
		s = at + ": " + s
	}
	if t.Rule != "" {
		s += t.Rule + ": "
	}
	return s + t.Text
}

// Imported is a policy that was translated.
type Imported struct {
	// Text is the policy file, in the language that [Load] reads.
	Text string
	// Translations are all parts that did not come over by themselves, in the
	// order of the file.
	Translations []Translation
}

// Fidelity is the worst of all translations.
func (i *Imported) Fidelity() Fidelity {
	worst := FidelityExact
	for _, t := range i.Translations {
		worst = max(worst, t.Fidelity)
	}
	return worst
}

// importers read the policies of other tools, by the name that the tool has here.
var importers = map[string]func(*importer){
	"codex": importCodex, "claude-code": importClaude, "srt": importSRT, "agentsh": importAgentsh,
}

// ImportFormats names the tools whose policies can be imported.
func ImportFormats() []string { return []string{"codex", "claude-code", "srt", "agentsh"} }

// Import translates the policy of another tool, which is one of [ImportFormats].
// What cannot be translated exactly becomes stricter, and is said; a file that is
// not such a policy is an error, [Faults] where it has a place. The host is that
// on which the policy will be used: patterns are compared as they are there.
func Import(from string, src Source, host Host) (*Imported, error) {
	translate := importers[from]
	if translate == nil {
		return nil, fmt.Errorf("import from %q: %s", from, expected(from, ImportFormats()))
	}
	if err := host.validate(); err != nil {
		return nil, err
	}
	t, err := embedded()
	if err != nil {
		return nil, err
	}
	if host.Home == "" {
		host.Home = "/:home"
	}
	apart := host
	apart.Workspaces = []string{"/:workspace"}
	im := &importer{src: src, from: from, place: placer{host: &host, tables: t}, apart: placer{host: &apart, tables: t}}
	translate(im)
	if err := im.faults.err(); err != nil {
		return nil, err
	}
	out := &Imported{Text: im.text()}
	if err := im.prove(out.Text, host); err != nil {
		return nil, err
	}
	slices.SortStableFunc(im.said, func(a, b Translation) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	seen := make(map[Translation]bool)
	for _, t := range im.said {
		if !seen[t] {
			seen[t] = true
			out.Translations = append(out.Translations, t)
		}
	}
	return out, nil
}

// importer translates one file.
type importer struct {
	src  Source
	from string
	// place is the host, apart one whose workspace lies in nothing else.
	place, apart placer
	faults       faultList
	said         []Translation
	// relations are those that were compared already.
	relations map[[2]importSpot]relation
	draft
}

func (im *importer) say(f Fidelity, pos Pos, rule, format string, args ...any) {
	im.said = append(im.said, Translation{f, pos, rule, fmt.Sprintf(format, args...)})
}

// prove loads what the translation became, as a session would. Literal paths that
// it opens and a built-in layer keeps closed are said.
func (im *importer) prove(text string, host Host) error {
	src := Source{Name: im.src.Name + " (translated)", Layer: Session, Text: []byte(text)}
	names := []string{""}
	if im.whole != "" {
		var faults faultList
		names = append(names, parseFile(src, &faults).order...)
	}
	var p *Policy
	for _, name := range names {
		var err error
		switch p, err = Load([]Source{src}, name, host); {
		case err != nil && im.whole != "":
			return err // as it was written there, so it is wrong there
		case err != nil:
			return fmt.Errorf("bug: what %s became cannot be loaded: %w", im.src.Name, err)
		}
	}
	for _, r := range im.files {
		for _, placed := range im.place.place(r.pathRule) {
			paths, literal := expandBraces(placed.glob)
			for _, path := range paths {
				t := target{path: path}
				built := p.fence.verdicts[p.fence.accept(&t)].and(p.secrets.verdicts[p.secrets.accept(&t)]).and(p.guard.verdicts[p.guard.accept(&t)])
				if literal && r.from.Line > 0 && r.word.verdict().widens(built) {
					im.say(FidelityStricter, r.from, r.written, "stays closed, as a secret or protected file of every session; [permissions.%s.secrets] or .protected excepts one", im.name)
				}
			}
		}
	}
	return nil
}

// quoteAll are texts as a message shows them.
func quoteAll(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}
