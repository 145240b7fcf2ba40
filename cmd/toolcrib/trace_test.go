package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/toolcrib/toolcrib/pkg/client"
)

// A traceReceiver is an OTLP/HTTP endpoint that keeps what it is sent.
type traceReceiver struct {
	mu    sync.Mutex
	spans []*otlp.Span
}

func (r *traceReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var export collector.ExportTraceServiceRequest
	if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &export) != nil {
		http.Error(w, "not an export of traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range export.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			r.spans = append(r.spans, ss.Spans...)
		}
	}
}

// With an endpoint for traces, what a request sets off in the other services is in the request's trace.
func TestTraces(t *testing.T) {
	receiver := &traceReceiver{}
	srv := httptest.NewServer(receiver)
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "toolcrib.yaml")
	write(t, file, "otel:\n  endpoint: "+srv.URL+"\n")
	s := up(t, t.TempDir(), map[string]any{"office": exampleServer("contacts")}, "--config", file)
	r := openRun(t, s.client(), client.RunOptions{Mode: "tools"})
	call(t, s.client(), r.ID, "tool_search", `{"query":"find a person"}`)
	call(t, s.client(), r.ID, "tool_call", `{"id":"mcp:office:find_contact","args":{"name":"Ingrid"}}`)
	s.stop(t) // sends what is left

	byTrace := map[string][]string{}
	for _, span := range receiver.spans {
		id := string(span.TraceId)
		byTrace[id] = append(byTrace[id], span.Name)
	}
	for _, want := range [][]string{
		{"http POST /v1/runs", "handle planner"},
		{"http POST /v1/runs/{run}/calls", "answer search"},
		{"http POST /v1/runs/{run}/calls", "handle executor"},
	} {
		if !anyHolds(byTrace, want) {
			t.Errorf("no trace holds the spans %q: %v", want, byTrace)
		}
	}
}

func anyHolds(traces map[string][]string, want []string) bool {
	for _, names := range traces {
		has := map[string]bool{}
		for _, n := range names {
			has[n] = true
		}
		all := true
		for _, w := range want {
			all = all && has[w]
		}
		if all {
			return true
		}
	}
	return false
}
