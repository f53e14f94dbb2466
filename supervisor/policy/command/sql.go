package command

import "strings"

// destroys reports whether SQL text holds a statement that drops or empties a
// table, outside of strings and comments. Dialects differ in whether a backslash
// takes a quote's meaning away, so text that destroys in either reading does.
func destroys(sql string) bool {
	return scanSQL(sql, false) || scanSQL(sql, true)
}

// scanSQL looks at one statement after the other.
func scanSQL(sql string, backslash bool) bool {
	deletes, where := false, false
	for i := 0; i < len(sql); {
		switch c := sql[i]; {
		case c == '\'' || c == '"' || c == '`':
			i = endQuote(sql, i, backslash)
		case strings.HasPrefix(sql[i:], "-- ") || strings.HasPrefix(sql[i:], "--\t") || strings.HasPrefix(sql[i:], "--\n"):
			i = endOf(sql, i, "\n")
		case strings.HasPrefix(sql[i:], "/*") && !strings.HasPrefix(sql[i:], "/*!") && !strings.HasPrefix(sql[i:], "/*M!"):
			i = endOf(sql, i+2, "*/")
		case c == ';':
			if deletes && !where {
				return true
			}
			deletes, where = false, false
			i++
		case isWord(c):
			end := i
			for end < len(sql) && isWord(sql[end]) {
				end++
			}
			word := sql[i:end]
			if empties(word, sql[end:]) {
				return true
			}
			deletes = deletes || strings.EqualFold(word, "delete") && followedBy(sql[end:], "from")
			where = where || strings.EqualFold(word, "where")
			i = end
		default:
			i++
		}
	}
	return deletes && !where
}

// empties reports whether a word begins what drops or truncates; MySQL has a
// function of the second name.
func empties(word, rest string) bool {
	return strings.EqualFold(word, "drop") || strings.EqualFold(word, "dropDatabase") ||
		strings.EqualFold(word, "truncate") && !strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), "(")
}

func followedBy(rest, word string) bool {
	rest = strings.TrimLeft(rest, " \t\r\n")
	return len(rest) >= len(word) && strings.EqualFold(rest[:len(word)], word)
}

// endQuote is where what a quote at i begins has ended. A quote that is doubled
// ends and begins again.
func endQuote(sql string, i int, backslash bool) int {
	quote := sql[i]
	for i++; i < len(sql); i++ {
		switch {
		case backslash && sql[i] == '\\':
			i++
		case sql[i] == quote:
			return i + 1
		}
	}
	return len(sql)
}

func endOf(sql string, i int, mark string) int {
	if n := strings.Index(sql[i:], mark); n >= 0 {
		return i + n + len(mark)
	}
	return len(sql)
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
