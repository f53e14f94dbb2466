package policy

import (
	"fmt"
	"slices"
)

// Extendable is how extends names a profile in a proposal, and the file that has
// to stand in front of it: none for a built-in profile.
func Extendable(sources []Source, name string) (extends string, file []byte, err error) {
	for _, layer := range []Layer{Session, User, Envelope} {
		for _, src := range sources {
			if src.Layer != layer {
				continue
			}
			var faults faultList
			f := parseFile(src, &faults)
			if err := faults.err(); err != nil {
				return "", nil, err
			}
			if f.profiles[name] != nil {
				return name, src.Text, nil
			}
		}
	}
	if slices.Contains(builtInNames, name) {
		return ":" + name, nil, nil
	}
	return "", nil, fmt.Errorf("profile %q is the workspace's own, which can only narrow: it cannot be extended", name)
}

// FreeName is name, or name with a number, so that no profile of the file has it.
func FreeName(file []byte, name string) (string, error) {
	if msg := badName(name); msg != "" {
		return "", fmt.Errorf("a profile cannot be called %q: %s", name, msg)
	}
	var faults faultList
	f := parseFile(Source{Text: file}, &faults)
	free := name
	for n := 2; f.profiles[free] != nil || slices.Contains(builtInNames, free); n++ {
		free = fmt.Sprintf("%s-%d", name, n)
	}
	return free, nil
}
