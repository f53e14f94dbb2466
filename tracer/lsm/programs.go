package lsm

import "github.com/reeve-audit/reeve/bpf"

// surfaces are the programs of what the policy may close altogether.
var surfaces = []struct {
	closed   Surface
	programs []string
}{
	{Socket, []string{bpf.LsmProgReeveSocketCreate}},
	{Connect, []string{bpf.LsmProgReeveSocketConnect}},
	{Bind, []string{bpf.LsmProgReeveSocketBind, bpf.LsmProgReeveSocketListen}},
	{Send, []string{bpf.LsmProgReeveSocketSendmsg}},
	{Mount, []string{bpf.LsmProgReeveSbMount, bpf.LsmProgReeveMoveMount, bpf.LsmProgReeveSbUmount, bpf.LsmProgReeveSbPivotroot}},
	{Chroot, []string{bpf.LsmProgReevePathChroot}},
	{Namespace, []string{bpf.LsmProgReeveUsernsCreate}},
	{BPF, []string{bpf.LsmProgReeveBpf}},
	{Perf, []string{bpf.LsmProgReevePerfEventOpen}},
	{Module, []string{bpf.LsmProgReeveKernelLoadData, bpf.LsmProgReeveKernelReadFile}},
}

// hooks are the programs that the rules have work for. The scope comes first:
// nobody is ours before.
func hooks(cfg *Config) []string {
	r := &cfg.Rules
	list := []string{bpf.LsmProgReeveExit, bpf.LsmProgReeveTaskAlloc}
	if cfg.keepsRoom() || cfg.Inner {
		list = append(list, bpf.LsmProgReeveForked)
	}
	if cfg.keepsRoom() {
		list = append(list, bpf.LsmProgReeveCredsForExec, bpf.LsmProgReeveExecuted)
	}
	list = append(list,
		bpf.LsmProgReeveD_instantiate, bpf.LsmProgReeveFileOpen, bpf.LsmProgReeveFileReceive,
		bpf.LsmProgReeveMmapFile, bpf.LsmProgReeveFileMprotect, bpf.LsmProgReevePathMknod, bpf.LsmProgReeveCredsFromFile,
		bpf.LsmProgReeveTaskKill, bpf.LsmProgReevePtraceAccessCheck)
	for _, s := range surfaces {
		// When the supervisor is gone all of them are closed, to all that are in the
		// outermost session's scope.
		if !cfg.Inner || s.closed&r.Closed&^cfg.Covered != 0 {
			list = append(list, s.programs...)
		}
	}
	if r.Hides {
		list = append(list, bpf.LsmProgReeveInodeGetattr)
	}
	if r.Names {
		list = append(list, bpf.LsmProgReevePathMkdir, bpf.LsmProgReevePathRmdir, bpf.LsmProgReevePathUnlink, bpf.LsmProgReevePathSymlink,
			bpf.LsmProgReevePathRename, bpf.LsmProgReevePathLink, bpf.LsmProgReevePathTruncate, bpf.LsmProgReevePathChmod, bpf.LsmProgReevePathChown)
	}
	if r.Bulk.Files > 0 {
		list = append(list, bpf.LsmProgReeveLose)
	}
	if r.Closed&Xattr != 0 {
		list = append(list, bpf.LsmProgReeveInodeSetxattr, bpf.LsmProgReeveInodeRemovexattr)
	}
	return list
}

// Covers are the surfaces that hooks with these rules close for a session inside
// theirs, which has rules of its own, so that its hooks need not.
func (r *Rules) Covers(inner *Rules) Surface {
	covered := r.Closed
	if r.Families != inner.Families {
		covered &^= Socket
	}
	return covered
}
