package trials

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
	"github.com/toolcrib/toolcrib/services/sandbox/worker"
)

var soak = flag.Int("soak", 1500, "how many bodies TestSoak runs")

// soakBodies are of the kinds that come along, with what each must end with.
func soakBodies() []Trial {
	return []Trial{
		gives("small", "return 1", "1"),
		gives("calls", "const h = await tools.search('add'); return (await Promise.all(h.map((x) => tools.call(x, {}).then((o) => o.result)))).length", "1"),
		gives("timer", "await new Promise((r) => setTimeout(r, 1)); return 2", "2"),
		gives("types", "const x: number = 3; return x", "3"),
		gives("large", "return 'x'.repeat(200000).length", "200000"),
		gives("grows", "const a = []; for (let i = 0; i < 50; i++) a.push(new Array(2e4).fill(i)); return a.length", "50"),
		gives("logs", "for (let i = 0; i < 100; i++) console.log('line', i); return 4", "4"),
		ends("throws", "throw new Error('x')", engine.CodeException),
		ends("syntax", "return (", engine.CodeSyntax),
		ends("stack", "function f() { f() } f()", engine.CodeStack),
		ends("stalls", "await new Promise(() => {})", engine.CodeStalled),
		ends("memory", "const a = []; for (;;) a.push(new Uint8Array(5e6))", engine.CodeMemory),
	}
}

// TestSoak: after many bodies memory is what it was after some, and nothing is left over.
func TestSoak(t *testing.T) {
	p := openPool(t, worker.Config{})
	bodies := soakBodies()
	const lanes = 8
	run := func(n int) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for lane := range lanes {
			wg.Go(func() {
				tenant := fmt.Sprintf("tenant-%d", lane%2)
				for i := int(next.Add(1)); i <= n && !t.Failed(); i = int(next.Add(1)) {
					trial := bodies[i%len(bodies)]
					end, _ := Time(context.Background(), p, tenant, trial.Body(SecondTry), false)
					if err := trial.Check(end); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	run(*soak / 3)
	before := settledMemory(t)
	run(*soak - *soak/3)
	after := settledMemory(t)
	t.Logf("after %d bodies %d MiB, after %d bodies %d MiB; %+v", *soak/3, before>>20, *soak, after>>20, p.Stats())
	if after > before+before/4+32<<20 {
		t.Errorf("memory grew from %d to %d MiB", before>>20, after>>20)
	}
	if s := p.Stats(); s.Killed+s.Died+s.Failed > 0 {
		t.Errorf("workers were lost: %+v", s)
	}
}

// settledMemory gives the least memory that is seen in some time, since what is free is given back late.
func settledMemory(t *testing.T) int64 {
	t.Helper()
	least := int64(1) << 62
	for range 20 {
		n, err := Memory()
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, n)
	}
	return least
}

// TestKilledWorkers kills workers at random while bodies run: each body ends with its value, or says that the sandbox was unavailable;
// a body that has asked for nothing yet, or only one of its worker's deaths in a row was met, has its value. Then all works as before.
func TestKilledWorkers(t *testing.T) {
	p := openPool(t, worker.Config{})
	trials := []Trial{
		ends("small", "return 1", "", engine.CodeUnavailable),
		ends("calls", "for (let i = 0; i < 20; i++) await tools.call('t', { i }); return 2", "", engine.CodeUnavailable),
		ends("timers", "for (let i = 0; i < 20; i++) await new Promise((r) => setTimeout(r, 1)); return 3", "", engine.CodeUnavailable),
		ends("computes", "let n = 0; for (let i = 0; i < 2e6; i++) n += i; return n", "", engine.CodeUnavailable),
	}
	ctx, stop := context.WithTimeout(context.Background(), 4*time.Second)
	defer stop()
	var values, lost atomic.Int64
	var wg sync.WaitGroup
	for lane := range 16 {
		wg.Go(func() {
			for i := lane; ctx.Err() == nil; i++ {
				trial := trials[i%len(trials)]
				end, took := Time(context.Background(), p, fmt.Sprintf("tenant-%d", lane%3), trial.Body(SecondTry), false)
				if err := trial.Check(end); err != nil {
					t.Error(err)
				}
				if end.Failure == nil {
					values.Add(1)
				} else {
					lost.Add(1)
				}
				if took > SecondTry+mostOver {
					t.Errorf("%s took %v", trial.Name, took)
				}
			}
		})
	}
	kills := killWorkers(ctx, t)
	wg.Wait()
	t.Logf("%d workers killed, %d bodies gave their value, %d were lost; %+v", kills, values.Load(), lost.Load(), p.Stats())
	if kills == 0 || values.Load() == 0 {
		t.Errorf("%d workers were killed and %d bodies gave a value, want some of both", kills, values.Load())
	}
	for _, tenant := range []string{"tenant-0", "tenant-1", "tenant-2", "new"} {
		if end, _ := Time(context.Background(), p, tenant, Trial{Code: "return 1"}.Body(SecondTry), false); string(end.Value) != "1" {
			t.Errorf("after all was over, a body of %s ended with %s", tenant, describe(end))
		}
	}
	eventually(t, func() string {
		if s := p.Stats(); s.Bodies != 0 || s.Waiting != 0 || s.Spare == 0 {
			return fmt.Sprintf("the pool is not what it was: %+v", s)
		}
		return ""
	})
}

// killWorkers kills a worker now and then until ctx is done, and tells how many.
func killWorkers(ctx context.Context, t *testing.T) (kills int) {
	t.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return kills
		case <-tick.C:
		}
		workers := workersOf(t)
		if len(workers) == 0 {
			continue
		}
		if syscall.Kill(workers[rand.IntN(len(workers))], syscall.SIGKILL) == nil {
			kills++
		}
	}
}

// workersOf gives the worker processes of this test.
func workersOf(t *testing.T) []int {
	t.Helper()
	pids, err := Descendants()
	if err != nil {
		t.Fatal(err)
	}
	var workers []int
	for _, pid := range pids {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.HasPrefix(string(line), binary) {
			workers = append(workers, pid)
		}
	}
	return workers
}
