package proc

import (
	"fmt"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Creds are what the kernel checks file access by.
type Creds struct {
	UID, GID int // fsuid, fsgid
	Groups   []int
	Umask    int
	// CapEff are the effective capabilities.
	CapEff uint64
}

// same says whether c and o are the same to a permission check.
func (c *Creds) same(o *Creds) bool {
	return c.UID == o.UID && c.GID == o.GID && c.CapEff == o.CapEff && slices.Equal(c.Groups, o.Groups)
}

// Creds are the thread's, as they were since the last set*id call that was seen.
func (th *Thread) Creds() (*Creds, error) {
	th.mu.Lock()
	c := th.creds
	th.mu.Unlock()
	if c != nil {
		return c, nil
	}
	return th.FreshCreds()
}

// MakerCreds are Creds with the umask that what the thread makes gets.
func (th *Thread) MakerCreds() (*Creds, error) {
	th.mu.Lock()
	c, loose := th.creds, th.looseUmask
	th.mu.Unlock()
	if c != nil && !loose {
		return c, nil
	}
	return th.FreshCreds()
}

// FreshCreds reads them now.
func (th *Thread) FreshCreds() (*Creds, error) {
	status, err := th.ReadFile("status", 4096)
	if err != nil {
		return nil, err
	}
	return parseCreds(status), nil
}

// forgetCreds makes every later Creds read afresh.
func (th *Thread) forgetCreds() {
	th.mu.Lock()
	th.creds = nil
	th.mu.Unlock()
}

func parseCreds(status []byte) *Creds {
	c := &Creds{UID: -1, GID: -1}
	if f := statusFields(status, "Uid:"); len(f) == 4 {
		c.UID, _ = strconv.Atoi(f[3])
	}
	if f := statusFields(status, "Gid:"); len(f) == 4 {
		c.GID, _ = strconv.Atoi(f[3])
	}
	for _, g := range statusFields(status, "Groups:") {
		n, _ := strconv.Atoi(g)
		c.Groups = append(c.Groups, n)
	}
	// Umask is the first line but one, before which statusFields expects a newline.
	if f := statusFields(status, "Umask:"); len(f) == 1 {
		n, _ := strconv.ParseUint(f[0], 8, 32)
		c.Umask = int(n)
	}
	if f := statusFields(status, "CapEff:"); len(f) == 1 {
		c.CapEff, _ = strconv.ParseUint(f[0], 16, 64)
	}
	return c
}

// Actor lets one locked OS thread act with a task's file credentials. Only the
// thread that made it may use it.
type Actor struct {
	cur, own  Creds
	permitted uint64 // our own capabilities; none when reeve is not root
}

// needed are the capabilities an Actor keeps whoever it acts as: to read tasks
// and signal them, and to change its own file credentials. None opens a file.
const needed = 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_KILL | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID

// NewActor gives the calling, locked OS thread its own umask and working
// directory, blocks its signals, and remembers the credentials it has.
func NewActor() (*Actor, error) {
	if err := BlockSignals(); err != nil {
		return nil, fmt.Errorf("block the thread's signals: %w", err)
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("unshare the thread's umask: %w", err)
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return nil, fmt.Errorf("read own groups: %w", err)
	}
	permitted, effective, err := getCaps()
	if err != nil {
		return nil, fmt.Errorf("read own capabilities: %w", err)
	}
	unix.Umask(0)
	own := Creds{UID: unix.Geteuid(), GID: unix.Getegid(), Groups: groups, CapEff: effective}
	return &Actor{cur: own, own: own, permitted: permitted}, nil
}

// ReadsHidden reports whether we may read the memory of a task that took itself out of
// the reach of its user (PR_SET_DUMPABLE): not as an ordinary user.
func (a *Actor) ReadsHidden() bool { return a.own.CapEff&(1<<unix.CAP_SYS_PTRACE) != 0 }

// Ourselves takes on what this thread began with: to name an object for the record,
// never to act for a task.
func (a *Actor) Ourselves() error { return a.Become(&a.own) }

// Become takes on c for the file system: what the task may not do, this thread
// may not do for it. It returns an error, and the caller must not act, when that
// is not possible.
func (a *Actor) Become(c *Creds) error {
	if c.same(&a.cur) {
		return nil
	}
	ids := c.UID != a.cur.UID || c.GID != a.cur.GID || !slices.Equal(c.Groups, a.cur.Groups)
	if ids {
		if err := a.becomeIDs(c); err != nil {
			return fmt.Errorf("act as uid %d gid %d: %w", c.UID, c.GID, err)
		}
	}
	if a.permitted != 0 {
		// Always after the ids, whose change drops and raises capabilities.
		if err := setCaps(a.permitted, c.CapEff|needed); err != nil {
			a.cur.UID = -2 // unknown: the next Become starts over
			return fmt.Errorf("act with capabilities %#x: %w", c.CapEff, err)
		}
	}
	a.cur.CapEff = c.CapEff
	return nil
}

func (a *Actor) becomeIDs(c *Creds) error {
	if !slices.Equal(c.Groups, a.cur.Groups) {
		if err := setgroups(c.Groups); err != nil {
			return err
		}
		a.cur.Groups = c.Groups
	}
	if err := seteuid(unix.SYS_SETRESGID, c.GID); err != nil {
		return err
	}
	a.cur.GID = c.GID
	if err := seteuid(unix.SYS_SETRESUID, c.UID); err != nil {
		return err
	}
	a.cur.UID = c.UID
	return nil
}

// seteuid sets the calling thread's effective id, which the file system id
// follows. Peers of a unix socket are told the effective one.
func seteuid(nr uintptr, id int) error {
	const keep = ^uintptr(0)
	if _, _, errno := unix.RawSyscall(nr, keep, uintptr(id), keep); errno != 0 {
		return errno
	}
	return nil
}

// Umask sets the umask that what is made next gets.
func (a *Actor) Umask(mask int) {
	if mask != a.cur.Umask {
		unix.Umask(mask)
		a.cur.Umask = mask
	}
}

// setgroups changes the calling thread only: the library's call would change
// every thread of the process.
func setgroups(groups []int) error {
	list := make([]uint32, len(groups)+1)
	for i, g := range groups {
		list[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// Thread-level credentials, for the session's first thread. Each changes the
// calling OS thread only.

// SetThreadIDs changes all user and group ids of the calling thread.
func SetThreadIDs(uid, gid int, groups []int) error {
	if err := setgroups(groups); err != nil {
		return err
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); e != 0 {
		return e
	}
	if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
		return e
	}
	return nil
}

// LimitThreadCaps drops every capability that is not in keep, from all sets of
// the calling thread, the bounding set first.
func LimitThreadCaps(keep uint64) error {
	for c := 0; c <= unix.CAP_LAST_CAP+8; c++ {
		if keep&(1<<c) != 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && err != unix.EINVAL {
			return err // EINVAL: this kernel has no such capability
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && err != unix.EINVAL {
		return err
	}
	return setCaps(keep, keep)
}

// getCaps are the calling thread's permitted and effective capabilities.
func getCaps() (permitted, effective uint64, err error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var cur [2]unix.CapUserData
	if err := unix.Capget(&hdr, &cur[0]); err != nil {
		return 0, 0, err
	}
	return uint64(cur[0].Permitted) | uint64(cur[1].Permitted)<<32,
		uint64(cur[0].Effective) | uint64(cur[1].Effective)<<32, nil
}

// setCaps sets the calling thread's permitted and effective sets to what it
// already has of them, and empties the inheritable set.
func setCaps(permitted, effective uint64) error {
	have, _, err := getCaps()
	if err != nil {
		return err
	}
	permitted &= have
	effective &= permitted
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	set := [2]unix.CapUserData{
		{Permitted: uint32(permitted), Effective: uint32(effective)},
		{Permitted: uint32(permitted >> 32), Effective: uint32(effective >> 32)},
	}
	return unix.Capset(&hdr, &set[0])
}
