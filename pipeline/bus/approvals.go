package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The subjects of approvals, each followed by a session's id. They are no part of
// the stream: a stream of somebody's that covers "reeve.>" would answer requests
// with acks of its own, so let it cover "reeve.events.>" alone.
const (
	asksPrefix    = "reeve.asks."
	answersPrefix = "reeve.answers."
	inboxPrefix   = "_INBOX."
)

// Bounds of what waits to be answered, and how long a last reply may take.
const (
	maxRequests     = 256
	maxRequestBytes = 4 << 20
	farewell        = time.Second
)

// Desk is where a session's questions wait, in lines of JSON.
type Desk interface {
	// Follow tells what is pending, then what comes and goes, until ctx ends or
	// emit fails.
	Follow(ctx context.Context, emit func(line []byte) error) error
	// Answer carries out a request and gives the reply.
	Answer(request []byte) (reply []byte)
}

// ApprovalsConfig says whose questions go to which server. Log may be nil.
type ApprovalsConfig struct {
	Dial    DialConfig
	Session string
	Desk    Desk
}

// Approvals publishes a session's questions on reeve.asks.SESSION of a server
// elsewhere and takes answers by request and reply on reeve.answers.SESSION.
//
// Who may answer is who may publish on that subject of that server: reeve does
// not look further, and who reads the other subject reads command lines and
// paths. So give the server accounts or permissions, and TLS, before this is used.
// Messages are not stored: a question that nobody hears waits for its deadline
// and is denied. When the server comes back, all that is pending is published
// again.
type Approvals struct {
	cfg ApprovalsConfig
	up  chan struct{} // has room for one
}

// NewApprovals checks cfg.
func NewApprovals(cfg ApprovalsConfig) (*Approvals, error) {
	if cfg.Desk == nil || cfg.Session == "" || strings.ContainsAny(cfg.Session, ".*> \t\r\n") {
		return nil, fmt.Errorf("bug: approvals of session %q", cfg.Session)
	}
	if cfg.Dial.Log == nil {
		cfg.Dial.Log = slog.New(slog.DiscardHandler)
	}
	return &Approvals{cfg: cfg, up: make(chan struct{}, 1)}, nil
}

// Run connects, again whenever the connection is lost, and serves until ctx ends
// (nil). The error is that of a server that cannot be meant.
func (a *Approvals) Run(ctx context.Context) error {
	opts := append(a.cfg.Dial.options("reeve approvals", a.signal),
		// What cannot be sent now is sent when all is published again.
		nats.RetryOnFailedConnect(true), nats.ReconnectBufSize(-1))
	nc, err := nats.Connect(a.cfg.Dial.URL, opts...)
	if err != nil {
		return fmt.Errorf("connect to NATS at %s: %w", redact(a.cfg.Dial.URL), err)
	}
	defer nc.Close()
	sub, err := nc.Subscribe(answersPrefix+a.cfg.Session, a.answer)
	if err == nil {
		err = sub.SetPendingLimits(maxRequests, maxRequestBytes)
	}
	if err != nil {
		return fmt.Errorf("take answers at %s: %w", redact(a.cfg.Dial.URL), err)
	}
	for {
		select {
		case <-ctx.Done():
			_ = nc.FlushTimeout(farewell) // replies on their way
			return nil
		case <-a.up:
			a.publish(ctx, nc)
		}
	}
}

// signal says that the server is there.
func (a *Approvals) signal() {
	select {
	case a.up <- struct{}{}:
	default:
	}
}

// publish tells what is pending and what becomes of it, until there is a new
// connection, whose subscribers know nothing of it, or none.
func (a *Approvals) publish(ctx context.Context, nc *nats.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- a.cfg.Desk.Follow(ctx, func(line []byte) error { return a.tell(nc, line) })
	}()
	select {
	case err := <-ended:
		if ctx.Err() == nil {
			a.cfg.Dial.Log.Warn("questions cannot be published; they are again when the server is there", "err", err)
		}
	case <-a.up:
		a.signal()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			a.cfg.Dial.Log.Debug("publishing ended with the connection", "err", err)
		}
	}
}

func (a *Approvals) tell(nc *nats.Conn, line []byte) error {
	err := nc.Publish(asksPrefix+a.cfg.Session, line)
	if errors.Is(err, nats.ErrMaxPayload) {
		a.cfg.Dial.Log.Warn("a question is too large for the server, and is not published", "bytes", len(line))
		return nil
	}
	return err
}

// answer serves one request. A reply goes to an inbox only: who may ask here
// must not come to publish, through us, where only we may.
func (a *Approvals) answer(m *nats.Msg) {
	if !strings.HasPrefix(m.Reply, inboxPrefix) {
		a.cfg.Dial.Log.Warn("an answer is ignored: it is no request with an inbox for the reply", "reply", m.Reply)
		return
	}
	if err := m.Respond(a.cfg.Desk.Answer(m.Data)); err != nil {
		a.cfg.Dial.Log.Warn("an approver cannot be told what came of its answer", "err", err)
	}
}
