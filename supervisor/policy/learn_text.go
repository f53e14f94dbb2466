package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// LearnText says how a proposal is written.
type LearnText struct {
	// Name is the proposed profile's, Extends that of the profile it builds on, as
	// extends takes it.
	Name, Extends string
	// Base is the file that holds the extended profile: profiles are extended in
	// their own file only, so it stands in front. It is empty for a built-in one.
	Base []byte
	// Sessions were learned from.
	Sessions []string
	// Why writes the operations behind each line.
	Why bool
}

// maxShown is how many objects are listed for one reason to leave them out.
const maxShown = 10

// Text is the proposal as a policy file.
func (l *Learner) Text(p *Proposal, t LearnText) string {
	var b strings.Builder
	if len(t.Base) > 0 {
		b.Write(t.Base)
		b.WriteString("\n\n")
	}
	fmt.Fprintf(&b, "# Proposed by reeve policy learn from %s.\n", comment(strings.Join(t.Sessions, ", ")))
	fmt.Fprintf(&b, "# It adds what they were denied, or asked about, under %s. Read it, check it with\n", comment(strings.TrimPrefix(t.Extends, ":")))
	fmt.Fprintf(&b, "# `reeve policy check FILE`, then: reeve run --policy FILE --profile %s -- COMMAND\n", comment(t.Name))
	if len(t.Base) == 0 {
		fmt.Fprintf(&b, "default_permissions = %s\n", tomlString(t.Name))
	}
	name := "permissions." + tomlKey(t.Name)
	fmt.Fprintf(&b, "\n[%s]\nextends = %s\n", name, tomlString(t.Extends))
	for _, table := range p.tables {
		if table.name != "" && table.name != commandTable {
			fmt.Fprintf(&b, "\n[%s.%s]\n", name, table.name)
		}
		for _, line := range table.lines {
			if table.name == commandTable {
				fmt.Fprintf(&b, "\n[[%s.%s]]", name, commandTable)
				line.proof.write(&b, t.Why)
				b.WriteString(line.key)
				continue
			}
			fmt.Fprintf(&b, "%s = %s", line.key, line.value)
			line.proof.write(&b, t.Why)
		}
	}
	l.writeLeftOut(&b)
	return b.String()
}

// write ends a line with what it stands on.
func (p *Proof) write(b *strings.Builder, why bool) {
	if p.Count > 0 && !why {
		fmt.Fprintf(b, "  # %s", times(p.Count))
	}
	b.WriteByte('\n')
	if !why {
		return
	}
	for _, s := range p.Samples {
		fmt.Fprintf(b, "#   %s\n", s.String())
	}
	if more := p.Count - len(p.Samples); more > 0 {
		fmt.Fprintf(b, "#   and %s more\n", times(more))
	}
}

func times(n int) string {
	if n == 1 {
		return "1 operation"
	}
	return strconv.Itoa(n) + " operations"
}

// String is the operation in one line that is safe to print.
func (s *Sample) String() string {
	op := s.Op.String()
	if access := s.Access.String(); access != "" && access != op {
		op += " " + access
	}
	text := op + " " + comment(s.Object)
	if s.Exe != "" {
		text += " by " + comment(s.Exe)
	}
	return fmt.Sprintf("%s (%s #%d)", text, comment(s.Session), s.Seq)
}

// writeLeftOut lists what is not proposed, reason by reason.
func (l *Learner) writeLeftOut(b *strings.Builder) {
	why, shown := "", 0
	left := l.LeftOut()
	for i, o := range left {
		if i == 0 {
			b.WriteString("\n# Left out:\n")
		}
		if o.Why != why {
			why, shown = o.Why, 0
			flag := ""
			if o.Sensitive {
				flag = " (--include-sensitive proposes it)"
			}
			fmt.Fprintf(b, "#\n# %s%s\n", comment(o.Why), flag)
		}
		if shown++; shown <= maxShown {
			fmt.Fprintf(b, "#   %s %s, %s\n", o.Op, comment(o.Object), times(o.Proof.Count))
			continue
		}
		if i == len(left)-1 || left[i+1].Why != why {
			fmt.Fprintf(b, "#   and %d objects more\n", shown-maxShown)
		}
	}
}

// comment is text that a line of comment can hold: names are chosen by whoever
// was supervised.
func comment(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) || r == '\ufffd' }) {
		return strconv.Quote(s)
	}
	return s
}
