//go:build amd64 || arm64

package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// realBuilds are worker programs with the real engine, without and with the C library.
var realBuilds = map[string]func() (string, error){
	"0": sync.OnceValues(func() (string, error) { return build("0", "sandbox-worker", "build", "../cmd/sandbox-worker") }),
	"1": sync.OnceValues(func() (string, error) { return build("1", "sandbox-worker", "build", "../cmd/sandbox-worker") }),
}

func realConfig(t testing.TB, cgo string) Config {
	t.Helper()
	file, err := realBuilds[cgo]()
	if err != nil {
		t.Fatal(err)
	}
	return Config{Command: []string{file}, CacheDir: filepath.Join(scratch, "compiled")}
}

// realPool opens a pool with the real engine; nil where it is not built in, which the error must say.
func realPool(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if built := engine.Built(); built != nil {
		if !errors.Is(err, ErrNoEngine) || !errors.Is(err, built) {
			t.Fatalf("Open() without an engine = %v, want %v", err, ErrNoEngine)
		}
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return p
}

func TestEngineInWorker(t *testing.T) {
	for cgo := range realBuilds {
		t.Run("CGO_ENABLED="+cgo, func(t *testing.T) {
			p := realPool(t, realConfig(t, cgo))
			if p == nil {
				return
			}
			t.Logf("layers: %s", strings.Join(p.Layers(), ", "))
			descriptors(t, pids(p)[0])
			for _, tt := range []struct {
				code, want string
			}{
				{"return 1", "1"},
				{"const a: number = 2; return a", "2"},
				{"console.log('<a>'); return [1, {b: '<&>'}]", `[1,{"b":"<&>"}]`},
				{"const r = await Promise.all([1, 2, 3].map(i => tools.call('x:y:' + i, {i}))); return r.length", "3"},
				{"await new Promise(r => setTimeout(r, 5)); return 'slept'", `"slept"`},
				{"while (true) {}", "timeout"},
				{"let a = []; for (;;) a.push(new Array(1e6).fill(1))", "memory"},
				{"await new Promise(() => {})", "stalled"},
				{"return tools.call('a:b:c', {x: 'x'.repeat(5_000_000)})", "exception"},
				{"return 'x'.repeat(1_000_000)", `"` + strings.Repeat("x", 1_000_000) + `"`},
				{"return fetch", "exception"},
				{"return (", "syntax"},
			} {
				limits := engine.Limits{Timeout: time.Minute}
				if tt.want == "timeout" {
					limits.Timeout = time.Second
				}
				end := p.Run(t.Context(), "acme", engine.Body{Code: tt.code, Limits: limits}, newDoor(echo))
				if got := told(end); got != tt.want {
					t.Errorf("Run(%s) = %.100s, want %.100s (%+v)", tt.code, got, tt.want, end.Failure)
				}
			}
			if s := p.Stats(); s.Died+s.Killed != 0 {
				t.Errorf("Stats() = %+v, want no dead", s)
			}
		})
	}
}

func TestEngineUnderLoad(t *testing.T) {
	p := realPool(t, realConfig(t, "0"))
	if p == nil {
		return
	}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			code := fmt.Sprintf("const a = await tools.search('x'); const b = await tools.call('a:b:c', {i: %d}); let s = 0; for (let i = 0; i < 1e4; i++) s += i; return s", i)
			if end := p.Run(t.Context(), fmt.Sprint("t", i%2), engine.Body{Code: code, Limits: engine.Limits{Timeout: time.Minute}}, newDoor(func(a engine.Ask) *engine.Answer {
				if a.Op == engine.OpSearch {
					return &engine.Answer{ID: a.ID, Value: []byte(`{"hits":[]}`)}
				}
				return echo(a)
			})); told(end) != "49995000" {
				t.Errorf("Run() = %s, %+v", told(end), end.Failure)
			}
		})
	}
	wg.Wait()
	if s := p.Stats(); s.Died+s.Killed != 0 {
		t.Errorf("Stats() = %+v, want no dead", s)
	}
}

// A body that computes is stopped at its limit, and its caller never waits much longer.
func TestEngineLimits(t *testing.T) {
	p := realPool(t, realConfig(t, "0"))
	if p == nil {
		return
	}
	for _, code := range []string{"for (;;);", "return new Array(2**32-1).join('').length", "await (async function f() { await null; return f() })()"} {
		start := time.Now()
		end := p.Run(t.Context(), "acme", engine.Body{Code: code, Limits: engine.Limits{Timeout: 300 * time.Millisecond}}, newDoor(nil))
		if took := time.Since(start); took > 3*time.Second || end.Failure == nil {
			t.Errorf("Run(%s) = %s after %v", code, told(end), took)
		}
	}
}

// memory reads a process's share of memory, in MiB.
func memory(pid int, key string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	_, rest, _ := strings.Cut(string(text), "\n"+key+":")
	kib, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return float64(kib) / 1024
}

func BenchmarkReal(b *testing.B) {
	p := realPool(b, realConfig(b, "0"))
	if p == nil {
		return
	}
	all := pids(p)
	b.Logf("spare worker: %.1f MiB resident, %.1f MiB of its own", memory(all[0], "Rss"), memory(all[0], "Pss"))
	answer := func(a engine.Ask) *engine.Answer {
		return &engine.Answer{ID: a.ID, Value: []byte(`{"ok":true,"hits":[],"rows":[1,2,3]}`)}
	}
	for _, bb := range []struct{ name, code string }{
		{"return1", "return 1"},
		{"3asks", "const a = await tools.search('x', {limit: 2}); const b = await tools.describe('id'); const c = await tools.call('id', {a: 1}); return [a.length, b, c]"},
		{"100calls", "const r = await Promise.all(Array.from({length: 100}, (_, i) => tools.call('id' + i, {i}))); return r.length"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				if end := p.Run(b.Context(), "acme", engine.Body{Code: bb.code}, newDoor(answer)); end.Failure != nil {
					b.Fatal(end.Failure)
				}
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[0].Microseconds()), "min-µs")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
	for _, pid := range pids(p) {
		b.Logf("worker after that: %.1f MiB resident, %.1f MiB of its own", memory(pid, "Rss"), memory(pid, "Pss"))
	}
}

func BenchmarkRealSpawn(b *testing.B) {
	p := realPool(b, realConfig(b, "0"))
	if p == nil {
		return
	}
	var cpu time.Duration
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		c, _, err := p.start()
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		c.kill(errRecycled)
		c.serve(nil)
		usage := c.proc.(*osProcess).cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[0].Microseconds())/1000, "min-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
