package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/reeve-audit/reeve/storage"
)

// find is the session that a person means: an id, its beginning, or "last".
func (r *records) find(ctx context.Context, name string) (storage.Session, error) {
	word := name
	if word != "last" {
		word = strings.ToUpper(word)
	}
	s, err := r.Session(ctx, word)
	if errors.Is(err, storage.ErrNoSession) {
		hint := "`reeve sessions` lists them"
		if name == "last" {
			hint = "there is none yet: reeve run -- COMMAND makes one"
		}
		rest := strings.TrimPrefix(err.Error(), storage.ErrNoSession.Error())
		rest = strings.Replace(rest, strconv.Quote(word), strconv.Quote(name), 1) // as it was typed
		return s, withHint(fmt.Errorf("%w%s", storage.ErrNoSession, rest), hint)
	}
	return s, err
}
