package chserver

import (
	"strings"
	"testing"
)

func TestServerSurvivesKill(t *testing.T) {
	s := Start(t)
	if v := s.Query(t, "SELECT version()"); !strings.HasPrefix(v, "26.7") {
		t.Errorf("version %s", v)
	}
	s.Query(t, "CREATE DATABASE kept")
	s.Query(t, "CREATE TABLE kept.t (n UInt8) ENGINE = MergeTree ORDER BY n")
	s.Query(t, "INSERT INTO kept.t VALUES (7)")
	before := s.URL("kept")
	s.Kill(t)
	s.Restart(t)
	if s.URL("kept") != before {
		t.Errorf("moved from %s to %s", before, s.URL("kept"))
	}
	if got := s.Query(t, "SELECT n FROM kept.t"); got != "7\n" {
		t.Errorf("after the restart: %q", got)
	}
}
