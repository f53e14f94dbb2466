package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const targetName = "target.json"

// Target says where a session's records go, so that what a crashed session left
// goes there too. It may hold passwords: it stays in the session's directory,
// apart from the manifest, and is removed once everything has arrived.
type Target struct {
	// Store is the store's URL; empty means the state's own.
	Store string `json:"store,omitempty"`
	// NATS is the server that gets the records as well.
	NATS string `json:"nats,omitempty"`
}

// WriteTarget notes the session's target.
func (s *Session) WriteTarget(t Target) error {
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode target: %w", err)
	}
	if err := writeAtomically(filepath.Join(s.Dir, targetName), data); err != nil {
		return fullDisk(fmt.Errorf("write target: %w", err))
	}
	return nil
}

// Target is where the claimed session's records go; the zero Target when the
// session noted none.
func (c *Claim) Target() (Target, error) {
	var t Target
	data, err := readOwn(filepath.Join(c.Dir, targetName))
	if errors.Is(err, os.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("read target: %w", err)
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, fmt.Errorf("decode target of session %s: %w", c.ID, err)
	}
	return t, nil
}
