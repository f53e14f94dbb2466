package policy

import (
	"slices"
	"strings"
	"syscall"

	"github.com/reeve-audit/reeve/tracer/event"
)

// RENAME_NOREPLACE, RENAME_EXCHANGE and RENAME_WHITEOUT of renameat2(2).
const (
	renameNoReplace = 1 << 0
	renameExchange  = 1 << 1
	renameWhiteout  = 1 << 2
)

// Reasons of decisions about moved and linked names.
const (
	reasonWidens = "under the new name more would be allowed"
	reasonTree   = "something inside the directory would be judged otherwise at the new place; copying is judged file by file"
	reasonOwn    = "the session's own temporary directory stays where it is until the session's end; only what is in it may be moved and removed"
	reasonPlants = "protected configuration could be reached through a link of this name"
)

// decideTree judges rename, link and symlink: both names, and that no name gives
// an object more than it had.
func (p *Policy) decideTree(req *event.Request) event.Decision {
	if d, bad := p.malformed(&req.Target); bad {
		return d
	}
	if req.Op == event.OpSymlink {
		return p.decideSymlink(req)
	}
	from, to := newTarget(req, &req.Object, event.AccessWrite, roleFrom), newTarget(req, &req.Target, event.AccessWrite, roleTo)
	to.kind = req.Object.Kind
	if req.Op == event.OpLink {
		return p.decideLink(&from, &to)
	}
	if d, bad := p.malformed(&req.Object); bad {
		return d
	}
	if req.Flags&renameWhiteout != 0 && !p.recordOnly {
		return p.deny(syscall.EPERM, "", "it leaves a device behind")
	}
	source, target := p.judge(&from), p.judge(&to)
	d := Stricter(source, target)
	if d.Action == event.ActionDeny {
		return d
	}
	if d.Action == event.ActionAllow && source.Rule == ruleMade {
		d.Rule = ruleMade
	}
	// What follows can only deny: it holds whatever is answered to a question.
	if p.aboveOwn(from.path) || p.isOwn(to.path) || req.Flags&renameExchange != 0 && p.aboveOwn(to.path) {
		return p.deny(syscall.EBUSY, "", reasonOwn)
	}
	if strange, is := p.strangeSocket(req); is {
		return strange
	}
	if moved, ok := p.moves(&from, &to); !ok {
		return moved
	}
	if req.Flags&renameExchange != 0 {
		back := req.Target.Kind
		from.kind, to.kind = back, back
		if d.GuardContent {
			return p.deny(syscall.EACCES, d.Rule, "protected configuration cannot be exchanged")
		}
		if moved, ok := p.moves(&to, &from); !ok {
			return moved
		}
	}
	return d
}

// isOwn reports whether a path is one of the session's own directories, which are
// removed at its end: under another name what is in them would outlive it.
func (p *Policy) isOwn(path string) bool {
	return !p.recordOnly && path != "" && (path == p.host.Tmp || path == p.host.Cache)
}

// aboveOwn reports whether one of those is in, or is, the directory of a path.
func (p *Policy) aboveOwn(path string) bool {
	return !p.recordOnly && slices.ContainsFunc(append(one(p.host.Tmp), one(p.host.Cache)...), func(own string) bool { return isBelow(own, path) })
}

// Stricter joins two decisions that must both hold: the stricter, of two that are as
// strict the one that a born repository or file does not lift, and the guard of either.
// A change of settings need not ask if neither asks for anything else.
func Stricter(a, b event.Decision) event.Decision {
	lifts := func(d *event.Decision) bool { return d.Action == event.ActionAllow || d.AskContent }
	content := lifts(&a) && lifts(&b)
	guard, secret := a.GuardContent || b.GuardContent, a.Secret || b.Secret
	if a.Action > b.Action || a.Action == b.Action && a.Action != event.ActionAllow && (!a.AskBorn || b.AskBorn) {
		b = a
	}
	b.GuardContent, b.Secret, b.AskContent = guard, secret, content && b.Action == event.ActionAsk
	return b
}

// moves reports whether what stands at from may be called to, with the denial if
// it may not.
func (p *Policy) moves(from, to *target) (event.Decision, bool) {
	switch from.kind {
	case event.ObjectDir:
		if d, ok := p.keepsRepositories(from); !ok {
			return d, false
		}
		if p.plantsRepository(to.path, from.kind) {
			return p.deny(syscall.EACCES, "", reasonHides), false
		}
		if !p.recordOnly && p.inWorkspace(to.path) && !p.inWorkspace(from.path) {
			return p.deny(syscall.EXDEV, "", reasonTree), false // sockets in it would count as the project's
		}
		if !p.narrows(from, to, keepsTree) {
			return p.deny(syscall.EXDEV, "", reasonTree), false
		}
	case event.ObjectSymlink:
		if !p.ordinaryName(to) || p.plantsRepository(to.path, from.kind) {
			return p.deny(syscall.EACCES, "", reasonPlants), false
		}
	}
	if from.kind != event.ObjectDir && p.verdictOf(to).widens(p.verdictOn(from)) {
		return p.deny(syscall.EACCES, "", reasonWidens), false
	}
	return event.Decision{}, true
}

// keepsTree is what must hold of every name inside a directory that is moved:
// nothing may be done to it that could not be done before, and nothing may come
// to stand, ready made, where it could not be written.
func keepsTree(from, to verdict) bool {
	return !to.widens(from) && strictness(to.write) == strictness(from.write)
}

// narrows reports whether ok holds, in every set of rules, for what is said of
// every pair of names below, and including, from and to.
func (p *Policy) narrows(from, to *target, ok func(from, to verdict) bool) bool {
	f, t := from.judged(), to.judged()
	for _, s := range p.planes {
		if s.auto != nil && !s.auto.NarrowsTo(s.temp.alias(f), s.temp.alias(t), func(a, b uint32) bool { return ok(s.verdicts[a], s.verdicts[b]) }) {
			return false
		}
	}
	return true
}

// decideLink judges a hard link: the new name may allow nothing that the old one
// does not. The errno lets tools copy instead where they may read.
func (p *Policy) decideLink(from, to *target) event.Decision {
	d := p.judge(to)
	if d.Action == event.ActionDeny {
		return d
	}
	if d.GuardContent {
		return p.deny(syscall.EACCES, d.Rule, "protected configuration cannot be linked")
	}
	if from.anonymous() {
		if strings.HasSuffix(from.path, deletedMark) || from.kind == event.ObjectMem {
			return d // O_TMPFILE: its content is the session's own
		}
		return p.deny(syscall.EACCES, "", reasonRelative)
	}
	if bad, is := p.malformed(&from.req.Object); is {
		return bad
	}
	switch {
	case from.missing:
		return p.deny(syscall.ENOENT, "", reasonMissing)
	case from.kind == event.ObjectDir:
		return p.deny(syscall.EPERM, "", "a directory has one name")
	}
	if strange, is := p.strangeSocket(from.req); is {
		return strange
	}
	if from.kind == event.ObjectSymlink && (!p.ordinaryName(to) || p.plantsRepository(to.path, from.kind)) {
		return p.deny(syscall.EACCES, "", reasonPlants)
	}
	have, name := p.verdictOn(from), p.verdictOf(to)
	// In a repository of the session's own a protected name may be written after all,
	// and with it whatever else the file is called.
	opens := from.req.Born && have.write > event.ActionAllow
	if !opens && !name.widens(have) {
		if from.made && name.widens(p.verdictOf(from)) {
			d.Secret = true
			if d.Action == event.ActionAllow {
				d.Rule = ruleMade
			}
		}
		return d
	}
	from.need = event.AccessRead
	if have.read == event.ActionDeny {
		return p.refuse(from)
	}
	return p.deny(syscall.EXDEV, "", reasonWidens)
}

// decideSymlink judges the name of a symbolic link; where it leads is judged when
// it is followed.
func (p *Policy) decideSymlink(req *event.Request) event.Decision {
	to := newTarget(req, &req.Target, event.AccessWrite, roleLink)
	to.kind = event.ObjectSymlink
	d := p.judge(&to)
	// git tries in a new repository whether there can be symbolic links.
	tries := req.Object.Raw != "" && !slices.Contains([]string{".", "..", "refs", "logs"}, req.Object.Raw) && !strings.Contains(req.Object.Raw, "/")
	if d.Action != event.ActionDeny && (!p.ordinaryName(&to) || !tries && p.plantsRepository(to.path, to.kind)) {
		return p.deny(syscall.EACCES, "", reasonPlants)
	}
	return d
}

// ordinaryName reports whether below a name the same can be written as below any
// other name in its directory. A link of a name that is special (".git",
// "x.git") would lead protected paths to unprotected ground.
func (p *Policy) ordinaryName(t *target) bool {
	plain := *t
	plain.path, plain.ownProc = strings.TrimSuffix(parent(t.path), "/")+"/-", false
	return p.narrows(&plain, t, func(a, b verdict) bool { return strictness(b.write) <= strictness(a.write) })
}
