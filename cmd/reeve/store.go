package main

import (
	"fmt"
	"net/url"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/clickhouse"
	"github.com/reeve-audit/reeve/storage/sqlite"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// What the default store keeps: what is older, and what does not fit, goes,
// whole sessions at a time.
const (
	keepAge   = 90 * 24 * time.Hour
	keepBytes = 8 << 30
)

// openStore opens the store at an address.
func openStore(address string) (storage.Store, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, withHint(usageErrorf("store: the address cannot be parsed"), storeForms)
	}
	switch u.Scheme {
	case "sqlite":
		if u.Host != "" || u.Path == "" {
			return nil, withHint(usageErrorf("store %s: a file needs three slashes", u.Redacted()), storeForms)
		}
		return sqlite.New(u.Path, sqlite.Config{MaxAge: keepAge, MaxBytes: keepBytes})
	case "clickhouse":
		return clickhouse.New(clickhouse.Config{URL: address})
	}
	return nil, withHint(usageErrorf("store %s: no such kind of store", u.Redacted()), storeForms)
}

const storeForms = "sqlite:///var/lib/reeve/reeve.db, or clickhouse://user:password@host:9000/database"

// records is what the verbs that read look into.
type records struct {
	state *session.State
	storage.Store
}

// openRecords opens the state and the store of a verb, after it has stored what
// crashed sessions left behind.
func openRecords(c *cli.Context) (*records, error) {
	st, err := stateOf(c)
	if err != nil {
		return nil, err
	}
	own, err := openStore(st.StoreURL())
	if err != nil {
		return nil, err
	}
	drain(c.Context, c.App.ErrWriter, st, own)
	if err := prune(c.Context, st, own, time.Now()); err != nil {
		say(c.App.ErrWriter, fmt.Errorf("forget old sessions: %w", err))
	}
	r := &records{st, own}
	if address := c.String("store"); address != "" {
		if err := own.Close(); err != nil {
			return nil, err
		}
		if r.Store, err = openStore(address); err != nil {
			return nil, err
		}
	}
	return r, nil
}
