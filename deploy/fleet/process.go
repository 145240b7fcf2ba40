package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A Process is one process of a fleet.
type Process struct {
	Name    string // such as executor-2
	Service string

	health string // address, "" for none
	log    string // path
	cmd    *exec.Cmd
	done   chan struct{} // closed once it has ended
	err    error         // how, once done is closed
	killed atomic.Bool
	told   time.Time // when it was told to stop
}

// start starts a process whose output goes to a log of its own.
func (f *Fleet) start(service, health, binary string, environ []string, args ...string) (*Process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 1
	for _, p := range f.processes {
		if p.Service == service {
			n++
		}
	}
	name := fmt.Sprintf("%s-%d", service, n)
	p := &Process{Name: name, Service: service, health: health, log: filepath.Join(f.cfg.Dir, "log", name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd = exec.Command(binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = environ
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	f.processes = append(f.processes, p)
	return p, nil
}

func (p *Process) pid() int { return p.cmd.Process.Pid }

// Kill ends the process at once, as the loss of its machine would.
func (p *Process) Kill() {
	p.killed.Store(true)
	p.cmd.Process.Kill()
	<-p.done
}

func (p *Process) terminate() {
	p.told = time.Now()
	p.cmd.Process.Signal(syscall.SIGTERM)
}

// stopped waits for the end of a process that was told to stop, and returns an error unless it ended well.
func (p *Process) stopped(limit time.Duration) error {
	select {
	case <-p.done:
	case <-time.After(limit - time.Since(p.told)):
		p.Kill()
		return fmt.Errorf("%s did not stop within %v", p.Name, limit)
	}
	if p.err != nil && !p.killed.Load() {
		return fmt.Errorf("%s ended with %w", p.Name, p.err)
	}
	return nil
}

// Probe asks the process whether it is ready; the error is why it is not.
func (p *Process) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.health+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err == nil && res.StatusCode != http.StatusOK {
		err = &NotReady{strings.TrimSpace(string(body))}
	}
	return err
}

// NotReady is the error of a process that says itself that it is not ready.
type NotReady struct{ Why string }

func (n *NotReady) Error() string { return "not ready: " + n.Why }

// String returns the process as a line of a list.
func (p *Process) String() string {
	return fmt.Sprintf("%-12s process %-7d %s", p.Name, p.pid(), p.health)
}

// CPUOf returns the CPU time that a process and its children have used.
func CPUOf(pid int) time.Duration { return processTimes().tree(pid) }

// times are the CPU times of the processes of this machine.
type times struct {
	used     map[int]time.Duration // by the process and its children that have ended
	children map[int][]int
}

// tick is the unit of CPU times in /proc: 1/100 s on every Linux.
const tick = 10 * time.Millisecond

func processTimes() times {
	t := times{map[int]time.Duration{}, map[int][]int{}}
	dirs, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range dirs {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data), ") ") // the name before may hold anything
		fields := strings.Fields(rest)
		if len(fields) < 15 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		for _, f := range fields[11:15] { // utime, stime, and those of ended children
			n, _ := strconv.Atoi(f)
			t.used[pid] += time.Duration(n) * tick
		}
		t.children[parent] = append(t.children[parent], pid)
	}
	return t
}

func (t times) tree(pid int) time.Duration {
	sum := t.used[pid]
	for _, c := range t.children[pid] {
		sum += t.tree(c)
	}
	return sum
}
