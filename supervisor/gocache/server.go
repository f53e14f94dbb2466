package gocache

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	// trimAge is when the go command may throw out what nobody has used since (after
	// five days and an hour), less what a build may take.
	trimAge = 4 * 24 * time.Hour
	// testLog is how the record of what a test has read begins, by which the go
	// command finds its result.
	testLog = "# test log\n"
	// most is how many lookups there are at once.
	most = 8
)

// server answers one go command.
type server struct {
	private, host dir
	now           func() time.Time

	mu  sync.Mutex // guards out
	out *json.Encoder
	err error // of the first answer that could not be written
}

// serve answers what comes until there is no more. The requests may be answered in
// any order. An output that is put can be found when its put was answered.
func (s *server) serve(in io.Reader, out io.Writer) error {
	s.out = json.NewEncoder(out)
	s.answer(response{KnownCommands: []string{commandGet, commandPut, commandClose}})
	r := bufio.NewReaderSize(in, maxLine)
	var lookups sync.WaitGroup
	defer lookups.Wait()
	places := make(chan struct{}, most)
	for s.failed() == nil {
		q, err := readRequest(r)
		if err != nil {
			return unlessGone(err)
		}
		switch q.Command {
		case commandGet:
			places <- struct{}{}
			lookups.Go(func() { s.get(q); <-places })
		case commandPut:
			if err := s.put(q, r); err != nil {
				return unlessGone(err)
			}
		case commandClose:
			lookups.Wait()
			s.answer(response{ID: q.ID})
			return s.failed()
		default:
			s.refuse(q, fmt.Errorf("%q is no command that was offered", q.Command))
		}
	}
	return s.failed()
}

// unlessGone is an error, unless it is that the go command is gone: nobody waits for
// what it had asked, or half asked.
func unlessGone(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

func (s *server) answer(a response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(a); err != nil && s.err == nil {
		s.err = fmt.Errorf("answer the go command: %w", err)
	}
}

func (s *server) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *server) refuse(q request, err error) {
	s.answer(response{ID: q.ID, Err: "reeve " + Verb + ": " + err.Error()})
}

// get answers a lookup: from the private cache, else from the host's.
func (s *server) get(q request) {
	action, err := parseID(q.ActionID)
	if err != nil {
		s.refuse(q, fmt.Errorf("look up: %w", err))
		return
	}
	f, ok := s.private.find(action, 0)
	if !ok {
		f, ok = s.hosts(action)
	}
	if !ok {
		s.answer(response{ID: q.ID, Miss: true})
		return
	}
	s.answer(response{ID: q.ID, OutputID: f.output[:], Size: f.size, Time: &f.time, DiskPath: f.path})
}

// hosts looks up in the host's cache what a session may take from there.
func (s *server) hosts(action id) (f found, ok bool) {
	f, ok = s.host.find(action, len(testLog))
	if !ok || f.head == testLog {
		return f, false
	}
	if s.now().Sub(f.used) < trimAge {
		return f, true
	}
	file, err := os.Open(f.path)
	if err != nil {
		return f, false
	}
	defer file.Close()
	f.path, err = s.private.put(action, f.entry, file)
	return f, err == nil
}

// put keeps an output. An error is one of the stream of requests, which cannot be
// read on; what else goes wrong is the answer.
func (s *server) put(q request, r *bufio.Reader) error {
	body, err := readBody(r, q.BodySize)
	if err != nil {
		return err
	}
	path, err := s.store(q, body)
	if err := body.finish(); err != nil {
		return err
	}
	if err != nil {
		s.refuse(q, fmt.Errorf("keep an output: %w", err))
		return nil
	}
	s.answer(response{ID: q.ID, DiskPath: path})
	return nil
}

func (s *server) store(q request, body io.Reader) (path string, err error) {
	action, err := parseID(q.ActionID)
	if err != nil {
		return "", err
	}
	output, err := parseID(q.OutputID)
	if err != nil {
		return "", err
	}
	return s.private.put(action, entry{output, q.BodySize, s.now()}, body)
}
