package session

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"
)

// Manifest says what a session is. It stands in the session's directory and, as
// JSON, in the first record of its stream.
type Manifest struct {
	Version int    `json:"v"`
	Session string `json:"session"`
	// Parent is the session that this one was begun inside, if there is one.
	Parent  string    `json:"parent,omitempty"`
	Started time.Time `json:"started"`
	Argv    []Text    `json:"argv"`
	Cwd     Text      `json:"cwd"`
	// User is the name and UID, GID the numbers the command runs as.
	User string `json:"user"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Host string `json:"host"`
	// Kernel is the release as uname states it, Arch the machine.
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	// Reeve is the version of the binary, PID its process.
	Reeve string `json:"reeve"`
	PID   int    `json:"pid"`
	// Profile is the policy's name, PolicyDigest the SHA-256 of all its layers.
	Profile      string   `json:"profile"`
	PolicyDigest string   `json:"policy_digest"`
	PolicyFiles  []Text   `json:"policy_files,omitempty"`
	Workspaces   []Text   `json:"workspaces,omitempty"`
	Engine       string   `json:"engine"`
	Gaps         []string `json:"gaps,omitempty"`
	TempDir      string   `json:"temp_dir"`
	// Terminal is the size of the session's terminal at its start, nil without one.
	Terminal *Window `json:"terminal,omitempty"`
	// Basis is what the session's decisions stand on.
	Basis *Basis `json:"basis,omitempty"`
	// Ended and Status are stated when the session has ended in order.
	Ended  *time.Time `json:"ended,omitempty"`
	Status *int       `json:"status,omitempty"`
}

// Window is the size of a terminal, in characters.
type Window struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// ManifestVersion is the version of the manifest's form.
const ManifestVersion = 1

// Text is a string of the operating system: bytes, usually UTF-8. In JSON it is
// a string where it is UTF-8, and {"base64": "…"} where it is not, so that
// nothing is lost.
type Text string

type rawText struct {
	Base64 string `json:"base64"`
}

// MarshalJSON keeps every byte.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(rawText{base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON reads both forms.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err == nil {
		*t = Text(s)
		return nil
	}
	var raw rawText
	if err := json.Unmarshal(b, &raw); err != nil {
		return fmt.Errorf("decode text: %w", err)
	}
	data, err := base64.StdEncoding.DecodeString(raw.Base64)
	if err != nil {
		return fmt.Errorf("decode text: %w", err)
	}
	*t = Text(data)
	return nil
}

// Texts is a list of strings as Text.
func Texts(list []string) []Text {
	out := make([]Text, len(list))
	for i, s := range list {
		out[i] = Text(s)
	}
	return out
}

// WriteManifest puts the manifest into the session's directory. A reader sees
// the old one or the new one, never half of one.
func (s *Session) WriteManifest(m Manifest) error {
	m.Version, m.Session, m.TempDir = ManifestVersion, s.ID, s.TempDir
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode manifest: %w", err)
	}
	if err := writeAtomically(filepath.Join(s.Dir, manifestName), append(data, '\n')); err != nil {
		return fullDisk(fmt.Errorf("write manifest: %w", err))
	}
	return nil
}

// writeAtomically does not flush to the disk: the manifest must survive our own
// death, as the page cache does, and a flush would delay every command's start.
func writeAtomically(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Manifest reads the manifest of a session. The error is os.ErrNotExist when the
// state has no such session, or none of it but the stored records.
func (st *State) Manifest(id string) (Manifest, error) {
	if !isID(id) {
		return Manifest{}, fmt.Errorf("read manifest of %q: %w", id, os.ErrNotExist)
	}
	return readManifest(filepath.Join(st.dirOf(id), manifestName))
}

func readManifest(path string) (Manifest, error) {
	var m Manifest
	data, err := readOwn(path)
	if err != nil {
		return m, fmt.Errorf("read manifest: %w", err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("decode manifest %s: %w", path, err)
	}
	if m.Version != ManifestVersion {
		return m, fmt.Errorf("decode manifest %s: version %d, this reeve knows %d", path, m.Version, ManifestVersion)
	}
	return m, nil
}
