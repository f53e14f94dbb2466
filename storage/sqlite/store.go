// Package sqlite is the default store: one SQLite file, by a pure Go port, that
// any number of reeve processes write to and read from at once.
//
// A session's records are kept in blocks, runs of up to 1,024 of them in the form
// in which they came from the bus: see block. To take a record apart into columns,
// as versions 1 and 2 of the file did, costs 20 times what it costs to keep it.
// What they stored stays as it is, in table events, and is read from there.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"modernc.org/sqlite" // and the driver "sqlite"

	"github.com/reeve-audit/reeve/storage"
)

var _ storage.Store = (*Store)(nil)

// busyTimeout is how long a process waits for another one's transaction.
const busyTimeout = 15 * time.Second

// Config is what a store may keep.
type Config struct {
	// MaxAge and MaxBytes bound what is kept: sessions that ended longer ago go,
	// and the oldest ones until the file's content fits. Zero is no bound. A
	// session goes as a whole; one that is written to, or that this Store has
	// written, stays.
	MaxAge   time.Duration
	MaxBytes int64
	// Now is the clock that MaxAge goes by.
	Now func() time.Time
}

// Store is one file. Its methods may be called from any goroutine.
type Store struct {
	path string
	cfg  Config

	mu sync.Mutex // guards db and its making
	db *sql.DB

	wmu  sync.Mutex // serializes this process's writes, guards what follows
	conn *sql.Conn
	statements
	sids map[string]int64 // the sessions this Store has written
	rows int              // records since the last look at the bounds
	// Kept for their capacity: records of a block, the whole of it, compressed.
	records, raw, packed []byte
}

// New is the store in the file at path. Nothing is opened or made before it is
// needed: the first Append makes the file, and its directory, for the owner
// alone; questions to a file that is not there are answered with nothing.
func New(path string, cfg Config) (*Store, error) {
	if path == "" {
		return nil, errors.New("sqlite store: no file given")
	}
	if cfg.MaxAge < 0 || cfg.MaxBytes < 0 {
		return nil, errors.New("sqlite store: a bound is negative")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Store{path: path, cfg: cfg, sids: make(map[string]int64)}, nil
}

// Open opens the file for writing, which the first Append would do otherwise.
func (s *Store) Open(ctx context.Context) error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	return s.writer(ctx)
}

// open gives the database; with create, it makes the file if it is not there.
// Without, a missing file is fs.ErrNotExist.
func (s *Store) open(ctx context.Context, create bool) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		return s.db, nil
	}
	empty, err := s.prepare(create)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	q := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"journal_mode(wal)", "synchronous(normal)", "foreign_keys(off)", "trusted_schema(off)",
		"cache_size(-4096)", "temp_store(memory)", "journal_size_limit(16777216)",
	}}
	if empty { // later it would be a transaction, flushed to disk, at each start
		q.Set("_auto_vacuum", "2")
	}
	name := (&url.URL{Scheme: "file", Path: s.path, RawQuery: q.Encode()}).String()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", s.path, err)
	}
	db.SetMaxOpenConns(4)
	if err := s.settle(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", s.path, err), db.Close())
	}
	s.db = db
	return db, nil
}

// settle migrates the file. Processes that make it at once meet where SQLite
// refuses to wait, at the switch to write-ahead logging: try again then.
func (s *Store) settle(ctx context.Context, db *sql.DB) error {
	for start := time.Now(); ; {
		err := migrate(ctx, db)
		if !isBusy(err) || time.Since(start) > busyTimeout {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isBusy reports SQLITE_BUSY, in any of its extended forms.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == 5
}

// prepare makes the file if it is to be made; empty says that it holds nothing.
func (s *Store) prepare(create bool) (empty bool, err error) {
	if !create {
		info, err := os.Stat(s.path)
		return err == nil && info.Size() == 0, err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return false, fmt.Errorf("make directory: %w; is the state directory writable?", err)
	}
	// SQLite would make the file by the umask; its -wal and -shm follow it.
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	return err == nil && info.Size() == 0, errors.Join(err, f.Close())
}

// reader is open for a question; ok is false when there is no file yet.
func (s *Store) reader(ctx context.Context) (db *sql.DB, ok bool, err error) {
	db, err = s.open(ctx, false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return db, err == nil, err
}

// Close closes the file, after a last look at the bounds.
func (s *Store) Close() error {
	s.wmu.Lock()
	defer s.wmu.Unlock()
	var errs []error
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), busyTimeout)
		defer cancel()
		errs = append(errs, s.prune(ctx))
		// One that is left open would keep the log from being moved into the file.
		errs = append(errs, s.close(), s.conn.Close())
		s.conn = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		errs = append(errs, s.db.Close())
		s.db = nil
	}
	return errors.Join(errs...)
}
