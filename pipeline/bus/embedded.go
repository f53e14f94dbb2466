package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"
)

// Config is how a server inside this process keeps a session's messages.
type Config struct {
	// Dir is the session's own directory; it is made if need be, and locked.
	Dir string
	// Existing refuses a Dir that is not there yet.
	Existing bool
	// MaxBytes bounds the stream: DefaultMaxBytes. When it is full, publishing
	// fails until Trim has made room.
	MaxBytes int64
	// SyncInterval is how often the file store is forced to disk: 10 s. An acked
	// message survives the death of the process at once; the interval is what a
	// power failure can cost. SyncAlways forces every message, some 0.2 ms each.
	SyncInterval time.Duration
	SyncAlways   bool
	Log          *slog.Logger
}

// The defaults and bounds of an embedded server.
const (
	DefaultMaxBytes     = 2 << 30
	defaultSyncInterval = 10 * time.Second
	startTimeout        = 30 * time.Second
	minFree             = 4 << 20
	jetstreamMemory     = 64 << 20
	unlimited           = 1 << 50 // the stream has its own limit
)

// local is what an embedded server holds besides the connection.
type local struct {
	srv  *server.Server
	log  *serverLog
	dir  string
	lock *dirLock
}

// Open starts a server in this process, on no port, and connects to it. The
// stream is there when Open returns. A directory that another process uses
// gives ErrLive.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	if cfg.SyncInterval <= 0 {
		cfg.SyncInterval = defaultSyncInterval
	}
	b, err := open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open bus %s: %w", cfg.Dir, err)
	}
	return b, nil
}

func open(ctx context.Context, cfg Config) (_ *Bus, err error) {
	if err := prepareDir(cfg); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	l := &local{log: &serverLog{log: cfg.Log}, dir: cfg.Dir, lock: lock}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	_, statErr := os.Lstat(filepath.Join(cfg.Dir, server.JetStreamStoreDir))
	fresh := errors.Is(statErr, os.ErrNotExist)
	if err := l.start(cfg); err != nil {
		return nil, err
	}
	nc, err := nats.Connect("", nats.InProcessServer(l.srv), nats.Name("reeve"), nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	b, err := attach(nc, cfg.Log)
	if err == nil {
		b.local = l
		l.log.owner.Store(b)
		err = b.ensure(ctx, jetstream.StreamConfig{
			Name: StreamName, Subjects: []string{subjects}, Storage: jetstream.FileStorage,
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, MaxBytes: cfg.MaxBytes,
			Duplicates: 2 * time.Minute,
		}, fresh)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return b, nil
}

// prepareDir makes the directory and finds early what the server would report
// in its own words.
func prepareDir(cfg Config) error {
	if cfg.Dir == "" {
		return errors.New("no directory given")
	}
	if !cfg.Existing {
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return fmt.Errorf("make directory: %w; is the state directory writable?", err)
		}
	}
	if err := unix.Access(cfg.Dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("directory: %w; is the state directory writable?", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(cfg.Dir, &st); err != nil {
		return fmt.Errorf("look for free space: %w", err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < minFree {
		return fmt.Errorf("%w: %d KiB are free, a session needs %d or more",
			unix.ENOSPC, free>>10, minFree>>10)
	}
	return nil
}

func (l *local) start(cfg Config) error {
	srv, err := server.NewServer(&server.Options{
		ServerName: "reeve", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, DisableJetStreamBanner: true, NoSystemAccount: true,
		StoreDir: cfg.Dir, SyncInterval: cfg.SyncInterval, SyncAlways: cfg.SyncAlways,
		JetStreamMaxMemory: jetstreamMemory, JetStreamMaxStore: unlimited,
		MaxPayload: 1 << 20,
	})
	if err != nil {
		return fmt.Errorf("configure server: %w", err)
	}
	srv.SetLoggerV2(l.log, false, false, false)
	l.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		if said := l.log.last(); said != "" {
			return fmt.Errorf("start server: %s", said)
		}
		return errors.New("start server: it is not ready in time")
	}
	return nil
}

func (l *local) close() error {
	if l.srv != nil {
		l.srv.Shutdown()
		l.srv.WaitForShutdown()
	}
	return l.lock.release()
}

// Discard says that everything in a local bus is stored elsewhere, closes it
// and removes its directory. It is atomic: either the directory is complete,
// or it is marked as removable.
func (b *Bus) Discard() error {
	if b.local == nil {
		return errors.New("bug: discard a bus that is not local")
	}
	l := b.local
	gone := l.dir + removedSuffix
	// Renamed first: the server's last writes then have nowhere to go, and no
	// later start takes the directory for a crashed session's.
	if err := os.Rename(l.dir, gone); err != nil {
		return fmt.Errorf("discard bus: %w", err)
	}
	err := b.close(true)
	return errors.Join(err, removeAll(l.dir), removeAll(gone))
}

func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", filepath.Base(dir), err)
	}
	return nil
}
