package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/reeve-audit/reeve/tracer/event"
)

// steering are characters that a terminal obeys or that change what is read.
const steering = "a\x1b\u009b2J\u0080\u009f\x7f\u202e\u202a\u2066\u2069\u200e\u200f\u2028\u2029\U000e0001 ü\U0001f600\\<"

func TestShownJSON(t *testing.T) {
	var b bytes.Buffer
	if err := newJSON(&b).Encode(map[string]string{steering: steering}); err != nil {
		t.Fatal(err)
	}
	record, err := appendOCSF(nil, &event.Event{Kind: event.KindRequest, Op: event.OpOpen, Object: event.Object{Path: steering}, Reason: steering, Rule: steering})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{b.String(), string(record)} {
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%U stands in %q", r, text)
			}
		}
	}
	var back map[string]string
	if err := json.Unmarshal(b.Bytes(), &back); err != nil || back[steering] != steering {
		t.Errorf("%q is %q: %v", steering, back, err)
	}
	var shape struct {
		Reason string `json:"status_detail"`
	}
	if err := json.Unmarshal(record, &shape); err != nil || shape.Reason != steering {
		t.Errorf("%q is %q: %v", steering, shape.Reason, err)
	}
}

// TestOneJSONWriter: no verb has an encoder of its own.
func TestOneJSONWriter(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if f != "json.go" && !strings.HasSuffix(f, "_test.go") && bytes.Contains(text, []byte("json.NewEncoder(")) {
			t.Errorf("%s encodes JSON without newJSON", f)
		}
	}
}

func TestReasonAndRule(t *testing.T) {
	for rule, want := range map[string]string{"": "why", "/x": "why (rule /x)"} {
		if got := reasonAndRule(&event.Event{Reason: "why", Rule: rule}); got != want {
			t.Errorf("rule %q: %q, want %q", rule, got, want)
		}
	}
}
