package trials

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// SecondTry is the limit of a trial that, with a shorter limit, ran out of time although it must not: on a slow machine it takes longer than
// that to meet its own end. It is tried again alone.
const SecondTry = 60 * time.Second

// An Attack says how trials are run.
type Attack struct {
	Runner  Runner
	Tenants []string      // in turn
	Limit   time.Duration // of each body
	AtOnce  int           // trials that run at the same time
}

// A Result is what came of a trial.
type Result struct {
	Trial
	Ending engine.Ending
	Took   time.Duration
	Over   time.Duration // beyond the limit, 0 for a body that ended before
	Err    error         // what is wrong with the ending, or with the body that came after
}

// Run runs the trials, each followed by a small body that must work, and gives their results in the same order.
func (a Attack) Run(ctx context.Context, trials []Trial) []Result {
	results := make([]Result, len(trials))
	var wg sync.WaitGroup
	places := make(chan struct{}, max(1, a.AtOnce))
	for i, t := range trials {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			results[i] = a.one(ctx, t, a.Tenants[i%len(a.Tenants)])
		})
	}
	wg.Wait()
	for i := range results {
		if r := &results[i]; r.Err != nil && codeOf(r.Ending) == engine.CodeTimeout {
			end, _ := Time(ctx, a.Runner, a.Tenants[i%len(a.Tenants)], r.Body(SecondTry), r.Silent)
			r.Err = r.Check(end)
		}
	}
	return results
}

func (a Attack) one(ctx context.Context, t Trial, tenant string) Result {
	r := Result{Trial: t}
	r.Ending, r.Took = Time(ctx, a.Runner, tenant, t.Body(a.Limit), t.Silent)
	r.Over = max(0, r.Took-a.Limit)
	r.Err = t.Check(r.Ending)
	if r.Err != nil {
		return r
	}
	if e, _ := Time(ctx, a.Runner, tenant, Trial{Code: "return 1"}.Body(SecondTry), false); string(e.Value) != "1" {
		r.Err = fmt.Errorf("after %s `return 1` ended with %s", t.Name, describe(e))
	}
	return r
}

// Time runs a body with a door of its own and tells how long it took.
func Time(ctx context.Context, r Runner, tenant string, b engine.Body, silent bool) (engine.Ending, time.Duration) {
	d := NewDoor(silent)
	defer d.Close()
	start := time.Now()
	e := r.Run(ctx, tenant, b, d)
	return e, time.Since(start)
}
