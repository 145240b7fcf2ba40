//go:build amd64 || arm64

package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// Workers that are killed from outside, at random and under load: each body ends, and with its value unless it says why.
func TestKilledAtRandom(t *testing.T) {
	p, err := processPool(t, Config{Workers: 3}, "0", "stub")
	if err != nil {
		t.Fatal(err)
	}
	var bodies, lost atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 30 {
		wg.Go(func() {
			tenant := fmt.Sprint("t", i%3)
			for ctx.Err() == nil {
				d := newDoor(echo)
				end := p.Run(t.Context(), tenant, engine.Body{Code: "log:a ask:x await:1 ask:y nap:z await:2 value:1"}, d)
				bodies.Add(1)
				switch got := told(end); {
				case got == "1" && slices.Equal(d.logged(), []string{"a"}) && d.asked() == 3:
				case got == "unavailable" && len(d.logged()) <= 1 && strings.Contains(end.Failure.Message, errGone.Error()):
					lost.Add(1)
				default:
					t.Errorf("Run() = %s after %d asks, logs %v", got, d.asked(), d.logged())
				}
			}
		})
	}
	killed := map[int]bool{} // one that is killed is listed until the pool has noticed
	for len(killed) < 20 {
		before := bodies.Load()
		eventually(t, "bodies go on", func() bool { return bodies.Load() > before+30 && len(pids(p)) > 0 })
		all := pids(p)
		pid := all[rand.IntN(len(all))]
		switch err := unix.Kill(pid, unix.SIGKILL); {
		case err == nil:
			killed[pid] = true
		case !errors.Is(err, unix.ESRCH):
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
	t.Logf("%d bodies, %d lost, %+v", bodies.Load(), lost.Load(), p.Stats())
	if s := p.Stats(); s.Died+s.Recycled < uint64(len(killed)) || s.Died == 0 || s.Bodies != 0 || s.Waiting != 0 {
		t.Errorf("Stats() = %+v, want 20 dead, no bodies", s)
	}
}

// A worker that stops, or reads nothing, is killed when a body is overdue.
func TestDeafWorker(t *testing.T) {
	t.Run("deaf", func(t *testing.T) {
		p, err := processPool(t, Config{Grace: 100 * time.Millisecond}, "0", "deaf")
		if err != nil {
			t.Fatal(err)
		}
		checkOverdue(t, p, pids(p)[0])
	})
	t.Run("stopped", func(t *testing.T) {
		p, err := processPool(t, Config{Grace: 100 * time.Millisecond}, "0", "stub")
		if err != nil {
			t.Fatal(err)
		}
		pid := pids(p)[0]
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		checkOverdue(t, p, pid)
	})
}

func checkOverdue(t *testing.T, p *Pool, pid int) {
	t.Helper()
	start := time.Now()
	// The text is longer than what fits into the socket.
	end := p.Run(t.Context(), "acme", engine.Body{Code: strings.Repeat(" ", 1<<20), Limits: engine.Limits{Code: 2 << 20, Timeout: 100 * time.Millisecond}}, newDoor(nil))
	if took := time.Since(start); told(end) != "timeout" || took > 3*time.Second {
		t.Errorf("Run() = %s after %v", told(end), took)
	}
	eventually(t, "the worker is gone", func() bool { return !alive(pid) && p.Stats().Killed == 1 })
}

// supervise is a service with some workers, whose processes it names, and then does nothing more.
func supervise() int {
	dir, err := os.MkdirTemp("", "toolcrib-test-")
	if err != nil {
		return 1
	}
	cfg, _ := Config{CacheDir: filepath.Join(dir, "compiled"), Workers: 4}.withDefaults() // the workers are this program
	l, err := newForker(cfg, sealedImage(), sealedImage())
	if err != nil {
		return 1
	}
	p, err := open(context.Background(), cfg, logger(nil), l)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, code := range []string{"stuck", "hang", "ask:x await:1"} {
		d := newDoor(nil)
		go p.Run(context.Background(), code, engine.Body{Code: "log:up " + code}, d)
		untilTrue(func() bool { return len(d.logged()) > 0 })
	}
	untilTrue(func() bool { return len(pids(p)) >= 4 })
	_ = os.RemoveAll(dir)
	fmt.Println(pids(p))
	select {}
}

// Workers end with the service, however that ends.
func TestSupervisorDies(t *testing.T) {
	cmd := exec.Command(testProgram(t, "0"), "supervisor")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	workers := strings.Fields(strings.Trim(line, "[]\n"))
	if err != nil || len(workers) != 4 {
		t.Fatalf("the supervisor said %q, %v", line, err)
	}
	for _, w := range workers { // the words of some of them nobody reads any more; stopped ones cannot even end by themselves
		pid, _ := strconv.Atoi(w)
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Errorf("worker %s: %v", w, err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, w := range workers {
		pid, _ := strconv.Atoi(w)
		eventually(t, "worker "+w+" is gone", func() bool { return !alive(pid) })
	}
}

// What a process has: goroutines, descriptors, children, files for temporary use.
type belongings struct {
	goroutines, descriptors, children, files int
}

func own(t *testing.T) belongings {
	t.Helper()
	count := func(pattern string) int {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	children := 0
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range tasks {
		text, _ := os.ReadFile(file)
		children += len(strings.Fields(string(text)))
	}
	return belongings{
		goroutines:  runtime.NumGoroutine(),
		descriptors: count("/proc/self/fd/*"),
		children:    children,
		files:       count(filepath.Join(os.TempDir(), "toolcrib-compiled-*")),
	}
}

// Nothing is left of a pool that was closed in the middle of everything.
func TestNothingIsLeft(t *testing.T) {
	file := testProgram(t, "0")
	before := own(t)
	for range 3 {
		cfg, _ := Config{Command: []string{file, "stub"}, Workers: 4, Recycle: 3, Grace: 50 * time.Millisecond}.withDefaults()
		l, err := newForker(cfg, sealedImage(), sealedImage())
		if err != nil {
			t.Fatal(err)
		}
		p, err := open(t.Context(), cfg, logger(nil), l)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i, code := range []string{"value:1", "log:x die", "stuck", "hang", "attack:socket", "ask:x await:1", "value:2", "stuck", "args:900000 hang", "ask:a hang"} {
			wg.Go(func() {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if i%2 == 1 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(i+1)*20*time.Millisecond)
				}
				defer cancel()
				p.Run(ctx, fmt.Sprint("t", i%5), engine.Body{Code: code, Limits: engine.Limits{Timeout: 100 * time.Millisecond}}, newDoor(nil))
			})
		}
		eventually(t, "something was killed", func() bool { return p.Stats().Killed > 0 })
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}
	var after belongings
	eventuallyLog(t, func() bool {
		after = own(t)
		return after.goroutines <= before.goroutines && after.descriptors <= before.descriptors
	}, &after)
	if after.children > before.children || after.files > before.files {
		t.Errorf("left %+v, before %+v", after, before)
	}
}

// eventuallyLog waits until cond holds and shows what goes on if it does not.
func eventuallyLog(t *testing.T, cond func() bool, state *belongings) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("left %+v\n%s", *state, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// A worker uses its time sparingly: idle ones use none.
func BenchmarkSpawn(b *testing.B) {
	cfg := Config{}
	cfg.Command = []string{testProgram(b, "0"), "stub"}
	cfg, _ = cfg.withDefaults()
	l := newStubForker(b, cfg)
	defer l.close()
	p := &Pool{cfg: cfg, log: logger(nil), launcher: l, ctx: context.Background()}
	var cpu time.Duration
	for b.Loop() {
		c, _, err := p.start()
		if err != nil {
			b.Fatal(err)
		}
		c.kill(errRecycled)
		c.serve(nil)
		usage := c.proc.(*osProcess).cmd.ProcessState.SysUsage().(*syscall.Rusage)
		cpu += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
