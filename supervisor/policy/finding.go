package policy

// Severity says how much a finding matters.
type Severity uint8

// The severities.
const (
	// Note is worth knowing.
	Note Severity = iota
	// Warning is probably not what was meant.
	Warning
)

// String is the severity's word.
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "note"
}

// Finding is something that a person should know about a policy that loads.
type Finding struct {
	Severity Severity
	Pos      Pos
	// Rule is the pattern or key it is about, Text one sentence.
	Rule, Text string
}

// String is "file:line:column: severity: rule: text".
func (f Finding) String() string {
	s := f.Severity.String() + ": "
	if at := f.Pos.String(); at != "" {
		s = at + ": " + s
	}
	if f.Rule != "" {
		s += f.Rule + ": "
	}
	return s + f.Text
}
