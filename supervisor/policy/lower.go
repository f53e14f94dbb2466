package policy

import (
	"slices"
	"strings"

	"github.com/reeve-audit/reeve/tracer"
	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/gate"
	"github.com/reeve-audit/reeve/tracer/landlock"
)

// treeRights are Landlock's rights to change names, writeRights those to change
// content as well.
const (
	treeRights = landlock.RemoveDir | landlock.RemoveFile | landlock.MakeChar | landlock.MakeDir | landlock.MakeReg |
		landlock.MakeSock | landlock.MakeFifo | landlock.MakeBlock | landlock.MakeSym | landlock.Refer
	writeRights = treeRights | landlock.WriteFile | landlock.Truncate
	readRights  = landlock.ReadFile | landlock.ReadDir
)

// Lower says what the kernel's side has to do to hold the policy: for each class
// of operation whether it is performed by the supervisor or continued over the
// floor, and the floor itself.
//
// A class is continued only where Landlock can be told the very ground that the
// policy opens: directories in whole, without a hole inside. Reads of the default
// profiles are performed, because secret files are holes in readable ground.
// Changes are performed always: the floor knows no set-user-ID bits, and not whose
// a socket or a repository is that is given another name. Programs are continued always, since only the kernel can run them; the floor
// then grants what can run, see [Policy.ExecGround].
func (p *Policy) Lower() (tracer.Plan, error) {
	plan := tracer.Plan{AllowKernel: p.allowedSurfaces(), Gaps: p.gaps()}
	if !p.recordOnly {
		plan.NeedWitness = p.needWitness()
	}
	plan.Handling = gate.Table{
		gate.Read: gate.Perform, gate.Write: gate.Perform, gate.Tree: gate.Perform, gate.Meta: gate.Perform,
		gate.Exec: gate.Continue, gate.Connect: gate.Perform, gate.Bind: gate.Perform, gate.Send: gate.Perform,
		gate.Socket: gate.Continue, gate.Signal: gate.Continue, gate.Creds: gate.Untrapped,
		gate.Memfd: gate.Perform, gate.Kernel: gate.Refuse,
	}
	if p.host.UID == 0 {
		plan.Handling[gate.Creds] = gate.Continue
	}
	if p.memory {
		plan.Handling[gate.Memfd] = gate.Continue
	}
	if p.recordOnly {
		for _, c := range []gate.Class{gate.Read, gate.Write, gate.Tree, gate.Meta, gate.Connect, gate.Bind, gate.Send, gate.Memfd, gate.Kernel} {
			plan.Handling[c] = gate.Continue
		}
		return plan, nil
	}
	if p.netOpen() {
		for _, c := range []gate.Class{gate.Connect, gate.Bind, gate.Send} {
			plan.Handling[c] = gate.Continue
		}
	}
	plan.Floor = landlock.Spec{
		HandledFS: writeRights | landlock.Execute, HandledTCP: plan.Handling[gate.Connect] == gate.Perform,
		ScopeSignal: !p.anySignal, ScopeAbstract: true,
	}
	p.lowerFiles(&plan)
	return plan, nil
}

// lowerFiles grants what is continued and hands reads to the floor where it can
// hold them.
func (p *Policy) lowerFiles(plan *tracer.Plan) {
	grants := make(map[string]landlock.AccessFS)
	ground, holes := p.execGround()
	for _, dir := range ground {
		if !slices.ContainsFunc(holes, func(h string) bool { return isBelow(h, dir) }) {
			grants[dir] |= landlock.Execute
		}
	}
	if dirs, whole := p.wholeGround(event.AccessRead); whole {
		plan.Handling[gate.Read] = gate.Continue
		plan.Floor.HandledFS |= readRights
		for _, dir := range dirs {
			grants[dir] |= readRights
		}
	}
	for dir, access := range grants {
		plan.Floor.Paths = append(plan.Floor.Paths, landlock.PathRule{Path: dir, Access: access})
	}
	slices.SortFunc(plan.Floor.Paths, func(a, b landlock.PathRule) int { return strings.Compare(a.Path, b.Path) })
}

// allowedSurfaces names the kernel's surfaces that are allowed, with "*" spelled
// out.
func (p *Policy) allowedSurfaces() []string {
	if slices.Contains(p.kernel, "*") {
		return slices.Clone(surfaceNames)
	}
	return slices.Clone(p.kernel)
}

// netOpen reports whether no address, port or unix socket is refused.
func (p *Policy) netOpen() bool {
	for i := range p.net {
		n := &p.net[i]
		open := n.on() && n.reach() == "full" && n.bind == "any" &&
			n.local == event.ActionAllow && n.private == event.ActionAllow && n.metadata == event.ActionAllow
		for _, r := range n.addresses {
			open = open && r.action == event.ActionAllow
		}
		if !open {
			return false
		}
	}
	root := target{path: "/", kind: event.ObjectSocket}
	listed, _ := p.listedSocket(&root)
	if listed != event.ActionAllow {
		return false
	}
	_, hole := p.sockets.auto.Hole("/", func(a uint32) bool { return p.sockets.verdicts[a].exec != event.ActionAllow })
	return !hole
}
