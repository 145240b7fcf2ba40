// Package guest is QuickJS as a WebAssembly guest: it compiles the module, boots it once to take a snapshot of its
// memory, and clones that snapshot, copy on write, into guests that a host calls into. A guest reaches nothing but its [Host].
//
// It knows no bodies, limits or asks. What a guest says may be anything: a faulty or hostile guest can trap, run for
// as long as its host lets it, and hand over odd values, which end in [Guest.Err] and never in a panic.
package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/tetratelabs/wazero"
)

const (
	// MaxPages is the most memory that a guest can have: 64 MiB, in pages of 64 KiB.
	MaxPages = 1024
	// MaxMemory is MaxPages in bytes.
	MaxMemory = MaxPages * pageSize
	// StackSize is how deep the guest's stack may get, in bytes, before JavaScript throws a RangeError.
	StackSize = 256 << 10

	pageSize = 64 << 10
	// The rest of the memory is QuickJS's own: its stack and its data.
	heapLimit = (MaxPages - 32) * pageSize
)

// A Host is what a guest can reach. Its methods are called while the guest runs, on the goroutine that called into it.
type Host interface {
	// Send takes what the guest sends. Whether it is true says that the guest must stop.
	Send(op string, id float64, payload string) (stop bool)
	// Visit is called every so often, also in the midst of long loops. Whether it is true says that the guest must stop.
	Visit() (stop bool)
	// Now is what the guest's clock shows, in milliseconds since 1970.
	Now() int64
}

var errNotHere = errors.New("the sandbox needs Linux on amd64 or arm64")

// A Runtime holds a compiled module. It can be used by several goroutines.
type Runtime struct {
	rt    wazero.Runtime
	cache wazero.CompilationCache // nil without one
	mod   wazero.CompiledModule

	pagemap *os.File
}

// A Mode says how a module is executed.
type Mode int

// The modes.
const (
	Compiled    Mode = iota // to machine code
	Interpreted             // some ten times slower; for tests that compare
)

// NewRuntime compiles wasm, a module that package rewrite made. cache is a directory that holds compiled code, which
// is trusted as much as the program itself; "" compiles anew. pagemap is the process's own /proc/self/pagemap, by which guests are reset in a
// fraction of the time that it takes without it; it must be open until the runtime is closed. nil is none.
func NewRuntime(ctx context.Context, wasm []byte, cache string, pagemap *os.File, mode Mode) (*Runtime, error) {
	cfg := wazero.NewRuntimeConfigInterpreter()
	if mode == Compiled {
		if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
			return nil, errNotHere
		}
		cfg = wazero.NewRuntimeConfigCompiler()
	}
	cfg = cfg.WithMemoryLimitPages(MaxPages).WithDebugInfoEnabled(false)
	r := &Runtime{pagemap: pagemap}
	if cache != "" {
		c, err := wazero.NewCompilationCacheWithDir(cache)
		if err != nil {
			return nil, fmt.Errorf("open the cache of compiled code %s: %w", cache, err)
		}
		r.cache, cfg = c, cfg.WithCompilationCache(c)
	}
	r.rt = wazero.NewRuntimeWithConfig(ctx, cfg)
	if err := imports(ctx, r.rt); err != nil {
		_ = r.Close(ctx)
		return nil, fmt.Errorf("offer the guest its imports: %w", err)
	}
	var err error
	if r.mod, err = r.rt.CompileModule(ctx, wasm); err != nil {
		_ = r.Close(ctx)
		return nil, fmt.Errorf("compile the module: %w", err)
	}
	return r, nil
}

// Close closes the runtime. All its guests must be closed before.
func (r *Runtime) Close(ctx context.Context) error {
	err := r.rt.Close(ctx)
	if r.cache != nil {
		if cacheErr := r.cache.Close(ctx); err == nil {
			err = cacheErr
		}
	}
	return err
}
