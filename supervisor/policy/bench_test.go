package policy

import (
	"testing"

	"github.com/reeve-audit/reeve/tracer/event"
)

func testHost() Host {
	return Host{
		Home: "/home/u", User: "u", UID: 1000, Workspaces: []string{"/home/u/ws"}, Tmp: "/tmp/reeve-01S", StateDir: "/home/u/.local/state/reeve",
		PathDirs: []string{"/usr/local/bin", "/usr/bin", "/bin", "/home/u/.pyenv/shims", "/home/u/go/bin", "/home/u/.local/bin", "/home/u/.cargo/bin"},
	}
}

type mapCache map[string][]byte

func (m mapCache) Get(key string) ([]byte, bool) { v, ok := m[key]; return v, ok }
func (m mapCache) Put(key string, value []byte)  { m[key] = value }

func BenchmarkLoadDefault(b *testing.B) {
	for b.Loop() {
		if _, err := Load(nil, DefaultProfile, testHost()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadCached(b *testing.B) {
	cache := mapCache{}
	for b.Loop() {
		if _, err := LoadCached(nil, DefaultProfile, testHost(), cache); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecideOpen(b *testing.B) {
	p, err := Load(nil, DefaultProfile, testHost())
	if err != nil {
		b.Fatal(err)
	}
	req := &event.Request{Op: event.OpOpen, Access: event.AccessRead, Object: event.Object{Kind: event.ObjectFile, Path: "/usr/lib/x86_64-linux-gnu/libc.so.6"}}
	b.ReportAllocs()
	for b.Loop() {
		if d := p.Decide(req); d.Action != event.ActionAllow {
			b.Fatal(d)
		}
	}
}
