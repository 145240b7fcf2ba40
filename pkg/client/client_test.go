package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// The tests of the gateway use the client against the real API. Here a server of
// the test answers as the API does only when something is wrong or slow.

// answering returns a Client of a server that h is.
func answering(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return client.New(s.URL+"/", "secret")
}

func TestErrors(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		want       contracts.Error
	}{
		{"problem", `{"type":"about:blank","title":"T","status":429,"detail":"slow down","code":"rate_limited","retryAfter":1500}`, 429, contracts.Error{Code: "rate_limited", Message: "slow down", RetryAfter: 1500}},
		{"fields", `{"detail":"d","code":"invalid","fields":[{"field":"/a","message":"m"}]}`, 400, contracts.Error{Code: "invalid", Message: "d", Fields: []contracts.FieldError{{Field: "/a", Message: "m"}}}},
		{"code of a newer server", `{"detail":"d","code":"brand_new"}`, 418, contracts.Error{Code: "brand_new", Message: "d"}},
		{"a proxy's 404", `<html>`, 404, contracts.Error{Code: "not_found", Message: "the server answered 404 Not Found"}},
		{"a proxy's 502", ``, 502, contracts.Error{Code: "unavailable", Message: "the server answered 502 Bad Gateway"}},
		{"a proxy's 418", ``, 418, contracts.Error{Code: "invalid", Message: "the server answered 418 I'm a teapot"}},
		{"a proxy's 599", ``, 599, contracts.Error{Code: "unavailable", Message: "the server answered 599 status code 599"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				w.Write([]byte(tt.body))
			})
			_, err := c.Run(t.Context(), "run_x")
			got, ok := errors.AsType[*contracts.Error](err)
			if !ok {
				t.Fatalf("Run() = %v, want a contracts.Error", err)
			}
			if got.Code != tt.want.Code || strings.TrimSpace(got.Message) != tt.want.Message || got.RetryAfter != tt.want.RetryAfter || !slices.Equal(got.Fields, tt.want.Fields) {
				t.Errorf("Run() = %+v, want %+v", got, tt.want)
			}
		})
	}
	if _, err := client.New("http://127.0.0.1:1", "").Run(t.Context(), "run_x"); contracts.CodeOf(err) != contracts.CodeUnavailable {
		t.Errorf("Run() of a server that is not there = %v, want unavailable", err)
	}
	if _, err := client.New("::", "").Run(t.Context(), "run_x"); contracts.CodeOf(err) != contracts.CodeInvalid {
		t.Errorf("Run() of no address = %v, want invalid", err)
	}
}

// TestCallWaits sees that a call that takes long is looked for again until it has ended.
func TestCallWaits(t *testing.T) {
	var seen []string
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.EscapedPath(), r.Header.Get("Prefer"), r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization")))
		a := client.CallAnswer{Outcome: contracts.Outcome{CallID: "call_1", Status: contracts.StatusWaiting}, Href: "/x"}
		if len(seen) == 3 {
			a = client.CallAnswer{Outcome: contracts.Outcome{CallID: "call_1", Status: contracts.StatusOK}}
		} else {
			w.WriteHeader(http.StatusAccepted)
		}
		json.NewEncoder(w).Encode(a)
	})
	a, err := c.Call(t.Context(), "run/../1", client.CallRequest{Name: "x", Key: "k"})
	if err != nil || a.Status != contracts.StatusOK || !a.Final() {
		t.Errorf("Call() = %+v, %v; want its end", a, err)
	}
	want := []string{
		"POST /v1/runs/run%2F..%2F1/calls wait=30 k Bearer secret",
		"GET /v1/runs/run%2F..%2F1/calls/call_1 wait=30  Bearer secret",
		"GET /v1/runs/run%2F..%2F1/calls/call_1 wait=30  Bearer secret",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("requests = %q, want %q", seen, want)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c = answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusAccepted)
		w.Write([]byte(`{"callId":"call_1","status":"waiting","durationMs":0}`))
	})
	if _, err := c.Call(ctx, "run_1", client.CallRequest{Name: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call() that takes longer than its context = %v, want the context's error", err)
	}
}

// TestEventsResume breaks the connection off in the middle of a run.
func TestEventsResume(t *testing.T) {
	var after []string
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		after = append(after, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(after) {
		case 1:
			fmt.Fprint(w, ": hello\n\nid: 3\nevent: run.requested\ndata: {\"a\":1}\n\nid: 7\nevent: run.planned\ndata: {}\n\nid: 9\nevent: cut")
		default:
			fmt.Fprint(w, "id: 9\r\nevent: run.closed\r\ndata: {}\r\n\r\nid: 11\nevent: late\ndata: {}\n\n")
		}
	})
	var got []string
	for e, err := range c.Events(t.Context(), "run_1", 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %s", e.Seq, e.Type, e.Data))
	}
	if want := []string{`3 run.requested {"a":1}`, "7 run.planned {}", "9 run.closed {}"}; !slices.Equal(got, want) {
		t.Errorf("Events() = %q, want %q", got, want)
	}
	if want := []string{"", "7"}; !slices.Equal(after, want) {
		t.Errorf("Last-Event-ID = %q, want %q", after, want)
	}
}

func TestEventsEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		want   contracts.Code
	}{
		"nothing more": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, ""},
		"no such run": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(404)
			w.Write([]byte(`{"code":"not_found","detail":"d"}`))
		}, contracts.CodeNotFound},
		"nonsense": {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("id: x\ndata: {}\n\n")) }, contracts.CodeInternal},
		"endless line": {func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("data: " + strings.Repeat("x", 5<<20)))
		}, contracts.CodeInternal},
	} {
		var last error
		n := 0
		for _, err := range answering(t, tt.answer).Events(t.Context(), "run_1", 4) {
			last, n = err, n+1
		}
		if contracts.CodeOf(last) != tt.want || n > 1 {
			t.Errorf("%s: Events() yields %d times, %v; want %q", name, n, last, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("id: 1\nevent: e\ndata: {}\n\n"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	var last error
	for _, err := range c.Events(ctx, "run_1", 0) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("Events() of an ended context ends with %v, want its error", last)
	}
	n := 0
	for range c.Events(t.Context(), "run_1", 0) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("a loop that breaks saw %d events", n)
	}
}

func TestLogThatBreaksOff(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"seq":1,"type":"a","at":"2025-01-01T00:00:00Z","event":{}}` + "\n"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	n, last := 0, error(nil)
	for l, err := range c.Log(t.Context(), "run_1") {
		if err == nil && l.Type == "a" {
			n++
		}
		last = err
	}
	if n != 1 || last == nil {
		t.Errorf("Log() that breaks off = %d lines, %v; want 1 and an error", n, last)
	}
}
