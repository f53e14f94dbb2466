package automaton_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

func marshal(t testing.TB, a *automaton.Automaton) []byte {
	t.Helper()
	data, err := a.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// loaders are the ways to load.
var loaders = map[string]func(data []byte) (*automaton.Automaton, error){
	"copied": func(data []byte) (*automaton.Automaton, error) {
		data = slices.Clone(data)
		var a automaton.Automaton
		err := a.UnmarshalBinary(data)
		clear(data) // which is the caller's again
		return &a, err
	},
	"in place": automaton.Load,
	"at an odd address": func(data []byte) (*automaton.Automaton, error) {
		return automaton.Load(append(make([]byte, 1, 1+len(data)), data...)[1:])
	},
}

func TestEncodingRoundTrip(t *testing.T) {
	for name, load := range loaders {
		t.Run(name, func(t *testing.T) { testRoundTrip(t, load) })
	}
}

func testRoundTrip(t *testing.T, load func([]byte) (*automaton.Automaton, error)) {
	for _, rules := range [][]automaton.Rule{nil, {{Glob: "/", Tie: -3, Group: -1}}, newMaker(3).rules(10), typicalRules(true)} {
		a := compile(t, rules)
		data := marshal(t, a)
		b, err := load(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a.Tables(), b.Tables()) || a.NumAccepts() != b.NumAccepts() {
			t.Error("tables differ after a round trip")
		}
		if string(marshal(t, b)) != string(data) {
			t.Error("bytes differ after a round trip")
		}
		if automaton.Fingerprint(b.Rules()) != automaton.Fingerprint(rules) {
			t.Error("fingerprint differs after a round trip")
		}
		m := newMaker(9)
		for range 200 {
			p := m.path()
			if !slices.Equal(a.Explain(p), b.Explain(p)) || !slices.Equal(a.Match(p), b.Match(p)) {
				t.Errorf("answers for %s differ after a round trip", p)
			}
		}
	}
}

func TestFingerprint(t *testing.T) {
	base := automaton.Rule{Glob: "/ab"}
	seen := map[[32]byte]bool{automaton.Fingerprint([]automaton.Rule{base}): true}
	for i, rules := range [][]automaton.Rule{
		nil, {base, base}, {{Glob: "/a"}}, {{Glob: "/ab", Layer: 1}}, {{Glob: "/ab", Below: true}}, {{Glob: "/ab", Tie: 1}},
		{{Glob: "/ab", Group: 1}}, {{Glob: "/a"}, {Glob: "b"}}, {{Glob: "/ab"}, {}},
	} {
		f := automaton.Fingerprint(rules)
		if seen[f] {
			t.Errorf("rules %d have the fingerprint of others", i)
		}
		seen[f] = true
	}
}

// TestUnmarshalDamage changes every byte and every length. Nothing damaged may
// load, and nothing may panic, even with a right checksum.
func TestUnmarshalDamage(t *testing.T) {
	rules := []automaton.Rule{{Glob: "/a/**/b*", Below: true}, {Glob: "/c", Layer: 1}}
	data := marshal(t, compile(t, rules))
	var a automaton.Automaton
	for n := range data {
		if err := a.UnmarshalBinary(data[:n]); !errors.Is(err, automaton.ErrFormat) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	for i := range data {
		bad := append([]byte(nil), data...)
		bad[i] ^= 1 + byte(i)%255
		if err := a.UnmarshalBinary(bad); !errors.Is(err, automaton.ErrFormat) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		for _, v := range []byte{0, 1, 0x7f, 0xff} {
			bad[i] = v
			exercise(t, forge(bad))
		}
	}
}

// forge gives data a right checksum.
func forge(data []byte) []byte {
	if len(data) > 16 {
		binary.LittleEndian.PutUint32(data[12:], crc32.Checksum(data[16:], crc32.MakeTable(crc32.Castagnoli)))
	}
	return data
}

// exercise loads data and, if it loads, calls everything.
func exercise(t testing.TB, data []byte) {
	t.Helper()
	a, err := automaton.Load(data)
	if copied := new(automaton.Automaton).UnmarshalBinary(data); (copied == nil) != (err == nil) {
		t.Errorf("in place it gives %v, copied %v", err, copied)
	}
	if err != nil {
		return
	}
	for _, p := range []string{"/", "/a/x/bc/d", "/c", "", "\xff/.."} {
		a.Match(p)
		a.Explain(p)
	}
	a.Hole("/a", func(class uint32) bool { return a.Winners(class) == nil })
	a.NarrowsTo("/a", "/", func(x, y uint32) bool { return true })
	a.Stats()
	marshal(t, a)
}
