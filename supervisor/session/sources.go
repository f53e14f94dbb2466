package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// Where policies are found that nobody names.
const (
	// EnvelopeFile is root's: what it denies nobody may allow.
	EnvelopeFile = "/etc/reeve/envelope.toml"
	// EmbeddedEnvelope is what messages call the envelope in the binary.
	EmbeddedEnvelope = "envelope built into reeve"
	// ProjectFile is a workspace's own, which can only narrow.
	ProjectFile = ".reeve.toml"
	userFile    = "reeve/policy.toml"
)

// SourceConfig says where to look for policies.
type SourceConfig struct {
	// Embedded is the text of the envelope that was built into the binary; blank
	// is none. It holds beside that of EnvelopeFile.
	Embedded string
	// Envelope replaces EnvelopeFile, for tests. Nothing that a user can set may
	// come here.
	Envelope string
	// ConfigDir is the user's configuration directory: $XDG_CONFIG_HOME or
	// ~/.config.
	ConfigDir  string
	Workspaces []Workspace
	// Named are the files of the command line, which must be there.
	Named []string
}

// UserConfigDir is where a user keeps configuration, "" where that is unknown.
func UserConfigDir(getenv func(string) string) string {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config")
	}
	return ""
}

// UserFile is the user's own policy file in a configuration directory, which
// need not be there.
func UserFile(configDir string) string { return filepath.Join(configDir, userFile) }

// Sources gives the policies of all layers, the widest authority first, and
// names the files that were read. A file that is there and cannot be read is an
// error: leaving it out could allow what it denies.
func Sources(cfg SourceConfig) (sources []policy.Source, files []string, err error) {
	envelope := cfg.Envelope
	if envelope == "" {
		envelope = EnvelopeFile
	}
	type place struct {
		path  string
		layer policy.Layer
		must  bool
	}
	if strings.TrimSpace(cfg.Embedded) != "" {
		sources = append(sources, policy.Source{Name: EmbeddedEnvelope, Layer: policy.Envelope, Text: []byte(cfg.Embedded)})
	}
	places := []place{{envelope, policy.Envelope, false}}
	if cfg.ConfigDir != "" {
		places = append(places, place{UserFile(cfg.ConfigDir), policy.User, false})
	}
	for _, ws := range cfg.Workspaces {
		places = append(places, place{filepath.Join(ws.Path, ProjectFile), policy.Project, false})
	}
	for _, file := range cfg.Named {
		places = append(places, place{file, policy.Session, true})
	}
	for _, p := range places {
		src, err := ReadSource(p.path, p.layer)
		if errors.Is(err, os.ErrNotExist) && !p.must {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		abs, err := filepath.Abs(p.path)
		if err != nil {
			return nil, nil, fmt.Errorf("read policy %s: %w", p.path, err)
		}
		sources, files = append(sources, src), append(files, abs)
	}
	return sources, files, nil
}

// ReadSource reads one policy file. An envelope that others than root could have
// written or put there is refused.
func ReadSource(path string, layer policy.Layer) (policy.Source, error) {
	src := policy.Source{Name: path, Layer: layer}
	f, err := openSource(path, layer)
	if err != nil {
		return src, err
	}
	defer f.Close()
	if src.Text, err = io.ReadAll(io.LimitReader(f, policy.MaxSource+1)); err != nil {
		return src, inPolicy(path, err)
	}
	if len(src.Text) > policy.MaxSource {
		return src, inPolicy(path, fmt.Errorf("larger than %d bytes", policy.MaxSource))
	}
	return src, nil
}

// openSource opens a regular file.
func openSource(path string, layer policy.Layer) (*os.File, error) {
	var f *os.File
	var err error
	if layer == policy.Envelope {
		f, err = openRoots(path)
	} else {
		// A FIFO must not make us wait for its writer.
		f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, inPolicy(path, err)
	}
	var st unix.Stat_t
	if err = unix.Fstat(int(f.Fd()), &st); err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			return f, nil
		case unix.S_IFDIR:
			err = unix.EISDIR
		default:
			err = errors.New("not a regular file")
		}
	}
	return nil, errors.Join(inPolicy(path, err), f.Close())
}

// inPolicy says which policy an error is about.
func inPolicy(path string, err error) error {
	return fmt.Errorf("read policy %s: %w", path, reason(err))
}
