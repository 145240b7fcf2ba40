package contracts_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestBasisOf(t *testing.T) {
	source := func(owner string) *contracts.SourceRecord {
		return &contracts.SourceRecord{
			Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: owner}, State: contracts.SourceStateReady, Listing: contracts.HashOf([]byte(owner)),
		}
	}
	policy := func(deny string) *contracts.PolicyRecord {
		return &contracts.PolicyRecord{Layers: []contracts.PolicyLayer{{Level: "tenant", Deny: []string{deny}}}}
	}
	sources := []*contracts.SourceRecord{source("a"), source("b"), source("c")}
	policies := []*contracts.PolicyRecord{policy("x"), policy("y")}
	want := contracts.BasisOf(sources, policies)

	slices.Reverse(sources)
	slices.Reverse(policies)
	if got := contracts.BasisOf(sources, policies); got != want {
		t.Errorf("BasisOf in another order = %s, want %s", got, want)
	}
	later := source("a")
	later.Discovered, later.Tools, later.AlwaysLoad = time.Now(), 7, true
	if got := contracts.BasisOf([]*contracts.SourceRecord{later, sources[0], sources[1]}, policies); got != want {
		t.Errorf("BasisOf after a listing was confirmed = %s, want %s", got, want)
	}

	seen := map[string]string{want: "all"}
	for name, change := range map[string]func(*contracts.SourceRecord){
		"another owner":   func(s *contracts.SourceRecord) { s.Source.Owner = "z" },
		"another kind":    func(s *contracts.SourceRecord) { s.Source.Kind = contracts.SourcePlugin },
		"another state":   func(s *contracts.SourceRecord) { s.State = contracts.SourceStateFailed },
		"another listing": func(s *contracts.SourceRecord) { s.Listing = contracts.HashOf(nil) },
		"another reason":  func(s *contracts.SourceRecord) { s.Reason = "no answer" },
	} {
		s := source("a")
		change(s)
		addBasis(t, seen, name, []*contracts.SourceRecord{s, sources[0], sources[1]}, policies)
	}
	addBasis(t, seen, "a source less", sources[1:], policies)
	addBasis(t, seen, "a policy less", sources, policies[1:])
	addBasis(t, seen, "another policy", sources, []*contracts.PolicyRecord{policy("x"), policy("z")})
	addBasis(t, seen, "nothing", nil, nil)
}

// addBasis reports a basis that was seen before, for other sources and policies.
func addBasis(t *testing.T, seen map[string]string, name string, s []*contracts.SourceRecord, p []*contracts.PolicyRecord) {
	t.Helper()
	got := contracts.BasisOf(s, p)
	if before, ok := seen[got]; ok {
		t.Errorf("BasisOf is %s for %q and for %q", got, before, name)
	}
	seen[got] = name
}

// TestContentHash has every part of what a source says of a tool count, and nothing that we add.
func TestContentHash(t *testing.T) {
	tool := contracts.Tool{ID: "mcp:a:b", Name: "b", InputSchema: json.RawMessage(`{}`)}
	want := tool.ContentHash()
	typ := reflect.TypeFor[contracts.Tool]()
	for i := range typ.NumField() {
		changed := tool
		switch f := reflect.ValueOf(&changed).Elem().Field(i); f.Interface().(type) {
		case json.RawMessage:
			f.SetBytes([]byte(`{"x":1}`))
		case *contracts.Annotations:
			f.Set(reflect.ValueOf(&contracts.Annotations{ReadOnlyHint: new(bool)}))
		case int:
			f.SetInt(7)
		default:
			f.SetString("other")
		}
		ours := slices.Contains([]string{"Hash", "Bytes", "Tokens", "Loading"}, typ.Field(i).Name)
		if got := changed.ContentHash(); (got == want) != ours {
			t.Errorf("another %s leaves the content hash as it is: %v, want %v", typ.Field(i).Name, got == want, ours)
		}
	}
	if tool.Hash != "" {
		t.Error("ContentHash changed its tool")
	}
}

func TestHashOf(t *testing.T) {
	const ofNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := contracts.HashOf(nil); got != ofNothing {
		t.Errorf("HashOf(nil) = %s, want %s", got, ofNothing)
	}
}

func TestCatalogueSize(t *testing.T) {
	c := contracts.Catalogue{Listings: []contracts.CatalogueListing{{Visible: 3, Hidden: []int{0}}, {}, {Visible: 4}}}
	if got := c.Size(); got != 7 {
		t.Errorf("Size() = %d, want 7", got)
	}
}

func TestTextResult(t *testing.T) {
	got, err := json.Marshal(contracts.TextResult("a \"b\"\n", json.RawMessage(`{"n":1}`)))
	if want := `{"content":[{"type":"text","text":"a \"b\"\n"}],"structuredContent":{"n":1}}`; err != nil || string(got) != want {
		t.Errorf("TextResult = %s, %v, want %s", got, err, want)
	}
}

func TestOutbox(t *testing.T) {
	var r contracts.Run
	notes := r.Notes()
	*notes = append(*notes, contracts.Note{MsgID: "1"})
	if b, _ := json.Marshal(&r); !strings.Contains(string(b), `"unsent":[{`) {
		t.Errorf("a record with a note is %s, want the note in it", b)
	}
	*notes = nil
	if b, _ := json.Marshal(&r); strings.Contains(string(b), "unsent") {
		t.Errorf("a record without notes is %s, want no unsent", b)
	}
}
