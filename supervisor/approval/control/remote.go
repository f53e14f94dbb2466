package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// Remote is a desk for approvers on other machines, in lines: what the socket says,
// without its connections. Whoever carries the lines decides who may answer.
// Remote approvers cannot allow always, since a rule has to be shown to the person
// whose file it goes to.
type Remote struct {
	exchange *Exchange
	again    chan struct{}
}

// NewRemote makes the remote side of a desk.
func NewRemote(desk *approval.Desk) *Remote {
	return &Remote{NewExchange(desk, true), make(chan struct{}, 1)}
}

// againAfter is how soon everything may be told again.
const againAfter = time.Second

// Follow gives emit a line, without a newline, for each question that is pending
// and for each that comes or goes, until ctx ends or emit fails. It begins again
// whenever a request to list comes.
func (r *Remote) Follow(ctx context.Context, emit func(line []byte) error) error {
	for {
		err := r.follow(ctx, emit)
		if !errors.Is(err, errAgain) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(againAfter):
		}
	}
}

var errAgain = errors.New("all is to be told again")

func (r *Remote) follow(ctx context.Context, emit func(line []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-stop:
		case <-r.again:
			cancel(errAgain)
		}
	}()
	err := r.exchange.Follow(ctx, func(m *Message) error {
		if m.Status != "" {
			return nil // where there are no connections, no reply ends
		}
		line, err := encode(m)
		if err != nil {
			return err
		}
		return emit(line)
	})
	close(stop)
	<-watched
	if cause := context.Cause(ctx); errors.Is(cause, errAgain) {
		return cause
	}
	return err
}

// Answer carries out one request and gives the line to reply.
func (r *Remote) Answer(line []byte) []byte {
	req, err := ParseRequest(line)
	m := Message{Status: StatusOK}
	switch {
	case err != nil:
		m = refused(err)
	case req.Do == List:
		select {
		case r.again <- struct{}{}:
		default: // it is asked for already
		}
	case req.Do == Watch:
		m = refused(errors.New("whoever subscribes watches"))
	default:
		m = r.exchange.Answer(&req, remoteName(req.Who))
	}
	reply, err := encode(&m)
	if err != nil {
		return []byte(`{"v":1,"status":"refused","error":"bug: the reply cannot be written"}`)
	}
	return reply
}

// remoteName says that nobody has looked whether it is true.
func remoteName(who string) string {
	if who == "" {
		return "somebody on the bus"
	}
	return fmt.Sprintf("somebody on the bus, who says to be %q", who)
}

func encode(m *Message) ([]byte, error) {
	m.V = Version
	line, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	return line, nil
}
