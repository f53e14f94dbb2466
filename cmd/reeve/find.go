package main

import (
	"context"
	"errors"
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
		return s, withHint(err, hint)
	}
	return s, err
}
