// Package wire is what the host and the first process of the virtual machine
// tell each other: a Job in the initial file system, and frames over the
// machine's second serial port, which the kernel never writes to.
//
//	frame: kind (1 byte) · length (4 bytes, big endian) · payload
//	hello ▶ (stdout | stderr)* ▶ exit, once each job; then the machine stops
//
// A stream that ends without an exit frame is a machine that crashed.
package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// JobFile is where the job stands in the initial file system, as JSON.
const JobFile = "/vm/job.json"

// A Job is one program to run, as root and as the only thing in the machine.
type Job struct {
	// Argv is the program and its arguments, Dir where it runs, Env all of its
	// environment as NAME=value.
	Argv, Env []string
	Dir       string
	// Modules are kernel modules to load first, paths in the machine.
	Modules []string
	// Now is the host's time in nanoseconds since 1970.
	Now int64
}

// Kinds of frames.
const (
	Hello  byte = 'h' // the kernel's release
	Stdout byte = 'o'
	Stderr byte = 'e'
	Exit   byte = 'x' // the job's exit status in decimal, 128+n for a signal
)

// longest is how many bytes a payload may have.
const longest = 1 << 16

// Write sends one frame. The payload is sent in several if it is too long.
func Write(w io.Writer, kind byte, payload []byte) error {
	for {
		part := payload[:min(len(payload), longest)]
		frame := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(part)))
		if _, err := w.Write(append(frame, part...)); err != nil {
			return fmt.Errorf("write frame: %w", err)
		}
		if payload = payload[len(part):]; len(payload) == 0 {
			return nil
		}
	}
}

// Read receives one frame. It returns io.EOF between frames, and an error that
// says what is wrong for anything that is no frame.
func Read(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err == io.EOF {
		return 0, nil, io.EOF
	} else if err != nil {
		return 0, nil, fmt.Errorf("read frame: %w", err)
	}
	kind, n := head[0], binary.BigEndian.Uint32(head[1:])
	switch kind {
	case Hello, Stdout, Stderr, Exit:
	default:
		return 0, nil, fmt.Errorf("read frame: kind %q is none of ours", kind)
	}
	if n > longest {
		return 0, nil, fmt.Errorf("read frame: %d bytes, want %d at most", n, longest)
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("read frame of %d bytes: %w", n, err)
	}
	return kind, payload, nil
}
