package event

import (
	"crypto/sha256"
	"fmt"
)

// Chain is the running hash of one session's records:
//
//	chain(0)   = SHA-256(session id)
//	chain(seq) = SHA-256(chain(seq-1) ‖ canonical bytes of the record)
//
// A record that is removed, altered or moved breaks it at that place. It does
// not protect against somebody who can rewrite every later record as well, nor
// does it see a tail that was cut off: compare Sum with a copy kept elsewhere.
// A Chain is for one goroutine.
type Chain struct {
	sum [32]byte
	buf []byte // previous sum ‖ canonical bytes, kept for its capacity
}

// NewChain is the chain before the first record of a session.
func NewChain(session string) *Chain {
	return &Chain{sum: sha256.Sum256([]byte(session))}
}

// ResumeChain is the chain after a record whose chain value is sum.
func ResumeChain(sum [32]byte) *Chain { return &Chain{sum: sum} }

// Sum is the chain value of the last record.
func (c *Chain) Sum() [32]byte { return c.sum }

// Next seals e: it sets e.Chain and makes it the last record. It returns e's
// canonical bytes, valid until the next call. On error nothing has changed.
func (c *Chain) Next(e *Event) ([]byte, error) {
	canonical, sum, err := c.hash(e)
	if err != nil {
		return nil, err
	}
	c.sum, e.Chain = sum, sum
	return canonical, nil
}

// Verify reports whether e follows the last record unaltered, and makes it the
// last record as it states itself, so that one altered record is one error.
func (c *Chain) Verify(e *Event) error {
	_, sum, err := c.hash(e)
	c.sum = e.Chain
	if err != nil {
		return err
	}
	if sum != e.Chain {
		return fmt.Errorf("verify seq %d: chain is %x, its content and predecessor give %x",
			e.Seq, e.Chain[:8], sum[:8])
	}
	return nil
}

func (c *Chain) hash(e *Event) (canonical []byte, sum [32]byte, err error) {
	c.buf = append(c.buf[:0], c.sum[:]...)
	c.buf, err = e.AppendCanonical(c.buf)
	if err != nil {
		return nil, sum, err
	}
	return c.buf[len(c.sum):], sha256.Sum256(c.buf), nil
}
