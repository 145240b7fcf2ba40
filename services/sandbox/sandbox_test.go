package sandbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolcrib/toolcrib/internal/core/bodies"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestBodies(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	for name, tt := range map[string]struct {
		code string
		want contracts.BodyResult // without telemetry; of calls only tool and status
	}{
		"value":    {`return {a: [1, "two", null]}`, contracts.BodyResult{OK: true, Value: []byte(`{"a":[1,"two",null]}`)}},
		"nothing":  {``, contracts.BodyResult{OK: true, Value: []byte(`null`)}},
		"search":   {`const h = await tools.search("echo", {limit: 1}); return [h[0].id, h.total]`, contracts.BodyResult{OK: true, Value: []byte(`["mcp:desk:echo",1]`)}},
		"batch":    {`return (await tools.search(["a", "b"])).results.map(h => h.query)`, contracts.BodyResult{OK: true, Value: []byte(`["a","b"]`)}},
		"describe": {`return (await tools.describe("mcp:desk:echo")).inputSchema.type`, contracts.BodyResult{OK: true, Value: []byte(`"object"`)}},
		"mended": {
			`const mend = async (...a) => { const o = await tools.call(...a); return [o.result.structuredContent.n, o.repaired ?? []] };
			return [await mend("echo", "{\"n\": 1}"), await mend({id: "echo", args: {n: 2}}), await mend({id: "echo", args: "{\"n\": 3}"}), await mend("echo", {n: 4})]`,
			contracts.BodyResult{OK: true, Value: []byte(`[[1,["args was a text with an object in it"]],[2,[]],` +
				`[3,["args was a text with an object in it"]],[4,[]]]`), Calls: []contracts.BodyCall{
				{ID: "mcp:desk:echo", Status: "ok"}, {ID: "mcp:desk:echo", Status: "ok"}, {ID: "mcp:desk:echo", Status: "ok"}, {ID: "mcp:desk:echo", Status: "ok"},
			}},
		},
		"unknown": {`return await tools.describe("nothing").catch(e => [e.message, e.code])`,
			contracts.BodyResult{OK: true, Value: []byte(`["there is no tool \"nothing\"","unknown_tool"]`)}},
		"three calls": {
			`const all = await Promise.all([1, 2, 3].map(n => tools.call("echo", {n}))); return all.map(o => [o.status, o.result.structuredContent.n])`,
			contracts.BodyResult{OK: true, Value: []byte(`[["ok",1],["ok",2],["ok",3]]`), Calls: []contracts.BodyCall{
				{ID: "mcp:desk:echo", Status: "ok"}, {ID: "mcp:desk:echo", Status: "ok"}, {ID: "mcp:desk:echo", Status: "ok"},
			}},
		},
		"failed call": {
			`console.warn("soon"); await tools.call("fail", {x: 1})`,
			contracts.BodyResult{
				Error: &contracts.BodyError{Name: "Error", Code: contracts.BodyException, Message: `mcp:desk:fail: error: did {"x":1}`, Line: 1},
				Logs:  []contracts.BodyLog{{Level: "warn", Text: "soon"}}, Calls: []contracts.BodyCall{{ID: "mcp:desk:fail", Status: "error"}},
			},
		},
		"wrong arguments": {
			`await tools.call("echo", "text")`,
			contracts.BodyResult{
				Error: &contracts.BodyError{Name: "Error", Code: contracts.BodyException, Message: "args: want an object with the tool's arguments: tools.call(id, {…})", Line: 1},
				Calls: []contracts.BodyCall{{ID: "echo", Status: "invalid_args"}},
			},
		},
		"timer":   {`const t = Date.now(); await new Promise(r => setTimeout(r, 30)); return Date.now() - t >= 30`, contracts.BodyResult{OK: true, Value: []byte(`true`)}},
		"timeout": {`console.log("kept"); while (true) {}`, contracts.BodyResult{Error: &contracts.BodyError{Code: contracts.BodyTimeout}, Logs: []contracts.BodyLog{{Level: "log", Text: "kept"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			end := ended(t, c.start(t, tenant, r, tt.code, time.Second))
			if end.Result == nil {
				t.Fatalf("not run: %v", end.Error)
			}
			tt.want.Telemetry = end.Result.Telemetry
			ignore := cmp.Options{
				cmpopts.EquateEmpty(), cmpopts.IgnoreFields(contracts.BodyCall{}, "CallID", "Ms"), cmpopts.IgnoreFields(contracts.BodyError{}, "Column"),
			}
			if name == "timeout" {
				ignore = append(ignore, cmpopts.IgnoreFields(contracts.BodyError{}, "Message", "Name", "Line"))
			}
			if diff := cmp.Diff(tt.want, *end.Result, ignore); diff != "" {
				t.Error(diff)
			}
			if end.Result.Telemetry.CatalogSize != 7 || end.Result.Telemetry.Calls != len(tt.want.Calls) {
				t.Errorf("telemetry %+v", end.Result.Telemetry)
			}
		})
	}
}

func TestImagesPassThrough(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	end := ended(t, c.start(t, tenant, r, `
		const image = (await tools.call("image", {})).result.content[1];
		const o = await tools.call("echo", {file: image.data});
		return {image, length: image.data.length, back: o.result.structuredContent.file.length}`, time.Second))
	if end.Result == nil || !end.Result.OK {
		t.Fatalf("failed: %+v", end)
	}
	if v := string(end.Result.Value); strings.Contains(v, "QUJDQUJD") || !strings.Contains(v, `"bytes":1200`) || !strings.Contains(v, `"back":1600`) {
		t.Errorf("value %s; want a handle, and the data given to the tool", v)
	}
	if len(end.Content) != 1 || !strings.Contains(string(end.Content[0]), "QUJDQUJD") {
		t.Errorf("content %.100s; want the image", end.Content)
	}
}

// While a call waits for the caller's own tool, the body's clock stands still and its record says so.
func TestBodyWaitsForClient(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	const limit = time.Second
	p := c.start(t, tenant, r, `const o = await tools.call("client", {}); return o.result.content[0].text`, limit)
	began := time.Now()
	rec, err := p.Await(t.Context())
	if err != nil || len(rec.Waits) != 1 || rec.State != contracts.BodyStateWaiting {
		t.Fatalf("record %+v, %v; want the body waiting", rec, err)
	}
	eventually(t, "more time is over than the body may take", func() bool { return time.Since(began) > limit+limit/2 })
	if _, err := c.caller.Answer(t.Context(), tenant, r, rec.Waits[0], contracts.Outcome{Status: contracts.StatusOK, Result: contracts.TextResult("from the client", nil)}); err != nil {
		t.Fatal(err)
	}
	end := ended(t, p)
	if end.Result == nil || string(end.Result.Value) != `"from the client"` {
		t.Errorf("ended with %+v", end)
	}
}

func TestCancelledBody(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	p := c.start(t, tenant, r, `console.log("begun"); await tools.call("slow", {}); return 1`, time.Minute)
	call := contracts.BodyCallID(r, p.ID, 1)
	eventually(t, "the call is there", func() bool {
		_, err := c.caller.Get(t.Context(), contracts.CallKey(tenant, r, call))
		return err == nil
	})
	if err := c.desk.Cancel(t.Context(), tenant, r, p.ID); err != nil {
		t.Fatal(err)
	}
	end := ended(t, p)
	if end.Result == nil || end.Result.Error == nil || end.Result.Error.Code != contracts.BodyCancelled || len(end.Result.Logs) != 1 ||
		len(end.Result.Calls) != 1 || end.Result.Calls[0].Status != contracts.StatusCancelled {
		t.Errorf("ended with %+v", end.Result)
	}
	eventually(t, "the call was cancelled", func() bool {
		rec, err := c.caller.Get(t.Context(), contracts.CallKey(tenant, r, call))
		return err == nil && rec.Cancelled
	})
}

// A run that has its end takes its bodies along.
func TestBodiesEndWithTheirRun(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	p := c.start(t, tenant, r, `await tools.call("slow", {}); return 1`, time.Minute)
	call := contracts.BodyCallID(r, p.ID, 1)
	eventually(t, "the call is there", func() bool {
		_, err := c.caller.Get(t.Context(), contracts.CallKey(tenant, r, call))
		return err == nil
	})
	if err := c.bus.Publish(t.Context(), tenant, contracts.RunClosed{At: time.Now(), Run: r, Ending: contracts.EndingExpired}); err != nil {
		t.Fatal(err)
	}
	if end := ended(t, p); end.Result == nil || end.Result.Error == nil || end.Result.Error.Code != contracts.BodyCancelled {
		t.Errorf("ended with %+v, want it cancelled", end.Result)
	}
}

func TestFullSandboxRefuses(t *testing.T) {
	cfg := config(t)
	cfg.TenantBodies, cfg.Queue = 1, 1
	c := open(t, cfg)
	r := c.newRun(t, tenant)
	first := c.start(t, tenant, r, `await tools.call("slow", {}); return 1`, time.Minute)
	second := c.start(t, tenant, r, `return 2`, time.Second)
	third := ended(t, c.start(t, tenant, r, `return 3`, time.Second))
	if third.Error == nil || third.Error.Code != contracts.CodeRateLimited || third.Error.RetryAfter <= 0 {
		t.Errorf("the third body ended with %+v; want %s and a time to wait", third, contracts.CodeRateLimited)
	}
	if other := ended(t, c.start(t, "other", c.newRun(t, "other"), `return 4`, time.Second)); other.Result == nil || string(other.Result.Value) != "4" {
		t.Errorf("another tenant's body ended with %+v", other)
	}
	close(c.release)
	for want, p := range map[string]*bodies.Pending{"1": first, "2": second} {
		if end := ended(t, p); end.Result == nil || string(end.Result.Value) != want {
			t.Errorf("body %s ended with %+v", want, end)
		}
	}
}

func TestDeniedControlTools(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	if err := c.policy.Create(t.Context(), contracts.PolicyKey(tenant, contracts.PolicyAPI), &contracts.PolicyRecord{Layers: []contracts.PolicyLayer{
		{Level: "tenant", Deny: []string{"platform:toolcrib:tool_search", "platform:toolcrib:tool_call"}},
	}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "policy holds in bodies", func() bool {
		end := ended(t, c.start(t, tenant, r, `
			const said = p => p.then(() => "done", e => e.code);
			return [await said(tools.search("x")), await said(tools.describe("mcp:desk:echo")), await said(tools.call("echo", {}))]`, time.Second))
		return end.Result != nil && string(end.Result.Value) == `["policy_denied","done","policy_denied"]`
	})
}

// A service that is told to stop ends what takes too long, and says why.
func TestStopEndsBodies(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	p := c.start(t, tenant, r, `await tools.call("slow", {}); return 1`, time.Minute)
	call := contracts.BodyCallID(r, p.ID, 1)
	eventually(t, "the call is there", func() bool {
		_, err := c.caller.Get(t.Context(), contracts.CallKey(tenant, r, call))
		return err == nil
	})
	c.stop()
	if end := ended(t, p); end.Result == nil || end.Result.Error == nil || end.Result.Error.Code != contracts.BodyUnavailable {
		t.Errorf("ended with %+v; want unavailable", end)
	}
}

// A body whose sandbox is gone is ended by another.
func TestDeadLeaseIsBuried(t *testing.T) {
	c := open(t, config(t))
	r := c.newRun(t, tenant)
	id := contracts.BodyOf(contracts.NewCallID())
	key := contracts.BodyKey(tenant, r, id)
	table := bodyTable(t, c.bus)
	rec := &contracts.Body{ID: id, Run: r, Code: "return 1", State: contracts.BodyStateRunning, Owner: "gone", Requested: time.Now(), Lease: time.Now().Add(-time.Second)}
	if err := table.Create(t.Context(), key, rec); err != nil {
		t.Fatal(err)
	}
	p, err := c.desk.Join(tenant, r, id)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if end := ended(t, p); end.Error == nil || end.Error.Code != contracts.CodeUnavailable {
		t.Errorf("ended with %+v; want %s", end, contracts.CodeUnavailable)
	}
}

func TestNoWorkersNoBodies(t *testing.T) {
	cfg := config(t)
	cfg.Worker = []string{"/nonexistent/worker"}
	c := open(t, cfg)
	a, err := bus.Ask[contracts.SandboxAnswer](t.Context(), c.bus, tenant, contracts.VerbSandbox, contracts.SandboxRequest{})
	if err != nil || a.Ready || a.Reason == "" {
		t.Errorf("status %+v, %v; want not ready, and why", a, err)
	}
	end := ended(t, c.start(t, tenant, c.newRun(t, tenant), `return 1`, time.Second))
	if end.Error == nil || end.Error.Code != contracts.CodeUnavailable {
		t.Errorf("ended with %+v; want %s", end, contracts.CodeUnavailable)
	}
}

func TestStatusTellsLayers(t *testing.T) {
	c := open(t, config(t))
	a, err := bus.Ask[contracts.SandboxAnswer](t.Context(), c.bus, tenant, contracts.VerbSandbox, contracts.SandboxRequest{})
	if err != nil || !a.Ready || !strings.Contains(strings.Join(a.Layers, " "), "seccomp") {
		t.Errorf("status %+v, %v; want ready, with seccomp", a, err)
	}
}
