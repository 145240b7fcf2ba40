package config

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestParseToolSearch(t *testing.T) {
	yes := true
	code := ToolSearch{Choice: ToolSearchSurface, Mode: "code"}
	for _, tt := range []struct {
		in   string
		want ToolSearch
		out  string // encoded again; "" for the same as in
	}{
		{``, ToolSearch{}, `null`},
		{`null`, ToolSearch{}, ``},
		{`true`, ToolSearch{Choice: ToolSearchTrue, Mode: "code"}, ``},
		{`"true"`, ToolSearch{Choice: ToolSearchTrue, Mode: "code"}, `true`}, // the environment has only strings
		{`false`, ToolSearch{Choice: ToolSearchFalse, Mode: "direct"}, ``},
		{`"code"`, code, ``},
		{`"tools"`, ToolSearch{Choice: ToolSearchSurface, Mode: "tools"}, ``},
		{`"directory"`, ToolSearch{Choice: ToolSearchSurface, Mode: "directory"}, ``},
		{`"direct"`, ToolSearch{Choice: ToolSearchSurface, Mode: "direct"}, ``},
		{`"auto"`, ToolSearch{Choice: ToolSearchAuto, Percent: 10}, `"auto:10"`},
		{`"auto:0"`, ToolSearch{Choice: ToolSearchAuto}, ``},
		{`"auto:100"`, ToolSearch{Choice: ToolSearchAuto, Percent: 100}, ``},
		{`{}`, code, `"code"`},
		{`{"mode":"tools"}`, ToolSearch{Choice: ToolSearchSurface, Mode: "tools"}, `"tools"`},
		{`{"mode":"auto"}`, ToolSearch{Choice: ToolSearchAuto, Percent: 10}, `"auto:10"`},
		{`{"mode":"auto","auto":0}`, ToolSearch{Choice: ToolSearchAuto}, `"auto:0"`},
		{`{"mode":"tools","auto":0}`, ToolSearch{Choice: ToolSearchAuto, Mode: "tools"}, ``},
		{`{"enabled":false,"mode":"tools"}`, ToolSearch{Choice: ToolSearchFalse, Mode: "direct"}, `false`},
		{`{"enabled":true}`, code, `"code"`},
		{`{"enabled":false,"maxSearchLimit":30}`, ToolSearch{Choice: ToolSearchFalse, Mode: "direct", MaxSearchLimit: 30}, ``},
		{
			`{"mode":"code","searchDefaultLimit":50,"maxSearchLimit":50,"codeTimeoutMs":1000,"codeUnavailable":"refuse","experimental":true}`,
			ToolSearch{Choice: ToolSearchSurface, Mode: "code", SearchDefaultLimit: 50, MaxSearchLimit: 50, CodeTimeoutMs: 1000, CodeUnavailable: "refuse", Experimental: &yes},
			``,
		},
	} {
		got, err := ParseToolSearch(json.RawMessage(tt.in))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("ParseToolSearch(%s) = %v (-want +got):\n%s", tt.in, err, diff)
		}
		out, err := json.Marshal(got)
		if want := first(tt.out, tt.in); err != nil || string(out) != want {
			t.Errorf("Marshal(%s) = %s, %v, want %s", tt.in, out, err, want)
		}
		var again ToolSearch
		if err := json.Unmarshal(out, &again); err != nil || !cmp.Equal(got, again) {
			t.Errorf("%s reads as %+v, %v, want %+v", out, again, err, got)
		}
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestParseToolSearchRefuses(t *testing.T) {
	for _, tt := range []struct{ in, field string }{
		{`"on"`, "/toolSearch"},
		{`"auto:101"`, "/toolSearch"},
		{`"auto:-1"`, "/toolSearch"},
		{`"auto:"`, "/toolSearch"},
		{`"auto:1.5"`, "/toolSearch"},
		{`"Code"`, "/toolSearch"},
		{`1`, "/toolSearch"},
		{`[]`, "/toolSearch"},
		{`""`, "/toolSearch"},
		{`{"mode":"auto:5"}`, "/toolSearch/mode"},
		{`{"auto":"5"}`, "/toolSearch/auto"},
		{`{"auto":1.5}`, "/toolSearch/auto"},
		{`{"maxSearchLimit":51}`, "/toolSearch/maxSearchLimit"},
		{`{"searchDefaultLimit":0}`, "/toolSearch/searchDefaultLimit"},
		{`{"codeTimeoutMs":60001}`, "/toolSearch/codeTimeoutMs"},
		{`{"limit":5}`, "/toolSearch/limit"},
		{`{"mode":null}`, "/toolSearch/mode"},
		{`{`, ""},
		{`true false`, ""},
	} {
		_, err := ParseToolSearch(json.RawMessage(tt.in))
		e, ok := errors.AsType[*contracts.Error](err)
		if !ok || e.Code != contracts.CodeInvalid {
			t.Errorf("ParseToolSearch(%s) = %v, want an invalid error", tt.in, err)
			continue
		}
		if tt.field != "" && (len(e.Fields) != 1 || e.Fields[0].Field != tt.field) {
			t.Errorf("ParseToolSearch(%s) names %v, want %s", tt.in, e.Fields, tt.field)
		}
	}
}

func TestEffectiveToolSearch(t *testing.T) {
	read := func(s string) ToolSearch {
		v, err := ParseToolSearch(json.RawMessage(s))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	yes, no := true, false
	for _, tt := range []struct {
		levels []string
		want   ToolSearch
	}{
		{nil, ToolSearch{"", "code", 0, 8, 20, 10_000, "tools", &yes}},
		{[]string{`null`, `null`}, ToolSearch{"", "code", 0, 8, 20, 10_000, "tools", &yes}},
		{[]string{`null`, `"tools"`, `"directory"`}, ToolSearch{"surface", "tools", 0, 8, 20, 10_000, "tools", &yes}},
		{[]string{`true`, `"tools"`}, ToolSearch{"true", "code", 0, 8, 20, 10_000, "tools", &yes}},
		{[]string{`false`, `{"maxSearchLimit":5}`}, ToolSearch{"false", "direct", 0, 5, 5, 10_000, "tools", &yes}},
		{[]string{`"auto:3"`, `null`, `{"mode":"tools","codeUnavailable":"refuse"}`, `"directory"`}, ToolSearch{"auto", "tools", 3, 8, 20, 10_000, "refuse", &yes}},
		{[]string{`"auto"`, `false`, `"direct"`}, ToolSearch{"auto", "code", 10, 8, 20, 10_000, "tools", &yes}},
		{
			[]string{`{"searchDefaultLimit":3,"experimental":false}`, `{"searchDefaultLimit":9,"codeTimeoutMs":5000,"experimental":true}`},
			ToolSearch{"surface", "code", 0, 3, 20, 5000, "tools", &no},
		},
	} {
		var levels []ToolSearch
		for _, l := range tt.levels {
			levels = append(levels, read(l))
		}
		if diff := cmp.Diff(tt.want, EffectiveToolSearch(levels...)); diff != "" {
			t.Errorf("EffectiveToolSearch(%v) (-want +got):\n%s", tt.levels, diff)
		}
	}
}
