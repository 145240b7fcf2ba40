package mcp

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// stdinGrace is how long a server has to end by itself once its standard input is closed.
	stdinGrace = 500 * time.Millisecond
	// drainTime is how long what an ended server left in its pipes is still read.
	drainTime = time.Second
	pollGroup = 10 * time.Millisecond
)

// A process is a server that runs as a child in a process group of its own.
// The group is ended as a whole: when end is called, and also when the server itself is gone.
type process struct {
	stdin  *os.File // ours: written by the connection, closed by supervise
	stdout *os.File // ours: read by the connection, closed by supervise
	stderr *tail

	grace   time.Duration
	cmd     *exec.Cmd
	once    sync.Once
	ending  chan struct{} // closed by end
	waited  chan struct{} // closed once the server itself is gone
	drained chan struct{} // closed by whoever has read stdout to its end
	gone    chan struct{} // closed once its whole group is gone
	drain   sync.Once
}

// start starts the server. The caller must end it.
func start(cfg Config) (*process, error) {
	p := &process{
		stderr: newTail(), grace: cfg.Grace, ending: make(chan struct{}), waited: make(chan struct{}),
		drained: make(chan struct{}), gone: make(chan struct{}),
	}
	if p.grace <= 0 {
		p.grace = defaultGrace
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("make pipes: %w", err)
	}
	cmd := exec.Command(cfg.Command, cfg.Args...)
	cmd.Dir, cmd.Env = cfg.Dir, environment(cfg)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.in.r, pipes.out.w, pipes.err.w
	cmd.SysProcAttr = groupAttributes()
	p.cmd, p.stdin, p.stdout = cmd, pipes.in.w, pipes.out.r

	started := make(chan error)
	go p.live(started)
	err = <-started
	pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return nil, fmt.Errorf("start the server: %w", err)
	}
	errEnd := make(chan struct{})
	go func() {
		defer close(errEnd)
		p.stderr.fill(pipes.err.r)
	}()
	go p.supervise(pipes.err.r, errEnd)
	return p, nil
}

// live starts the server and waits for its end, on one thread: where the kernel ends a
// child together with its parent, the parent is the thread that started it.
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	p.cmd.Wait()
	close(p.waited)
}

// end begins the end of the process and returns at once; gone tells when it is over. It may be called often.
func (p *process) end() { p.once.Do(func() { close(p.ending) }) }

// readAll tells that stdout was read to its end.
func (p *process) readAll() { p.drain.Do(func() { close(p.drained) }) }

func (p *process) supervise(stderr *os.File, errEnd <-chan struct{}) {
	select {
	case <-p.waited:
	case <-p.ending:
		p.stdin.Close()
		if !within(p.waited, stdinGrace) {
			p.terminate()
		}
	}
	<-p.waited
	p.endGroup()
	p.stdin.Close()
	within(p.drained, drainTime)
	within(errEnd, drainTime)
	p.stdout.Close()
	stderr.Close()
	<-errEnd
	close(p.gone)
}

// terminate asks the group to end, and makes it after the grace.
func (p *process) terminate() {
	signalGroup(p.cmd.Process, false)
	if !within(p.waited, p.grace) {
		signalGroup(p.cmd.Process, true)
	}
}

// endGroup ends what the server left behind in its group.
func (p *process) endGroup() {
	if !groupAlive(p.cmd.Process) {
		return
	}
	signalGroup(p.cmd.Process, false)
	for deadline := time.Now().Add(p.grace); groupAlive(p.cmd.Process); time.Sleep(pollGroup) {
		if time.Now().After(deadline) {
			signalGroup(p.cmd.Process, true)
			return
		}
	}
}

// how says how the server ended, "" while it runs.
func (p *process) how() string {
	select {
	case <-p.waited:
		return p.cmd.ProcessState.String()
	default:
		return ""
	}
}

// within waits for c to be closed, d at most.
func within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

type pipe struct{ r, w *os.File }

type pipes struct{ in, out, err pipe }

func openPipes() (p pipes, err error) {
	for _, each := range []*pipe{&p.in, &p.out, &p.err} {
		if each.r, each.w, err = os.Pipe(); err != nil {
			p.closeOurs()
			p.closeTheirs()
			return pipes{}, err
		}
	}
	return p, nil
}

func (p *pipes) closeOurs()   { closeAll(p.in.w, p.out.r, p.err.r) }
func (p *pipes) closeTheirs() { closeAll(p.in.r, p.out.w, p.err.w) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// harmless are the variables that a server inherits; everything else of our environment is kept from it.
func harmless() []string {
	return []string{
		"HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
		// What Windows programs do not start without.
		"APPDATA", "LOCALAPPDATA", "PATHEXT", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
	}
}

// environment returns the environment of the server: the harmless part of cfg.Environ, and cfg.Env over it.
func environment(cfg Config) []string {
	env := map[string]string{}
	for _, kv := range cfg.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && slices.Contains(harmless(), k) {
			env[k] = v
		}
	}
	maps.Copy(env, cfg.Env)
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		out = append(out, k+"="+env[k])
	}
	return out
}
