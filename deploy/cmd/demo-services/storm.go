package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/deploy/fleet"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	toolRuns, bodyRuns = 6, 2
	callers, bodies    = 18, 6                            // that work at once
	before, after      = 4 * time.Second, 8 * time.Second // of the kill
	stepsOfABody       = 3
	// lease is how long an executor or a sandbox that is not heard of keeps what it has, and slack what may pass before others see to it.
	lease, slack = 30 * time.Second, 10 * time.Second
	settleWithin = 2 * time.Minute
)

// A request is a call or a body that was asked for, and what came of it.
type request struct {
	notes  []string // of the increments that it was to make
	own    bool     // by the session's own server
	run    int
	asked  time.Time
	ended  time.Time
	answer *client.CallAnswer
	err    error
}

// storm kills an executor and a sandbox in the middle of a stream of calls and bodies, and checks what came of all of them.
func storm(ctx context.Context, f *fleet.Fleet, c *counting) error {
	fmt.Printf("\n== A storm: %d callers and %d bodies at once, and two processes are killed\n", callers, bodies)
	s := &stormer{fleet: f, client: c.tenant.Client(f.URL), stop: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		return err
	}
	working, cancel := context.WithTimeout(ctx, before+after+settleWithin)
	defer cancel()
	for i := range callers {
		s.working.Go(func() { s.callAlways(working, i%toolRuns) })
	}
	for i := range bodies {
		s.working.Go(func() { s.runAlways(working, toolRuns+i%bodyRuns) })
	}
	pause(ctx, before)
	at := time.Now()
	for _, service := range []string{"executor", "sandbox"} {
		all := f.Processes(service)
		p := all[rand.N(len(all))]
		p.Kill()
		fmt.Printf("killed    %s with SIGKILL, after %d calls and %d bodies had ended\n", p.Name, s.calls.Load(), s.bodies.Load())
	}
	pause(ctx, after)
	close(s.stop)
	s.working.Wait()
	fmt.Printf("asked for %d calls and %d bodies in %v; the last answer came %v after the kill\n",
		s.calls.Load(), s.bodies.Load(), (before + after).Round(time.Second), time.Since(at).Round(10*time.Millisecond))
	if err := s.check(ctx, c, at); err != nil {
		return err
	}
	return s.again(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

type stormer struct {
	fleet         *fleet.Fleet
	client        *client.Client
	runs          []contracts.RunID // those of calls, and then those of bodies
	stop          chan struct{}
	working       sync.WaitGroup
	calls, bodies atomic.Int64

	mu       sync.Mutex
	requests []*request
}

func (s *stormer) open(ctx context.Context) error {
	for i := range toolRuns + bodyRuns {
		mode := "tools"
		if i >= toolRuns {
			mode = "code"
		}
		r, err := s.client.OpenRun(ctx, client.RunOptions{Agent: "storm", Mode: mode, WaitForSources: 60_000})
		if err != nil {
			return fmt.Errorf("open a run: %w", err)
		}
		if len(r.Pending)+len(r.Failed) > 0 {
			return fmt.Errorf("not every source is ready: pending %v, failed %v", r.Pending, r.Failed)
		}
		s.runs = append(s.runs, r.ID)
	}
	return nil
}

// over reports whether nobody is to ask for more.
func (s *stormer) over() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

func (s *stormer) callAlways(ctx context.Context, run int) {
	for ctx.Err() == nil && !s.over() {
		tool := sharedTool
		own := rand.N(2) == 0
		if own {
			tool = ownTool
		}
		note := fmt.Sprintf("call %d", s.calls.Add(1))
		args, _ := json.Marshal(map[string]any{"id": tool, "args": map[string]any{"note": note, "hold_ms": 20 + rand.N(300)}})
		s.ask(ctx, &request{notes: []string{note}, own: own, run: run}, client.CallRequest{Name: "tool_call", Arguments: args})
	}
}

const stormBody = `
for (const note of %s) {
  await tools.call(%q, { note, hold_ms: 150 }, { outcome: true });
}
return "done";`

func (s *stormer) runAlways(ctx context.Context, run int) {
	for ctx.Err() == nil && !s.over() {
		n := s.bodies.Add(1)
		r := &request{run: run}
		for i := range stepsOfABody {
			r.notes = append(r.notes, fmt.Sprintf("body %d.%d", n, i))
		}
		notes, _ := json.Marshal(r.notes)
		args, _ := json.Marshal(map[string]string{"code": fmt.Sprintf(stormBody, notes, sharedTool)})
		s.ask(ctx, r, client.CallRequest{Name: "tool_search_code", Arguments: args})
	}
}

func (s *stormer) ask(ctx context.Context, r *request, q client.CallRequest) {
	r.asked = time.Now()
	r.answer, r.err = s.client.Call(ctx, s.runs[r.run], q)
	r.ended = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// again starts others in place of the killed ones, and sees whether all is as before.
func (s *stormer) again(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for _, service := range []string{"executor", "sandbox"} {
		if _, err := s.fleet.StartService(service); err != nil {
			return err
		}
	}
	if err := s.fleet.Ready(ctx); err != nil {
		return err
	}
	ask := func(run int, name string, args any) error {
		raw, _ := json.Marshal(args)
		a, err := s.client.Call(ctx, s.runs[run], client.CallRequest{Name: name, Arguments: raw})
		if err == nil && a.Status != contracts.StatusOK {
			err = fmt.Errorf("%s: %w", a.Status, a.Error)
		}
		return err
	}
	var err error
	for run := range toolRuns {
		err = errors.Join(err, ask(run, "tool_call", map[string]any{"id": ownTool, "args": map[string]any{"note": "again"}}))
	}
	for run := range bodyRuns {
		err = errors.Join(err, ask(toolRuns+run, "tool_search_code", map[string]string{"code": "return 1"}))
	}
	if err != nil {
		return fmt.Errorf("after the killed ones were replaced: %w", err)
	}
	fmt.Println("replaced  the killed ones: every run goes on, with calls and with bodies")
	return nil
}
