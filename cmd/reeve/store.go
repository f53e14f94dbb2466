package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/pipeline/bus"
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

// openStore opens the store at an address. Nothing is read, made or connected
// before it is needed: an error is about the address.
func openStore(address string) (storage.Store, error) {
	if strings.HasPrefix(address, "clickhouse:") {
		// Several hosts, as these addresses may have, are no URL to net/url.
		s, err := clickhouse.New(clickhouse.Config{URL: address})
		if err != nil {
			return nil, withHint(failWith(statusUsage, err), storeForms)
		}
		return s, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, withHint(usageErrorf("store: the address cannot be parsed"), storeForms)
	}
	switch {
	case u.Scheme != "sqlite":
		return nil, withHint(usageErrorf("store %s: no such kind of store", u.Redacted()), storeForms)
	case u.Host != "" || !filepath.IsAbs(u.Path):
		return nil, withHint(usageErrorf("store %s: a file is named by its whole path, behind three slashes", u.Redacted()), storeForms)
	}
	s, err := sqlite.New(u.Path, sqlite.Config{MaxAge: keepAge, MaxBytes: keepBytes})
	if err != nil {
		return nil, err
	}
	return s, nil
}

const storeForms = "sqlite:///var/lib/reeve/reeve.db, or clickhouse://user:password@host:9000/database"

const natsForms = "nats://host:4222, tls://host:4222, or ws://host:port; several have commas between"

// checkTargets refuses places for records that can be none, so that no command
// runs whose records go nowhere. An empty one is not given.
func checkTargets(store, nats string) error {
	if store != "" {
		s, err := openStore(store)
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	if nats == "" {
		return nil
	}
	if err := bus.CheckURL(nats); err != nil {
		return withHint(failWith(statusUsage, err), natsForms)
	}
	return nil
}

// records is what the verbs that read look into.
type records struct {
	state *session.State
	storage.Store
	elsewhere bool // the store is not the state's own
}

// openRecords opens the state and the store of a verb, after it has stored what
// crashed sessions left behind.
func openRecords(c *cli.Context) (*records, error) {
	if err := checkTargets(c.String("store"), ""); err != nil {
		return nil, err
	}
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
	r := &records{state: st, Store: own}
	if address := c.String("store"); address != "" {
		if err := own.Close(); err != nil {
			return nil, err
		}
		if r.Store, err = openStore(address); err != nil {
			return nil, err
		}
		r.elsewhere = address != st.StoreURL()
	}
	return r, nil
}
