package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/tracer/event"
)

var _ storage.Reader = (*FileReader)(nil)

// FileReader answers questions from an exported file as a store would, reading
// it anew for each.
type FileReader struct{ path string }

// OpenFile is a reader of the file at path. That it is one is checked now, that
// it is complete whenever it is read.
func OpenFile(path string) (*FileReader, error) {
	r := &FileReader{path}
	f, closeFile, err := r.open()
	if err != nil {
		return nil, err
	}
	_ = f.Session
	return r, closeFile()
}

func (r *FileReader) open() (*File, func() error, error) {
	osFile, err := os.Open(r.path)
	if err != nil {
		return nil, nil, fmt.Errorf("read session: %w", err)
	}
	f, err := NewFile(osFile)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open session file %s: %w", r.path, err), osFile.Close())
	}
	return f, osFile.Close, nil
}

// Sessions is the summary of the file's one session.
func (r *FileReader) Sessions(ctx context.Context, _ int) (_ []storage.Session, err error) {
	var s storage.Session
	for e, err := range r.Events(ctx, storage.Query{}) {
		if err != nil {
			return nil, err
		}
		s.Add(&e)
	}
	if s.Events == 0 {
		return nil, nil
	}
	return []storage.Session{s}, nil
}

// Session is the summary of the file's session, by id or as "last".
func (r *FileReader) Session(ctx context.Context, id string) (storage.Session, error) {
	all, err := r.Sessions(ctx, 0)
	if err != nil {
		return storage.Session{}, err
	}
	if len(all) == 0 || id == "" || id != "last" && !strings.HasPrefix(all[0].ID, id) {
		return storage.Session{}, fmt.Errorf("%w: %q is not in %s", storage.ErrNoSession, id, r.path)
	}
	return all[0], nil
}

// Events are the records that q asks for; see storage.Reader.
func (r *FileReader) Events(ctx context.Context, q storage.Query) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if err := r.events(ctx, q, yield); err != nil {
			yield(event.Event{}, fmt.Errorf("read %s: %w", r.path, err))
		}
	}
}

func (r *FileReader) events(ctx context.Context, q storage.Query, yield func(event.Event, error) bool) (err error) {
	m, err := storage.NewMatcher(q)
	if err != nil {
		return err
	}
	f, closeFile, err := r.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeFile()) }()
	left := q.Limit
	for e, err := range f.Events() {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if !m.Match(&e) {
			continue
		}
		if !yield(e, nil) {
			return nil
		}
		if left--; left == 0 {
			return nil
		}
	}
	return nil
}
