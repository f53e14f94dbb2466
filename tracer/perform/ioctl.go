package perform

import "github.com/reeve-audit/reeve/tracer/proc"

// Ioctl is an ioctl whose argument is a structure that is only read.
func Ioctl(fd int, cmd uint32, arg []byte) error { return proc.Ioctl(fd, cmd, arg) }
