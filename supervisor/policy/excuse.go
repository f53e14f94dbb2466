package policy

import (
	"strings"

	"github.com/reeve-audit/reeve/tracer/event"
)

// excused reports whether a rule of a built-in layer does not hold for a target
// after all, and whether content has to be checked before.
func (t *target) excused(r *rule) (excused, guarded bool) {
	switch r.guard {
	case guardSecret:
		return t.makesSecret() || t.ownSecret(r), false
	case guardLink:
		return t.linkExcuse()
	case guardConfig:
		if t.req.Born {
			return t.bornExcuse(r.born)
		}
		return t.ownLock(r.born), false
	}
	return false, false
}

// ownLock reports whether this is about a lock of git's settings that the session
// makes, or made, in a repository that stood there before: git writes into it what they
// are to say. What that is counts when it is moved over them.
func (t *target) ownLock(born bornRule) bool {
	if born != bornContent || !strings.HasSuffix(t.path, ".lock") {
		return false
	}
	switch t.role {
	case roleMake:
		return t.req.Op == event.OpCreate && t.missing && t.req.Object.Own
	case roleUse, roleRemove, roleFrom:
		return t.made
	}
	return false
}

// byLock reports whether git's settings are replaced by their lock, which the session
// made, and what stands against it is only that they stood there before.
func (t *target) byLock(r *rule) bool {
	return r != nil && r.guard == guardConfig && r.born == bornContent && t.role == roleTo && t.req.Op == event.OpRename &&
		t.req.Flags&renameExchange == 0 && t.req.Object.Kind == event.ObjectFile && t.req.Object.Own && t.req.Object.Path == t.path+".lock"
}

// linkExcuse reports whether this may be done to a file that says where a
// repository is. In a directory that the session made, git adds a work tree or a
// submodule with such a file; in one that stood there it would give the user's
// own git another repository. A directory ".git" may be made anywhere, since what
// git obeys in it is protected as well.
// What a file ".git" or "commondir" says is checked: it could name a directory whose
// settings nobody judged.
func (t *target) linkExcuse() (excused, guarded bool) {
	isDir := t.kind == event.ObjectDir
	switch {
	case t.role == roleFrom && !isDir: // Born is about where it goes
		return false, false
	case t.req.Born && !isDir && last(t.path) != "gitdir":
		return t.bornLink()
	case t.req.Born, t.role == roleTo && isDir: // whether it may leave its old place is judged there
		return true, false
	case t.role == roleMake:
		return t.req.Op == event.OpMkdir && (t.missing || isDir), false
	}
	// One that is removed is empty: its settings do not go without being judged.
	return isDir && (t.role == roleUse || t.role == roleRemove), false
}

// softened is what a rule says of a target: that a file goes which says where a repository
// is, with its work tree, only asks. No other repository can take its place but one
// whose settings are checked.
func (t *target) softened(r *rule, says event.Action) event.Action {
	if r.guard == guardLink && t.role == roleRemove && t.file {
		return min(says, event.ActionAsk)
	}
	return says
}

// bornLink is linkExcuse of a file with a content that counts, in a directory that the
// session made.
func (t *target) bornLink() (excused, guarded bool) {
	switch t.role {
	case roleMake:
		made := t.req.Op == event.OpCreate && t.missing
		return made || t.req.Op == event.OpMkdir, made
	case roleTo:
		moved := t.req.Op == event.OpRename && t.req.Object.Kind == event.ObjectFile && t.req.Flags&renameExchange == 0
		return moved, moved
	case roleUse:
		written := t.req.Op == event.OpOpen
		return written || t.req.Op == event.OpChmod || t.req.Op == event.OpChown || t.req.Op == event.OpUtime, written
	case roleRemove:
		return true, false
	}
	return false, false
}

// makesSecret reports whether a file with a secret's name is only being made:
// what is not there holds no secret. Opening it again is for ownSecret to excuse.
func (t *target) makesSecret() bool {
	if !t.missing || t.need != event.AccessWrite {
		return false
	}
	return t.role == roleMake || t.role == roleTo || t.role == roleLink
}

// ruleMade is the rule of what is allowed since the session itself made the file.
const ruleMade = "made by this session"

// ownSecret reports whether a file with a secret's name is one that the session
// itself made: a key that it generated is no secret of the host. Only what reeve
// calls a secret by itself is excused, never what a person's rule denies. Run it
// may not be: the floor knows no files, only names.
func (t *target) ownSecret(r *rule) bool {
	return r.born == bornFile && t.made && t.need&event.AccessExec == 0
}

// mayBeBorn reports whether what a rule stands against would pass if it turned out
// that the session made it.
func (t *target) mayBeBorn(r *rule) bool {
	switch {
	case r == nil, r.born == bornNever:
		return false
	case r.born == bornFile:
		return t.file && !t.made && t.need&event.AccessExec == 0
	}
	return !t.req.Born
}

// bornExcuse reports whether a repository made by the session itself may do
// this to its own protected files.
func (t *target) bornExcuse(born bornRule) (excused, guarded bool) {
	switch born {
	case bornAll:
		// Born is about where it goes. What stood there before may not leave its
		// place for that, or another could be made there.
		return t.role != roleFrom, false
	case bornSamples:
		return t.bornHook(), false
	case bornContent:
		return t.bornConfig()
	}
	return false, false
}

// bornHook: git makes the directory of hooks and its samples, and removes both
// with the repository. A hook that git would run stays out.
func (t *target) bornHook() bool {
	if t.role == roleRemove {
		return true
	}
	name := last(t.path)
	if name == "hooks" {
		return t.role == roleMake && t.req.Op == event.OpMkdir || t.role == roleUse && t.kind == event.ObjectDir
	}
	if !strings.HasSuffix(name, ".sample") || last(parent(t.path)) != "hooks" {
		return false
	}
	return t.role == roleMake || t.role == roleUse
}

// bornConfig: git writes config.lock and renames it over config, where the
// content is checked; it also tries out permission bits on config itself. libgit2
// makes an empty config first, which guarded it stays.
func (t *target) bornConfig() (excused, guarded bool) {
	if strings.HasSuffix(t.path, ".lock") {
		switch t.role {
		case roleMake, roleUse, roleRemove:
			return true, false
		case roleFrom:
			return t.req.Target.Path+".lock" == t.path, false
		}
		return false, false
	}
	switch t.role {
	case roleRemove:
		return true, false
	case roleMake:
		made := t.req.Op == event.OpCreate && t.missing
		return made, made
	case roleUse:
		return t.req.Op == event.OpChmod || t.req.Op == event.OpChown || t.req.Op == event.OpUtime, false
	case roleTo:
		moved := t.req.Op == event.OpRename && t.req.Object.Path == t.path+".lock" && t.req.Flags&renameExchange == 0
		return moved && t.kind == event.ObjectFile, moved
	}
	return false, false
}
