// Package control is the other terminal's way to a session's questions: a unix
// socket beside the session's records that only its owner can open, the client
// for it, and the exchange of messages behind both, which the bus speaks too.
//
// # Protocol
//
// One connection is one request: a line of JSON each way, the last of which has
// a status.
//
//	→ {"v":1,"do":"list"}
//	← {"v":1,"question":{…}}                        one a line, the oldest first
//	← {"v":1,"status":"ok"}
//	→ {"v":1,"do":"watch"}                          as list; then, until the session is over:
//	← {"v":1,"question":{…}}                        what is asked
//	← {"v":1,"closed":{"id":"XQVT-3","allow":…}}    what is not pending any more
//	→ {"v":1,"do":"propose","id":"XQVT-3"}
//	← {"v":1,"rule":{"file":"…","text":"…"}}        what scope always would write
//	← {"v":1,"status":"ok"}
//	→ {"v":1,"do":"allow","id":"XQVT-3","scope":"session","reason":"…"}
//	← {"v":1,"status":"accepted"}
//
// A status is "ok", "accepted", "closed" (not pending; the line's closed says how it
// ended, where that is known), "refused" (error says why) or "over" (the session
// ends). Scope always needs the rule that was proposed in "rule", and writes no
// other. What is not known in a request refuses it: an answer means what it says.
//
// # Elsewhere
//
// The bus carries the same lines: what is asked and what became of it on one
// subject, requests and their replies on another, and a request to list has all
// that is pending published again (see [Remote]).
//
// # Who may answer
//
// The directory belongs to reeve's user and nobody else may enter it; the socket
// has mode 0600; the peer must be of reeve's user or root (SO_PEERCRED). The
// supervised tree is of that user too, so three things keep it out. No policy
// opens reeve's own files, record-only profiles included. The peer's ancestry is
// walked, and refused where it meets this reeve or any session's init: a
// connection that the gate made for a task shows reeve's own process, one that a
// task made itself a descendant of it. And nothing of a session can leave that
// ancestry, since init is its subreaper. A process that cannot be followed to
// its beginning is refused.
//
// What a policy lets a session reach that acts for it outside (a service manager
// over D-Bus, an SSH server of the same host, ptrace of other processes, all of
// which only observe and profiles like it open) can answer for it. And in
// directories that hide processes (hidepid) nobody but root is believed.
//
// Kernels before 6.5 do not say by descriptor who connected (SO_PEERPIDFD); there
// a peer that ends at once could have its number taken by a stranger before it
// is looked at, and the first two barriers hold alone.
package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/reeve-audit/reeve/supervisor/approval"
)

// Version is the version of the protocol, the field "v".
const Version = 1

// Bounds of a request, in bytes.
const (
	MaxRequest = 64 << 10
	maxReason  = 1 << 10
	maxID      = 64
	maxWho     = 64
)

// MaxMessage bounds a line to an approver: two paths and some command lines,
// which the gate cuts, in their JSON form.
const MaxMessage = 4 << 20

// The words of Request.Do.
const (
	List    = "list"
	Watch   = "watch"
	Allow   = "allow"
	Deny    = "deny"
	Propose = "propose"
)

// The words of Message.Status.
const (
	StatusOK       = "ok"
	StatusAccepted = "accepted"
	StatusClosed   = "closed"
	StatusRefused  = "refused"
	StatusOver     = "over"
)

// Request is one line of an approver.
type Request struct {
	V  int    `json:"v"`
	Do string `json:"do"`
	ID string `json:"id,omitempty"`
	// Scope and Reason are of answers; an empty Scope is once.
	Scope  string `json:"scope,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Who is whom a remote approver says to be; the socket knows better.
	Who string `json:"who,omitempty"`
	// Rule is what scope always is to write, as it was proposed.
	Rule *Rule `json:"rule,omitempty"`
}

// Rule is a rule for a policy file.
type Rule struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// Message is one line to an approver.
type Message struct {
	V        int                `json:"v"`
	Question *approval.Question `json:"question,omitempty"`
	Closed   *Closed            `json:"closed,omitempty"`
	Rule     *Rule              `json:"rule,omitempty"`
	Status   string             `json:"status,omitempty"`
	Error    string             `json:"error,omitempty"`
}

// Closed is the end of a question. Without By it is not known how it ended.
type Closed struct {
	ID     string `json:"id"`
	Allow  bool   `json:"allow"`
	Scope  string `json:"scope,omitempty"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ParseRequest reads one line and checks all of it.
func ParseRequest(line []byte) (Request, error) {
	var r Request
	if len(line) > MaxRequest {
		return r, fmt.Errorf("the request has more than %d bytes", MaxRequest)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("read request: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("read request: more than one object on the line")
	}
	return r, r.validate()
}

func (r *Request) validate() error {
	if r.V != Version {
		return fmt.Errorf("the request is of version %d, this reeve speaks %d", r.V, Version)
	}
	answers := r.Do == Allow || r.Do == Deny
	switch {
	case r.Do != List && r.Do != Watch && r.Do != Propose && !answers:
		return fmt.Errorf("%q is nothing that can be done: expected list, watch, propose, allow or deny", r.Do)
	case (answers || r.Do == Propose) != (r.ID != "") || len(r.ID) > maxID:
		return fmt.Errorf("%s and the question %q do not fit", r.Do, cut(r.ID, maxID))
	case !answers && (r.Scope != "" || r.Reason != "" || r.Who != "" || r.Rule != nil):
		return fmt.Errorf("%s takes no scope, reason, who or rule", r.Do)
	case len(r.Reason) > maxReason:
		return fmt.Errorf("the reason has more than %d bytes", maxReason)
	case len(r.Who) > maxWho:
		return fmt.Errorf("who has more than %d bytes", maxWho)
	}
	scope, err := r.scope()
	if err == nil && (r.Rule != nil) != (r.Do == Allow && scope == approval.Always) {
		return errors.New(`a rule belongs to "allow" with scope "always", and to nothing else: propose it first`)
	}
	return err
}

func (r *Request) scope() (approval.Scope, error) {
	if r.Scope == "" {
		return approval.Once, nil
	}
	return approval.ParseScope(r.Scope)
}

func cut(s string, n int) string { return s[:min(len(s), n)] }
