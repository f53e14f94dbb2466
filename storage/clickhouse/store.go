// Package clickhouse is the store for fleets: one table in ClickHouse, written
// and read over its native protocol.
package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/reeve-audit/reeve/storage"
)

var _ storage.Store = (*Store)(nil)

// Error codes of ClickHouse (src/Common/ErrorCodes.cpp).
const (
	codeUnknownColumn   = 47
	codeUnknownTable    = 60
	codeUnknownDatabase = 81
)

// Config is where the store is.
type Config struct {
	// URL is clickhouse://user:password@host:9000/database, with the parameters
	// of clickhouse-go (secure=true and so on). The database, "reeve" if none is
	// named, is made when it is not there.
	URL string
}

// Store is a connection to one database. Its methods may be called from any
// goroutine. Nothing is connected before it is needed. A failed Append may be
// tried again with the same delivery, and should: what the server took of it,
// or is still about to take, is not kept twice.
type Store struct {
	opts     *ch.Options
	database string // quoted
	where    string // for messages, without secrets

	mu       sync.Mutex // guards what follows
	conn     driver.Conn
	migrated bool
}

// New is the store at a URL.
func New(cfg Config) (*Store, error) {
	opts, err := ch.ParseDSN(cfg.URL)
	if err != nil {
		// The error may quote the URL and with it a password.
		return nil, errors.New("clickhouse store: the URL is not clickhouse://user:password@host:9000/database")
	}
	if opts.Addr, err = addresses(opts); err != nil {
		return nil, err
	}
	name := opts.Auth.Database
	if name == "" || name == "default" && !strings.Contains(cfg.URL, "/default") {
		name = "reeve"
	}
	opts.Auth.Database = "default" // ours may have to be made first
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = 5 * time.Second
	}
	opts.MaxOpenConns, opts.MaxIdleConns = 4, 2
	if opts.Compression == nil {
		opts.Compression = &ch.Compression{Method: ch.CompressionLZ4}
	}
	return &Store{
		opts: opts, database: quoteName(name),
		where: fmt.Sprintf("ClickHouse at %s/%s", strings.Join(opts.Addr, ","), name),
	}, nil
}

// addresses are the servers' with their ports.
func addresses(opts *ch.Options) ([]string, error) {
	usual := "9000"
	if opts.TLS != nil {
		usual = "9440"
	}
	var out []string
	for _, addr := range opts.Addr {
		host, port, err := net.SplitHostPort(addr)
		if err != nil { // most likely it has none
			host, port = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), usual
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if host == "" || err != nil || n == 0 {
			return nil, fmt.Errorf("clickhouse store: %q is no host:port", addr)
		}
		out = append(out, net.JoinHostPort(host, port))
	}
	return out, nil
}

func quoteName(s string) string {
	return "`" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(s) + "`"
}

// connect gives the connection pool.
func (s *Store) connect() (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		conn, err := ch.Open(s.opts)
		if err != nil {
			return nil, s.fail("connect", err)
		}
		s.conn = conn
	}
	return s.conn, nil
}

// writer is connect, to a database that has the tables.
func (s *Store) writer(ctx context.Context) (driver.Conn, error) {
	conn, err := s.connect()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.migrated {
		if err := s.migrate(ctx, conn); err != nil {
			return nil, s.fail("prepare tables", err)
		}
		s.migrated = true
	}
	return conn, nil
}

// fail names the place of an error.
func (s *Store) fail(what string, err error) error {
	return fmt.Errorf("%s: %s: %w", s.where, what, err)
}

// missing reports that nobody has written to the database yet.
func missing(err error) bool {
	var e *ch.Exception
	return errors.As(err, &e) && (e.Code == codeUnknownTable || e.Code == codeUnknownDatabase)
}

// lacksColumns reports that the database is older than this program.
func lacksColumns(err error) bool {
	var e *ch.Exception
	return errors.As(err, &e) && e.Code == codeUnknownColumn
}

// Close closes the connections.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
