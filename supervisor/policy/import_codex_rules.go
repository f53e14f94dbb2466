package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// codexRules translates a file of rules about commands: calls of prefix_rule,
// network_rule and host_executable, in the order of the file. Of all that match,
// the strictest decides, as here.
func (im *importer) codexRules() {
	if !readable(im.src, "the language of rules", &im.faults) {
		return
	}
	r := &callReader{lines: newLines(im.src.Name, im.src.Text), text: string(im.src.Text), faults: &im.faults}
	for {
		call, ok := r.next()
		if !ok {
			return
		}
		switch call.name {
		case "prefix_rule":
			im.prefixRule(call)
		case "network_rule":
			im.networkRule(call)
		case "host_executable":
			im.say(FidelityExact, call.pos, call.name, "needs no rule: a program is known by what it is, not by how it is called")
		default:
			im.faults.add(call.pos, "prefix_rule, network_rule or host_executable was expected", "%s is not a rule", call.name)
		}
	}
}

// prefixRule translates one rule about what commands begin with.
func (im *importer) prefixRule(c call) {
	pattern, pos := c.args["pattern"], c.pos
	action, ok := codexDecision(c.args["decision"].text)
	if !ok || pattern == nil || len(pattern.list) == 0 {
		im.faults.add(pos, `write pattern = ["git", "push"] and decision = "allow", "prompt" or "forbidden"`, "the rule has no pattern, or a decision that is not known")
		return
	}
	lines := []commandLine{{}}
	for _, element := range pattern.list {
		words := []string{element.text}
		if element.list != nil {
			words = nil
			for _, alt := range element.list {
				words = append(words, alt.text)
			}
		}
		var more []commandLine
		for _, line := range lines {
			for _, w := range words {
				more = append(more, commandLine{words: append(append([]string(nil), line.words...), w)})
			}
		}
		if lines = more; len(lines) > 200 {
			im.faults.add(pos, "split the rule", "the rule stands for more than 200 commands")
			return
		}
	}
	for _, line := range lines {
		what := "prefix_rule " + strings.Join(line.words, " ")
		if action == event.ActionAllow {
			im.say(FidelityStricter, pos, what, "runs inside the policy, where Codex lets it out of its sandbox")
			continue
		}
		im.command(action, line, pos, what)
	}
}

// networkRule translates one rule about a host.
func (im *importer) networkRule(c call) {
	action, ok := codexDecision(c.args["decision"].text)
	host := c.args["host"].text
	if !ok || host == "" || c.args["decision"].text == "" {
		im.faults.add(c.pos, `write host = "example.com" and decision = "allow", "prompt" or "deny"`, "the rule has no host, or a decision that is not known")
		return
	}
	what := "network_rule " + host
	if action != event.ActionDeny {
		im.say(FidelityStricter, c.pos, what, "is left out: it opens one protocol, and a name would open all")
		return
	}
	im.say(FidelityExact, c.pos, what, "needs no rule: the profile reaches nothing")
}

// call is one call with the values of its arguments.
type call struct {
	name string
	pos  Pos
	args callArgs
}

// callArgs gives an argument that is not there as an empty one.
type callArgs map[string]*callValue

// callValue is a text or a list.
type callValue struct {
	text string
	list []*callValue
}

// callReader reads the part of Starlark that rules are written in: calls with
// named arguments, which are texts and lists of them.
type callReader struct {
	lines
	text   string
	at     int
	faults *faultList
}

func (r *callReader) fail(want, format string, args ...any) {
	r.faults.add(r.pos(min(r.at, len(r.text))), want, format, args...)
	r.at = len(r.text)
}

// blank skips white space and comments.
func (r *callReader) blank() {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case strings.IndexByte(" \t\r\n;", c) >= 0:
			r.at++
		case c == '#':
			end := strings.IndexByte(r.text[r.at:], '\n')
			if end < 0 {
				end = len(r.text) - r.at
			}
			r.at += end
		default:
			return
		}
	}
}

// take takes one character if it comes next.
func (r *callReader) take(c byte) bool {
	r.blank()
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *callReader) word() string {
	r.blank()
	start := r.at
	for r.at < len(r.text) && (r.text[r.at] == '_' || r.text[r.at] >= 'a' && r.text[r.at] <= 'z') {
		r.at++
	}
	return r.text[start:r.at]
}

// next is the next call of the file.
func (r *callReader) next() (call, bool) {
	if r.blank(); r.at >= len(r.text) {
		return call{}, false
	}
	c := call{pos: r.pos(r.at), args: callArgs{"pattern": nil, "decision": {}, "host": {}, "protocol": {}}}
	if c.name = r.word(); c.name == "" || !r.take('(') {
		r.fail("only calls such as prefix_rule(…) can be read", "something else than a call")
		return c, false
	}
	for !r.take(')') {
		name := r.word()
		if name == "" || !r.take('=') {
			r.fail("write name = value", "an argument without a name")
			return c, false
		}
		v := r.value(0)
		if v == nil {
			return c, false
		}
		c.args[name] = v
		if !r.take(',') {
			if !r.take(')') {
				r.fail("expected , or )", "the call does not end")
				return c, false
			}
			break
		}
	}
	return c, true
}

// value is a text or a list; nil is a fault that was said.
func (r *callReader) value(depth int) *callValue {
	if r.blank(); r.at >= len(r.text) || depth > 3 {
		r.fail("", "a value that ends nowhere, or is nested too deep")
		return nil
	}
	if r.take('[') {
		v := &callValue{list: []*callValue{}}
		for !r.take(']') {
			one := r.value(depth + 1)
			if one == nil {
				return nil
			}
			v.list = append(v.list, one)
			if !r.take(',') && (r.at >= len(r.text) || r.text[r.at] != ']') {
				r.fail("expected , or ]", "the list does not end")
				return nil
			}
		}
		return v
	}
	quote := r.text[r.at]
	if quote != '"' && quote != '\'' || strings.HasPrefix(r.text[r.at:], `"""`) || strings.HasPrefix(r.text[r.at:], "'''") {
		r.fail("only texts in quotes and lists of them can be read", "a value of another kind")
		return nil
	}
	r.at++
	return r.quoted(quote)
}

func (r *callReader) quoted(quote byte) *callValue {
	var b strings.Builder
	for r.at < len(r.text) && r.text[r.at] != '\n' {
		c := r.text[r.at]
		r.at++
		switch {
		case c == quote:
			return &callValue{text: b.String()}
		case c == '\\' && r.at < len(r.text) && strings.IndexByte(`\"'`, r.text[r.at]) >= 0:
			b.WriteByte(r.text[r.at])
			r.at++
		case c == '\\':
			r.fail("write the character itself", "an escape that cannot be read")
			return nil
		default:
			b.WriteByte(c)
		}
	}
	r.fail("", "a text that does not end")
	return nil
}
