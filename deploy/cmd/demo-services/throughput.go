package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolcrib/toolcrib/deploy/fleet"
	"github.com/toolcrib/toolcrib/deploy/keys"
	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	warmUp   = 2 * time.Second
	measured = 8 * time.Second
	// hold is how long the tool of the waiting loads takes: such a load is limited by how many calls the executors have at once, not by the processors.
	hold = 500 * time.Millisecond
)

// A load is work that is asked for again and again.
type load struct {
	name     string
	mode     string
	atOnce   int // for each executor or sandbox there is
	tool     string
	argument func(n int64) any
}

// loads are calls and bodies, of tools that take a while and of tools that take no time.
func loads() []load {
	call := func(ms int64) func(int64) any {
		return func(n int64) any {
			return map[string]any{"id": sharedTool, "args": map[string]any{"note": fmt.Sprint(n), "hold_ms": ms}}
		}
	}
	body := func(code string) func(int64) any { return func(int64) any { return map[string]string{"code": code} } }
	waits := fmt.Sprintf("await tools.call(%q, {hold_ms: %d}); return 1", sharedTool, hold.Milliseconds())
	return []load{
		{"calls that wait", "tools", 80, "tool_call", call(hold.Milliseconds())},
		{"calls at once", "tools", 16, "tool_call", call(0)},
		{"bodies that wait", "code", 80, "tool_search_code", body(waits)},
		{"bodies at once", "code", 16, "tool_search_code", body("let n = 0; for (let i = 0; i < 1000; i++) n += i; return n")},
	}
}

// throughput measures the loads with 1, 2 and 4 executors and sandboxes.
func throughput(ctx context.Context, o options, dir string) error {
	fmt.Printf("Each load for %v on %d processors that all processes share, the NATS server, the tools and the asker too.\n", measured, runtime.NumCPU())
	fmt.Println("Waiting loads call a tool that takes half a second; an executor has 64 calls of a tenant at once, a sandbox 64 bodies.")
	for _, n := range []int{1, 2, 4} {
		at := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(at, 0o700); err != nil {
			return err
		}
		if err := measure(ctx, o, at, n); err != nil {
			return fmt.Errorf("with %d executors and sandboxes: %w", n, err)
		}
	}
	return nil
}

func measure(ctx context.Context, o options, dir string, n int) (err error) {
	count, err := startCounting(ctx, dir, o.toolcrib)
	if err != nil {
		return err
	}
	defer count.stop()
	f, err := fleet.New(o.fleet(dir, map[string]int{"sandbox": n, "executor": n}, count.tenant))
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Stop())
		if err != nil {
			fmt.Fprint(os.Stderr, f.Logs())
		}
	}()
	if _, err := f.StartNATS(); err != nil {
		return err
	}
	if err := f.StartServices(); err != nil {
		return err
	}
	starting, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if err := f.Ready(starting); err != nil {
		return err
	}
	fmt.Printf("\n== %d executors, %d sandboxes\n%-17s %8s %8s %8s  CPU of one %s\n", n, n, "", "a second", "p50 ms", "p99 ms", "in µs, by service")
	for _, l := range loads() {
		line, err := l.run(ctx, f, count, n)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Println(line)
	}
	return nil
}

// run asks for the load and returns what came of it as a line.
func (l load) run(ctx context.Context, f *fleet.Fleet, count *counting, n int) (string, error) {
	c := count.tenant.Client(f.URL)
	r, err := c.OpenRun(ctx, client.RunOptions{Agent: "throughput", Mode: l.mode, WaitForSources: 60_000})
	if err != nil {
		return "", err
	}
	if r.Surface != contracts.SurfaceMode(l.mode) {
		return "", fmt.Errorf("surface %s, want %s: %v", r.Surface, l.mode, r.Decision.Conditions)
	}
	ctx, stop := context.WithTimeout(ctx, warmUp+measured)
	defer stop()
	m := &meter{from: time.Now().Add(warmUp)}
	var all sync.WaitGroup
	for range l.atOnce * n {
		all.Go(func() { m.keep(ctx, c, r.ID, l) })
	}
	pause(ctx, warmUp)
	before := cpu(f, count)
	pause(ctx, measured)
	used := cpu(f, count)
	all.Wait()
	if m.failed != nil {
		return "", m.failed
	}
	for who := range used {
		used[who] -= before[who]
	}
	return m.line(l.name, used), c.CloseRun(context.WithoutCancel(ctx), r.ID)
}

// cpu returns the CPU time used so far by each service, the tools and the asker, who is this process.
func cpu(f *fleet.Fleet, count *counting) map[string]time.Duration {
	used := f.CPU()
	used["tools"] = fleet.CPUOf(count.server.Process.Pid)
	var self syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &self) == nil {
		used["asker"] = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	}
	return used
}

// A meter keeps how long things took.
type meter struct {
	from time.Time
	n    atomic.Int64

	mu     sync.Mutex
	took   []time.Duration
	failed error
}

// keep asks one after the other until ctx is done.
func (m *meter) keep(ctx context.Context, c *client.Client, run contracts.RunID, l load) {
	for ctx.Err() == nil {
		args, _ := json.Marshal(l.argument(m.n.Add(1)))
		begun := time.Now()
		a, err := c.Call(ctx, run, client.CallRequest{Name: l.tool, Arguments: args})
		if err == nil && a.Status != contracts.StatusOK {
			err = fmt.Errorf("%s: %w", a.Status, a.Error)
		}
		m.mu.Lock()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			m.failed = errors.Join(m.failed, err)
			m.mu.Unlock()
			return
		case begun.After(m.from):
			m.took = append(m.took, time.Since(begun))
		}
		m.mu.Unlock()
	}
}

func (m *meter) line(name string, used map[string]time.Duration) string {
	slices.Sort(m.took)
	done := len(m.took)
	if done == 0 {
		return name + ": nothing was done"
	}
	quantile := func(q float64) float64 { return m.took[int(q*float64(done-1))].Seconds() * 1000 }
	var parts []string
	var sum time.Duration
	for _, s := range slices.Concat([]string{"nats"}, keys.Services(), []string{"tools", "asker"}) {
		sum += used[s]
		if d := used[s]; d > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", s, d.Microseconds()/int64(done)))
		}
	}
	return fmt.Sprintf("%-17s %8.0f %8.1f %8.1f  %3.0f%% busy: %s", name, float64(done)/measured.Seconds(), quantile(0.5), quantile(0.99),
		100*sum.Seconds()/measured.Seconds()/float64(runtime.NumCPU()), strings.Join(parts, ", "))
}
