// Package gocache is the build cache of the go commands in a session: it reads the
// host's, where it can never write, and keeps what the session builds in the
// session's private one.
//
// The go command (1.24 and later) starts the program that $GOCACHEPROG names and asks
// it over its standard input and output, see the package cmd/go/internal/cacheprog of
// the Go distribution. Here that is reeve itself, called as
//
//	reeve go-cache DIR
//
// DIR is the host's build cache; the private one is $GOCACHE, which the go command
// sets for all that it starts. The program is a task of the session like any other:
// it can read and write what the policy lets the session, nothing else.
//
// Both directories have the form that the go command itself gives them, so that one
// that asks no such program finds in the private one what was put there. What is
// damaged or strange in either, or cannot be read, is as good as not there.
// Three kinds of entries of the host's are special:
//   - Results of tests are not taken: what a session says to have tested ran in it.
//   - One that the host's go command may be about to throw out, since nobody has
//     used it for days and reading here does not count as use, is copied.
//   - A program (what `go run` keeps) is not asked for: the go command does not keep
//     programs in a cache like this one.
package gocache

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Verb is the word by which reeve is this program.
const Verb = "go-cache"

// The program begins here, before the packages that only a supervisor needs (bus,
// stores) set up their tables: a go command waits for it.
func init() {
	if len(os.Args) > 1 && os.Args[1] == Verb {
		os.Exit(Main(os.Args[2:], os.Getenv("GOCACHE"), os.Stdin, os.Stdout, os.Stderr))
	}
}

// Main serves one go command and returns the exit status. args is the host's build
// cache, private the session's. It ends when in ends, which it does with the go
// command, or when that says so.
func Main(args []string, private string, in io.Reader, out, complaints io.Writer) int {
	// A person's ^C and ^\ are for what the go command runs, which may live on: it
	// ignores them itself, and would end if its cache did.
	signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
	err := check(args, private)
	if err == nil {
		s := &server{private: dir{private}, host: dir{args[0]}, now: time.Now}
		err = s.serve(in, out)
	}
	if err != nil {
		fmt.Fprintf(complaints, "reeve %s: %v; `GOCACHEPROG= go ...` does without\n", Verb, err)
		return 1
	}
	return 0
}

func check(args []string, private string) error {
	switch {
	case len(args) != 1 || !filepath.IsAbs(args[0]):
		return errors.New("the host's build cache must be given, as an absolute path: the go command starts this program, see GOCACHEPROG")
	case !filepath.IsAbs(private):
		return fmt.Errorf("GOCACHE is %q, not the absolute path of a directory", private)
	}
	return nil
}
