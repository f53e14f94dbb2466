package command

import (
	"slices"
	"strings"
)

// pathspec reports whether a word can only be meant as a path where git takes a
// branch or a path: by what no name of a branch may have (see git-check-ref-format),
// by git's signs for paths, or by the ending of a file's name. A branch may end as
// files do, "topic/next.js": it is taken for a path. A plain word, "src" or
// "Makefile", is taken for a branch.
func pathspec(word string) bool {
	if word == "" || strings.Contains(word, "^{") { // HEAD^{/some text}
		return false
	}
	if strings.ContainsRune("./:", rune(word[0])) || strings.HasSuffix(word, "/") || strings.ContainsAny(word, `*?[\`) {
		return true
	}
	return ended(word)
}

// several reports whether a word may stand for more than one file: a directory, or a
// pattern. One that ends as the names of files do is one file.
func several(word string) bool {
	return word != "" && (word[0] == ':' || strings.HasSuffix(word, "/") || strings.ContainsAny(word, `*?[\`) || !ended(word))
}

// ended reports whether a word ends as the names of files do.
func ended(word string) bool {
	name := base(word)
	dot := strings.LastIndexByte(name, '.')
	if dot <= 0 || name[dot-1] == '.' { // main...topic
		return false
	}
	return ending(name[dot+1:]) && !version(name[:dot], name[dot+1:])
}

// ending reports whether text is what follows the dot in the names of files.
func ending(text string) bool {
	const most = 10
	if text == "" || len(text) > most || isDigit(text[0]) {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// version reports whether a name is that of a release, such as 2.x and v1.0.rc1.
func version(stem, end string) bool {
	marks := []string{"x", "rc", "alpha", "beta", "dev", "pre", "post", "next", "final"}
	return isDigit(stem[len(stem)-1]) && slices.Contains(marks, strings.ToLower(strings.TrimRight(end, "0123456789")))
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
