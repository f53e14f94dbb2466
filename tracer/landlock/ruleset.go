package landlock

import (
	"errors"
	"fmt"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ErrNothing says that a Spec restricts nothing, or nothing that the kernel's
// ABI can hold, so that there is no ruleset to make. Callers who mean that ask
// Restricts first; nobody gets an empty floor by accident.
var ErrNothing = errors.New("the ruleset restricts nothing")

// ErrUnsupported says that the kernel has no Landlock, or that it is switched off.
var ErrUnsupported = errors.New("landlock is not available")

// ABI is the kernel's Landlock ABI, at least 1. The error wraps ErrUnsupported
// and says whether the kernel lacks Landlock or has it switched off.
func ABI() (int, error) {
	v, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return 0, fmt.Errorf("%w: the kernel was built without it (CONFIG_SECURITY_LANDLOCK)", ErrUnsupported)
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, fmt.Errorf("%w: switched off at boot (add landlock to lsm= on the kernel command line)",
			ErrUnsupported)
	case err != nil:
		return 0, fmt.Errorf("%w: ask for the ABI: %w", ErrUnsupported, err)
	case v < 1:
		return 0, fmt.Errorf("%w: the kernel reports ABI %d", ErrUnsupported, v)
	}
	return v, nil
}

// Restricts says whether a kernel of this ABI would hold anything of s.
func (s Spec) Restricts(abi int) bool {
	a := s.attr(abi)
	return a.HandledAccessFS|a.HandledAccessNet|a.Scoped != 0
}

// Open makes the ruleset of s on a kernel of the given ABI (see ABI) and returns
// its descriptor, close-on-exec, which the caller owns. What the ABI cannot hold
// is left out and stated in dropped, one sentence each.
//
// Paths are opened now, without following any symbolic link: a path that is not
// resolved is an error, since a link put there meanwhile would grant its target,
// or skipped (SkipLinks).
// A path that does not exist is skipped, it grants nothing. A rule on a file is
// cut down to the rights that files have (FileFS).
func (s Spec) Open(abi int) (fd int, dropped []string, err error) {
	if abi < 1 {
		return -1, nil, fmt.Errorf("open ruleset: %w", ErrUnsupported)
	}
	dropped = s.dropped(abi)
	attr := s.attr(abi)
	if !s.Restricts(abi) {
		return -1, dropped, ErrNothing
	}
	fd, err = ll.LandlockCreateRuleset(&attr, 0)
	if err != nil {
		return -1, dropped, fmt.Errorf("create landlock ruleset: %w", err)
	}
	if err = s.addRules(fd, attr); err != nil {
		_ = unix.Close(fd)
		return -1, dropped, err
	}
	return fd, dropped, nil
}

// attr is what the kernel is asked to handle.
func (s Spec) attr(abi int) ll.RulesetAttr {
	a := ll.RulesetAttr{HandledAccessFS: uint64(s.HandledFS & SupportedFS(abi))}
	if s.HandledTCP && abi >= abiTCP {
		a.HandledAccessNet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	}
	if s.ScopeSignal && abi >= abiScope {
		a.Scoped |= ll.ScopeSignal
	}
	if s.ScopeAbstract && abi >= abiScope {
		a.Scoped |= ll.ScopeAbstractUnixSocket
	}
	return a
}

func (s Spec) addRules(fd int, attr ll.RulesetAttr) error {
	for _, r := range s.Paths {
		err := addPath(fd, r, AccessFS(attr.HandledAccessFS))
		if s.SkipLinks && errors.Is(err, errUnreachable) {
			continue
		}
		if err != nil {
			return fmt.Errorf("grant %v on %s: %w", r.Access.Words(), r.Path, err)
		}
	}
	if attr.HandledAccessNet == 0 {
		return nil
	}
	ports := map[uint16]uint64{}
	for _, p := range s.BindPorts {
		ports[p] |= ll.AccessNetBindTCP
	}
	for _, p := range s.ConnectPorts {
		ports[p] |= ll.AccessNetConnectTCP
	}
	for p, access := range ports {
		rule := ll.NetPortAttr{AllowedAccess: access, Port: uint64(p)}
		if err := ll.LandlockAddNetPortRule(fd, &rule, 0); err != nil {
			return fmt.Errorf("grant tcp port %d: %w", p, err)
		}
	}
	return nil
}

var errUnreachable = errors.New("the path cannot be reached")

// addPath adds one rule; nil as well if there is nothing to grant.
func addPath(fd int, r PathRule, handled AccessFS) error {
	access := r.Access & handled
	if access == 0 {
		return nil
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	path, err := unix.Openat2(unix.AT_FDCWD, r.Path, &how)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.ELOOP):
		return fmt.Errorf("%w without following a symbolic link, resolve it first: %w", errUnreachable, err)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", errUnreachable, err)
	case err != nil:
		return err
	}
	defer unix.Close(path)
	if access&^FileFS != 0 {
		var st unix.Stat_t
		if err := unix.Fstat(path, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			access &= FileFS
		}
		if access == 0 {
			return nil
		}
	}
	rule := ll.PathBeneathAttr{AllowedAccess: uint64(access), ParentFd: path}
	return ll.LandlockAddPathBeneathRule(fd, &rule, 0)
}

// Restrict puts the calling OS thread, and everything that it starts from now on,
// under the ruleset of Open; other threads of the process are not touched. The
// thread must be locked to its goroutine (runtime.LockOSThread) and must have
// set no_new_privs. There is no way back. The descriptor stays open.
func Restrict(fd int) error {
	if err := ll.LandlockRestrictSelf(fd, 0); err != nil {
		return fmt.Errorf("restrict thread by landlock: %w", err)
	}
	return nil
}
