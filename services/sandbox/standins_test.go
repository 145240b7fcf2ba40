package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/core/calls"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/sandbox"
)

// The tests run the service with real workers on a real bus. The services that answer a body are stand-ins of the test.

const tenant contracts.TenantID = "acme"

// workerBinary is built without the race detector, as workers are: its runtime makes system calls that they may not make.
var workerBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "toolcrib-sandbox-test-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "sandbox-worker")
	cmd := exec.Command("go", "build", "-o", file, "./cmd/sandbox-worker")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the worker: %w\n%s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := workerBinary(); err == nil {
		os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// config has a real worker and a cache that all tests share.
func config(t *testing.T) sandbox.Config {
	t.Helper()
	file, err := workerBinary()
	if err != nil {
		t.Fatal(err)
	}
	return sandbox.Config{Worker: []string{file}, CacheDir: filepath.Join(filepath.Dir(file), "cache")}
}

// A crib is the service and the stand-ins of those around it.
type crib struct {
	bus     *bus.Bus
	desk    *bodies.Desk
	caller  *calls.Caller
	runs    *store.Table[contracts.Run, *contracts.Run]
	calls   *store.Table[contracts.Call, *contracts.Call]
	policy  *store.Table[contracts.PolicyRecord, *contracts.PolicyRecord]
	release chan struct{} // lets calls of the tool "slow" end
	stop    context.CancelFunc
	stopped chan error
}

func open(t *testing.T, cfg sandbox.Config) *crib {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	c := &crib{bus: natstest.Open(t), release: make(chan struct{}), stopped: make(chan error, 1)}
	var err error
	c.desk, err = bodies.Open(t.Context(), c.bus)
	must(err)
	c.caller, err = calls.Open(t.Context(), c.bus)
	must(err)
	c.runs, err = store.OpenTable[contracts.Run](t.Context(), c.bus, contracts.BucketRuns)
	must(err)
	c.calls, err = store.OpenTable[contracts.Call](t.Context(), c.bus, contracts.BucketCalls)
	must(err)
	c.policy, err = store.OpenTable[contracts.PolicyRecord](t.Context(), c.bus, contracts.BucketPolicies)
	must(err)
	s, err := sandbox.New(t.Context(), c.bus, cfg, nil)
	must(err)
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() { c.stopped <- s.Run(ctx) }()
	answers, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run.Group(answers, c.answer, c.execute) }()
	t.Cleanup(func() {
		stop()
		if err := <-c.stopped; err != nil {
			t.Errorf("the service ended with %v", err)
		}
		end()
		if err := <-done; err != nil {
			t.Errorf("the stand-ins ended with %v", err)
		}
	})
	return c
}

// answer answers searches, describes and revisions.
func (c *crib) answer(ctx context.Context) error {
	hit := func(q string) contracts.SearchAnswer {
		return contracts.SearchAnswer{Query: q, Total: 1, Limit: 8, Hits: []contracts.Hit{{ID: "mcp:desk:echo", Name: "echo"}}, Pending: []contracts.SourceStatus{}, Failed: []contracts.SourceStatus{}}
	}
	return c.bus.Serve(ctx, "standins",
		bus.Answers(contracts.VerbSearch, func(_ context.Context, _ contracts.TenantID, q contracts.SearchRequest) (contracts.SearchAnswer, error) {
			a := hit(q.Query)
			for _, q := range q.Queries {
				a.Results = append(a.Results, hit(q))
			}
			return a, nil
		}),
		bus.Answers(contracts.VerbDescribe, func(_ context.Context, _ contracts.TenantID, q contracts.DescribeRequest) (contracts.DescribeAnswer, error) {
			if q.ID != "mcp:desk:echo" {
				return contracts.DescribeAnswer{}, contracts.Errorf(contracts.CodeUnknownTool, "there is no tool %q", q.ID)
			}
			return contracts.DescribeAnswer{ID: "mcp:desk:echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil
		}),
		bus.Answers(contracts.VerbRevise, func(ctx context.Context, t contracts.TenantID, q contracts.ReviseRequest) (contracts.ReviseAnswer, error) {
			r, err := c.runs.Get(ctx, contracts.RunKey(t, q.Run))
			if err != nil {
				return contracts.ReviseAnswer{}, err
			}
			return contracts.ReviseAnswer{Plan: *r.Plan}, nil
		}))
}

// execute ends calls as their tool says: echo gives back its arguments, fail says that it failed, client waits for the caller, slow
// for release or its cancellation, image gives one.
func (c *crib) execute(ctx context.Context) error {
	consumer := bus.Consumer{Stream: contracts.StreamEvents, Durable: "executor", Workers: 16, Filters: []string{"tc.*.run.*.call.*.requested"}}
	return c.bus.Consume(ctx, consumer, bus.EventHandler(func(ctx context.Context, sub contracts.Subject, e contracts.Event, _ bus.Message) error {
		q := e.(contracts.CallRequested)
		key := contracts.CallKey(sub.Tenant, q.Run, q.Call)
		rec, err := c.caller.Get(ctx, key)
		if err != nil {
			return err
		}
		ref := &contracts.ToolRef{ID: contracts.ToolID("mcp:desk:" + q.Tool), Name: q.Tool, Source: contracts.SourceMCP}
		o := contracts.Outcome{Status: contracts.StatusOK, Tool: ref, Result: contracts.TextResult("did "+string(rec.Args), rec.Args)}
		switch q.Tool {
		case "fail":
			o.Status, o.Result.IsError = contracts.StatusError, true
			o.Error = contracts.Errorf(contracts.CodeToolError, "the tool said that it failed")
		case "image":
			o.Result.Content = append(o.Result.Content, json.RawMessage(`{"type":"image","mimeType":"image/png","data":"`+strings.Repeat("QUJD", 400)+`"}`))
		case "client":
			_, err := c.calls.Transition(ctx, key, func(rec *contracts.Call) ([]contracts.Event, error) {
				rec.State, rec.Waits, rec.Resolved = contracts.CallStateWaiting, contracts.WaitsForClient, ref
				return []contracts.Event{contracts.CallWaiting{At: time.Now(), Run: q.Run, Call: q.Call, Tool: *ref, For: rec.Waits}}, nil
			})
			return err
		case "slow":
			go func() {
				select {
				case <-c.release:
				case <-ctx.Done():
				}
				c.caller.End(context.WithoutCancel(ctx), key, o, func(*contracts.Call) error { return nil })
			}()
			return nil
		}
		_, err = c.caller.End(ctx, key, o, func(*contracts.Call) error { return nil })
		return err
	}))
}

func bodyTable(t *testing.T, b *bus.Bus) *store.Table[contracts.Body, *contracts.Body] {
	t.Helper()
	table, err := store.OpenTable[contracts.Body](t.Context(), b, contracts.BucketBodies)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// newRun stores a run that can be used.
func (c *crib) newRun(t *testing.T, who contracts.TenantID) contracts.RunID {
	t.Helper()
	id := contracts.NewRunID()
	plan := &contracts.Plan{Surface: contracts.SurfaceCode, Catalogue: contracts.CatalogueRef{Size: 7, Sources: map[contracts.SourceKind]int{contracts.SourceMCP: 7}}}
	rec := &contracts.Run{ID: id, State: contracts.RunStatePlanned, Created: time.Now(), Expires: time.Now().Add(time.Hour), Plan: plan}
	if err := c.runs.Create(t.Context(), contracts.RunKey(who, id), rec); err != nil {
		t.Fatal(err)
	}
	return id
}

// start has a body run.
func (c *crib) start(t *testing.T, who contracts.TenantID, r contracts.RunID, code string, limit time.Duration) *bodies.Pending {
	t.Helper()
	p, err := c.desk.Start(t.Context(), who, r, bodies.Request{ID: contracts.BodyOf(contracts.NewCallID()), Code: code, Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ended waits for the end of a body.
func ended(t *testing.T, p *bodies.Pending) *contracts.BodyEnd {
	t.Helper()
	for {
		rec, err := p.Await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec.State == contracts.BodyStateFinished {
			return rec.Ended
		}
		if t.Context().Err() != nil {
			t.Fatal("the body does not end")
		}
	}
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not seen in time: %s", what)
		}
	}
}
