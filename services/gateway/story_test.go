package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/gateway"
)

func TestEvents(t *testing.T) {
	w := open(t, gateway.Config{})
	other := w.openRun(t, client.RunOptions{}).ID
	run := w.openRun(t, client.RunOptions{}).ID
	w.callIn(t, other, `{"name":"create_event"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := make(chan []client.Event)
	go func() {
		var events []client.Event
		for e, err := range w.client.Events(ctx, run, 0) {
			if err != nil {
				t.Errorf("Events() = %v", err)
				break
			}
			events = append(events, e)
		}
		got <- events
	}()
	w.callIn(t, run, `{"name":"tool_search","arguments":{"query":"calendar"}}`)
	w.callIn(t, run, `{"name":"create_event","arguments":{"text":"x"}}`)
	if err := w.client.CloseRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	events := <-got
	var types []string
	for i, e := range events {
		types = append(types, e.Type)
		if !json.Valid(e.Data) || strings.Contains(string(e.Data), string(other)) {
			t.Errorf("event %s holds %s", e.Type, e.Data)
		}
		if i > 0 && e.Seq <= events[i-1].Seq {
			t.Errorf("event %d has the sequence %d after %d", i, e.Seq, events[i-1].Seq)
		}
	}
	natstest.Eventually(t, "the stream's consumer is gone", func() bool {
		s, err := w.bus.JS.Stream(t.Context(), contracts.StreamEvents)
		if err != nil {
			t.Fatal(err)
		}
		for name := range s.ConsumerNames(t.Context()).Name() {
			if c, err := s.Consumer(t.Context(), name); err == nil && c.CachedInfo().Config.Durable == "" {
				return false
			}
		}
		return true
	})
	want := []string{"run.requested", "run.planned", "search", "call.requested", "call.running", "call.finished", "run.closed"}
	if d := cmp.Diff(want, types); d != "" {
		t.Fatalf("events (-want +got):\n%s", d)
	}

	var rest []string
	for e, err := range w.client.Events(ctx, run, events[3].Seq) {
		if err != nil {
			t.Fatal(err)
		}
		rest = append(rest, e.Type)
	}
	if d := cmp.Diff(want[4:], rest); d != "" {
		t.Errorf("events resumed after %s (-want +got):\n%s", want[3], d)
	}
	path := "/v1/runs/" + string(run) + "/events"
	if a := w.do(t, "GET", path, "", "Last-Event-ID", fmt.Sprint(events[6].Seq)); a.status != 204 {
		t.Errorf("events after the last = %d, want 204", a.status)
	}
	for _, id := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		a := w.do(t, "GET", path, "", "Last-Event-ID", id)
		if p := a.problem(t); a.status != 422 && a.status != 400 || !strings.Contains(p.Detail, "Last-Event-ID") {
			t.Errorf("Last-Event-ID: %s = %d %s, want a problem that names it", id, a.status, a.body)
		}
	}
	failed := w.do(t, "POST", "/v1/runs", `{"agent":"unplannable"}`)
	failed.problem(t)
	runs, err := w.client.Runs(t.Context(), contracts.RunStateFailed, 1)
	if err != nil || len(runs) != 1 {
		t.Fatalf("Runs(failed) = %v, %v", runs, err)
	}
	last := ""
	for e, err := range w.client.Events(ctx, runs[0].ID, 0) {
		if last = e.Type; err != nil {
			t.Fatal(err)
		}
	}
	if last != "run.failed" {
		t.Errorf("the events of a failed run end with %q", last)
	}
}

// TestEventsOnTheWire reads the stream as it is sent, and sees that a quiet one is ended by the stop of the service.
func TestEventsOnTheWire(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	req, _ := http.NewRequestWithContext(t.Context(), "GET", w.base+"/v1/runs/"+string(run)+"/events", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type = %q", got)
	}
	lines := bufio.NewScanner(res.Body)
	var head []string
	for len(head) < 6 && lines.Scan() {
		head = append(head, lines.Text())
	}
	if len(head) < 6 || !strings.HasPrefix(head[0], ": ") || !strings.HasPrefix(head[2], "id: ") || head[3] != "event: run.requested" || !strings.HasPrefix(head[4], `data: {"at":`) || head[5] != "" {
		t.Errorf("the stream begins %q", head)
	}
	begun := time.Now()
	if err := w.stop(); err != nil {
		t.Errorf("Run() = %v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the stop took %v with an open stream", took)
	}
	for lines.Scan() {
	}
}

func TestReportAndLog(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	w.callIn(t, run, `{"name":"create_event"}`)
	w.callIn(t, run, `{"name":"tool_search","arguments":{"query":"fail"}}`)
	w.callIn(t, run, `{"name":"tool_describe","arguments":{"id":"create_event"}}`)
	w.callIn(t, run, `{"name":"tool_search","arguments":{"query":"calendar"}}`)
	report, err := w.client.Report(t.Context(), run)
	if err != nil || report.Run != run {
		t.Errorf("Report() = %+v, %v", report, err)
	}
	var types []string
	for l, err := range w.client.Log(t.Context(), run) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, l.Type)
	}
	want := []string{"run.requested", "run.planned", "call.requested", "call.running", "call.finished", "search", "describe", "search"}
	if d := cmp.Diff(want, types); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	a := w.do(t, "GET", "/v1/runs/"+string(run)+"/log", "")
	if got := a.header.Get("Content-Type"); got != "application/x-ndjson" || len(strings.Split(string(a.body), "\n")) != len(want) {
		t.Errorf("log = %q %s, want %d JSON lines", got, a.body, len(want))
	}
	found, err := w.client.Discovered(t.Context(), run)
	ids := []contracts.ToolID{"mcp:calendar:broken", "mcp:calendar:create_event"}
	if d := cmp.Diff(ids, found); d != "" || err != nil {
		t.Errorf("Discovered(), %v (-want +got):\n%s", err, d)
	}
	empty, err := w.client.Discovered(t.Context(), w.openRun(t, client.RunOptions{}).ID)
	if err != nil || empty == nil || len(empty) != 0 {
		t.Errorf("Discovered() of a new run = %v, %v; want an empty list", empty, err)
	}
}

// TestDiscoveredForgetsWithdrawn sees that a tool that the run may no longer see is not told of.
func TestDiscoveredForgetsWithdrawn(t *testing.T) {
	w := open(t, gateway.Config{})
	run := w.openRun(t, client.RunOptions{}).ID
	w.callIn(t, run, `{"name":"tool_search","arguments":{"queries":["fail","calendar"]}}`)
	hash, err := w.library.PutCatalogue(t.Context(), "local", &contracts.Catalogue{
		Withdrawn: map[contracts.ToolID]contracts.Withdrawal{"mcp:calendar:broken": contracts.WithdrawnByPolicy},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.runs.Transition(t.Context(), contracts.RunKey("local", run), func(r *contracts.Run) ([]contracts.Event, error) {
		r.Plan.CatalogueBlob = hash
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.client.Discovered(t.Context(), run)
	if err != nil || slices.Contains(found, "mcp:calendar:broken") || !slices.Contains(found, "mcp:calendar:create_event") {
		t.Errorf("Discovered() = %v, %v; want create_event without broken", found, err)
	}
}
