package spawn

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudo-terminal of the session's own. Init becomes the leader of a
// terminal session on it, and the command its foreground process group. Init and
// not the command leads, since ^Z does not stop a process group that nobody
// outside of it, in the same terminal session, is the parent of (setpgid(2),
// "orphaned").
type Terminal struct {
	// Slave is its descriptor in the supervisor; it does not go over the wire.
	Slave int
	// Streams are those of 0, 1 and 2 where the command has it; the others are
	// the supervisor's.
	Streams []int
	// Modes are those of the supervisor's own terminal before it was made raw, and
	// Reset the sequences that undo what may have been done to it. Init sends them
	// there when the supervisor dies without having done so.
	Modes *unix.Termios
	Reset string
}

// restoreModes leaves the supervisor's terminal, which is init's standard streams,
// as it was, if it is still raw. A shell may have it already: one that edits a line
// leaves ^C working. Init is in another terminal session, so that nothing stops it
// for this (__tty_check_change in drivers/tty).
func (t *Terminal) restoreModes() {
	if t == nil || t.Modes == nil || len(t.Streams) == 0 {
		return
	}
	fd := t.Streams[0]
	now, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil || now.Lflag&(unix.ISIG|unix.ICANON|unix.ECHO) != 0 || now.Oflag&unix.OPOST != 0 {
		return
	}
	_, _ = unix.Write(fd, []byte(t.Reset))
	_ = unix.IoctlSetTermios(fd, unix.TCSETS, t.Modes)
}

// Devices are the device numbers of the terminals that the command starts on:
// those of our standard streams that it has, and its own. The terminal that a
// session's own stands in for is not among them.
func (o *Order) Devices() []uint64 {
	fds := []int{0, 1, 2}
	if t := o.Terminal; t != nil {
		fds = slices.DeleteFunc(fds, func(fd int) bool { return slices.Contains(t.Streams, fd) })
		fds = append(fds, t.Slave)
	}
	var out []uint64
	for _, fd := range fds {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR {
			out = append(out, st.Rdev)
		}
	}
	return out
}

func (t *Terminal) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(t.Streams)))
	for _, fd := range t.Streams {
		b = binary.AppendVarint(b, int64(fd))
	}
	b = appendBool(b, t.Modes != nil)
	if m := t.Modes; m != nil {
		for _, v := range []uint32{m.Iflag, m.Oflag, m.Cflag, m.Lflag, m.Ispeed, m.Ospeed} {
			b = binary.AppendUvarint(b, uint64(v))
		}
		b = append(append(b, m.Line), m.Cc[:]...)
	}
	return appendText(b, t.Reset)
}

func (d *decoder) terminal() *Terminal {
	t := &Terminal{}
	for n := d.count(); n > 0; n-- {
		fd := d.int()
		if fd < 0 || fd > 2 {
			d.bad = true
		}
		t.Streams = append(t.Streams, fd)
	}
	if d.bool() {
		m := &unix.Termios{}
		for _, v := range []*uint32{&m.Iflag, &m.Oflag, &m.Cflag, &m.Lflag, &m.Ispeed, &m.Ospeed} {
			*v = uint32(d.number(1<<32 - 1))
		}
		if c := d.take(1 + uint64(len(m.Cc))); c != nil {
			m.Line = c[0]
			copy(m.Cc[:], c[1:])
		}
		t.Modes = m
	}
	t.Reset = d.text()
	return t
}
