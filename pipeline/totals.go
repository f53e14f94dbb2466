package pipeline

// Totals counts what went through a Publisher.
type Totals struct {
	// Events were given a sequence number, Acked of them are on the bus.
	Events, Acked uint64
	// Requests are the operations among them, by what was decided.
	Requests, Allowed, Asked, Denied uint64
	// Lost counts records that were not kept: here, and by every "lost" record
	// that came in.
	Lost uint64
	// Unstated is how many of them no record states yet.
	Unstated uint64
	// Chain is the chain value of the last record.
	Chain [32]byte
}

// Err is why the bus does not take records at the moment, nil while it does.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lastErr
}

// Failing is whether Err is an error, for those who must know at every call.
func (p *Publisher) Failing() bool { return p.failing.Load() }

// fails notes how the bus does. Call with mu.
func (p *Publisher) fails(err error) {
	p.lastErr = err
	p.failing.Store(err != nil)
}

// Totals counts so far.
func (p *Publisher) Totals() Totals {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.totals
	t.Events = p.seq
	t.Lost += p.lost
	t.Unstated = p.lost
	return t
}
