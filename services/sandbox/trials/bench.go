package trials

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

// A Bench measures what bodies cost in real workers, and beside them in Node.
type Bench struct {
	Pool    worker.Config // of the pools that are opened; the folder of compiled code should be set
	Node    *Node         // nil for no comparison
	Rounds  int           // 0 means 10; in each of them all is measured, one after the other
	Hostile bool          // also measure how hostile bodies end, and what neighbours notice of them
	Log     func(string)  // is told what is being done; may be nil
}

// A Report is what a bench found out.
type Report struct {
	Machine   string         `json:"machine"`
	Node      string         `json:"node,omitempty"` // version and flags
	Layers    []string       `json:"layers"`         // of protection around the workers
	Rows      []Row          `json:"rows"`
	Hostile   []HostileRow   `json:"hostile,omitempty"`
	Neighbour *Neighbours    `json:"neighbour,omitempty"`
	Aims      []Aim          `json:"aims"`
	Memory    map[string]int `json:"memoryMiB"` // of this process and its workers together, by when it was measured
}

// A Row is one kind of body.
type Row struct {
	Name    string   `json:"name"`
	Sandbox Measure  `json:"sandbox"`
	Node    *Measure `json:"node,omitempty"`
	// Wall and CPU are how many times as much Node needs; 0 where it was not measured.
	Wall float64 `json:"wallRatio,omitempty"`
	CPU  float64 `json:"cpuRatio,omitempty"`
}

// A Measure is what a kind of body costs.
type Measure struct {
	Figures
	CPU       time.Duration `json:"cpu,omitempty"` // of all processes together, for one body; 0 where it was not measured
	PerSecond float64       `json:"perSecond"`
}

// A HostileRow is how hostile bodies ended.
type HostileRow struct {
	AtOnce int           `json:"atOnce"`
	Limit  time.Duration `json:"limit"`
	Bodies int           `json:"bodies"`
	Over   Figures       `json:"over"` // time beyond the limit, of those that reached it
	Wrong  []string      `json:"wrong,omitempty"`
	Memory int           `json:"memoryMiB"` // the most of this process and its workers together
	Left   string        `json:"left,omitempty"`
}

// An Aim is a figure that is aimed at.
type Aim struct {
	Name string `json:"name"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
}

// kinds are the bodies that are measured. many is how many of them run at once, and n how many a round has in the sandbox.
var kinds = [...]struct {
	name, code string
	many, n    int
}{
	{"return 1", "return 1", 1, 100},
	{"3 calls, one after the other", "const h = await tools.search('add numbers'); const e = await tools.describe(h[0].id); return (await tools.call(e.id, { a: 1, b: 2 })).result", 1, 50},
	{"100 calls at once", "return (await Promise.all(Array.from({ length: 100 }, (_, i) => tools.call('workshop:add', { a: i })))).length", 1, 10},
	{"computing: fib(24)", "const fib = (n) => n < 2 ? n : fib(n - 1) + fib(n - 2); return fib(24)", 1, 3},
	{"1 MB of JSON, made and read", "const o = Array.from({ length: 12000 }, (_, i) => ({ id: i, name: 'item number ' + i, tags: ['a', 'b'], ok: true, price: i / 7 })); const s = JSON.stringify(o); return JSON.parse(s).length + s.length", 1, 2},
	{"64 at once, 3 calls each", "for (let i = 0; i < 3; i++) await tools.call('workshop:add', { i }); return 1", 64, 200},
}

// Run measures. Its error says what could not be measured; figures that are worse than aimed at are none.
func (b Bench) Run(ctx context.Context) (*Report, error) {
	if b.Log == nil {
		b.Log = func(string) {}
	}
	if b.Rounds <= 0 {
		b.Rounds = 10
	}
	r := &Report{Machine: machine(), Memory: map[string]int{}}
	if b.Node != nil {
		r.Node = strings.Join(append([]string{b.Node.Version}, b.Node.Flags...), " ")
	}
	for _, step := range []func(context.Context, *Report) error{b.cold, b.warm, b.attacks, b.beside} {
		if err := step(ctx, r); err != nil {
			return nil, err
		}
	}
	r.Aims = append(r.aimsOfRows(), r.aimsOfAttacks()...)
	return r, nil
}

func machine() string {
	return fmt.Sprintf("%d cores, %s/%s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
}

// within opens a pool for f, and closes it.
func (b Bench) within(ctx context.Context, cfg worker.Config, f func(*worker.Pool) error) error {
	p, err := worker.Open(ctx, cfg, nil)
	if err != nil {
		return err
	}
	return errors.Join(f(p), p.Close())
}

// A lane gathers what one kind of body took.
type lane struct {
	runner  Runner
	took    []time.Duration
	cpu     time.Duration
	elapsed time.Duration
}

// run runs n bodies, many at once.
func (l *lane) run(ctx context.Context, code string, n, many int) error {
	meter, err := NewMeter()
	if err != nil {
		return err
	}
	start := time.Now()
	took := make([]time.Duration, n)
	wrong := make([]error, n)
	var wg sync.WaitGroup
	var next atomic.Int64
	for worker := range many {
		tenant := fmt.Sprintf("tenant-%d", worker%2)
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				var e engine.Ending
				if e, took[i] = Time(ctx, l.runner, tenant, Trial{Code: code}.Body(time.Minute), false); e.Failure != nil {
					wrong[i] = fmt.Errorf("the body %.60q ended with %s", code, describe(e))
				}
			}
		})
	}
	wg.Wait()
	l.elapsed += time.Since(start)
	used, err := meter.Used()
	l.took = append(l.took, took...)
	l.cpu += used
	return errors.Join(append(wrong, err)...)
}

func (l *lane) measure() Measure {
	n := max(1, len(l.took))
	return Measure{Figures: FiguresOf(l.took), CPU: l.cpu / time.Duration(n), PerSecond: float64(len(l.took)) / l.elapsed.Seconds()}
}

// warm measures bodies in workers that are there, and in Node, in turn.
func (b Bench) warm(ctx context.Context, r *Report) error {
	return b.within(ctx, b.Pool, func(p *worker.Pool) error {
		r.Layers = p.Layers()
		var here, there [len(kinds)]lane
		for round := range b.Rounds + 1 {
			b.Log(fmt.Sprintf("round %d of %d", round, b.Rounds))
			if round == 1 { // the first one was to get warm
				here, there = [len(kinds)]lane{}, [len(kinds)]lane{}
			}
			for i, k := range kinds {
				here[i].runner, there[i].runner = p, b.Node
				if err := here[i].run(ctx, k.code, k.n, k.many); err != nil {
					return err
				}
				if b.Node == nil {
					continue
				}
				if err := there[i].run(ctx, k.code, nodeBodies(k.many), k.many); err != nil {
					return err
				}
			}
		}
		for i, k := range kinds {
			r.Rows = append(r.Rows, row(k.name, &here[i], &there[i]))
		}
		return r.remember("after ordinary bodies")
	})
}

// nodeBodies is how many bodies a round has in Node.
func nodeBodies(many int) int {
	if many > 1 {
		return many
	}
	return 3
}

func row(name string, here, there *lane) Row {
	out := Row{Name: name, Sandbox: here.measure()}
	if len(there.took) == 0 {
		return out
	}
	m := there.measure()
	out.Node = &m
	out.Wall = ratio(m.Median, out.Sandbox.Median)
	out.CPU = ratio(m.CPU, out.Sandbox.CPU)
	return out
}

func ratio(a, b time.Duration) float64 { return math.Round(10*float64(a)/float64(max(b, 1))) / 10 }

func (r *Report) remember(when string) error {
	n, err := Memory()
	r.Memory[when] = int(n >> 20)
	return err
}

// cold measures the first body of a worker: in one that has just been started, and with its start.
func (b Bench) cold(ctx context.Context, r *Report) error {
	cfg := b.Pool
	cfg.Recycle, cfg.Spare, cfg.Workers, cfg.PerTenant = 1, 1, 4, 4
	b.Log("fresh workers")
	return b.within(ctx, cfg, func(p *worker.Pool) error {
		first, started := &lane{runner: p}, &lane{runner: p}
		meter, err := NewMeter()
		if err != nil {
			return err
		}
		for range b.Rounds {
			if err := spare(ctx, p); err != nil {
				return err
			}
			if err := first.run(ctx, "return 1", 1, 1); err != nil {
				return err
			}
			if err := started.afterSpare(ctx, p); err != nil {
				return err
			}
		}
		if err := spare(ctx, p); err != nil {
			return err
		}
		used, err := meter.Used()
		inFresh, withStart := row("return 1 in a fresh worker", first, &lane{}), row("return 1 and the start of its worker", started, &lane{})
		inFresh.Sandbox.CPU = 0 // other workers are started meanwhile
		withStart.Sandbox.CPU = used / time.Duration(p.Stats().Started)
		r.Rows = append(r.Rows, inFresh, withStart)
		return err
	})
}

// spare waits until a worker is ready that belongs to nobody.
func spare(ctx context.Context, p *worker.Pool) error {
	for p.Stats().Spare == 0 || p.Stats().Bodies > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// afterSpare runs a body that gets no worker before one is started: the one that was ready is taken by a body that waits.
func (l *lane) afterSpare(ctx context.Context, p *worker.Pool) error {
	if err := spare(ctx, p); err != nil {
		return err
	}
	held, release := context.WithCancel(ctx)
	defer release()
	d := NewDoor(true)
	defer d.Close()
	ended := make(chan engine.Ending, 1)
	go func() { ended <- p.Run(held, "holder", Trial{Code: "await tools.call('t')"}.Body(time.Minute), d) }()
	for p.Stats().Spare > 0 {
		runtime.Gosched()
	}
	err := l.run(ctx, "return 1", 1, 1)
	release()
	<-ended
	return err
}
