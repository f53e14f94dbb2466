package event

import (
	"fmt"
	"strconv"
	"strings"
)

// The text forms are the words of the stream. A number without a word, such as
// an operation of a later version, is "#" and the number, so that every value
// survives. Zero is the empty text.

// MarshalText is the operation's text form.
func (o Op) MarshalText() ([]byte, error) { return wordText(o.String(), uint64(o)), nil }

// UnmarshalText is the inverse of MarshalText.
func (o *Op) UnmarshalText(b []byte) error { return unmarshalWord(b, o, ParseOp) }

// MarshalText is the action's text form.
func (a Action) MarshalText() ([]byte, error) { return wordText(a.String(), uint64(a)), nil }

// UnmarshalText is the inverse of MarshalText.
func (a *Action) UnmarshalText(b []byte) error { return unmarshalWord(b, a, ParseAction) }

// MarshalText is the kind's text form.
func (k Kind) MarshalText() ([]byte, error) { return wordText(k.String(), uint64(k)), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *Kind) UnmarshalText(b []byte) error { return unmarshalWord(b, k, ParseKind) }

// MarshalText is the object kind's text form.
func (k ObjectKind) MarshalText() ([]byte, error) { return wordText(k.String(), uint64(k)), nil }

// UnmarshalText is the inverse of MarshalText.
func (k *ObjectKind) UnmarshalText(b []byte) error { return unmarshalWord(b, k, ParseObjectKind) }

// MarshalText joins the words of the set with "+".
func (a Access) MarshalText() ([]byte, error) {
	return []byte(strings.Join(a.texts(), "+")), nil
}

// UnmarshalText is the inverse of MarshalText.
func (a *Access) UnmarshalText(b []byte) error {
	*a = 0
	if len(b) == 0 {
		return nil
	}
	for w := range strings.SplitSeq(string(b), "+") {
		var one Access
		if err := parseNumber(w, &one, ParseAccess); err != nil {
			return err
		}
		*a |= one
	}
	return nil
}

// texts are the words of the set, and what has no word as one number.
func (a Access) texts() []string {
	words := a.Words()
	if rest := a >> len(accessNames) << len(accessNames); rest != 0 {
		words = append(words, "#"+strconv.Itoa(int(rest)))
	}
	return words
}

func wordText(word string, v uint64) []byte {
	if word != "" || v == 0 {
		return []byte(word)
	}
	return strconv.AppendUint([]byte{'#'}, v, 10)
}

func unmarshalWord[T ~uint8](b []byte, p *T, words func(string) (T, bool)) error {
	*p = 0
	if len(b) == 0 {
		return nil
	}
	return parseNumber(string(b), p, words)
}

// parseNumber is the number of a word, or of "#n".
func parseNumber[T ~uint8 | ~uint16 | ~int32](s string, p *T, words func(string) (T, bool)) error {
	if digits, ok := strings.CutPrefix(s, "#"); ok {
		n, err := strconv.ParseInt(digits, 10, 64)
		*p = T(n)
		if err == nil && int64(*p) != n {
			err = strconv.ErrRange
		}
		return err
	}
	v, ok := words(s)
	if !ok || s == "" {
		return fmt.Errorf("unknown word %q", s)
	}
	*p = v
	return nil
}
