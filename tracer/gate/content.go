package gate

import (
	"crypto/sha256"
	"encoding/hex"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/event"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// maxContent is how much of a program without a name is hashed, bytes: more than
// most programs are. The task waits for it, some 50 ms.
const maxContent = 64 << 20

// frozen is what keeps a memory file as it is.
const frozen = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK

// contentOf is what a program holds whose name tells nobody anything: a memory file,
// or one that was deleted. It is nil for others, which can be looked at later.
func (w *worker) contentOf(p *proc.Pinned) (*event.Content, error) {
	if !p.Regular() || p.Kind() != event.ObjectMem && p.Stat.Nlink != 0 {
		return nil, nil
	}
	if w.inline {
		return nil, proc.ErrBlocks // reading a program takes its time
	}
	c := &event.Content{Size: uint64(p.Stat.Size)}
	fd, err := w.readable(p)
	if err == unix.EACCES {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	hash, n := sha256.New(), 0
	buf := make([]byte, 256<<10)
	err = w.block(func() error {
		for n < maxContent && w.g.cfg.Listener.Valid(w.n.ID) {
			got, err := unix.Pread(fd, buf, int64(n))
			if got <= 0 {
				return err
			}
			hash.Write(buf[:got])
			n += got
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	note(c, hash.Sum(nil), n)
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	c.Sealed = err == nil && seals&frozen == frozen
	return c, nil
}

// note says what sum, of the first n bytes that there were, says of the content: nothing
// where none of a file could be read that is not empty, such as one that was cut off
// since, or whose task did not wait.
func note(c *event.Content, sum []byte, n int) {
	if n == 0 && c.Size != 0 {
		return
	}
	c.SHA256 = hex.EncodeToString(sum)
	if uint64(n) != c.Size {
		c.Hashed = uint64(n)
	}
}
