package platform

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func call(t *testing.T, name, args string) *contracts.Result {
	t.Helper()
	r, err := Source{}.Call(t.Context(), name, json.RawMessage(args), nil)
	if err != nil {
		t.Fatalf("Call(%s, %s): %v", name, args, err)
	}
	return r
}

func TestListing(t *testing.T) {
	l, skipped, err := Source{}.List(t.Context())
	if err != nil || len(skipped) > 0 {
		t.Fatalf("List: %v, %v", skipped, err)
	}
	var names []string
	for _, tool := range l.Tools {
		names = append(names, tool.Name)
		if err := schema.Check(tool.Name, tool.InputSchema, tool.OutputSchema); err != nil {
			t.Errorf("tool %s: %v", tool.Name, err)
		}
	}
	if got := strings.Join(names, " "); got != "date_add now uuid wait" {
		t.Errorf("tools = %s, want date_add now uuid wait", got)
	}
}

func TestResultsFitTheirSchemas(t *testing.T) {
	l, _, _ := Source{}.List(t.Context())
	args := map[string]string{"now": `{}`, "date_add": `{"date":"2026-01-31"}`, "uuid": `{}`, "wait": `{"seconds":0}`}
	for _, tool := range l.Tools {
		v, err := schema.Compile(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		r := call(t, tool.Name, args[tool.Name])
		if wrong := v.Validate(r.StructuredContent); r.IsError || len(wrong) > 0 {
			t.Errorf("%s answers %s: %v", tool.Name, r.StructuredContent, wrong)
		}
	}
}

func TestDateAdd(t *testing.T) {
	for _, tt := range []struct{ args, want string }{ // want is the field iso, or the beginning of an error
		{`{"date":"2026-01-31","months":1}`, "2026-02-28T00:00:00Z"},
		{`{"date":"2024-02-29","years":1}`, "2025-02-28T00:00:00Z"},
		{`{"date":"2026-03-31","months":-1}`, "2026-02-28T00:00:00Z"},
		{`{"date":"2026-12-31","days":1}`, "2027-01-01T00:00:00Z"},
		{`{"date":"2026-01-01","weeks":2,"days":-1}`, "2026-01-14T00:00:00Z"},
		{`{"date":"2026-03-28T12:00:00+01:00","hours":24}`, "2026-03-29T12:00:00+01:00"},
		{`{"date":"2026-03-28T12:00:00+01:00","days":1,"timezone":"Europe/Berlin"}`, "2026-03-29T12:00:00+02:00"},
		{`{"date":"2026-03-28T12:00:00+01:00","hours":24,"timezone":"Europe/Berlin"}`, "2026-03-29T13:00:00+02:00"},
		{`{"date":"2026-01-01","seconds":86400,"minutes":-1440}`, "2026-01-01T00:00:00Z"},
		{`{"date":"2026-01-01","hours":17532000}`, "4026-01-16T00:00:00Z"},
		{`{"date":"yesterday"}`, `date: "yesterday"`},
		{`{"date":"2026-01-01","timezone":"Mars/Base"}`, `timezone: "Mars/Base"`},
		{`{"date":"2026-01-01","years":9000}`, "the result is in the year 11026"},
		{`{"date":"2026-01-01","days":9000000000}`, "days: 9000000000"},
	} {
		r := call(t, "date_add", tt.args)
		var got struct{ ISO string }
		if r.IsError {
			var block struct{ Text string }
			json.Unmarshal(r.Content[0], &block)
			if !strings.HasPrefix(block.Text, tt.want) {
				t.Errorf("date_add(%s) = error %q, want %q", tt.args, block.Text, tt.want)
			}
			continue
		}
		json.Unmarshal(r.StructuredContent, &got)
		if got.ISO != tt.want {
			t.Errorf("date_add(%s) = %s, want %s", tt.args, got.ISO, tt.want)
		}
	}
}

func TestNow(t *testing.T) {
	before := time.Now().Unix()
	var got struct {
		Unix     int64
		ISO      string
		Timezone string
	}
	json.Unmarshal(call(t, "now", `{"timezone":"Asia/Tokyo"}`).StructuredContent, &got)
	if got.Unix < before || got.Unix > time.Now().Unix() || !strings.HasSuffix(got.ISO, "+09:00") || got.Timezone != "Asia/Tokyo" {
		t.Errorf("now in Tokyo = %+v", got)
	}
}

func TestUUID(t *testing.T) {
	for args, form := range map[string]string{
		`{"count":3}`:             `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
		`{"count":3,"version":7}`: `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
	} {
		var got struct{ UUIDs []string }
		json.Unmarshal(call(t, "uuid", args).StructuredContent, &got)
		seen := map[string]bool{}
		for _, u := range got.UUIDs {
			seen[u] = regexp.MustCompile(form).MatchString(u)
			if !seen[u] {
				t.Errorf("uuid(%s) = %s, want the form %s", args, u, form)
			}
		}
		if len(seen) != 3 {
			t.Errorf("uuid(%s) made %d different ones, want 3", args, len(seen))
		}
	}
	for _, args := range []string{`{"count":0}`, `{"count":101}`, `{"version":5}`} {
		if !call(t, "uuid", args).IsError {
			t.Errorf("uuid(%s) is no error", args)
		}
	}
}

func TestWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Source{}).Call(ctx, "wait", json.RawMessage(`{"seconds":60}`), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("wait, cancelled: %v, want %v", err, context.Canceled)
	}
	for _, args := range []string{`{"seconds":61}`, `{"seconds":-1}`} {
		if !call(t, "wait", args).IsError {
			t.Errorf("wait(%s) is no error", args)
		}
	}
	if _, err := (Source{}).Call(t.Context(), "nope", json.RawMessage(`{}`), nil); contracts.CodeOf(err) != contracts.CodeToolError {
		t.Errorf("Call of no tool: %v, want %s", err, contracts.CodeToolError)
	}
}
