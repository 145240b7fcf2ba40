package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// Config says how an Engine works. The zero Config is usable.
type Config struct {
	// Images are the memories that isolates start from; they must outlive the Engine. nil: the Engine makes its own, which needs memory files.
	Images *Images
	// Cache is an existing or new directory of compiled code, which is trusted as much as the program itself: nobody else may
	// write there. "" compiles anew, which takes seconds. It is used by Open only.
	Cache string
	// Pagemap is the process's /proc/self/pagemap; it must outlive the Engine. nil: the Engine opens it, and does without where it cannot, which
	// makes bodies slower.
	Pagemap *os.File
	// Idle is how many isolates for bodies are kept for use at most; 16, or none if it is negative.
	Idle int
	// Budget is by how many bytes all isolates together may grow beyond their snapshots of some 4 MiB; 512 MiB, or none if it is negative.
	// A body that needs more ends like one that reached its own limit.
	Budget int64
}

// Figures of isolates.
const (
	defaultIdle   = 16
	defaultBudget = 512 << 20
	maxRuns       = 1000 // of one isolate: what the host keeps for it may grow, and does not shrink
	idleStrippers = 2    // isolates that strip types
)

// An Engine runs bodies, any number at once. It is safe for concurrent use.
type Engine struct {
	rt        *guest.Runtime
	images    *Images  // its own, nil when they belong to somebody else
	pagemap   *os.File // likewise
	bodies    pool
	strippers pool
	budget    int64
	used      atomic.Int64 // of the budget

	closing context.Context
	close   context.CancelFunc
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// Open makes an Engine of what is built in, and tries it. Without it the error is that of [Built].
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	return open(ctx, cfg, guest.Compiled)
}

func open(ctx context.Context, cfg Config, mode guest.Mode) (*Engine, error) {
	if err := Built(); err != nil {
		return nil, err
	}
	m, err := readManifest()
	if err != nil {
		return nil, err
	}
	wasm, err := readBuilt(m, "engine.wasm")
	if err != nil {
		return nil, err
	}
	e := &Engine{budget: cfg.Budget}
	if e.budget == 0 {
		e.budget = defaultBudget
	}
	e.closing, e.close = context.WithCancel(context.Background())
	if err := e.start(ctx, cfg, m, wasm, mode); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// start does what can fail of Open. What it leaves behind then is for Close.
func (e *Engine) start(ctx context.Context, cfg Config, m *guest.Manifest, wasm []byte, mode guest.Mode) (err error) {
	images := cfg.Images
	if images == nil {
		if images, err = NewImages(); err != nil {
			return err
		}
		e.images = images
	}
	idle := cfg.Idle
	if idle == 0 {
		idle = defaultIdle
	}
	pagemap := cfg.Pagemap
	if pagemap == nil {
		if e.pagemap, err = os.Open("/proc/self/pagemap"); err == nil {
			pagemap = e.pagemap
		}
	}
	if e.rt, err = guest.NewRuntime(ctx, wasm, cfg.Cache, pagemap, mode); err != nil {
		return err
	}
	if err := e.bodies.open(e, m.Body, images.Body, idle); err != nil {
		return fmt.Errorf("open the image of bodies: %w", err)
	}
	if err := e.strippers.open(e, m.TypeScript, images.TypeScript, idleStrippers); err != nil {
		return fmt.Errorf("open the image of type strippers: %w", err)
	}
	return e.try(ctx)
}

// Close ends the bodies that run, waits for them, and frees all. Called again it does nothing.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	e.close()
	e.running.Wait()
	errs := []error{e.bodies.close(), e.strippers.close()}
	if e.rt != nil {
		errs = append(errs, e.rt.Close(context.Background()))
	}
	if e.images != nil {
		errs = append(errs, e.images.Close())
	}
	if e.pagemap != nil {
		errs = append(errs, e.pagemap.Close())
	}
	return errors.Join(errs...)
}

// enter counts one more body that runs, unless the engine is closed.
func (e *Engine) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.running.Add(1)
	return true
}

// reserve takes bytes of the budget, or gives them back.
func (e *Engine) reserve(bytes int64) bool {
	if used := e.used.Add(bytes); bytes > 0 && used > e.budget {
		e.used.Add(-bytes)
		return false
	}
	return true
}
