package witness

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Inode names a file as the kernel's programs see it: by the device of its super
// block, in the encoding of st_dev, and its inode number. On btrfs and some
// overlays st_dev is another device than the super block's, so make one with
// Devices.Inode, not from stat(2).
type Inode struct{ Dev, Ino uint64 }

// The kernel keeps dev_t as major<<20|minor (linux/kdev_t.h), user space sees it
// in the encoding of makedev(3). These two are the only place that converts.

func toKernelDev(dev uint64) uint64 {
	return uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev))
}

func fromKernelDev(dev uint64) uint64 {
	return unix.Mkdev(uint32(dev>>20), uint32(dev&(1<<20-1)))
}

// Devices finds the super block's device of open files. The zero value is ready;
// it may be used by several goroutines at once.
type Devices struct {
	mu    sync.Mutex
	known map[uint64]uint64 // st_dev to the super block's device
}

// Inode is the identity of the file that fd is open on; O_PATH is enough.
func (d *Devices) Inode(fd int) (Inode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Inode{}, fmt.Errorf("stat descriptor %d: %w", fd, err)
	}
	dev, err := d.superblock(fd, st.Dev)
	if err != nil {
		return Inode{}, err
	}
	return Inode{Dev: dev, Ino: st.Ino}, nil
}

// superblock is the device of the super block of fd, whose st_dev is given.
func (d *Devices) superblock(fd int, dev uint64) (uint64, error) {
	if unix.Major(dev) != 0 {
		return dev, nil // a block device: nothing else claims its number
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if sb, ok := d.known[dev]; ok {
		return sb, nil
	}
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx); err != nil {
		return 0, fmt.Errorf("find mount of descriptor %d: %w", fd, err)
	}
	sb, err := mountDevice(stx.Mnt_id)
	if errors.Is(err, errNoMount) {
		// The kernel's own mounts (memfd) and other namespaces': st_dev it is.
		// Should that be wrong the exec is a mismatch, and refused.
		return dev, nil
	}
	if err != nil {
		return 0, err
	}
	if d.known == nil {
		d.known = map[uint64]uint64{}
	}
	d.known[dev] = sb
	return sb, nil
}

var errNoMount = errors.New("no such mount in our namespace")

// mountDevice is the super block's device of a mount, see proc_pid_mountinfo(5).
func mountDevice(id uint64) (uint64, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return 0, fmt.Errorf("find device of mount %d: %w", id, err)
	}
	defer f.Close()
	want := strconv.FormatUint(id, 10)
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20) // overlays with many layers have long lines
	for s.Scan() {
		fields := strings.Fields(s.Text())
		if len(fields) < 3 || fields[0] != want {
			continue
		}
		var major, minor uint32
		if _, err := fmt.Sscanf(fields[2], "%d:%d", &major, &minor); err != nil {
			return 0, fmt.Errorf("device of mount %d: %w", id, err)
		}
		return unix.Mkdev(major, minor), nil
	}
	if err := s.Err(); err != nil {
		return 0, fmt.Errorf("find device of mount %d: %w", id, err)
	}
	return 0, errNoMount
}
