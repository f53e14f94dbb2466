package gocache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// id names an action (what was done, on what) or an output (its content).
type id [sha256.Size]byte

func parseID(b []byte) (x id, err error) {
	if len(b) != len(x) {
		return x, fmt.Errorf("an id of %d bytes, not %d", len(b), len(x))
	}
	copy(x[:], b)
	return x, nil
}

// entry is what a cache knows of an action.
type entry struct {
	output id
	size   int64 // of the output, in bytes
	time   time.Time
}

// An action's file is "v1 ACTION OUTPUT SIZE TIME\n": the ids in hexadecimal digits,
// the bytes and the nanoseconds since 1970 in decimal ones, right-aligned.
const (
	idDigits     = 2 * sha256.Size
	numberDigits = 20
	entrySize    = len("v1 ") + idDigits + len(" ") + idDigits + len(" ") + numberDigits + len(" ") + numberDigits + len("\n")
)

var errEntry = errors.New("no entry of a build cache")

// parseEntry reads the file of an action.
func parseEntry(text string, action id) (e entry, err error) {
	fields := func(width int) string {
		field := text[:width]
		text = text[width+1:]
		return field
	}
	if len(text) != entrySize || text[entrySize-1] != '\n' {
		return e, errEntry
	}
	for _, at := range []int{2, 3 + idDigits, 4 + 2*idDigits, 5 + 2*idDigits + numberDigits} {
		if text[at] != ' ' {
			return e, errEntry
		}
	}
	version, in, out, size, when := fields(2), fields(idDigits), fields(idDigits), fields(numberDigits), fields(numberDigits)
	var named id
	if _, err := hex.Decode(named[:], []byte(in)); err != nil || version != "v1" || named != action {
		return e, errEntry
	}
	if _, err := hex.Decode(e.output[:], []byte(out)); err != nil {
		return e, errEntry
	}
	nanos, err := parseNumber(when)
	if err != nil {
		return e, err
	}
	e.time = time.Unix(0, nanos)
	e.size, err = parseNumber(size)
	return e, err
}

func parseNumber(field string) (int64, error) {
	digits := strings.TrimLeft(field, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || digits[0] == '+' || digits[0] == '-' {
		return 0, errEntry
	}
	return n, nil
}

// format is the file of an action.
func (e entry) format(action id) string {
	return fmt.Sprintf("v1 %x %x %*d %*d\n", action, e.output, numberDigits, e.size, numberDigits, e.time.UnixNano())
}
