package trials

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

// attacks measures how hostile bodies end.
func (b Bench) attacks(ctx context.Context, r *Report) error {
	if !b.Hostile {
		return nil
	}
	all, err := Hostile()
	if err != nil {
		return err
	}
	for _, a := range []Attack{{Limit: time.Second / 4, AtOnce: 1}, {Limit: time.Second, AtOnce: 10}} {
		b.Log(fmt.Sprintf("%d hostile bodies, %d at once", len(all), a.AtOnce))
		row, err := b.attack(ctx, a, all)
		if err != nil {
			return err
		}
		r.Hostile = append(r.Hostile, row)
	}
	return nil
}

func (b Bench) attack(ctx context.Context, a Attack, all []Trial) (HostileRow, error) {
	out := HostileRow{AtOnce: a.AtOnce, Limit: a.Limit, Bodies: len(all)}
	before, err := counted()
	if err != nil {
		return out, err
	}
	err = b.within(ctx, b.Pool, func(p *worker.Pool) error {
		a.Runner, a.Tenants = p, []string{"hostile"}
		memory := WatchMemory()
		var over []time.Duration
		for _, r := range a.Run(ctx, all) {
			if r.Err != nil {
				out.Wrong = append(out.Wrong, r.Err.Error())
			}
			if codeOf(r.Ending) == engine.CodeTimeout {
				over = append(over, r.Over)
			}
		}
		out.Over = FiguresOf(over)
		most, err := memory()
		out.Memory = int(most >> 20)
		return err
	})
	if err != nil {
		return out, err
	}
	out.Left, err = before.left(ctx)
	return out, err
}

// WatchMemory measures [Memory] all the time, until the function that it gives is called, which tells the most that there was.
func WatchMemory() (most func() (int64, error)) {
	done := make(chan struct{})
	type result struct {
		most int64
		err  error
	}
	results := make(chan result)
	go func() {
		var r result
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			n, err := Memory()
			r.most, r.err = max(r.most, n), errors.Join(r.err, err)
			select {
			case <-tick.C:
			case <-done:
				results <- r
				return
			}
		}
	}()
	return func() (int64, error) {
		close(done)
		r := <-results
		return r.most, r.err
	}
}

// A count is of what could be left over.
type count struct{ goroutines, descriptors, processes int }

func counted() (count, error) {
	pids, err := Descendants()
	if err != nil {
		return count{}, err
	}
	n, err := Descriptors()
	return count{goroutines: runtime.NumGoroutine(), descriptors: n, processes: len(pids)}, err
}

// left tells what there is more of than before, after up to 5 s, "" for nothing.
func (c count) left(ctx context.Context) (string, error) {
	for end := time.Now().Add(5 * time.Second); ; {
		now, err := counted()
		if err != nil {
			return "", err
		}
		if now.goroutines <= c.goroutines && now.descriptors <= c.descriptors && now.processes <= c.processes {
			return "", nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return fmt.Sprintf("%d goroutines, %d descriptors, %d processes; before it were %d, %d, %d",
				now.goroutines, now.descriptors, now.processes, c.goroutines, c.descriptors, c.processes), ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b Bench) beside(ctx context.Context, r *Report) error {
	if !b.Hostile {
		return nil
	}
	b.Log("a neighbour of hostile bodies")
	return b.within(ctx, b.Pool, func(p *worker.Pool) error {
		n, err := Beside(ctx, p, 1000, time.Second)
		r.Neighbour = &n
		return errors.Join(err, r.remember("beside hostile bodies"))
	})
}
