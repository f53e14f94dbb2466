package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/reeve-audit/reeve/supervisor/session"
	"github.com/reeve-audit/reeve/tracer/landlock"
)

// The messages between a reeve that is started inside a session and the one that
// supervises it; see gate.Nester for how they travel.

const nestVersion = 2

// nestBegin asks for a session. Nothing in it is trusted: what comes of it can
// only narrow what its sender may do already.
type nestBegin struct {
	Version    int            `json:"v"`
	Profile    string         `json:"profile,omitempty"`
	Policies   []nestPolicy   `json:"policies,omitempty"`
	Projects   []nestProject  `json:"projects,omitempty"`
	Workspaces []session.Text `json:"workspaces"`
	Cwd        session.Text   `json:"cwd"`
	Argv       []session.Text `json:"argv"`
	Env        []session.Text `json:"env"`
	// Pass are the names of variables that pass whatever the profile says.
	Pass     []string `json:"pass,omitempty"`
	Degraded bool     `json:"degraded,omitempty"`
}

// nestPolicy is the text of a policy file.
type nestPolicy struct {
	Name string `json:"name"`
	Text []byte `json:"text"`
}

// nestReply answers nestBegin: with Error, or with the session and how to start
// its command.
type nestReply struct {
	Error   string         `json:"error,omitempty"`
	Hint    string         `json:"hint,omitempty"`
	Session string         `json:"session,omitempty"`
	Env     []session.Text `json:"env,omitempty"`
	Floor   landlock.Spec  `json:"floor"`
	Notes   []string       `json:"notes,omitempty"`
}

// nestEnd says how the command ended.
type nestEnd struct {
	Status int `json:"status"`
}

// nestTotals answers nestEnd.
type nestTotals struct {
	Error    string `json:"error,omitempty"`
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
	Lost     uint64 `json:"lost"`
	Stored   bool   `json:"stored"`
}

// decodeNest reads a message, whose fields must be known: an older reeve must not
// leave out what a newer one asks for.
func decodeNest[T any](text []byte) (*T, error) {
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("read the message of the reeve inside: %w", err)
	}
	return &v, nil
}

func (m *nestBegin) validate() error {
	switch {
	case m.Version != nestVersion:
		return fmt.Errorf("the reeve inside speaks version %d, this one %d: use the same reeve", m.Version, nestVersion)
	case len(m.Argv) == 0:
		return errors.New("no command given")
	case len(m.Workspaces) == 0:
		return errors.New("no workspace given")
	}
	return nil
}

func texts(list []string) []session.Text { return session.Texts(list) }

func plainTexts(list []session.Text) []string {
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}
