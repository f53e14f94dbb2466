package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/approval/control"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// asks are the questions of all running sessions of a state directory.
type asks struct{ state *session.State }

// pendingAsk is a question with the session that asks.
type pendingAsk struct {
	approval.Question
	client *control.Client
}

func openAsks(c *cli.Context) (*asks, error) {
	if err := insideError(); err != nil {
		return nil, err
	}
	st, err := stateOf(c)
	if err != nil {
		return nil, err
	}
	return &asks{st}, nil
}

// sessions are those that may run, by their ids.
func (a *asks) sessions() (map[string]*control.Client, []string, error) {
	ids, err := a.state.Pending()
	if err != nil {
		return nil, nil, err
	}
	out := make(map[string]*control.Client, len(ids))
	for _, id := range ids {
		out[id] = &control.Client{Dir: a.state.SessionDir(id)}
	}
	return out, ids, nil
}

// pending lists what is asked; a session that refuses to say is an error beside
// what the others say.
func (a *asks) pending(ctx context.Context) ([]pendingAsk, error) {
	clients, ids, err := a.sessions()
	if err != nil {
		return nil, err
	}
	var out []pendingAsk
	var errs []error
	for _, id := range ids {
		list, err := clients[id].List(ctx)
		if err != nil && !errors.Is(err, control.ErrOver) {
			errs = append(errs, fmt.Errorf("session %s: %w", id, err))
		}
		for _, q := range list {
			out = append(out, pendingAsk{q, clients[id]})
		}
	}
	return out, errors.Join(errs...)
}

// find is the pending question that a word means: an ID, its number alone, or its
// number behind the beginning of its letters or behind the whole id of its session.
// A number always means itself: what is asked while somebody types must never be
// taken for what that person saw. So the letters may be short only where one
// session alone is meant among all that run, whether it asks something or not.
func (a *asks) find(ctx context.Context, word string) (*pendingAsk, error) {
	letters, number, both := strings.Cut(word, "-")
	if !both {
		letters, number = "", word
	}
	if n, err := strconv.ParseUint(number, 10, 63); err != nil || n == 0 {
		return nil, withHint(usageErrorf("%s is not the ID of a question, like QVTC-3", quote(word)), "`reeve asks` lists what is pending")
	}
	clients, ids, err := a.sessions()
	if err != nil {
		return nil, err
	}
	var meant []string
	var found *pendingAsk
	for _, id := range ids {
		end := id[len(id)-4:]
		if id != letters && !strings.HasPrefix(end, letters) {
			continue
		}
		list, err := clients[id].List(ctx)
		if errors.Is(err, control.ErrOver) {
			continue
		}
		if err != nil {
			return nil, err
		}
		meant = append(meant, id)
		for i := range list {
			if list[i].ID == end+"-"+number {
				found = &pendingAsk{list[i], clients[id]}
			}
		}
	}
	switch {
	case len(meant) > 1:
		return nil, withHint(usageErrorf("%s could be of session %s", quote(word), strings.Join(meant, " or ")), "name it in full: "+meant[0]+"-"+number)
	case found != nil:
		return found, nil
	}
	return nil, a.closed(ctx, letters, number, meant)
}

// closed says what is known of a question that is not pending: its session may
// remember, if it runs.
func (a *asks) closed(ctx context.Context, letters, number string, running []string) error {
	if len(running) == 1 {
		c := &control.Client{Dir: a.state.SessionDir(running[0])}
		// It is not pending, so nothing can be answered by asking.
		_, err := c.Propose(ctx, running[0][len(running[0])-4:]+"-"+number)
		return err
	}
	gone := &approval.ClosedError{ID: quote(strings.TrimPrefix(letters+"-"+number, "-"))}
	all, err := a.state.Sessions()
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0 && len(letters) >= 4; i-- {
		if strings.HasSuffix(all[i], letters) {
			return fmt.Errorf("session %s is over: %w", all[i], gone)
		}
	}
	return gone
}

// look is how often --follow looks for sessions that began.
const look = 500 * time.Millisecond

// follow prints what is asked and what becomes of it, of sessions that begin
// later too, until it is interrupted.
func (a *asks) follow(ctx context.Context, out *askPrinter) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex // guards out and following
	following := map[string]bool{}
	each := func(m *control.Message) error {
		mu.Lock()
		defer mu.Unlock()
		return out.message(m)
	}
	begin := func(id string, c *control.Client) {
		mu.Lock()
		defer mu.Unlock()
		if following[id] {
			return
		}
		following[id] = true
		group.Go(func() error {
			err := c.Follow(ctx, each)
			mu.Lock()
			defer mu.Unlock()
			delete(following, id) // it may not have listened yet
			if errors.Is(err, control.ErrOver) {
				return nil
			}
			return err
		})
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		clients, _, err := a.sessions()
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		for id, c := range clients {
			begin(id, c)
		}
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-tick.C:
		}
	}
}

// text shows a question to a person.
func (o *askPrinter) text(q *approval.Question) error {
	lines := questionLines(q)
	if o.some {
		lines[0] = "\n" + o.head(q, lines[0])
	} else {
		lines[0] = o.head(q, lines[0])
	}
	o.some = true
	_, err := fmt.Fprintln(o.w, strings.Join(lines, "\n"))
	return err
}

func (o *askPrinter) head(q *approval.Question, line string) string {
	return fmt.Sprintf("%s  %s  %s", o.colours.paint(bold, escape(q.ID)), line,
		o.colours.paint(faint, fmt.Sprintf("(%v left, session %s)", left(q, time.Now()), escape(q.Session))))
}

// pendingIDs lists the questions that could be answered. A completion has no
// place to report an error in.
func pendingIDs() []string {
	st, err := openState(os.Getenv, "")
	if err != nil {
		return nil
	}
	list, _ := (&asks{st}).pending(context.Background())
	var out []string
	for _, p := range list {
		out = append(out, p.ID)
	}
	return out
}
