package gocache

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// The commands of the go command.
const (
	commandGet   = "get"
	commandPut   = "put"
	commandClose = "close"
)

// request is one message of the go command, a line of JSON. That of a put is followed
// by a line with a JSON string, the output in base64, unless BodySize (of the output,
// in bytes) is 0. Empty lines between them mean nothing.
type request struct {
	ID                 int64
	Command            string
	ActionID, OutputID []byte
	BodySize           int64
}

// response is the answer to one. The first, with ID 0, comes unasked, and says what
// the go command may ask.
type response struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

// maxLine bounds a request, which has a few hundred bytes. It is the size of the
// readers, too.
const maxLine = 64 << 10

// readRequest reads the next request; io.EOF says that there is none. r has room for
// maxLine bytes.
func readRequest(r *bufio.Reader) (q request, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if len(bytes.TrimSpace(line)) == 0 && err == nil {
			continue
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return q, fmt.Errorf("read a request: it has more than %d bytes", maxLine)
		case errors.Is(err, io.EOF):
			return q, err // half a request is none: who wrote it is gone
		case err != nil:
			return q, fmt.Errorf("read a request: %w", err)
		}
		if err := json.Unmarshal(line, &q); err != nil {
			return q, fmt.Errorf("read a request: %w", err)
		}
		if q.BodySize < 0 {
			return q, fmt.Errorf("read a request: an output of %d bytes", q.BodySize)
		}
		return q, nil
	}
}

// body reads an output from the stream of requests.
type body struct {
	text    io.Reader // what is between the quotes
	decoded io.Reader // nil for an output without bytes
}

// readBody begins an output of size bytes.
func readBody(r *bufio.Reader, size int64) (*body, error) {
	if size == 0 {
		return &body{}, nil
	}
	for {
		switch c, err := r.ReadByte(); {
		case err != nil:
			return nil, bodyError(err)
		case c == '"':
			text := &quoted{r: r}
			return &body{text, io.LimitReader(base64.NewDecoder(base64.StdEncoding, text), size+1)}, nil
		case c != '\n' && c != '\r' && c != ' ' && c != '\t':
			return nil, fmt.Errorf("read an output: it begins with %q, not with a quotation mark", c)
		}
	}
}

func bodyError(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read an output: %w", err)
}

// Read is that of io.Reader. One byte more than the size comes of an output that is
// too long.
func (b *body) Read(p []byte) (int, error) {
	if b.decoded == nil {
		return 0, io.EOF
	}
	return b.decoded.Read(p)
}

// finish skips what nobody read of the output, so that the next request comes next.
func (b *body) finish() error {
	if b.text == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, b.text); err != nil {
		return bodyError(err)
	}
	return nil
}

// quoted reads up to a quotation mark.
type quoted struct {
	r   *bufio.Reader
	end bool
}

// Read is that of io.Reader. An end of the stream before the mark is an error.
func (q *quoted) Read(p []byte) (int, error) {
	if q.end {
		return 0, io.EOF
	}
	if q.r.Buffered() == 0 {
		if _, err := q.r.Peek(1); errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		} else if err != nil {
			return 0, err
		}
	}
	there, err := q.r.Peek(min(q.r.Buffered(), len(p)))
	if err != nil {
		return 0, err
	}
	n := bytes.IndexByte(there, '"')
	if n < 0 {
		n = len(there)
	} else {
		q.end = true
	}
	copy(p, there[:n])
	skip := n
	if q.end {
		skip++
	}
	if _, err := q.r.Discard(skip); err != nil {
		return 0, err
	}
	if n == 0 && q.end {
		return 0, io.EOF
	}
	return n, nil
}
