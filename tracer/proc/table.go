package proc

import "sync"

// Table knows the threads of a session by number. It may be used from any
// goroutine.
type Table struct {
	mu      sync.Mutex // guards what follows
	threads map[int]*Thread
	// mixed are the processes of which a thread changed its credentials: what the
	// others have, and which of them an exec leaves, is read every time.
	mixed map[int]bool
	// loose are the processes that called umask(2).
	loose map[int]bool
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{threads: make(map[int]*Thread), mixed: make(map[int]bool), loose: make(map[int]bool)}
}

// Get names the thread tid. It is the same *Thread as long as the thread lives.
// The caller releases it: until then its descriptor stays open, so that it can
// never come to mean something else.
func (t *Table) Get(tid int) (*Thread, error) {
	t.mu.Lock()
	th := t.threads[tid]
	if th != nil {
		th.refs.Add(1)
	}
	t.mu.Unlock()
	if th != nil && th.Alive() {
		return th, nil
	}
	if th != nil {
		t.drop(tid, th)
		th.Release()
	}
	fresh, err := openThread(tid)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if cur := t.threads[tid]; cur != nil {
		fresh.Release() // another goroutine was here first
		cur.refs.Add(1)
		return cur, nil
	}
	fresh.refs.Add(1)
	if t.mixed[fresh.TGID] {
		fresh.forgetCreds()
	}
	fresh.looseUmask = t.loose[fresh.TGID]
	t.threads[tid] = fresh
	return fresh, nil
}

// Sweep forgets the threads that are dead; it is called now and then, since a
// thread's end is not always told to us. Nobody waits for it.
func (t *Table) Sweep() {
	t.mu.Lock()
	all := make([]*Thread, 0, len(t.threads))
	for _, th := range t.threads {
		th.refs.Add(1)
		all = append(all, th)
	}
	t.mu.Unlock()
	for _, th := range all {
		if !th.Alive() {
			t.drop(th.TID, th)
		}
		th.Release()
	}
}

// Len is the number of threads known.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.threads)
}

// Close forgets all threads.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for tid, th := range t.threads {
		th.Release()
		delete(t.threads, tid)
	}
}

// Changing marks the threads of a process as about to exec: what they run is
// read afresh.
func (t *Table) Changing(tgid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, th := range t.threads {
		if th.TGID == tgid {
			th.mu.Lock()
			th.stale = freshLooks
			th.mu.Unlock()
		}
	}
}

// Mixed notes that a thread of a process is about to change its credentials.
func (t *Table) Mixed(tgid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mixed[tgid] = true
	for _, th := range t.threads {
		if th.TGID == tgid {
			th.forgetCreds()
		}
	}
}

// UmaskChanges notes that a thread of a process is about to change its umask.
func (t *Table) UmaskChanges(tgid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loose[tgid] = true
	for _, th := range t.threads {
		if th.TGID == tgid {
			th.mu.Lock()
			th.looseUmask = true
			th.mu.Unlock()
		}
	}
}

// drop takes a dead thread out of the table.
func (t *Table) drop(tid int, th *Thread) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.threads[tid] == th {
		delete(t.threads, tid)
		if tid == th.TGID {
			delete(t.mixed, tid)
			delete(t.loose, tid)
		}
		th.Release()
	}
}
