package executor

import (
	"strconv"
	"sync"
	"testing"

	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// With several executors a session has one connection all the same, at one of them, whoever is woken for its calls.
func TestASessionHasItsConnectionAtOneOfManyExecutors(t *testing.T) {
	w := newWorld(t)
	s := servers{"own": w.server()}
	stops := map[string]func(){}
	for range 3 {
		svc, stop := w.executor(s)
		stops[svc.id] = stop
	}
	w.ready("mcp:own")
	call := func(run contracts.RunID, text string) {
		t.Helper()
		if o := w.call(run, callOf("mcp:own:echo", `{"text":"`+text+`"}`)).Outcome; o.Status != contracts.StatusOK {
			t.Errorf("outcome %+v %+v", o, o.Error)
		}
	}
	seats := must(store.OpenTable[contracts.Seat](t.Context(), w.bus, contracts.BucketSeats))
	seat := func(run contracts.RunID) string {
		t.Helper()
		rec, err := seats.Get(t.Context(), contracts.SeatKey(tenant, sourceID("mcp:own"), runScope(run)))
		if err != nil {
			t.Fatal(err)
		}
		return rec.Executor
	}
	runs := []contracts.RunID{w.open(contracts.RunRequest{}), w.open(contracts.RunRequest{}), w.open(contracts.RunRequest{}), w.open(contracts.RunRequest{})}
	before := w.counted("pid ")
	var all sync.WaitGroup
	for i, run := range runs {
		for j := range 8 {
			all.Go(func() { call(run, strconv.Itoa(10*i+j)) })
		}
	}
	all.Wait()
	if n := w.counted("pid ") - before; n != len(runs) {
		t.Errorf("%d runs got %d connections, want one each", len(runs), n)
	}

	// An executor that is gone loses its sessions to another, at once.
	owner := seat(runs[0])
	stops[owner]()
	call(runs[0], "after")
	if now := seat(runs[0]); now == owner {
		t.Errorf("the session is still at %s, which is gone", owner)
	}
	call(runs[0], "again")
}
