package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// DialConfig is how to reach a server elsewhere.
type DialConfig struct {
	// URL is nats://host:port, tls://…, ws://…, or several with commas between.
	URL string
	// Credentials is the path of a .creds file, empty for none.
	Credentials string
	// Duplicates is how long a stream that we make knows message ids: 1 hour.
	// MaxBytes bounds it, 0 for as much as the server allows.
	Duplicates time.Duration
	MaxBytes   int64
	Log        *slog.Logger
}

// Dial connects to a server elsewhere and gets or makes the stream there. It
// fails when the server is not to be had now; once connected, it reconnects for
// as long as the Bus lives.
func Dial(ctx context.Context, cfg DialConfig) (*Bus, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Duplicates <= 0 {
		cfg.Duplicates = time.Hour
	}
	if err := CheckURL(cfg.URL); err != nil {
		return nil, err
	}
	opts := cfg.options("reeve", func() {})
	nc, err := nats.Connect(cfg.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS at %s: %w", redact(cfg.URL), err)
	}
	b, err := attach(nc, cfg.Log)
	if err == nil {
		err = b.ensure(ctx, jetstream.StreamConfig{
			Name: StreamName, Subjects: []string{subjects}, Storage: jetstream.FileStorage,
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, DenyDelete: true,
			MaxBytes: orUnlimited(cfg.MaxBytes), Duplicates: cfg.Duplicates,
		}, false)
	}
	if err != nil {
		nc.Close()
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, nats.ErrNoResponders) {
			err = fmt.Errorf("%w; start the server with JetStream (nats-server -js)", err)
		}
		return nil, fmt.Errorf("NATS at %s: %w", redact(cfg.URL), err)
	}
	return b, nil
}

// options are those of every connection to a server elsewhere; connected is
// called whenever there is a new one.
func (cfg *DialConfig) options(name string, connected func()) []nats.Option {
	opts := []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		nats.Timeout(5 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				cfg.Log.Warn("the connection to NATS is lost; reconnecting", "err", err)
			}
		}),
		nats.ConnectHandler(func(*nats.Conn) { connected() }),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			cfg.Log.Info("connected to NATS again", "server", nc.ConnectedUrlRedacted())
			connected()
		}),
	}
	if cfg.Credentials != "" {
		opts = append(opts, nats.UserCredentials(cfg.Credentials))
	}
	return opts
}

// DialRetry is Dial, again and again until it succeeds or ctx ends.
func DialRetry(ctx context.Context, cfg DialConfig) (*Bus, error) {
	for attempt := 0; ; attempt++ {
		b, err := Dial(ctx, cfg)
		if err == nil || ctx.Err() != nil {
			return b, err
		}
		if cfg.Log != nil && attempt%30 == 0 {
			cfg.Log.Warn("NATS is not to be had; records are kept until it is", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(2 * time.Second):
		}
	}
}

// CheckURL finds what is wrong with the address of a server, or of several with
// commas between, as far as that can be told without asking one.
func CheckURL(urls string) error {
	servers, web := 0, 0
	for s := range strings.SplitSeq(urls, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil { // it would quote a password
			return errors.New("NATS: the address cannot be parsed")
		}
		switch u.Scheme {
		case "nats", "tls":
		case "ws", "wss":
			web++
		default:
			return fmt.Errorf("NATS at %s: there is no scheme %q", redact(s), u.Scheme)
		}
		if u.Hostname() == "" {
			return fmt.Errorf("NATS at %s: the address names no host", redact(s))
		}
		if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
			return fmt.Errorf("NATS at %s: there is no port %s", redact(s), u.Port())
		}
		servers++
	}
	switch {
	case servers == 0:
		return errors.New("NATS: the address is empty")
	case web != 0 && web != servers:
		return fmt.Errorf("NATS at %s: ws:// and nats:// cannot be mixed", redact(urls))
	}
	return nil
}

func orUnlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// redact takes passwords and tokens out of a list of URLs.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, s := range parts {
		u, err := url.Parse(strings.TrimSpace(s))
		if err != nil {
			parts[i] = "(not a URL)"
			continue
		}
		if u.User != nil {
			u.User = url.User("xxxxx")
		}
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}
