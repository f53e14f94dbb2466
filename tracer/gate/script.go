package gate

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/tracer/perform"
	"github.com/reeve-audit/reeve/tracer/proc"
)

// scriptHead is how much of a file the kernel looks at (BINPRM_BUF_SIZE).
const scriptHead = 256

// firstLine is what stands behind "#!" in a script's first line, without blanks
// around it, empty for other files; native says that the file is an ELF program,
// which runs as itself.
func (w *worker) firstLine(p *proc.Pinned) (line string, native bool, err error) {
	if !p.Regular() {
		return "", false, nil
	}
	fd, err := w.readable(p)
	if err == unix.EACCES {
		return "", false, nil // executable but not readable: it cannot be a script that works
	}
	if err != nil {
		return "", false, err
	}
	defer unix.Close(fd)
	var head [scriptHead]byte
	n, err := unix.Pread(fd, head[:], 0)
	if err != nil {
		return "", false, fmt.Errorf("look at the program: %v", err)
	}
	script, ok := bytes.CutPrefix(head[:n], []byte("#!"))
	if !ok {
		return "", nativeELF(head[:n]), nil
	}
	first, _, _ := bytes.Cut(script, []byte("\n"))
	first, _, _ = bytes.Cut(bytes.Trim(first, " \t"), []byte{0})
	return string(bytes.TrimRight(first, " \t")), false, nil
}

// readable opens a program for reading. EACCES is returned as it is.
func (w *worker) readable(p *proc.Pinned) (fd int, err error) {
	dir, name := proc.Self(p.FD)
	quick := w.quick(p)
	if quick {
		fd, err = perform.ReopenNow(dir, name, unix.O_RDONLY)
	}
	if err == unix.EWOULDBLOCK || !quick { // somebody's lease on the file, or its server
		if w.inline {
			return -1, proc.ErrBlocks
		}
		err = w.block(func() (err error) {
			fd, err = perform.Reopen(dir, name, unix.O_RDONLY)
			return err
		})
	}
	if err != nil && err != unix.EACCES && !unfinished(err) {
		err = fmt.Errorf("look at the program: %v", err)
	}
	return fd, err
}

// nativeELF says whether a file begins as a 64-bit ELF program for this machine.
func nativeELF(head []byte) bool {
	return len(head) > 20 && bytes.HasPrefix(head, []byte("\x7fELF\x02")) && elfMachine(head) == machine
}

func elfMachine(head []byte) elf.Machine { return elf.Machine(binary.NativeEndian.Uint16(head[18:])) }

var machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
