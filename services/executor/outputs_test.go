package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const largeTools = `[
{"name":"big","description":"Answers a lot.","inputSchema":{"type":"object"}},
{"name":"items","description":"Answers many items.","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","required":["id"]}}}}},
{"name":"picture","description":"Answers an image.","inputSchema":{"type":"object"}}
]`

// large is a world with a server whose answers are as large as is wished.
func large(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	tools := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(tools, []byte(largeTools), 0o600); err != nil {
		t.Fatal(err)
	}
	w.executor(servers{"odd": w.server("-tools", tools)})
	w.ready("mcp:odd")
	return w
}

// A readPage is a page as the tool gives it.
type readPage struct {
	Type    string
	Text    string
	Items   []json.RawMessage
	Next    *int64
	Total   int64
	Offset  int64
	Members json.RawMessage
}

// read reads a page with the tool, as the run's model or as a body of it.
func (w *world) read(r contracts.RunID, body contracts.BodyID, tool string, args map[string]any) (readPage, *contracts.Outcome) {
	w.Helper()
	b, _ := json.Marshal(args)
	o := w.call(r, calls.Request{Tool: tool, Args: b, Body: body}).Outcome
	var p readPage
	if o.Status == contracts.StatusOK {
		if err := json.Unmarshal(o.Result.StructuredContent, &p); err != nil {
			w.Fatal(err)
		}
		if o.Result.More != nil || o.Result.Truncated != "" {
			w.Fatalf("a page was cut itself: %s", o.Result.Truncated)
		}
	}
	return p, o
}

// watchHeap follows how much memory is in use until it is asked for the most.
func watchHeap() (most func() uint64) {
	percent := debug.SetGCPercent(10) // so that what is in use is what is held
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most := uint64(0)
		for again := time.NewTicker(5 * time.Millisecond); ; {
			s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
			metrics.Read(s) // stops nobody, as runtime.ReadMemStats does
			most = max(most, s[0].Value.Uint64())
			select {
			case <-again.C:
			case <-stop:
				again.Stop()
				peak <- most
				return
			}
		}
	}()
	return func() uint64 {
		close(stop)
		debug.SetGCPercent(percent)
		return <-peak
	}
}

func TestLargeResultsAreReadInPages(t *testing.T) {
	w := large(t)
	r := w.open(contracts.RunRequest{})
	const n = 50 << 20
	peak := watchHeap()
	began := time.Now()
	o := w.call(r, callOf("mcp:odd:big", fmt.Sprintf(`{"bytes":%d}`, n))).Outcome
	t.Logf("50 MB over stdio, cut and kept in %v, with %d MiB of memory at most", time.Since(began).Round(time.Millisecond), peak()>>20)
	if o.Status != contracts.StatusOK || o.Result.More == nil {
		t.Fatalf("outcome %s %v %.300v", o.Status, o.Error, o.Result)
	}
	more := o.Result.More
	if len(more.Parts) != 1 || more.Parts[0].Path != "/content/0/text" || more.Parts[0].Total != n || more.Bytes < n {
		t.Errorf("more = %+v", more)
	}
	if b, _ := json.Marshal(o.Result); len(b) > 101_000 {
		t.Errorf("%d bytes are shown", len(b))
	}
	// A model goes on where its result ends, by the names of the tool that it may have.
	for _, tool := range []string{"platform:core:read_result", "platform__core__read_result", "read_result"} {
		p, o := w.read(r, "", tool, map[string]any{"handle": more.Handle})
		if p.Type != "text" || p.Offset != more.Parts[0].Shown || strings.Trim(p.Text, "x") != "" || len(p.Text) < 20_000 || *p.Next != p.Offset+int64(len(p.Text)) {
			t.Errorf("%s: %s %v, page of %d at %d", tool, o.Status, o.Error, len(p.Text), p.Offset)
		}
	}
	// A body has it all in fewer pages than it may make calls.
	body := contracts.BodyOf(contracts.NewCallID())
	got, pages := int64(0), 0
	for next := int64(0); ; next = got {
		p, o := w.read(r, body, "platform:core:read_result", map[string]any{"handle": more.Handle, "path": "/content/0/text", "offset": next})
		if o.Status != contracts.StatusOK || strings.Trim(p.Text, "x") != "" {
			t.Fatalf("at %d: %s %v", next, o.Status, o.Error)
		}
		got += int64(len(p.Text))
		if pages++; p.Next == nil {
			break
		}
	}
	if got != n || pages > 70 {
		t.Errorf("%d of %d characters in %d pages", got, n, pages)
	}
}

func TestManyItemsAreReadWhole(t *testing.T) {
	w := large(t)
	r := w.open(contracts.RunRequest{})
	const n = 100_000
	o := w.call(r, callOf("mcp:odd:items", fmt.Sprintf(`{"bytes":%d}`, n))).Outcome
	if o.Status != contracts.StatusOK || o.Result.More == nil || !json.Valid(o.Result.StructuredContent) {
		t.Fatalf("outcome %s %v", o.Status, o.Error)
	}
	part := o.Result.More.Parts[0]
	got := part.Shown
	for next := &part.Shown; next != nil; {
		p, o := w.read(r, "", "platform:core:read_result", map[string]any{"handle": o.Result.More.Handle, "path": part.Path, "offset": *next})
		if o.Status != contracts.StatusOK || p.Total != n {
			t.Fatalf("at %d: %s %v of %d", *next, o.Status, o.Error, p.Total)
		}
		for _, item := range p.Items {
			if string(item) != `{"id":12345678901234567890,"ok":true}` {
				t.Fatalf("an item is %s", item)
			}
		}
		got, next = got+int64(len(p.Items)), p.Next
	}
	if got != n {
		t.Errorf("%d of %d items came back", got, n)
	}
	// To a body a result of a megabyte comes whole, and a picture as what stands for it.
	body := contracts.BodyOf(contracts.NewCallID())
	o = w.call(r, calls.Request{Tool: "mcp:odd:items", Args: json.RawMessage(`{"bytes":20000}`), Body: body}).Outcome
	if o.Result.More != nil || len(o.Result.StructuredContent) < 700_000 {
		t.Errorf("a body was given %d bytes, %s", len(o.Result.StructuredContent), o.Result.Truncated)
	}
	for as, want := range map[contracts.BodyID]int{"": 1, body: 2} {
		o = w.call(r, calls.Request{Tool: "mcp:odd:picture", Args: json.RawMessage(`{"bytes":900000}`), Body: as}).Outcome
		if len(o.Result.Content) != want || (o.Result.More != nil) != (as == body) {
			t.Errorf("a picture came as %d blocks, more %v", len(o.Result.Content), o.Result.More)
		}
	}
}

func TestWholeResultsAndPolicy(t *testing.T) {
	w := large(t)
	set := func(l contracts.PolicyLayer) {
		t.Helper()
		key := contracts.PolicyKey(tenant, contracts.PolicyAPI)
		rec := &contracts.PolicyRecord{Layers: []contracts.PolicyLayer{l}}
		if _, err := w.policies.Transition(t.Context(), key, func(p *contracts.PolicyRecord) ([]contracts.Event, error) {
			p.Layers = rec.Layers
			return nil, nil
		}); contracts.CodeOf(err) == contracts.CodeNotFound {
			err = w.policies.Create(t.Context(), key, rec)
			if err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
	// An allow list that does not mention the tool is about others.
	set(contracts.PolicyLayer{Level: "tenant", Allow: []string{"mcp:odd:*"}})
	r := w.open(contracts.RunRequest{})
	o := w.call(r, callOf("mcp:odd:big", `{"bytes":300000}`)).Outcome
	if o.Result == nil || o.Result.More == nil {
		t.Fatalf("outcome %s %v", o.Status, o.Error)
	}
	handle := o.Result.More.Handle
	if p, o := w.read(r, "", "platform:core:read_result", map[string]any{"handle": handle}); p.Type != "text" {
		t.Errorf("read with an allow list: %s %v", o.Status, o.Error)
	}
	if o := w.call(r, callOf("platform:core:now", `{}`)).Outcome; o.Status == contracts.StatusOK {
		t.Error("the allow list lets another built-in tool through")
	}
	// Another run has not its handles, also where it has the same result.
	other := w.open(contracts.RunRequest{})
	if _, o := w.read(other, "", "platform:core:read_result", map[string]any{"handle": handle}); o.Status != contracts.StatusError || !strings.Contains(o.Error.Message, "this run has no result of the handle") {
		t.Errorf("read from another run: %s %v", o.Status, o.Error)
	}
	// A denial wins: the tool is not there, and not spoken of.
	set(contracts.PolicyLayer{Level: "tenant", Allow: []string{"mcp:odd:*"}, Deny: []string{"platform:*"}})
	if _, o := w.read(r, "", "platform:core:read_result", map[string]any{"handle": handle}); o.Status == contracts.StatusOK || o.Error.Code != contracts.CodeUnknownTool && o.Error.Code != contracts.CodePolicyDenied {
		t.Errorf("read against a denial: %s %v", o.Status, o.Error)
	}
	o = w.call(r, callOf("mcp:odd:big", `{"bytes":300000}`)).Outcome
	if o.Status != contracts.StatusOK || o.Result.More != nil || strings.Contains(o.Result.Truncated, "read_result") || !strings.Contains(o.Result.Truncated, "not kept") {
		t.Errorf("a result of a run that may not read: %s %v %q", o.Status, o.Result.More, o.Result.Truncated)
	}
}

// TestAResultIsStoredOnce has the same large result twice, and looks at what that takes in the store.
func TestAResultIsStoredOnce(t *testing.T) {
	w := large(t)
	if _, err := store.OpenBlobs(t.Context(), w.bus, contracts.StorePayloads); err != nil {
		t.Fatal(err)
	}
	size := func() uint64 {
		os, err := w.bus.JS.ObjectStore(t.Context(), contracts.StorePayloads)
		if err != nil {
			t.Fatal(err)
		}
		list, err := os.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		for _, o := range list {
			n += o.Size
		}
		return n
	}
	var before uint64
	for i := range 3 {
		r := w.open(contracts.RunRequest{})
		if o := w.call(r, callOf("mcp:odd:items", `{"bytes":20000}`)).Outcome; o.Result == nil || o.Result.More == nil {
			t.Fatalf("outcome %s %v", o.Status, o.Error)
		}
		now := size()
		if i > 0 && now-before > 300_000 { // the shown part and the handle
			t.Errorf("the same result again takes %d bytes more", now-before)
		}
		before = now
	}
}
