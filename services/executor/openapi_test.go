package executor

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/examples/depot"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// services is the part plugins.openapi of a configuration.
type services map[string]map[string]any

// openAPIs adds services to the configuration of an executor.
func openAPIs(s services) func(*Config) {
	data := must(json.Marshal(map[string]any{"plugins": map[string]any{"openapi": s}}))
	parsed := FromConfig(must(config.Parse(data, "test.json")), nil)
	return func(c *Config) {
		c.OpenAPIs = parsed.OpenAPIs
		c.Environ = []string{"DEPOT_KEY=key-of-the-depot"}
	}
}

// depotAt serves a depot that wants a key.
func depotAt(t *testing.T) *httptest.Server {
	t.Helper()
	ts := httptest.NewServer(depot.New("key-of-the-depot"))
	t.Cleanup(ts.Close)
	return ts
}

func depotConfig(ts *httptest.Server) map[string]any {
	return map[string]any{"url": ts.URL + "/openapi.yaml", "auth": map[string]string{"key": "${env:DEPOT_KEY}"}}
}

// answer is the structured content of a call that went well, decoded.
func answer(t *testing.T, rec *contracts.Call) map[string]any {
	t.Helper()
	o := rec.Outcome
	if o == nil || o.Status != contracts.StatusOK {
		t.Fatalf("%s: outcome %+v, %+v, want ok", rec.Tool, o, o.Error)
	}
	out := map[string]any{}
	if len(o.Result.StructuredContent) > 0 {
		if err := json.Unmarshal(o.Result.StructuredContent, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestOpenAPI(t *testing.T) {
	w := newWorld(t)
	w.executor(nil, openAPIs(services{"Depot": depotConfig(depotAt(t))}))
	w.ready("plugin:depot")
	rec := w.source("plugin:depot")
	l := must(w.library.Listing(t.Context(), tenant, rec.Listing))
	if rec.Tools != 33 || len(rec.Skipped) > 0 || l.Title != "Depot" || !strings.Contains(l.Instructions, "warehouse") {
		t.Errorf("%d tools of %q, skipped %v, want the 33 that are not deprecated", rec.Tools, l.Title, rec.Skipped)
	}
	if !slices.ContainsFunc(l.Tools, func(tool contracts.Tool) bool { return tool.ID == "plugin:depot:get_zones" }) {
		t.Error("the operation without an id has no tool get_zones")
	}
	run := w.open(contracts.RunRequest{})
	call := func(name, args string) *contracts.Call {
		return w.call(run, calls.Request{Tool: "plugin:depot:" + name, Args: json.RawMessage(args)})
	}
	// A story: each answer holds to the output schema of its operation.
	if got := answer(t, call("listItems", `{"q":"hammer","tag":["steel"],"limit":1}`)); got["next"] != "c1" {
		t.Errorf("listItems = %v, want a second page", got)
	}
	answer(t, call("createItem", `{"sku":"VIS-100","name":"Vise","category":"hand/vises","price":4900,"supplierSecret":"x"}`))
	answer(t, call("updateItem", `{"sku":"VIS-100","reorderAt":null,"price":5100}`))
	answer(t, call("setNotes", `{"sku":"VIS-100","body":"heavy"}`))
	if got := call("getNotes", `{"sku":"VIS-100"}`).Outcome.Result.Content; !strings.Contains(string(got[0]), `"text":"heavy"`) {
		t.Errorf("getNotes = %s", got)
	}
	answer(t, call("categoryTree", `{}`))
	answer(t, call("importItems", `{"table":{"text":"sku,name,price\nNEW-001,New,100\n","filename":"t.csv"},"dryRun":true}`))
	if got := answer(t, call("listBins", `{"filter":{"zone":"B","minFree":1}}`)); len(got["result"].([]any)) != 4 {
		t.Errorf("listBins = %v, want the four of zone B", got)
	}
	answer(t, call("setCapacity", `{"bin":"A-01","pieces":100}`))
	if got := answer(t, call("walkingRoute", `{"stops":["C-01","A-02"]}`)); got["metres"] != 72.0 {
		t.Errorf("walkingRoute = %v, want 72 metres", got)
	}
	answer(t, call("get_zones", `{}`))
	answer(t, call("moveStock", `{"sku":"VIS-100","from":"door","to":"A-01","pieces":6,"reason":"arrival"}`))
	answer(t, call("countStock", `{"sku":"VIS-100","bin":"A-01","pieces":5,"counters":["a","b"]}`))
	if got := answer(t, call("listStock", `{"skus":["VIS-100","HAM-300"]}`)); len(got["result"].([]any)) != 2 {
		t.Errorf("listStock = %v, want two items", got)
	}
	answer(t, call("listMoves", `{"since":"2026-03-01"}`))
	order := answer(t, call("createOrder", `{"customer":"Ida","lines":[{"sku":"VIS-100","pieces":2}],"address":{"name":"Ida","city":"Linz","country":"AT"},"Idempotency-Key":"k"}`))["id"].(string)
	answer(t, call("pickOrder", fmt.Sprintf(`{"order":%q}`, order)))
	shipment := answer(t, call("createShipment", fmt.Sprintf(`{"body":{"kind":"parcel","order":%q,"carrier":"post"}}`, order)))["id"].(string)
	if got := call("shipmentLabel", fmt.Sprintf(`{"shipment":%q}`, shipment)).Outcome.Result.Content; !strings.Contains(string(got[0]), `"mimeType":"image/png"`) {
		t.Errorf("shipmentLabel = %.100s, want an image", got)
	}
	if got := answer(t, call("shippingQuote", `{"carrier":"post","grams":1200,"country":"CH","X-Currency":"CHF"}`)); got["currency"] != "CHF" {
		t.Errorf("shippingQuote = %v, want francs", got)
	}
	answer(t, call("turnoverReport", `{}`))
	if o := call("cancelOrder", fmt.Sprintf(`{"order":%q}`, order)).Outcome; o.Status != contracts.StatusError || o.Error.Code != contracts.CodeToolError ||
		!strings.Contains(o.Error.Message, "409 Conflict: Conflict: O-1003 is shipped") || !o.Result.IsError || o.SideEffects != contracts.SideEffectsUnknown {
		t.Errorf("cancelOrder = %+v, %+v, want the problem of the service", o, o.Error)
	}
	if o := call("getItem", `{"sku":"../x"}`).Outcome; o.Status != contracts.StatusError {
		t.Errorf("getItem of a strange name = %+v, want an error", o)
	}
	if o := call("getItem", `{"sku":".."}`).Outcome; o.Status != contracts.StatusInvalidArgs || o.SideEffects != contracts.SideEffectsNone {
		t.Errorf("getItem of another path = %+v, want %s", o, contracts.StatusInvalidArgs)
	}
	if o := call("getItem", `{}`).Outcome; o.Status != contracts.StatusInvalidArgs || !strings.Contains(o.Error.Message, "want {sku: string") {
		t.Errorf("getItem without a name = %+v, want the signature", o.Error)
	}
	if got := answer(t, call("depotStatus", `{}`)); got["changes"] != 10.0 {
		t.Errorf("depotStatus = %v, want 10 changes: each call was made once", got)
	}
}

func TestOpenAPIStatuses(t *testing.T) {
	w := newWorld(t)
	ts := depotAt(t)
	w.executor(nil, openAPIs(services{"depot": depotConfig(ts)}))
	w.ready("plugin:depot")
	run := w.open(contracts.RunRequest{})
	drill := func(args string, deadline time.Duration) *contracts.Outcome {
		return w.call(run, calls.Request{Tool: "plugin:depot:fireDrill", Args: json.RawMessage(args), Deadline: time.Now().Add(deadline)}).Outcome
	}
	for _, tt := range []struct {
		args    string
		status  contracts.Status
		code    contracts.Code
		effects contracts.SideEffects
		after   int64
	}{
		{`{"status":429,"retryAfter":7}`, contracts.StatusRateLimited, contracts.CodeRateLimited, contracts.SideEffectsNone, 7000},
		{`{"status":503,"retryAfter":60}`, contracts.StatusUnavailable, contracts.CodeUnavailable, contracts.SideEffectsUnknown, 60000},
		{`{"status":503}`, contracts.StatusError, contracts.CodeToolError, contracts.SideEffectsUnknown, 0},
		{`{"status":418}`, contracts.StatusError, contracts.CodeToolError, contracts.SideEffectsUnknown, 0},
	} {
		o := drill(tt.args, 20*time.Second)
		if o.Status != tt.status || o.Error.Code != tt.code || o.SideEffects != tt.effects || o.RetryAfter != tt.after || o.Result == nil || !o.Result.IsError {
			t.Errorf("%s: %+v, %+v, want %s %s, effects %s, after %d ms", tt.args, o, o.Error, tt.status, tt.code, tt.effects, tt.after)
		}
	}
	if o := drill(`{"status":200,"delayMs":20000}`, 300*time.Millisecond); o.Status != contracts.StatusTimeout || o.SideEffects != contracts.SideEffectsUnknown {
		t.Errorf("a late call = %+v, want %s", o, contracts.StatusTimeout)
	}
	ts.CloseClientConnections()
	ts.Close()
	if o := drill(`{"status":200}`, 20*time.Second); o.Status != contracts.StatusUnavailable || o.Error.Code != contracts.CodeSourceUnavailable || o.SideEffects != contracts.SideEffectsNone {
		t.Errorf("nobody there: %+v, want %s", o, contracts.StatusUnavailable)
	}
}

// A document that changes is noticed, one that cannot be had or read any more leaves the listing as it was.
func TestOpenAPIRefresh(t *testing.T) {
	w := newWorld(t)
	var state atomic.Value
	document := func(paths string) string {
		return "openapi: 3.1.0\ninfo: {title: T, version: '1'}\npaths:\n" + paths
	}
	state.Store(document("  /a: {get: {operationId: a, responses: {}}}\n"))
	ts := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openapi.yaml" {
			io.WriteString(rw, r.URL.Path)
			return
		}
		if text := state.Load().(string); text != "" {
			io.WriteString(rw, text)
			return
		}
		rw.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(ts.Close)
	w.executor(nil, openAPIs(services{"s": {"url": ts.URL + "/openapi.yaml"}, "gone": {"url": "http://127.0.0.1:1/openapi.yaml"}, "file": {"file": "/nonexistent/openapi.yaml"}}))
	w.ready("plugin:s")
	first := w.source("plugin:s").Listing
	for id, want := range map[string]string{"plugin:gone": "connection refused", "plugin:file": "no such file"} {
		natstest.Eventually(t, id+" has failed", func() bool { return w.source(id).State == contracts.SourceStateFailed })
		if got := w.source(id).Reason; !strings.Contains(got, want) || strings.Contains(got, "nonexistent") {
			t.Errorf("%s: reason %q, want %q and no path", id, got, want)
		}
	}
	refresh := func() contracts.SourceRecord {
		return w.discover(contracts.DiscoverRequest{Sources: []contracts.SourceID{sourceID("plugin:s")}, Force: true, Wait: 20_000})["plugin:s"]
	}
	for name, text := range map[string]string{"unreachable": "", "unreadable": "nothing: [", "empty of use": document("  /a: {get: {parameters: 5}}\n")} {
		state.Store(text)
		if rec := refresh(); rec.State != contracts.SourceStateReady || rec.Listing != first || rec.Reason == "" {
			t.Errorf("%s: %s, reason %q, want the listing kept", name, rec.State, rec.Reason)
		}
	}
	state.Store(document("  /b: {get: {operationId: a, responses: {}}}\n  /bad: {get: {operationId: bad, parameters: 5}}\n"))
	rec := refresh()
	if rec.Listing == first || rec.Reason != "" || rec.Tools != 1 || len(rec.Skipped) != 1 || rec.Skipped[0].Name != "bad" {
		t.Errorf("a changed document: %+v, want another listing, and the bad operation named", rec)
	}
	run := w.open(contracts.RunRequest{})
	if got := w.call(run, calls.Request{Tool: "a", Args: json.RawMessage(`{}`)}).Outcome; got.Status != contracts.StatusOK || !strings.Contains(string(got.Result.Content[0]), "/b") {
		t.Errorf("the changed operation = %+v, want that it goes to /b", got)
	}
}

// What may be done twice is done again where the answer was lost, if the operator trusts the methods; else never.
func TestOpenAPIRetries(t *testing.T) {
	w := newWorld(t)
	var seen atomic.Int32
	keys := make(chan string, 10)
	ts := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi.yaml" {
			io.WriteString(rw, "openapi: 3.1.0\ninfo: {title: T, version: '1'}\npaths: {/a: {get: {operationId: get, responses: {}}, put: {operationId: put, responses: {}}, post: {operationId: post, responses: {}}}, "+
				"/b: {post: {operationId: keyed, parameters: [{name: Idempotency-Key, in: header, schema: {type: string}}], responses: {}}}}\n")
			return
		}
		keys <- r.Header.Get("Idempotency-Key")
		if seen.Add(1) == 1 {
			conn, _, err := rw.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		}
	}))
	t.Cleanup(ts.Close)
	url := ts.URL + "/openapi.yaml"
	w.executor(nil, openAPIs(services{"trusted": {"url": url, "trustAnnotations": true}, "other": {"url": url}}))
	w.ready("plugin:trusted", "plugin:other")
	run := w.open(contracts.RunRequest{})
	for tool, want := range map[string]struct {
		status contracts.Status
		times  int32
	}{
		"plugin:trusted:get":  {contracts.StatusOK, 2},
		"plugin:trusted:put":  {contracts.StatusOK, 2},
		"plugin:trusted:post": {contracts.StatusError, 1},
		"plugin:other:put":    {contracts.StatusError, 1},
		"plugin:other:keyed":  {contracts.StatusError, 1},
	} {
		seen.Store(0)
		args := `{}`
		if strings.HasSuffix(tool, ":keyed") {
			args = `{"Idempotency-Key":"mine"}`
		}
		rec := w.call(run, calls.Request{Tool: tool, Args: json.RawMessage(args)})
		o := rec.Outcome
		if o.Status != want.status || seen.Load() != want.times {
			t.Errorf("%s: %s after %d requests, want %s after %d", tool, o.Status, seen.Load(), want.status, want.times)
		}
		key := string(rec.ID)
		if strings.HasSuffix(tool, ":get") {
			key = "" // which changes nothing
		} else if args != `{}` {
			key = "mine"
		}
		for range want.times {
			if got := <-keys; got != key {
				t.Errorf("%s: Idempotency-Key %q, want %q in every attempt", tool, got, key)
			}
		}
	}
}

// A tenant's document and call are its own, and no secret is in anything that is stored.
func TestOpenAPIStoresNoSecret(t *testing.T) {
	w := newWorld(t)
	ts := depotAt(t)
	w.executor(nil, openAPIs(services{
		"depot": depotConfig(ts), "wrong": {"url": ts.URL + "/openapi.yaml?token=key-of-the-depot", "auth": map[string]string{"nobody": "${env:DEPOT_KEY}"}},
		"unset": {"url": ts.URL + "/openapi.yaml", "auth": map[string]string{"key": "${env:NOT_SET_ANYWHERE}"}},
	}))
	w.ready("plugin:depot")
	for id, want := range map[string]string{"plugin:wrong": "no such security scheme; it has key", "plugin:unset": "environment variable NOT_SET_ANYWHERE is not set"} {
		natstest.Eventually(t, id+" has failed", func() bool { return w.source(id).State == contracts.SourceStateFailed })
		if got := w.source(id).Reason; !strings.Contains(got, want) {
			t.Errorf("%s: reason %q, want %q", id, got, want)
		}
	}
	run := w.open(contracts.RunRequest{})
	rec := w.call(run, calls.Request{Tool: "plugin:depot:listItems", Args: json.RawMessage(`{}`)})
	stored := must(json.Marshal([]any{rec, w.source("plugin:depot"), w.source("plugin:wrong"), must(w.library.Listing(t.Context(), tenant, w.source("plugin:depot").Listing))}))
	if answer(t, rec); strings.Contains(string(stored), "key-of-the-depot") {
		t.Error("the key is in a record")
	}
}
