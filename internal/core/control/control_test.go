package control_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestSearchRequest(t *testing.T) {
	for _, tt := range []struct {
		args  string
		want  contracts.SearchRequest
		field string // of the error, "" for none
	}{
		{args: `{"query":" send mail "}`, want: contracts.SearchRequest{Query: "send mail"}},
		{args: `{"query":"send mail","limit":3}`, want: contracts.SearchRequest{Query: "send mail", Limit: 3}},
		{args: `{"query":"send mail","limit":1e300}`, field: "/limit"},
		{args: `{"queries":["a","b"]}`, want: contracts.SearchRequest{Queries: []string{"a", "b"}}},
		{args: `{}`, field: "/query"},
		{args: `{"query":""}`, field: "/query"},
		{args: `{"query":7}`, field: "/query"},
		{args: `{"query":"` + strings.Repeat("x", 5000) + `"}`, field: "/query"},
		{args: `{"query":"` + strings.Repeat("x", 4096) + `"}`, want: contracts.SearchRequest{Query: strings.Repeat("x", 4096)}},
		{args: `{"query":"a","limit":0}`, field: "/limit"},
		{args: `{"query":"a","limit":1.5}`, field: "/limit"},
		{args: `{"query":"a","limit":"3"}`, field: "/limit"},
		{args: `{"query":"a","queries":["b"]}`, field: "/queries"},
		{args: `{"queries":[]}`, field: "/queries"},
		{args: `{"queries":["a",""]}`, field: "/queries/1"},
		{args: `{"queries":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"]}`, field: "/queries"},
	} {
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(tt.args), &m); err != nil {
			t.Fatal(err)
		}
		got, err := control.SearchRequest(m)
		if e := contracts.AsError(err); (e == nil) != (tt.field == "") || e != nil && (e.Code != contracts.CodeInvalid || e.Fields[0].Field != tt.field) {
			t.Errorf("%.60s: error %v, want one about %q", tt.args, err, tt.field)
			continue
		}
		if tt.field == "" {
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s: %s", tt.args, diff)
			}
		}
	}
}

func TestToolID(t *testing.T) {
	for raw, want := range map[string]string{
		`" mcp:a:b "`: "mcp:a:b", `"name"`: "name", `""`: "", ``: "", `null`: "", `{"id":"x"}`: "", `"` + strings.Repeat("x", 600) + `"`: "",
	} {
		got, err := control.ToolID(json.RawMessage(raw))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ToolID(%.30s) = %q, %v", raw, got, err)
		}
	}
}
