package admission_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/admission"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

var odd = contracts.SourceID{Kind: contracts.SourceMCP, Owner: "odd"}

func tool(name, description string) contracts.Tool {
	t := contracts.Tool{ID: contracts.NewToolID(odd, name), Name: name, Description: description, InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{},"b":{}}}`)}
	t.Hash = t.ContentHash()
	return t
}

func listing(tools ...contracts.Tool) *contracts.Listing {
	return &contracts.Listing{Source: odd, Tools: tools}
}

// suspicious flags descriptions with a question mark.
func suspicious(t *contracts.Tool) []contracts.Flag {
	if slices.Contains([]byte(t.Description), '?') {
		return []contracts.Flag{{Rule: "question", Place: "/description"}}
	}
	return nil
}

// story reviews one listing after the other and returns the last review.
func story(mode contracts.AdmissionMode, listings ...*contracts.Listing) (r admission.Review) {
	for i, l := range listings {
		r = r.Compare(mode, l, suspicious, time.Unix(int64(i), 0))
	}
	return r
}

// states returns the tools that runs may use, and the states of those that there is something to say of.
func states(r admission.Review) (used []string, said map[string]string) {
	for _, t := range r.Listing.Tools {
		used = append(used, t.Name+": "+t.Description)
	}
	said = map[string]string{}
	for _, a := range r.Remarks.Tools {
		_, name, _ := a.Tool.Split()
		said[name] = string(a.State())
		if a.Gone {
			said[name] = "gone"
		}
	}
	return used, said
}

func TestCompare(t *testing.T) {
	first := listing(tool("a", "old"), tool("b", "old"))
	off, warn, quarantine := contracts.AdmissionOff, contracts.AdmissionWarn, contracts.AdmissionQuarantine
	reordered := tool("a", "old")
	reordered.InputSchema = json.RawMessage(`{"properties":{"b":{},"a":{}},"type":"object"}`)
	reordered.Hash = reordered.ContentHash()
	twice := tool("a", "old")
	twice.InputSchema = json.RawMessage(`{"type":"object","type":"x","properties":{"a":{},"b":{}}}`)
	twice.Hash = twice.ContentHash()
	for name, tt := range map[string]struct {
		mode     contracts.AdmissionMode
		listings []*contracts.Listing
		used     []string
		said     map[string]string
		news     int // of the last listing
	}{
		"first sight":         {quarantine, []*contracts.Listing{first}, []string{"a: old", "b: old"}, nil, 0},
		"the same":            {quarantine, []*contracts.Listing{first, first}, []string{"a: old", "b: old"}, nil, 0},
		"order of members":    {quarantine, []*contracts.Listing{first, listing(reordered)}, []string{"a: old"}, map[string]string{"b": "gone"}, 0},
		"a member twice":      {quarantine, []*contracts.Listing{listing(tool("a", "old")), listing(twice)}, nil, map[string]string{"a": "quarantined"}, 1},
		"changed, off":        {off, []*contracts.Listing{first, listing(tool("a", "new"), tool("b", "old"))}, []string{"a: new", "b: old"}, nil, 0},
		"changed, warn":       {warn, []*contracts.Listing{first, listing(tool("a", "new"), tool("b", "old"))}, []string{"a: new", "b: old"}, map[string]string{"a": "changed"}, 1},
		"changed, quarantine": {quarantine, []*contracts.Listing{first, listing(tool("a", "new"), tool("b", "old"))}, []string{"b: old"}, map[string]string{"a": "quarantined"}, 1},
		"told once":           {quarantine, []*contracts.Listing{first, listing(tool("a", "new")), listing(tool("a", "new"))}, nil, map[string]string{"a": "quarantined", "b": "gone"}, 0},
		"changed again":       {quarantine, []*contracts.Listing{first, listing(tool("a", "new")), listing(tool("a", "newer"))}, nil, map[string]string{"a": "quarantined", "b": "gone"}, 1},
		"and back":            {quarantine, []*contracts.Listing{first, listing(tool("a", "new"), tool("b", "old")), first}, []string{"a: old", "b: old"}, nil, 0},
		"gone and back":       {quarantine, []*contracts.Listing{first, listing(), first}, []string{"a: old", "b: old"}, nil, 0},
		"gone, back, changed": {quarantine, []*contracts.Listing{first, listing(), listing(tool("a", "new"))}, nil, map[string]string{"a": "quarantined", "b": "gone"}, 1},
		"held, gone, back":    {quarantine, []*contracts.Listing{first, listing(tool("a", "new")), listing(), listing(tool("a", "new"))}, nil, map[string]string{"a": "quarantined", "b": "gone"}, 1},
		"new":                 {quarantine, []*contracts.Listing{first, listing(tool("a", "old"), tool("b", "old"), tool("c", "old"))}, []string{"a: old", "b: old", "c: old"}, map[string]string{"c": "new"}, 1},
		"new, off":            {off, []*contracts.Listing{first, listing(tool("a", "old"), tool("b", "old"), tool("c", "old?"))}, []string{"a: old", "b: old", "c: old?"}, nil, 0},
		"flagged, warn":       {warn, []*contracts.Listing{listing(tool("a", "old?"))}, []string{"a: old?"}, map[string]string{"a": "admitted"}, 1},
		"flagged, quarantine": {quarantine, []*contracts.Listing{listing(tool("a", "old?"))}, nil, map[string]string{"a": "quarantined"}, 1},
		"flagged, then not":   {quarantine, []*contracts.Listing{listing(tool("a", "old?")), listing(tool("a", "old"))}, nil, map[string]string{"a": "quarantined"}, 1},
	} {
		r := story(tt.mode, tt.listings...)
		used, said := states(r)
		if tt.said == nil {
			tt.said = map[string]string{}
		}
		if d := cmp.Diff(tt.used, used) + cmp.Diff(tt.said, said); d != "" || len(r.News) != tt.news {
			t.Errorf("%s: %d pieces of news, want %d; (-want +got)\n%s", name, len(r.News), tt.news, d)
		}
	}
}

func TestAnotherSetting(t *testing.T) {
	warned := story(contracts.AdmissionWarn, listing(tool("a", "old"), tool("b", "old?")), listing(tool("a", "new"), tool("b", "old?")))
	strict := warned.Compare(contracts.AdmissionQuarantine, warned.Offered(), suspicious, time.Now())
	used, said := states(strict)
	if d := cmp.Diff([]string{"b: old?"}, used) + cmp.Diff(map[string]string{"a": "quarantined", "b": "admitted"}, said); d != "" {
		t.Errorf("from warn to quarantine (-want +got)\n%s", d)
	}
	back := strict.Compare(contracts.AdmissionWarn, strict.Offered(), suspicious, time.Now())
	if used, said = states(back); len(used) != 2 || said["a"] != "changed" {
		t.Errorf("back to warn: %q %v", used, said)
	}
	off := strict.Compare(contracts.AdmissionOff, strict.Offered(), suspicious, time.Now())
	if used, said = states(off); len(used) != 2 || len(said) != 0 {
		t.Errorf("off: %q %v", used, said)
	}
}

func decide(t *testing.T, r admission.Review, mode contracts.AdmissionMode, q contracts.AdmitRequest) admission.Review {
	t.Helper()
	k, _, err := r.Decide(q)
	if err != nil {
		t.Fatal(err)
	}
	return k.Compare(mode, k.Offered(), suspicious, time.Now())
}

func TestDecide(t *testing.T) {
	for _, mode := range []contracts.AdmissionMode{contracts.AdmissionOff, contracts.AdmissionWarn, contracts.AdmissionQuarantine} {
		a, next := tool("a", "old?"), tool("a", "new?")
		r := story(mode, listing(a))
		if used, _ := states(r); mode == contracts.AdmissionQuarantine && len(used) == 0 {
			r = decide(t, r, mode, contracts.AdmitRequest{Tools: []contracts.ToolAt{{Tool: a.ID, Hash: a.Hash}}, State: contracts.ToolAdmitted, By: "ann"})
		}
		if used, _ := states(r); !slices.Equal(used, []string{"a: old?"}) {
			t.Errorf("%s: once admitted: %q", mode, used)
		}
		r = decide(t, r, mode, contracts.AdmitRequest{Tools: []contracts.ToolAt{{Tool: a.ID}}, State: contracts.ToolQuarantined, By: "ann"})
		for _, l := range []*contracts.Listing{listing(a), listing(), listing(next)} { // whatever the source does
			r = r.Compare(mode, l, suspicious, time.Now())
			if used, _ := states(r); len(used) != 0 || r.Remarks.Tools[0].By != "ann" {
				t.Errorf("%s: in quarantine: %q, %+v", mode, used, r.Remarks)
			}
		}
		for _, q := range []contracts.AdmitRequest{
			{Tools: []contracts.ToolAt{{Tool: a.ID, Hash: a.Hash}}, State: contracts.ToolAdmitted}, // not what is offered now
			{Tools: []contracts.ToolAt{{Tool: a.ID}}, State: contracts.ToolAdmitted},
			{Tools: []contracts.ToolAt{{Tool: a.ID, Hash: a.Hash}}, State: contracts.ToolQuarantined},
		} {
			if _, _, err := r.Decide(q); contracts.CodeOf(err) != contracts.CodeConflict {
				t.Errorf("%s: Decide(%+v) = %v, want a conflict", mode, q, err)
			}
		}
		if _, _, err := r.Decide(contracts.AdmitRequest{Tools: []contracts.ToolAt{{Tool: "mcp:odd:none", Hash: a.Hash}}, State: contracts.ToolAdmitted}); contracts.CodeOf(err) != contracts.CodeNotFound {
			t.Errorf("%s: Decide of no tool = %v", mode, err)
		}
		r = decide(t, r, mode, contracts.AdmitRequest{Tools: []contracts.ToolAt{{Tool: a.ID, Hash: next.Hash}}, State: contracts.ToolAdmitted, By: "ann"})
		r = r.Compare(mode, listing(next), suspicious, time.Now())
		if used, said := states(r); !slices.Equal(used, []string{"a: new?"}) || said["a"] != "" && said["a"] != "admitted" || len(r.News) != 0 {
			t.Errorf("%s: admitted again: %q, %v, news %v", mode, used, said, r.News)
		}
	}
}

func TestGoneToolsAreForgottenInTheEnd(t *testing.T) {
	held := tool("held", "old")
	r := story(contracts.AdmissionQuarantine, listing(held))
	r = decide(t, r, contracts.AdmissionQuarantine, contracts.AdmitRequest{Tools: []contracts.ToolAt{{Tool: held.ID}}, State: contracts.ToolQuarantined})
	for round := range 3 {
		var tools []contracts.Tool
		for i := range 8000 {
			tools = append(tools, tool(fmt.Sprintf("t%d-%05d", round, i), "x"))
		}
		r = r.Compare(contracts.AdmissionQuarantine, listing(tools...), nil, time.Unix(int64(round), 0))
	}
	_, said := states(r)
	n := 0
	for _, s := range said {
		if s == "gone" {
			n++
		}
	}
	if n != 10_000 || said["held"] != "gone" || said["t1-00000"] != "gone" || said["t0-07999"] != "" {
		t.Errorf("%d tools that are gone are kept, the held one %q, of the last %q, of the first %q", n, said["held"], said["t1-00000"], said["t0-07999"])
	}
}

// BenchmarkCompare reviews a listing of 10,000 tools: one that is the same, and one where all changed.
func BenchmarkCompare(b *testing.B) {
	var was, is []contracts.Tool
	for i := range 10_000 {
		was, is = append(was, tool(fmt.Sprintf("tool-%05d", i), "Does something.")), append(is, tool(fmt.Sprintf("tool-%05d", i), "Does another thing."))
	}
	known := story(contracts.AdmissionQuarantine, listing(was...))
	for name, tools := range map[string][]contracts.Tool{"same": was, "changed": is} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				known.Compare(contracts.AdmissionQuarantine, listing(tools...), nil, time.Now())
			}
		})
	}
	b.Run("flags", func(b *testing.B) {
		s := admission.NewScanner()
		for b.Loop() {
			for i := range was {
				s.Flags(&was[i])
			}
		}
	})
}
