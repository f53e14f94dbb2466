package lsm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/bpf"
	"github.com/reeve-audit/reeve/tracer/witness"
)

// The kernel keeps dev_t as major<<20|minor (linux/kdev_t.h), user space sees it
// in the encoding of makedev(3).

func toKernelDev(dev uint64) uint64 {
	return uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev))
}

func fromKernelDev(dev uint64) uint64 {
	return unix.Mkdev(uint32(dev>>20), uint32(dev&(1<<20-1)))
}

// locateRoot says in s where paths begin: at the root directory of this process.
func locateRoot(s *bpf.LsmSession) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the root directory: %w", err)
	}
	defer unix.Close(fd)
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID|unix.STATX_INO, &stx); err != nil {
		return fmt.Errorf("find the mount of the root directory: %w", err)
	}
	if stx.Mask&unix.STATX_MNT_ID == 0 || stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return errors.New("the root directory of this process is not the root of a mount (a chroot into a plain directory): " +
			"the hooks could not tell paths from it")
	}
	var devices witness.Devices
	i, err := devices.Inode(fd)
	if err != nil {
		return err
	}
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/mnt", &ns); err != nil {
		return fmt.Errorf("name the mount namespace: %w", err)
	}
	s.RootIno, s.RootDev, s.RootMount, s.RootNs = i.Ino, uint32(toKernelDev(i.Dev)), uint32(stx.Mnt_id), uint32(ns.Ino)
	return nil
}
