package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reeve-audit/reeve/storage"
	"github.com/reeve-audit/reeve/storage/storagetest"
	"github.com/reeve-audit/reeve/tests/chserver"
	"github.com/reeve-audit/reeve/tracer/event"
)

func open(tb testing.TB, url string) *Store {
	tb.Helper()
	s, err := New(Config{URL: url})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func TestSuite(t *testing.T) {
	server := chserver.Start(t)
	storagetest.Run(t, storagetest.Harness{
		Open: func(t *testing.T, name string) storage.Store { return open(t, server.URL("suite_"+name)) },
		Alter: func(t *testing.T, name, session string, seq uint64, column string) {
			if column == "time_unix_ns" {
				// A key column cannot be updated, but a row replaced.
				where := fmt.Sprintf("suite_%s.events WHERE session = '%s' AND seq = %d", name, session, seq)
				server.Query(t, "INSERT INTO suite_"+name+".events SELECT * REPLACE (addNanoseconds(time, 1) AS time) FROM "+where)
				server.Query(t, "OPTIMIZE TABLE suite_"+name+".events FINAL")
				return
			}
			kind := server.Query(t, fmt.Sprintf(`SELECT type FROM system.columns
				WHERE database = 'suite_%s' AND table = 'events' AND name = '%s'`, name, column))
			value := "`" + column + "` + 1"
			switch {
			case column == "kind", column == "action", column == "op":
				value = fmt.Sprintf("if(`%s` = '#99', '#98', '#99')", column)
			case column == "access":
				value = "if(access = 'read', 'write', 'read')"
			case strings.HasSuffix(column, "_kind"):
				value = fmt.Sprintf("if(`%s` = 'fifo', 'dir', 'fifo')", column)
			case strings.HasPrefix(kind, "Bool"):
				value = "NOT `" + column + "`"
			case strings.HasPrefix(kind, "Array"):
				value = "arrayConcat(`" + column + "`, ['x'])"
			case strings.HasPrefix(kind, "FixedString"):
				value = "toFixedString(reverse(`" + column + "`), 32)"
			case strings.Contains(kind, "String"):
				value = "concat(`" + column + "`, 'x')"
			}
			server.Query(t, fmt.Sprintf("ALTER TABLE suite_%s.events UPDATE `%s` = %s WHERE session = '%s' AND seq = %d",
				name, column, value, session, seq))
		},
		Drop: func(t *testing.T, name, session string, seq uint64) {
			server.Query(t, fmt.Sprintf("ALTER TABLE suite_%s.events DELETE WHERE session = '%s' AND seq = %d",
				name, session, seq))
		},
	})
	t.Run("Token", func(t *testing.T) { testToken(t, server) })
	t.Run("TwoMonths", func(t *testing.T) { testTwoMonths(t, server) })
	t.Run("LostAnswers", func(t *testing.T) { testLostAnswers(t, server) })
	t.Run("NewerVersion", func(t *testing.T) { testNewerVersion(t, server) })
	t.Run("OlderVersion", func(t *testing.T) { testOlderVersion(t, server) })
}

func rows(t *testing.T, server *chserver.Server, database string) string {
	t.Helper()
	return strings.TrimSpace(server.Query(t, "SELECT count() FROM "+database+".events"))
}

// testToken inserts the same delivery without looking what is there: the token
// alone must drop it.
func testToken(t *testing.T, server *chserver.Server) {
	s := open(t, server.URL("token"))
	d := storagetest.Split(storagetest.Records(t, "01X", 500), 50, 1)
	conn, err := s.writer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := s.insert(t.Context(), conn, flat(&d)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if got := rows(t, server, "token"); got != "500" {
		t.Errorf("%s rows after six inserts with one token, want 500", got)
	}
	// Without a token, readers still see each place once.
	server.Query(t, "INSERT INTO token.events SELECT * FROM token.events")
	if got := rows(t, server, "token"); got != "1000" {
		t.Fatalf("%s rows, want 1000", got)
	}
	n := 0
	for _, err := range s.Events(t.Context(), storage.Query{Session: "01X"}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	v, err := s.Session(t.Context(), "01X")
	if err != nil || n != 500 || v.Events != 500 {
		t.Errorf("%d events read, summary %d, %v; want 500", n, v.Events, err)
	}
}

// testTwoMonths appends a delivery that spans partitions, more than ClickHouse
// takes by default.
func testTwoMonths(t *testing.T, server *chserver.Server) {
	s := open(t, server.URL("months"))
	records := storagetest.Records(t, "01M", 300)
	for i := range records {
		records[i].Time = time.Date(2000, time.Month(1+i), 1, 0, 0, 0, 1, time.UTC)
	}
	records[7].Time = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC)
	d := storagetest.Split(records, 100, 1)
	for range 2 {
		if err := s.Append(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(t, server, "months"); got != "300" {
		t.Errorf("%s rows, want 300", got)
	}
}

// testLostAnswers puts a proxy between that cuts connections at random places,
// and repeats each delivery until it is acked (E05).
func testLostAnswers(t *testing.T, server *chserver.Server) {
	proxy := newCutter(t, server.URL(""))
	s := open(t, "clickhouse://"+proxy.addr+"/cut?dial_timeout=1s&read_timeout=3s")
	records := storagetest.Records(t, "01C", 4000)
	failed := 0
	for n := 0; n < len(records); n += 200 {
		d := storagetest.Split(records[n:n+200], 50, uint64(n+1))
		for {
			proxy.cutAfter(int64(2000 + 7919*(n+failed)%400000))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := s.Append(ctx, d)
			cancel()
			if err == nil {
				break
			}
			if failed++; failed > 500 {
				t.Fatal(err)
			}
			server.Revive(t)
		}
	}
	proxy.cutAfter(1 << 60)
	i := 0
	for e, err := range s.Events(t.Context(), storage.Query{Session: "01C"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != records[i].Seq {
			t.Fatalf("record %d has seq %d", i, e.Seq)
		}
		i++
	}
	if got := rows(t, server, "cut"); i != 4000 || got != "4000" {
		t.Errorf("%d records, %s rows, want 4000", i, got)
	}
	if failed == 0 {
		t.Error("no connection was cut: the test shows nothing")
	}
	t.Logf("%d appends failed and were repeated", failed)
}

func testNewerVersion(t *testing.T, server *chserver.Server) {
	s := open(t, server.URL("newer"))
	d := storagetest.Split(storagetest.Records(t, "01N", 5), 5, 1)
	if err := s.Append(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	server.Query(t, "INSERT INTO newer.migrations (version) VALUES (99)")
	if err := open(t, server.URL("newer")).Append(t.Context(), d); err == nil || !strings.Contains(err.Error(), "newer reeve") {
		t.Errorf("err = %v", err)
	}
}

// testOlderVersion reads a database as the first reeve made it, and writes to it.
func testOlderVersion(t *testing.T, server *chserver.Server) {
	s := open(t, server.URL("older"))
	records := storagetest.Records(t, "01O", 40)
	chain := event.NewChain("01O")
	for i := range records { // as the first reeve knew them
		e := &records[i]
		e.Flags, e.Mode, e.Born, e.Interps, e.InterpLines = 0, 0, false, nil, nil
		e.Alike, e.Caller, e.AlikeLen, e.CallerLen = nil, nil, 0, 0
		if _, err := chain.Next(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Append(t.Context(), storagetest.Split(records, 10, 1)); err != nil {
		t.Fatal(err)
	}
	server.Query(t, "ALTER TABLE older.events DROP COLUMN flags, DROP COLUMN mode, DROP COLUMN born, DROP COLUMN interps, "+
		"DROP COLUMN interp_lines, DROP COLUMN alike, DROP COLUMN alike_len, DROP COLUMN caller, DROP COLUMN caller_len")
	server.Query(t, "ALTER TABLE older.migrations DELETE WHERE version > 1 SETTINGS mutations_sync = 2")
	verify := func(id string, want int) {
		t.Helper()
		chain, n := event.NewChain(id), 0
		for e, err := range open(t, server.URL("older")).Events(t.Context(), storage.Query{Session: id}) {
			if err == nil {
				err = chain.Verify(&e)
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("%s: %d records, want %d", id, n, want)
		}
	}
	verify("01O", 40)
	if err := open(t, server.URL("older")).Append(t.Context(), storagetest.Split(storagetest.Records(t, "01P", 40), 10, 1)); err != nil {
		t.Fatal(err)
	}
	verify("01O", 40)
	verify("01P", 40)
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	s := open(t, "clickhouse://user:secret@"+addr+"/reeve")
	err = s.Append(t.Context(), storagetest.Split(storagetest.Records(t, "01N", 5), 5, 1))
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), addr) {
		t.Errorf("err = %v", err)
	}
	if _, err := s.Session(t.Context(), "last"); err == nil || errors.Is(err, storage.ErrNoSession) {
		t.Errorf("Session: %v", err)
	}
	if _, err := New(Config{URL: "clickhouse://user:secret@host:port/x"}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad URL: %v", err)
	}
}

// TestAddresses: servers have the usual port unless they name one, and a URL that
// leads nowhere is refused at once, without its password.
func TestAddresses(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"clickhouse://h:9000/x", "h:9000"},
		{"clickhouse://h/x", "h:9000"},
		{"clickhouse://h/x?secure=true", "h:9440"},
		{"clickhouse://[::1]/x", "[::1]:9000"},
		{"clickhouse://u:p@a:1,b:2/x", "a:1 b:2"},
		{"clickhouse://a:1/x?alt_hosts=b:2", "a:1 b:2"},
		{"clickhouse://", ""},
		{"clickhouse:///x", ""},
		{"clickhouse://u:secret@h:x/y", ""},
		{"clickhouse://u:secret@h:0/y", ""},
		{"clickhouse://u:secret@h:65536/y", ""},
		{"clickhouse://u:secret@:9000/y", ""},
	} {
		s, err := New(Config{URL: c.url})
		switch {
		case (err == nil) != (c.want != ""):
			t.Errorf("%s: %v", c.url, err)
		case err == nil && strings.Join(s.opts.Addr, " ") != c.want:
			t.Errorf("%s: %v, want %s", c.url, s.opts.Addr, c.want)
		case err != nil && (s != nil || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v, %v", c.url, s, err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	server := chserver.Start(b)
	s := open(b, server.URL("bench"))
	records := storagetest.Typical("01X", 8192)
	n := 0
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("01%010d", i)
		for j := range records {
			records[j].Session = id
		}
		if err := s.Append(b.Context(), storagetest.Split(records, 512, uint64(i*16+1))); err != nil {
			b.Fatal(err)
		}
		n += len(records)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}
