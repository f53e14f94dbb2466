package session

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/reeve-audit/reeve/supervisor/policy"
)

// TestBasisKeepsEveryFact fills every field of a host, bytes that are not UTF-8
// among them, so that a new one cannot be forgotten.
func TestBasisKeepsEveryFact(t *testing.T) {
	var h policy.Host
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		name := "/\xff/" + v.Type().Field(i).Name
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(name)
		case reflect.Int:
			f.SetInt(1000)
		case reflect.Slice:
			f.Set(reflect.ValueOf([]string{name, "/b"}))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{name: "/to", "/\xff": "/\xfe"}))
		case reflect.Func: // its answers are in Links
		default:
			t.Fatalf("policy.Host.%s is a %s: teach the basis about it", v.Type().Field(i).Name, f.Kind())
		}
	}
	var sources []policy.Source
	for _, l := range []policy.Layer{policy.Envelope, policy.User, policy.Project, policy.Session} {
		sources = append(sources, policy.Source{Name: l.String() + "\xff.toml", Layer: l, Text: []byte("# ü\n")})
	}
	data, err := json.Marshal(Manifest{Basis: NewBasis("p", sources, h)})
	if err != nil {
		t.Fatal(err)
	}
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	if err := m.Basis.Check(); err != nil {
		t.Fatal(err)
	}
	got, err := m.Basis.Sources()
	if err != nil || !reflect.DeepEqual(got, sources) || m.Basis.Profile != "p" {
		t.Errorf("sources %+v, %v", got, err)
	}
	if facts := m.Basis.Facts(); !reflect.DeepEqual(facts, h) {
		t.Errorf("facts\n got %+v\nwant %+v", facts, h)
	}
}

func TestBasisThatIsTooLarge(t *testing.T) {
	big := policy.Source{Name: "big.toml", Layer: policy.Session, Text: []byte(strings.Repeat("#", maxBasis))}
	half := policy.Source{Name: "half.toml", Layer: policy.Session, Text: big.Text[:maxBasis*2/3]}
	outer := NewBasis("p", []policy.Source{half}, policy.Host{})
	if err := outer.Check(); err != nil {
		t.Error(err)
	}
	if err := NewBasis("q", []policy.Source{half}, policy.Host{}).Inside(outer).Check(); err == nil {
		t.Error("two bases together are too large")
	}
	if err := NewBasis("q", nil, policy.Host{}).Inside(outer).Check(); err != nil {
		t.Error(err)
	}
	b := NewBasis("p", []policy.Source{big}, policy.Host{})
	if err := b.Check(); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a basis that was left out: %v", err)
	}
	if err := (*Basis)(nil).Check(); err == nil {
		t.Error("no basis at all is one")
	}
}
