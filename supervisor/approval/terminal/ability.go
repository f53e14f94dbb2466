package terminal

import "strings"

// ability is what the terminal can do, and the person wants of it.
type ability struct {
	// inline terminals have no alternate screen to draw on: a question is printed
	// below what is there.
	inline bool
	// dumb terminals take no escape sequence at all.
	dumb bool
	// style is bold and reverse text.
	style bool
	// unicode is what is not ASCII.
	unicode bool
}

// withoutAlternate are the values of TERM, or their beginnings where a dash
// follows, of terminals that have one screen.
var withoutAlternate = map[string]bool{
	"linux": true, "cons25": true, "sun": true, "ansi": true, "cygwin": true,
	"vt52": true, "vt100": true, "vt102": true, "vt220": true, "vt320": true, "vt420": true,
}

func abilityOf(getenv func(string) string) ability {
	name := getenv("TERM")
	kind, _, _ := strings.Cut(name, "-")
	a := ability{dumb: name == "" || kind == "dumb" || kind == "unknown" || kind == "emacs"}
	// GNU screen has an alternate screen only if its user has set it up.
	a.inline = a.dumb || withoutAlternate[kind] || getenv("STY") != ""
	a.style = !a.dumb && getenv("NO_COLOR") == ""
	for _, v := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(getenv(v)); locale != "" {
			a.unicode = strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
			break
		}
	}
	return a
}
