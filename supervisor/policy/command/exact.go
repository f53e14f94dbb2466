package command

import "slices"

// Exact is one command and no other: a program by its resolved path, its argument
// vector word for word, and where it is run.
type Exact struct {
	// Program is the resolved path.
	Program string
	Argv    []string
	// Cwd is the working directory; empty is any.
	Cwd string
}

// Is reports whether a call is that command. A working directory that is not known
// is none that was named.
func (x *Exact) Is(c *Call) bool {
	return c.Program == x.Program && (x.Cwd == "" || c.Cwd == x.Cwd) && slices.Equal(c.Argv, x.Argv)
}

// Equal reports whether two are the same command.
func (x *Exact) Equal(o *Exact) bool {
	return o != nil && x.Program == o.Program && x.Cwd == o.Cwd && slices.Equal(x.Argv, o.Argv)
}

// Size is the length of the argument vector in bytes, as execve counts it.
func (x *Exact) Size() int {
	n := 0
	for _, w := range x.Argv {
		n += len(w) + 1
	}
	return n
}

// label is how a match of a rule about one command is called.
func (r *Rule) label() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Programs[0] + " with these arguments"
}
