package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// Where policies are found that nobody names.
const (
	// EnvelopeFile is root's: what it denies nobody may allow.
	EnvelopeFile = "/etc/reeve/policy.toml"
	// ProjectFile is a workspace's own, which can only narrow.
	ProjectFile = ".reeve.toml"
	userFile    = "reeve/policy.toml"
)

// SourceConfig says where to look for policies.
type SourceConfig struct {
	// Envelope replaces EnvelopeFile, for tests.
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

// Sources reads the policy files of all layers, the widest authority first, and
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
	places := []place{{envelope, policy.Envelope, false}}
	if cfg.ConfigDir != "" {
		places = append(places, place{filepath.Join(cfg.ConfigDir, userFile), policy.User, false})
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
// written is refused.
func ReadSource(path string, layer policy.Layer) (policy.Source, error) {
	fail := func(err error) (policy.Source, error) {
		return policy.Source{}, fmt.Errorf("read policy %s: %w", path, reason(err))
	}
	// A FIFO must not make us wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fail(err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fail(unix.EISDIR)
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fail(errors.New("not a regular file"))
	case layer == policy.Envelope && !(rootsAlone(&st) && rootsDir(path)):
		return policy.Source{}, withHint(fmt.Errorf("read policy %s: others than root can write it", path),
			"chown root: "+filepath.Dir(path)+" "+path+" && chmod go-w "+filepath.Dir(path)+" "+path)
	}
	text, err := io.ReadAll(io.LimitReader(f, policy.MaxSource+1))
	if err != nil {
		return fail(err)
	}
	if len(text) > policy.MaxSource {
		return fail(fmt.Errorf("larger than %d bytes", policy.MaxSource))
	}
	return policy.Source{Name: path, Layer: layer, Text: text}, nil
}

func rootsAlone(st *unix.Stat_t) bool { return st.Uid == 0 && st.Mode&0o022 == 0 }

// rootsDir says that only root can put another file in the place of path.
func rootsDir(path string) bool {
	var st unix.Stat_t
	return unix.Stat(filepath.Dir(path), &st) == nil && rootsAlone(&st)
}
