package main

import (
	"sync"
	"time"

	"github.com/reeve-audit/reeve/supervisor/approval"
	"github.com/reeve-audit/reeve/supervisor/policy"
	"github.com/reeve-audit/reeve/supervisor/session"
)

// ledgers are what a session, and those inside it, remember of what they did.
type ledgers struct {
	mu  sync.Mutex // guards all
	all map[string][]*policy.Ledger
}

// open begins the memory of a session under p, which hooks share that judge what it
// writes; nil where the gate sees all of that.
func (l *ledgers) open(p *policy.Policy, hooks policy.Hooks) *policy.Ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[string][]*policy.Ledger{}
	}
	ledger := policy.NewLedger(p, time.Now)
	ledger.Look(session.HasTree)
	if hooks != nil {
		ledger.Join(hooks)
	}
	l.all[p.Name()] = append(l.all[p.Name()], ledger)
	return ledger
}

// answered takes the answers to questions about changes of many files to those
// who count them.
func (l *ledgers) answered(q *approval.Question, a approval.Answer) {
	if !q.Broad {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ledger := range l.all[q.Profile] {
		if a.Allow {
			ledger.Bulk().Granted(a.Scope != approval.Once)
		} else {
			ledger.Bulk().Refused()
		}
	}
}
