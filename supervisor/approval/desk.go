// Package approval is the desk at which operations wait that a policy asks
// about. It holds the pending questions, and answers each exactly once: by
// somebody's word, by the deadline, or because the task is gone.
//
// # Protocol
//
// The gate calls Ask, which returns when there is an answer; the task waits at
// its notification meanwhile and nobody else does. Fronts (the terminal, the
// control socket, the bus) list what is pending and call Answer; the first answer
// counts and the others are told that they came late. Whatever goes wrong is a no:
// the deadline, a full desk, a closed one, a question that nobody can see.
//
// A question that several tasks ask alike, for the same operation on the same
// object by the same program, is asked once; its answer is for all that wait. When
// the last of them is gone the question closes itself.
//
// An answer is about the request that was shown, and about the steps after it that
// the question shows as well (Question.Also): a person is asked once for an act. The
// gate judges the call anew when it has the answer, and lets it reach nothing but
// what was asked about; each operation that an answer decides names its question.
package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reeve-audit/reeve/tracer/event"
)

// Recorder takes the events of questions and answers.
type Recorder interface{ Record(event.Event) }

// Rules writes what is always allowed.
type Rules interface {
	// Propose is the rule that would allow a question's operation and no more. An
	// error says why there can be none.
	Propose(*Question) (Proposal, error)
	// Write puts a proposal into the file. What is there already is left alone.
	Write(Proposal) error
}

// Proposal is a rule to be added to a policy file.
type Proposal struct {
	File string // its path
	// Text are the lines that would be added; empty when the file says so already.
	Text string
	// For is the question.
	For *Question
}

// Config is what a Desk needs. Session and Recorder are required.
type Config struct {
	Session  string // ULID
	Profile  string // for the questions
	Engine   string // for the events
	Recorder Recorder
	// Timeout is how long a question waits; 0 is a minute.
	Timeout time.Duration
	// Max is how many questions may be pending; 0 is 1024. What would be more is
	// denied.
	Max int
	// Rules may be nil: then nothing can be allowed always.
	Rules Rules
	// Answered, when set, is told of every answer before it takes effect, but not of
	// questions that were withdrawn. It must not call the desk.
	Answered func(*Question, Answer)
}

// Desk holds the questions of one session. All methods may be called from any
// goroutine.
type Desk struct {
	cfg Config

	mu         sync.Mutex // guards what follows
	last       uint64     // number of the newest question
	pending    map[string]*pending
	same       map[key]*pending
	remembered map[key]Answer
	watchers   map[chan<- struct{}]struct{}
	ended      outcomes
	closed     bool
}

// pending is a question that waits, and afterwards its answer.
type pending struct {
	Question
	number uint64
	timer  *time.Timer
	done   chan struct{} // closed when answer is set
	answer Answer
}

// New checks cfg.
func New(cfg Config) (*Desk, error) {
	if cfg.Session == "" || cfg.Recorder == nil {
		return nil, errors.New("bug: a desk needs a session and a recorder")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Max == 0 {
		cfg.Max = 1024
	}
	return &Desk{
		cfg: cfg, pending: map[string]*pending{}, same: map[key]*pending{}, remembered: map[key]Answer{},
		watchers: map[chan<- struct{}]struct{}{},
	}, nil
}

// The words of those who answer when nobody does.
const (
	byDeadline = "deadline"
	byDesk     = "approval"
)

// Known is the answer that was given for the rest of the session, if there is one.
func (d *Desk) Known(q *Question) (Answer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.remembered[keyOf(q, false)]
	return a, ok
}

// Ask waits for the answer to q, of which Request, Rule, Reason, Risk and
// Ancestry are to be set. It returns early, with a no, when ctx ends: because the
// task is gone or has a signal to handle.
func (d *Desk) Ask(ctx context.Context, q Question) Answer {
	p, a := d.put(q)
	if p == nil {
		return a
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return d.leave(p, context.Cause(ctx))
	}
	return p.answer
}

// put makes q pending, or joins it to the same question; without a place for it
// the answer is there at once.
func (d *Desk) put(q Question) (*pending, Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, ok := d.remembered[keyOf(&q, false)]; ok {
		return nil, a
	}
	exact := keyOf(&q, true)
	if p := d.same[exact]; p != nil {
		p.Waiting++
		d.notify()
		return p, Answer{}
	}
	switch {
	case d.closed:
		return nil, Answer{By: byDesk, Reason: "the session ends"}
	case len(d.pending) >= d.cfg.Max:
		return nil, Answer{By: byDesk, Reason: fmt.Sprintf("%d questions wait already", len(d.pending))}
	}
	d.last++
	q.ID = fmt.Sprintf("%s-%d", shortSession(d.cfg.Session), d.last)
	q.Session, q.Waiting = d.cfg.Session, 1
	if q.Profile == "" {
		q.Profile = d.cfg.Profile
	}
	q.Asked = time.Now()
	q.Deadline = q.Asked.Add(d.cfg.Timeout)
	p := &pending{Question: q, number: d.last, done: make(chan struct{})}
	p.timer = time.AfterFunc(d.cfg.Timeout, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.settle(p, Answer{By: byDeadline, Reason: fmt.Sprintf("nobody answered within %v", d.cfg.Timeout)})
	})
	d.pending[q.ID], d.same[exact] = p, p
	d.cfg.Recorder.Record(asked(&p.Question, d.cfg.Engine))
	d.notify()
	return p, Answer{}
}

// shortSession is the end of a session's ID, which is random.
func shortSession(id string) string { return id[max(0, len(id)-4):] }

// leave takes one waiting task off a question, and closes it after the last.
func (d *Desk) leave(p *pending, why error) Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := Answer{By: byDesk, Reason: "withdrawn: " + why.Error()}
	if p.Waiting--; p.Waiting == 0 {
		d.settle(p, a)
	}
	d.notify()
	return a
}

// settle answers a pending question, once; mu is held.
func (d *Desk) settle(p *pending, a Answer) bool {
	if p == nil || d.pending[p.ID] != p {
		return false
	}
	p.timer.Stop()
	a.Question, a.Also = p.ID, p.Also
	p.answer = a
	if d.cfg.Answered != nil && a.By != byDesk {
		d.cfg.Answered(&p.Question, a)
	}
	delete(d.pending, p.ID)
	delete(d.same, keyOf(&p.Question, true))
	if a.Scope != Once {
		d.remembered[keyOf(&p.Question, false)] = a
	}
	d.cfg.Recorder.Record(answered(&p.Question, &a, d.cfg.Engine))
	d.ended.add(p.ID, a)
	close(p.done)
	d.notify()
	return true
}

// Answer answers a pending question. With scope [Always] the rule is written
// first; when that fails the question stays pending. ErrClosed says that it is
// not pending any more.
func (d *Desk) Answer(id string, a Answer) error {
	if err := a.validate(); err != nil {
		return err
	}
	if _, err := d.question(id); err != nil {
		return err
	}
	always := a.Allow && a.Scope == Always
	var proposal Proposal
	if always {
		var err error
		proposal, err = d.Propose(id)
		if err == nil {
			err = d.cfg.Rules.Write(proposal)
		}
		if err != nil {
			return fmt.Errorf("allow %s always: %w", id, err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settle(d.pending[id], a) {
		return nil
	}
	if always {
		return fmt.Errorf("the rule stands in %s, but %w", proposal.File, d.notPending(id))
	}
	return d.notPending(id)
}

// Propose is the rule that [Always] would write for a pending question.
func (d *Desk) Propose(id string) (Proposal, error) {
	q, err := d.question(id)
	if err != nil {
		return Proposal{}, err
	}
	if d.cfg.Rules == nil {
		return Proposal{}, errors.New("there is no user's policy file to write to")
	}
	return d.cfg.Rules.Propose(&q)
}

// question is a copy of a pending question.
func (d *Desk) question(id string) (Question, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pending[id]; p != nil {
		return p.Question, nil
	}
	return Question{}, d.notPending(id)
}

// Pending are the questions that wait, the oldest first.
func (d *Desk) Pending() []Question {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*pending, 0, len(d.pending))
	for _, p := range d.pending {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *pending) int { return int(a.number) - int(b.number) })
	out := make([]Question, len(list))
	for i, p := range list {
		out[i] = p.Question
	}
	return out
}

// Watch sends on ch, which should have room for one, whenever what is pending
// changes, until stop is called. A send that would block is left out: one that is
// in the channel already says the same.
func (d *Desk) Watch(ch chan<- struct{}) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watchers[ch] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watchers, ch)
	}
}

func (d *Desk) notify() {
	for ch := range d.watchers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// Close answers all that is pending, and all that comes, with no.
func (d *Desk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, p := range d.pending {
		d.settle(p, Answer{By: byDesk, Reason: "the session ends"})
	}
}
