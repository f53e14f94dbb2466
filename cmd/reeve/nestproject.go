package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// The policy that comes with a workspace narrows a session inside as it does one
// outside. The reeve inside reads it, under the session outside: whatever lies at its
// path, nothing is told of it that the session may not read. That reeve could have
// named another workspace, so a text that it makes up gains it nothing. The reeve
// outside sees to it that none is left out.

// nestProject is the text of the policy file of a workspace.
type nestProject struct {
	Workspace session.Text `json:"workspace"`
	Text      []byte       `json:"text"`
}

func projectFile(workspace string) string { return filepath.Join(workspace, session.ProjectFile) }

// workspaces names the session's workspaces and adds the policies that come with them.
func (n *nested) workspaces(m *nestBegin) error {
	dirs := n.opts.workspaces
	if len(dirs) == 0 {
		dirs = []string{n.cwd}
	}
	for _, dir := range dirs {
		ws, err := session.OpenWorkspace(dir)
		if err != nil {
			return err
		}
		m.Workspaces = append(m.Workspaces, session.Text(ws.Path))
		src, err := session.ReadSource(projectFile(ws.Path), policy.Project)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		m.Projects = append(m.Projects, nestProject{session.Text(ws.Path), src.Text})
	}
	return nil
}

// projectSources are the policies of the workspaces of a session inside. One that is
// there and that was not sent is an error: leaving it out could allow what it denies.
func (m *nestBegin) projectSources(spaces []session.Workspace) (list []policy.Source, err error) {
	for _, ws := range spaces {
		file := projectFile(ws.Path)
		i := slices.IndexFunc(m.Projects, func(p nestProject) bool { return string(p.Workspace) == ws.Path })
		if i >= 0 {
			if list, err = appendSource(list, policy.Source{Name: file, Layer: policy.Project, Text: m.Projects[i].Text}); err != nil {
				return nil, err
			}
			continue
		}
		// The link itself, since where it leads may be none of the session's business.
		if _, err := os.Lstat(file); !errors.Is(err, os.ErrNotExist) {
			return nil, withHint(fmt.Errorf("read policy %s: the session outside keeps it from this one, or it leads nowhere", quote(file)),
				"allow the session outside to read it, or name another --workspace")
		}
	}
	return list, nil
}

// appendSource adds a policy that a reeve inside sent.
func appendSource(list []policy.Source, src policy.Source) ([]policy.Source, error) {
	if len(src.Text) > policy.MaxSource {
		return nil, fmt.Errorf("read policy %s: larger than %d bytes", src.Name, policy.MaxSource)
	}
	return append(list, src), nil
}

// nestedSources are the policies of a session inside: those outside, with the
// workspaces' as they are now, and its own.
func nestedSources(outer, projects, own []policy.Source) []policy.Source {
	list := slices.DeleteFunc(slices.Clone(outer), func(s policy.Source) bool {
		return s.Layer == policy.Project && slices.ContainsFunc(projects, func(p policy.Source) bool { return p.Name == s.Name })
	})
	at := slices.IndexFunc(list, func(s policy.Source) bool { return s.Layer == policy.Session })
	if at < 0 {
		at = len(list)
	}
	return append(slices.Insert(list, at, projects...), own...)
}

// gather puts together the policies of a session inside, and names their files.
func (r *innerRules) gather(m *nestBegin, outer *live, spaces []session.Workspace) error {
	projects, err := m.projectSources(spaces)
	if err != nil {
		return err
	}
	var own []policy.Source
	for _, f := range m.Policies {
		if own, err = appendSource(own, policy.Source{Name: f.Name, Layer: policy.Session, Text: f.Text}); err != nil {
			return err
		}
	}
	r.sources, r.files = nestedSources(outer.sources, projects, own), slices.Clone(outer.files)
	for _, p := range projects {
		if !slices.Contains(r.files, p.Name) {
			r.files = append(r.files, p.Name)
		}
	}
	return nil
}
