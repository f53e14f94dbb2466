// Package rulebook writes what a person always allows into that person's own
// policy file. It finds the narrowest rule that allows just what was asked (see
// policy.Amend), shows it, and writes it where it was shown: the file keeps its
// comments and its order, and a reader sees the old file or the new one.
//
// The file is the person's own. One that belongs to somebody else, that others
// can write, or that stands where the session itself could write, is refused: a
// session must not come to hold the rules that hold it. Nothing else is ever
// written, the envelope least of all.
package rulebook

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"unicode/utf8"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/tracer/event"
)

// Config says what the session's policy was made of, and which file is the user's.
type Config struct {
	// File is the user's policy file. It need not be there.
	File string
	// Sources, Profile, Host and Cache are what policy.LoadCached was given.
	Sources []policy.Source
	Profile string
	Host    policy.Host
	Cache   policy.Cache
}

// Book is the rules of approval.Desk. It may be used from any number of
// goroutines, and beside other processes that write the same file.
type Book struct {
	cfg    Config
	policy func() (*policy.Policy, error) // the session's
}

var _ approval.Rules = (*Book)(nil)

// New checks cfg.
func New(cfg Config) (*Book, error) {
	if !filepath.IsAbs(cfg.File) || !utf8.ValidString(cfg.File) {
		return nil, fmt.Errorf("the user's policy file %q: expected an absolute path in UTF-8", cfg.File)
	}
	load := func() (*policy.Policy, error) {
		return policy.LoadCached(cfg.Sources, cfg.Profile, cfg.Host, cfg.Cache)
	}
	return &Book{cfg: cfg, policy: sync.OnceValues(load)}, nil
}

// Propose is the rule that would allow a question's operation and no more. Its
// Text is empty when the file says so by now.
func (b *Book) Propose(q *approval.Question) (approval.Proposal, error) {
	f, err := b.open()
	if err != nil {
		return approval.Proposal{}, err
	}
	defer f.close()
	p, _, err := b.propose(f, q)
	return p, err
}

func (b *Book) propose(f *file, q *approval.Question) (approval.Proposal, []byte, error) {
	user := policy.Source{Name: b.cfg.File, Layer: policy.User, Text: f.text}
	am, err := policy.Amend(b.cfg.Sources, b.cfg.Profile, b.cfg.Host, user, &q.Request, b.cfg.Cache)
	if err != nil {
		return approval.Proposal{}, nil, err
	}
	return approval.Proposal{File: b.cfg.File, Text: am.Lines, For: q}, am.Text, nil
}

// Write puts a proposal into the file, if it is still what would be proposed.
// What the file says already is not written again.
func (b *Book) Write(p approval.Proposal) error {
	if p.For == nil {
		return errors.New("bug: a proposal for no question")
	}
	if err := b.makeDir(); err != nil {
		return err
	}
	f, err := b.open()
	if err != nil {
		return err
	}
	defer f.close()
	if err := f.lock(); err != nil {
		return err
	}
	if err := f.read(); err != nil { // what another wrote before we had the lock
		return err
	}
	now, text, err := b.propose(f, p.For)
	switch {
	case err != nil:
		return err
	case now.Text == "":
		return nil // somebody wrote it meanwhile
	case now.Text != p.Text || now.File != p.File:
		return fmt.Errorf("%s has changed meanwhile, and the rule with it: look at it again", b.cfg.File)
	}
	return f.replace(text)
}

// outOfReach says that a session cannot write a path itself.
func (b *Book) outOfReach(path string) error {
	for _, ws := range b.cfg.Host.Workspaces {
		if within(path, ws) {
			return fmt.Errorf("%s is in workspace %s: no rules are written where the session works", path, ws)
		}
	}
	p, err := b.policy()
	if err != nil {
		return err
	}
	for _, r := range []event.Request{
		{Op: event.OpOpen, Access: event.AccessWrite, Object: event.Object{Kind: event.ObjectFile, Path: path}},
		{Op: event.OpOpen, Access: event.AccessWrite | event.AccessCreate, Object: event.Object{Kind: event.ObjectMissing, Path: path}},
		{Op: event.OpDelete, Access: event.AccessDelete, Object: event.Object{Kind: event.ObjectFile, Path: path}},
	} {
		if p.Decide(&r).Action == event.ActionAllow {
			return fmt.Errorf("the session itself may write %s: no rules are written there", path)
		}
	}
	return nil
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
