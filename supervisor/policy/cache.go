package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

// Cache keeps compiled automata between runs. Keys are short texts that can be
// file names. What Get gives must never change: policies stand on it. A value that was tampered with can change what is decided, so the
// cache must be as well guarded as the policy itself.
type Cache interface {
	Get(key string) ([]byte, bool)
	Put(key string, value []byte)
}

// maxStates and maxTable bound one automaton; with them it fits the tables of a
// kernel program.
const (
	maxStates = 1 << 16
	maxTable  = 16 << 20
)

// compileCached compiles rules, or loads what an earlier call left in cache. A
// cached value that is unreadable, or of other rules, is compiled anew.
func compileCached(rules []automaton.Rule, cache Cache) (*automaton.Automaton, error) {
	compile := func() (*automaton.Automaton, error) {
		return automaton.Compile(rules, automaton.Config{MaxStates: maxStates, MaxTable: maxTable})
	}
	if cache == nil {
		return compile()
	}
	key := rulesKey(rules)
	if data, ok := cache.Get(key); ok {
		if auto, err := automaton.Load(data); err == nil && sameRules(auto.Rules(), rules) {
			return auto, nil
		}
	}
	auto, err := compile()
	if err != nil {
		return nil, err
	}
	if data, err := auto.MarshalBinary(); err == nil {
		cache.Put(key, data)
	}
	return auto, nil
}

func rulesKey(rules []automaton.Rule) string {
	h := sha256.New()
	h.Write([]byte("reeve automaton 1\n"))
	for _, r := range rules {
		number(h, len(r.Glob), r.Layer, r.Tie, r.Group)
		if r.Below {
			number(h, 1)
		}
		h.Write([]byte(r.Glob))
	}
	return fmt.Sprintf("automaton-%x", h.Sum(nil)[:16])
}

func number(h hash.Hash, numbers ...int) {
	var b [8]byte
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(b[:], uint64(n))
		h.Write(b[:])
	}
}

func sameRules(a, b []automaton.Rule) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
