package planner

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A sandboxStandIn says whether bodies can be run, as the test wishes.
type sandboxStandIn struct {
	asked  atomic.Int32
	mu     sync.Mutex
	answer contracts.SandboxAnswer
	err    error
}

func (s *sandboxStandIn) say(a contracts.SandboxAnswer, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.err = a, err
}

// withSandbox returns a crib with a sandbox beside its planner.
func withSandbox(t testing.TB, a contracts.SandboxAnswer) (*crib, *sandboxStandIn) {
	t.Helper()
	c := newCrib(t, Config{})
	c.s.sandbox.wait, c.s.sandbox.start = sandboxWait, sandboxStart
	s := c.sandbox(a)
	return c.start(), s
}

func (c *crib) sandbox(a contracts.SandboxAnswer) *sandboxStandIn {
	c.t.Helper()
	s := &sandboxStandIn{answer: a}
	natstest.Run(c.t, func(ctx context.Context) error {
		return c.bus.Serve(ctx, "sandbox", bus.Answers(contracts.VerbSandbox,
			func(context.Context, contracts.TenantID, contracts.SandboxRequest) (contracts.SandboxAnswer, error) {
				s.asked.Add(1)
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.answer, s.err
			}))
	})
	return s
}

func TestSurfaceCode(t *testing.T) {
	t.Parallel()
	c, s := withSandbox(t, contracts.SandboxAnswer{Ready: true})
	pinned := tool("mcp:mail", "pinned", "Is always there.")
	pinned.Loading = contracts.LoadingDirect
	c.list(acme, "mcp:mail", append(tools("mcp:mail", "list", "send"), pinned)...)
	r := c.open(acme, contracts.RunRequest{})
	if d := condition(r.Plan.Decision, conditionSurface); r.Plan.Surface != contracts.SurfaceCode || d.Value != "code" || d.Effect != "" {
		t.Errorf("a run that wishes nothing gets %s, %+v; want code", r.Plan.Surface, d)
	}
	if r.Plan.CodeTimeoutMs != 10_000 {
		t.Errorf("its bodies may take %d ms, want 10000", r.Plan.CodeTimeoutMs)
	}
	face := c.surface(acme, r)
	if len(face.Tools) != 2 || face.Tools[0].Name != control.Code || face.Tools[1].Name != "mail__pinned" || r.Plan.Seen.Schemas != 1 {
		t.Errorf("tools = %s, want %s and mail__pinned", asJSON(t, face.Tools), control.Code)
	}
	if !strings.HasPrefix(face.Prompt, howToCode) || !strings.Contains(face.Prompt, "mcp:mail: 3 tools, ready") {
		t.Errorf("prompt = %s", face.Prompt)
	}
	again := c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`true`)})
	if again.Plan.SurfaceHash != r.Plan.SurfaceHash {
		t.Error("two runs of the same tools have surfaces of different bytes")
	}
	set := c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`{"codeTimeoutMs":1234,"searchDefaultLimit":3,"maxSearchLimit":5}`)})
	if set.Plan.CodeTimeoutMs != 1234 || set.Plan.Surface != contracts.SurfaceCode {
		t.Errorf("a run with settings gets %s with %d ms, want code with 1234", set.Plan.Surface, set.Plan.CodeTimeoutMs)
	}
	if p := set.Plan; p.SearchLimit != 3 || p.SearchMost != 5 || !strings.Contains(c.surface(acme, set).Tools[0].Description, "limit: default 3, at most 5") {
		t.Errorf("a run with limits of search gets %d and %d, want 3 and 5, in its plan and in what it is told", p.SearchLimit, p.SearchMost)
	}
	if n := s.asked.Load(); n != 1 {
		t.Errorf("the sandbox was asked %d times for 3 runs in a row, want once", n)
	}
	c.policy(acme, deny("*:tool_search_code"))
	if d := c.open(acme, contracts.RunRequest{}).Plan.Decision; d.Surface != contracts.SurfaceTools || d.Winner != conditionSearchTools {
		t.Errorf("where policy denies %s the surface is %s because of %s, want tools because of %s", control.Code, d.Surface, d.Winner, conditionSearchTools)
	}
	c.policy(acme, deny("platform:toolcrib:*"))
	if d := c.open(acme, contracts.RunRequest{}).Plan.Decision; d.Surface != contracts.SurfaceDirect || d.Winner != conditionSearchTools {
		t.Errorf("where policy denies all control tools the surface is %s because of %s, want direct because of %s", d.Surface, d.Winner, conditionSearchTools)
	}
}

// A sandbox that cannot run bodies is told by its reason, for as long as it cannot.
func TestSandboxNotReady(t *testing.T) {
	t.Parallel()
	c, s := withSandbox(t, contracts.SandboxAnswer{Reason: "make engine\u200b was not run"})
	c.list(acme, "mcp:mail", tools("mcp:mail", "send")...)
	r := c.open(acme, contracts.RunRequest{})
	if d := condition(r.Plan.Decision, conditionSurface); r.Plan.Surface != contracts.SurfaceTools || d.Value != "code: unavailable: make engine was not run" {
		t.Errorf("the surface is %s, %+v; want tools and the reason", r.Plan.Surface, d)
	}
	refuse := contracts.RunRequest{ToolSearch: json.RawMessage(`{"codeUnavailable":"refuse"}`)}
	if e := c.refuse(acme, refuse); e.Code != contracts.CodeUnavailable || !strings.Contains(e.Message, "make engine was not run") || !strings.Contains(e.Message, "codeUnavailable") {
		t.Errorf("error = %v, want %s that names codeUnavailable and the reason", e, contracts.CodeUnavailable)
	}
	for _, wish := range []string{`{"codeUnavailable":"tools"}`, `{"mode":"tools","codeUnavailable":"refuse"}`, `{"auto":50,"codeUnavailable":"refuse"}`, `{"enabled":false,"codeUnavailable":"refuse"}`} {
		if r := c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(wish)}); r.Plan.Surface == contracts.SurfaceCode {
			t.Errorf("%s gives the surface code", wish)
		}
	}
	// Where policy denies code, its absence is no reason to refuse.
	c.policy(acme, deny("*:tool_search_code"))
	c.open(acme, refuse)
	c.policy(acme)

	s.say(contracts.SandboxAnswer{}, contracts.Errorf(contracts.CodeForbidden, "not for you"))
	c.until("what the sandbox says now is heard", func() bool {
		return condition(c.open(acme, contracts.RunRequest{}).Plan.Decision, conditionSurface).Value == "code: unavailable: not for you"
	})
	s.say(contracts.SandboxAnswer{Ready: true}, nil)
	c.until("a run gets code once bodies can be run", func() bool {
		return c.open(acme, contracts.RunRequest{}).Plan.Surface == contracts.SurfaceCode
	})
}

// A refusal is told at once, though another try could help.
func TestRefusalIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	c := startCrib(t, Config{})
	id := c.request(acme, contracts.RunRequest{ToolSearch: json.RawMessage(`{"codeUnavailable":"refuse"}`)})
	r := c.settled(acme, id)
	if r.Error == nil || r.Error.Code != contracts.CodeUnavailable || !strings.Contains(r.Error.Message, "no sandbox answers") {
		t.Errorf("the run is %s with %v, want failed for want of a sandbox", r.State, r.Error)
	}
	if took := r.Ended.Sub(r.Created); took > 4*time.Second {
		t.Errorf("the refusal took %v", took)
	}
}

// A sandbox that starts beside the planner is waited for, though it was never heard of.
func TestSandboxStartsBesideThePlanner(t *testing.T) {
	t.Parallel()
	c := newCrib(t, Config{})
	c.s.sandbox.start = 20 * time.Second
	c.start()
	id := c.request(acme, contracts.RunRequest{})
	c.until("the run waits for a sandbox", func() bool { return len(c.s.sandbox.slot) == 1 })
	c.sandbox(contracts.SandboxAnswer{Ready: true})
	if r := c.settled(acme, id); r.Plan == nil || r.Plan.Surface != contracts.SurfaceCode {
		t.Errorf("the run got %+v, want the surface code", r.Plan)
	}
}

// Where there is no sandbox, runs are held up a moment only, all together, and those that want no code not at all.
func TestNoSandboxHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	c := newCrib(t, Config{})
	c.s.sandbox.wait = sandboxWait
	ask := c.s.sandbox.ask
	var asked atomic.Int32
	c.s.sandbox.ask = func(ctx context.Context, t contracts.TenantID) (contracts.SandboxAnswer, error) {
		asked.Add(1)
		return ask(ctx, t)
	}
	c.start()
	for _, wish := range []string{`"tools"`, `"direct"`, `false`} {
		c.open(acme, contracts.RunRequest{ToolSearch: json.RawMessage(wish)})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("sandboxes were asked %d times for runs without code", n)
	}
	begun := time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if why, err := c.s.sandbox.unready(t.Context(), acme); why != "no sandbox answers" || err != nil {
				t.Errorf("unready() = %q, %v", why, err)
			}
		})
	}
	all.Wait()
	if took := time.Since(begun); asked.Load() != 1 || took > 4*sandboxWait {
		t.Errorf("50 runs were held up for %v by %d questions, want %v by 1", took, asked.Load(), sandboxWait)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.s.sandbox.slot <- struct{}{}
	if _, err := c.s.sandbox.unready(ctx, acme); err == nil {
		t.Error("unready() with an ended context = nil, want its error")
	}
	<-c.s.sandbox.slot
}
