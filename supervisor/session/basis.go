package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// Basis is what the decisions of a session stood on: the policy files as they
// were read, and what the policy knew of the host. With it a recorded session is
// decided anew anywhere. It is part of the manifest in the session's first record,
// so the policy's text is part of the record: it holds no secrets but those that
// somebody wrote into a policy (env.set).
type Basis struct {
	// Profile is the profile that was asked for, empty when the files chose.
	Profile string      `json:"profile,omitempty"`
	Files   []BasisFile `json:"files,omitempty"`
	Host    *basisHost  `json:"host,omitempty"`
	Lacks   string      `json:"lacks,omitempty"` // why there is no more
	// Outer is the basis of the session that this one is inside.
	Outer *Basis `json:"outer,omitempty"`
}

// Inside notes that the session is inside another, whose basis is outer: both
// policies hold. It returns b.
func (b *Basis) Inside(outer *Basis) *Basis {
	b.Outer = outer
	if data, err := json.Marshal(b); err != nil || len(data) > maxBasis {
		*b = Basis{Profile: b.Profile, Lacks: lacks(len(data))}
	}
	return b
}

func lacks(size int) string {
	return fmt.Sprintf("the policy files and the host's facts are %d bytes, more than the %d that a record keeps", size, maxBasis)
}

// BasisFile is one policy file.
type BasisFile struct {
	Name  Text   `json:"name"`
	Layer string `json:"layer"`
	Text  string `json:"text"`
}

// basisHost is policy.Host in a form that keeps every byte of a path.
type basisHost struct {
	Home         Text   `json:"home,omitempty"`
	User         Text   `json:"user,omitempty"`
	UID          int    `json:"uid"`
	Workspaces   []Text `json:"workspaces,omitempty"`
	Repositories []Text `json:"repositories,omitempty"`
	GitDirs      []Text `json:"git_dirs,omitempty"`
	Protected    []Text `json:"protected,omitempty"`
	Tmp          Text   `json:"tmp,omitempty"`
	Cache        Text   `json:"cache,omitempty"`
	StateDir     Text   `json:"state_dir,omitempty"`
	ConfigFiles  []Text `json:"config_files,omitempty"`
	Own          []Text `json:"own,omitempty"`
	PathDirs     []Text `json:"path_dirs,omitempty"`
	CacheDirs    []Text `json:"cache_dirs,omitempty"`
	GoCache      Text   `json:"go_cache,omitempty"`
	Reeve        Text   `json:"reeve,omitempty"`
	Listable     []Text `json:"listable,omitempty"`
	// Links are paths that rules name and where they lead.
	Links [][2]Text `json:"links,omitempty"`
}

// maxBasis is how many bytes of the first record a basis may take: a record that
// is too long is cut, and a manifest that was cut cannot be read.
const maxBasis = 256 << 10

// maxOuter is how deep sessions inside one another are followed.
const maxOuter = 32

// NewBasis notes what a session's policy is loaded from. What is too large for a
// record is left out, and said so.
func NewBasis(profile string, sources []policy.Source, h policy.Host) *Basis {
	b := &Basis{Profile: profile, Host: &basisHost{
		Home: Text(h.Home), User: Text(h.User), UID: h.UID, Workspaces: Texts(h.Workspaces), Repositories: Texts(h.Repositories),
		GitDirs: Texts(h.GitDirs), Protected: Texts(h.Protected), Tmp: Text(h.Tmp), Cache: Text(h.Cache), StateDir: Text(h.StateDir), ConfigFiles: Texts(h.ConfigFiles),
		Own: Texts(h.Own), PathDirs: Texts(h.PathDirs), CacheDirs: Texts(h.CacheDirs), GoCache: Text(h.GoCache), Reeve: Text(h.Reeve), Listable: Texts(h.Listable),
	}}
	for _, from := range slices.Sorted(maps.Keys(h.Links)) {
		b.Host.Links = append(b.Host.Links, [2]Text{Text(from), Text(h.Links[from])})
	}
	for _, s := range sources {
		b.Files = append(b.Files, BasisFile{Text(s.Name), s.Layer.String(), string(s.Text)})
	}
	if data, err := json.Marshal(b); err != nil || len(data) > maxBasis {
		return &Basis{Profile: profile, Lacks: lacks(len(data))}
	}
	return b
}

// Sources are the policy files of the session.
func (b *Basis) Sources() ([]policy.Source, error) {
	var out []policy.Source
	for _, f := range b.Files {
		layer, ok := policy.ParseLayer(f.Layer)
		if !ok {
			return nil, fmt.Errorf("read the session's policy %s: unknown layer %q", string(f.Name), f.Layer)
		}
		out = append(out, policy.Source{Name: string(f.Name), Layer: layer, Text: []byte(f.Text)})
	}
	return out, nil
}

// StateDir is the state directory that the session belongs to, where the basis has it.
func (b *Basis) StateDir() (dir string, known bool) {
	if b == nil || b.Host == nil {
		return "", false
	}
	return string(b.Host.StateDir), b.Host.StateDir != ""
}

// Facts is what the session's policy knew of its host.
func (b *Basis) Facts() policy.Host {
	h := b.Host
	links := make(map[string]string, len(h.Links))
	for _, l := range h.Links {
		links[string(l[0])] = string(l[1])
	}
	return policy.Host{
		Links: links,
		Home:  string(h.Home), User: string(h.User), UID: h.UID, Workspaces: plainTexts(h.Workspaces), Repositories: plainTexts(h.Repositories),
		GitDirs: plainTexts(h.GitDirs), Protected: plainTexts(h.Protected), Tmp: string(h.Tmp), Cache: string(h.Cache), StateDir: string(h.StateDir), ConfigFiles: plainTexts(h.ConfigFiles),
		Own: plainTexts(h.Own), PathDirs: plainTexts(h.PathDirs), CacheDirs: plainTexts(h.CacheDirs), GoCache: string(h.GoCache), Reeve: string(h.Reeve), Listable: plainTexts(h.Listable),
	}
}

// Check says why nothing can be decided anew on a basis, nil when it can.
func (b *Basis) Check() error {
	switch {
	case b == nil:
		return withHint(fmt.Errorf("the session's record does not hold its policy"), "it was made by an older reeve; sessions of this one can be decided anew")
	case b.Host == nil && b.Lacks != "":
		return fmt.Errorf("the session's record does not hold its policy: %s", b.Lacks)
	case b.Host == nil:
		return fmt.Errorf("the session's record does not hold what its policy knew of the host")
	}
	depth := 0
	for o := b.Outer; o != nil; o = o.Outer {
		if depth++; depth > maxOuter || o.Host == nil {
			return fmt.Errorf("the session's record does not hold the policies of the sessions that it is inside")
		}
	}
	return nil
}

func plainTexts(list []Text) []string {
	if len(list) == 0 {
		return nil
	}
	out := make([]string, len(list))
	for i, t := range list {
		out[i] = string(t)
	}
	return out
}
