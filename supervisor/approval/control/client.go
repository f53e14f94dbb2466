package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// ErrOver says that nobody serves the questions of a session: it is over, or it
// takes no answers this way.
var ErrOver = errors.New("the session is over, or takes no answers here")

// RefusedError is what a session says to a request that it does not carry out.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Client asks and answers at the socket of one session.
type Client struct {
	// Dir is the session's directory.
	Dir string
}

// List is what is pending, the oldest first. The error is ErrOver when nobody
// listens.
func (c *Client) List(ctx context.Context) (list []approval.Question, err error) {
	_, err = c.exchange(ctx, &Request{Do: List}, func(m *Message) error {
		if m.Question != nil {
			list = append(list, *m.Question)
		}
		return nil
	})
	return list, err
}

// Follow calls each for every question that is pending, for the status ok after
// them, and then for what comes and goes, until ctx or the session ends (nil).
func (c *Client) Follow(ctx context.Context, each func(*Message) error) error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := ask(conn, &Request{Do: Watch}); err != nil {
		return c.explain(err)
	}
	for r := bufio.NewReader(conn); ; {
		m, err := receive(r)
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return c.explain(err)
		case m.Status == StatusOver:
			return nil
		case m.Status != "" && m.Status != StatusOK:
			return m.err()
		}
		if err := each(m); err != nil {
			return err
		}
	}
}

// Propose is the rule that scope always would write for a question.
func (c *Client) Propose(ctx context.Context, id string) (Rule, error) {
	m, err := c.exchange(ctx, &Request{Do: Propose, ID: id}, nil)
	if err == nil && m.Rule == nil {
		err = errors.New("the session proposes no rule")
	}
	if err != nil {
		return Rule{}, err
	}
	return *m.Rule, nil
}

// Answer allows or denies a question; rule is what Propose gave, for scope
// always alone. The error is a *approval.ClosedError when it is not pending.
func (c *Client) Answer(ctx context.Context, id string, a approval.Answer, rule *Rule) error {
	r := &Request{Do: Deny, ID: id, Scope: a.Scope.String(), Reason: a.Reason, Rule: rule}
	if a.Allow {
		r.Do = Allow
	}
	_, err := c.exchange(ctx, r, nil)
	return err
}

// exchange sends one request and reads to the status of its reply.
func (c *Client) exchange(ctx context.Context, r *Request, each func(*Message) error) (*Message, error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := conn.SetDeadline(time.Now().Add(3 * patience)); err != nil {
		return nil, err
	}
	if err := ask(conn, r); err != nil {
		return nil, c.explain(err)
	}
	for lines := bufio.NewReader(conn); ; {
		m, err := receive(lines)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, c.explain(err)
		case m.Status != "":
			return m, m.err()
		}
		if each != nil {
			if err := each(m); err != nil {
				return nil, err
			}
		}
	}
}

// err is what a status means to who asked.
func (m *Message) err() error {
	switch m.Status {
	case StatusOK, StatusAccepted:
		return nil
	case StatusClosed:
		return m.closedError()
	case StatusOver:
		return ErrOver
	}
	return &RefusedError{m.Error}
}

func (m *Message) closedError() error {
	e := &approval.ClosedError{}
	c := m.Closed
	if c == nil {
		return e
	}
	e.ID = c.ID
	if scope, err := approval.ParseScope(c.Scope); err == nil && c.By != "" {
		e.Outcome = &approval.Outcome{Answer: approval.Answer{Allow: c.Allow, Scope: scope, By: c.By, Reason: c.Reason}}
	}
	return e
}

func (c *Client) dial() (net.Conn, error) {
	dir, err := unix.Open(c.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reach session %s: %w", filepath.Base(c.Dir), err)
	}
	defer unix.Close(dir)
	conn, err := net.DialTimeout("unix", socketPath(dir), patience)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		err = ErrOver
	}
	if err != nil {
		return nil, fmt.Errorf("reach session %s: %w", filepath.Base(c.Dir), err)
	}
	return conn, nil
}

// explain names the session in the error of a connection that broke.
func (c *Client) explain(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = ErrOver
	}
	return fmt.Errorf("ask session %s: %w", filepath.Base(c.Dir), err)
}

func ask(conn net.Conn, r *Request) error {
	r.V = Version
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	// Whoever refuses us at once says so before it hangs up.
	if _, err = conn.Write(append(line, '\n')); errors.Is(err, unix.EPIPE) {
		return nil
	}
	return err
}

// receive reads one line of a bounded length.
func receive(r *bufio.Reader) (*Message, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > MaxMessage {
			return nil, fmt.Errorf("a line has more than %d bytes", MaxMessage)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
	var m Message
	if err := json.Unmarshal(bytes.TrimSpace(line), &m); err != nil {
		return nil, fmt.Errorf("read message: %w", err)
	}
	if m.V != Version {
		return nil, fmt.Errorf("the session speaks version %d of the protocol, this reeve %d", m.V, Version)
	}
	return &m, nil
}
