package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestMatcher(t *testing.T) {
	m, err := NewMatcher([]string{"mcp:a:*", "plugin:b:x"})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[contracts.ToolID]bool{"mcp:a:y": true, "plugin:b:x": true, "plugin:b:xy": false, "mcp:b:x": false} {
		if got := m.Match(id); got != want {
			t.Errorf("Match(%s) = %v, want %v", id, got, want)
		}
	}
	all, err := NewMatcher(nil)
	if err != nil || !all.Match("mcp:a:x") {
		t.Errorf("a matcher of no globs: %v, want one that matches everything", err)
	}
	if _, err := NewMatcher([]string{"mcp:*", "["}); err == nil || !strings.Contains(err.Error(), `"["`) {
		t.Errorf("NewMatcher with [: %v, want the glob", err)
	}
}

func TestTerms(t *testing.T) {
	for want, terms := range map[string]*contracts.ApprovalTerms{
		"":                                    nil,
		"title of the approval has 81":        {Title: strings.Repeat("ü", 81)},
		"description of the approval has 513": {Description: strings.Repeat("x", 513)},
		`severity "high"`:                     {Severity: "high"},
		"expiresIn -1":                        {ExpiresIn: -1},
		"expiresIn 604801":                    {ExpiresIn: 604801},
		"there are 101 deciders":              {Deciders: make([]string, 101)},
		`decider ""; want a`:                  {Deciders: []string{"a", ""}},
	} {
		if err := CheckTerms(terms); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckTerms(%+v) = %v, want %q", terms, err, want)
		}
	}
	a := CompleteTerms(&contracts.ApprovalTerms{Title: "a", Deciders: []string{"y", "x", "y"}})
	b := CompleteTerms(&contracts.ApprovalTerms{Title: "b", Severity: "critical", ExpiresIn: 500, Deciders: []string{"y", "z"}})
	got, ok := StricterTerms(a, b)
	want := contracts.ApprovalTerms{Title: "b", Severity: "critical", ExpiresIn: 120, Deciders: []string{"y"}}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("StricterTerms, %v (-want +got):\n%s", ok, diff)
	}
	if other, ok := StricterTerms(b, a); !other.Equal(got) || !ok {
		t.Errorf("StricterTerms the other way round = %+v, want the same", other)
	}
	if got, ok := StricterTerms(a, CompleteTerms(nil)); !ok || len(got.Deciders) != 2 {
		t.Errorf("StricterTerms with terms that everybody may decide = %+v, %v", got, ok)
	}
	if _, ok := StricterTerms(a, CompleteTerms(&contracts.ApprovalTerms{Deciders: []string{"z"}})); ok {
		t.Error("StricterTerms finds somebody where nobody may decide")
	}
}
