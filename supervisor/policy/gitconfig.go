package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxGitConfig is the most bytes of a git configuration that is looked at.
const maxGitConfig = 1 << 20

// gitSetting is one variable of a git configuration file. section and key are in
// lower case; sub is as it was written, and quoted where it may be empty. implied
// is set where there is no "=", which git takes for true.
type gitSetting struct {
	section, sub, key, value string
	quoted, implied          bool
	line                     int
}

// name is the variable as git config(1) calls it, with its parts cut where they are
// longer than a line takes.
func (s *gitSetting) name() string {
	parts := []string{s.section, s.sub, s.key}
	if s.sub == "" && !s.quoted {
		parts = slices.Delete(parts, 1, 2)
	}
	for i, part := range parts {
		if len(part) > maxGitName {
			parts[i] = strings.ToValidUTF8(part[:maxGitName], "") + "…"
		}
	}
	return strings.Join(parts, ".")
}

// maxGitName is how many bytes of a part of a variable's name are shown.
const maxGitName = 80

// gitReader reads git's configuration syntax as git itself does (config.c,
// git_parse_source), and refuses whatever git would refuse.
type gitReader struct {
	text []byte
	pos  int
	line int
	// at is the section that the next variable belongs to.
	section, sub   string
	quoted, headed bool
}

var errGitEnd = errors.New("the file ends in the middle of a value")

// parseGitConfig reads all variables of a configuration file.
func parseGitConfig(content []byte) ([]gitSetting, error) {
	if len(content) > maxGitConfig {
		return nil, fmt.Errorf("more than %d bytes", maxGitConfig)
	}
	if i := bytes.IndexByte(content, 0); i >= 0 {
		return nil, errors.New("a NUL byte, where git and a reader could part")
	}
	g := &gitReader{text: bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")), line: 1}
	var out []gitSetting
	for {
		c, ok := g.next()
		switch {
		case !ok:
			return out, nil
		case c == '\n' || gitSpace(c):
		case c == '#' || c == ';':
			g.skipLine()
		case c == '[':
			if err := g.header(); err != nil {
				return nil, fmt.Errorf("line %d: %w", g.line, err)
			}
		default:
			s, err := g.variable(c)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", g.line, err)
			}
			out = append(out, s)
		}
	}
}

// next is the next byte; CR LF is one newline.
func (g *gitReader) next() (byte, bool) {
	if g.pos >= len(g.text) {
		return '\n', false
	}
	c := g.text[g.pos]
	g.pos++
	if c == '\r' && g.pos < len(g.text) && g.text[g.pos] == '\n' {
		c = '\n'
		g.pos++
	}
	if c == '\n' {
		g.line++
	}
	return c, true
}

func (g *gitReader) skipLine() {
	for {
		if c, ok := g.next(); !ok || c == '\n' {
			return
		}
	}
}

// header reads what follows "[", up to "]".
func (g *gitReader) header() error {
	var name []byte
	for {
		c, ok := g.next()
		switch {
		case !ok || c == '\n':
			return errors.New("a section header that does not end")
		case c == ']':
			g.setSection(string(name), "", false)
			return g.checkSection()
		case gitSpace(c):
			sub, err := g.subsection(c)
			if err != nil {
				return err
			}
			g.setSection(string(name), sub, true)
			return g.checkSection()
		case !gitKeyByte(c) && c != '.':
			return fmt.Errorf("byte %q in a section's name", c)
		}
		name = append(name, lowerByte(c))
	}
}

// setSection notes a header; the old form [section.sub] is split like git does.
func (g *gitReader) setSection(name, sub string, quoted bool) {
	g.headed, g.quoted = true, quoted
	if old, rest, ok := strings.Cut(name, "."); ok {
		if quoted {
			rest += "." + sub
		}
		g.section, g.sub, g.quoted = old, rest, true
		return
	}
	g.section, g.sub = name, sub
}

func (g *gitReader) checkSection() error {
	if g.section == "" {
		return errors.New("a section without a name")
	}
	return nil
}

// subsection reads the quoted name and the "]" after it.
func (g *gitReader) subsection(c byte) (string, error) {
	for gitSpace(c) {
		var ok bool
		if c, ok = g.next(); !ok || c == '\n' {
			return "", errors.New("a section header that does not end")
		}
	}
	if c != '"' {
		return "", errors.New("a subsection without quotes")
	}
	var sub []byte
	for {
		c, ok := g.next()
		if ok && c == '\\' {
			if c, ok = g.next(); ok && c != '\n' {
				sub = append(sub, c)
				continue
			}
		}
		switch {
		case !ok || c == '\n':
			return "", errors.New("a subsection that does not end")
		case c == '"':
			if c, ok = g.next(); !ok || c != ']' {
				return "", errors.New("no ] after a subsection")
			}
			return string(sub), nil
		}
		sub = append(sub, c)
	}
}

// variable reads a variable whose name begins with c.
func (g *gitReader) variable(c byte) (gitSetting, error) {
	s := gitSetting{section: g.section, sub: g.sub, quoted: g.quoted, line: g.line}
	if !g.headed {
		return s, errors.New("a variable outside any section")
	}
	if !gitAlpha(c) {
		return s, fmt.Errorf("byte %q where a variable or section should begin", c)
	}
	key := []byte{lowerByte(c)}
	ok := true
	for {
		if c, ok = g.next(); !ok || !gitKeyByte(c) {
			break
		}
		key = append(key, lowerByte(c))
	}
	s.key = string(key)
	for ok && (c == ' ' || c == '\t') {
		c, ok = g.next()
	}
	if !ok || c == '\n' {
		s.implied = true
		return s, nil
	}
	if c != '=' {
		return s, fmt.Errorf("byte %q after the name of a variable", c)
	}
	var err error
	s.value, err = g.value()
	return s, err
}

// value reads what follows "=", with its quotes, escapes, comments and
// continued lines.
func (g *gitReader) value() (string, error) {
	var out []byte
	quoted, comment := false, false
	keep := 0 // length of out without blanks at its end
	for {
		c, ok := g.next()
		switch {
		case !ok || c == '\n':
			if quoted {
				return "", errGitEnd
			}
			return string(out[:keep]), nil
		case comment:
		case gitSpace(c) && !quoted:
			if len(out) > 0 {
				out = append(out, ' ')
			}
		case (c == ';' || c == '#') && !quoted:
			comment = true
		case c == '"':
			quoted = !quoted
			keep = len(out)
		case c == '\\':
			keep = len(out)
			if c, ok = g.next(); !ok {
				return "", errGitEnd
			}
			if c == '\n' {
				continue
			}
			e, known := gitEscapes[c]
			if !known {
				return "", fmt.Errorf("escape \\%c", c)
			}
			out = append(out, e)
			keep = len(out)
		default:
			out = append(out, c)
			keep = len(out)
		}
	}
}

var gitEscapes = map[byte]byte{'t': '\t', 'b': '\b', 'n': '\n', '\\': '\\', '"': '"'}

// gitSpace is git's own notion of a blank inside a line (sane_ctype).
func gitSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
func gitAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func gitKeyByte(c byte) bool { return gitAlpha(c) || c >= '0' && c <= '9' || c == '-' }

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 0x20
	}
	return c
}
