package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/replay"
	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/event"
)

// recording is one session to be shown or verified, from a store or a file.
type recording struct {
	storage.Session
	from storage.Reader
	// store is what it comes from; nil for a file.
	store *records
}

// openRecording opens what "ID", "last" or "FILE" means on a command line.
func openRecording(c *cli.Context, name string) (*recording, error) {
	if isFile(name) {
		f, err := replay.OpenFile(name)
		if err != nil {
			return nil, withHint(err, "`reeve sessions export ID` writes such a file")
		}
		s, err := f.Session(c.Context, "last")
		if err != nil {
			return nil, err
		}
		return &recording{Session: s, from: f}, nil
	}
	r, err := openRecords(c)
	if err != nil {
		return nil, err
	}
	s, err := r.find(c.Context, name)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &recording{Session: s, from: r, store: r}, nil
}

// isFile says that a name means a file: it is written as a path, or there is one.
func isFile(name string) bool {
	if strings.ContainsAny(name, "/.") {
		return true
	}
	info, err := os.Stat(name)
	return name != "last" && err == nil && !info.IsDir()
}

// Close closes what the recording comes from.
func (r *recording) Close() error {
	if r.store == nil {
		return nil
	}
	return r.store.Close()
}

// events are all records of the session.
func (r *recording) events(c *cli.Context) iter.Seq2[event.Event, error] {
	return r.from.Events(c.Context, storage.Query{Session: r.ID})
}

// manifest is what the session's first record says of it, nil if nothing; see
// view.
func (r *recording) manifest() *session.Manifest {
	if r.store != nil {
		v := r.store.view(&r.Session)
		return v.Manifest
	}
	var m session.Manifest
	if err := json.Unmarshal([]byte(r.Detail), &m); err != nil {
		return nil
	}
	m.Basis = nil
	return &m
}

// basis is what the session's decisions stand on, as its first record says, and
// the reeve that decided.
func (r *recording) basis() (b *session.Basis, reeve string, err error) {
	var m session.Manifest
	if err := json.Unmarshal([]byte(r.Detail), &m); err != nil {
		return nil, "", fmt.Errorf("session %s: its first record holds no manifest", r.ID)
	}
	if err := m.Basis.Check(); err != nil {
		return nil, "", fmt.Errorf("session %s: %w", r.ID, err)
	}
	return m.Basis, m.Reeve, nil
}
