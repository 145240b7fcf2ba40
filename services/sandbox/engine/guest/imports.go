package guest

import (
	"context"
	"math"
	"slices"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/rewrite"
)

type guestKey struct{}

// stop unwinds a guest. It is of this type because wazero neither wraps nor describes it.
func stop() *sys.ExitError { return sys.NewExitError(1) }

// Numbers of errors that wasi knows.
const (
	wasiBadFile = 8
	wasiNoSys   = 52
)

// imports offers the module all that it imports, and nothing that reaches anything.
func imports(ctx context.Context, rt wazero.Runtime) error {
	builders := map[string]wazero.HostModuleBuilder{}
	for _, imp := range rewrite.Imports() {
		b, ok := builders[imp.Module]
		if !ok {
			b = rt.NewHostModuleBuilder(imp.Module)
			builders[imp.Module] = b
		}
		b.NewFunctionBuilder().WithGoFunction(api.GoFunc(handler(imp.Name)), valueTypes(imp.Params), valueTypes(imp.Results)).Export(imp.Name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

func valueTypes(letters string) []api.ValueType {
	types := make([]api.ValueType, len(letters))
	for i, c := range letters {
		types[i] = api.ValueTypeI32
		if c == 'I' {
			types[i] = api.ValueTypeI64
		}
	}
	return types
}

// handler gives what answers an import. Parameters and result are on the stack.
func handler(name string) func(context.Context, []uint64) {
	switch name {
	case "host_call":
		return onGuest((*Guest).hostCall)
	case "host_interrupt":
		return onInterrupt
	case "host_promise_rejection":
		return onGuest((*Guest).hostRejection)
	case "clock_time_get":
		return onGuest((*Guest).hostClock)
	case "host_get_timezone_offset", "host_module_normalize", "host_module_load": // UTC; there are no modules
		return answer(0)
	case "fd_write", "fd_fdstat_get":
		return answer(wasiBadFile)
	default:
		return answer(wasiNoSys)
	}
}

func answer(result uint64) func(context.Context, []uint64) {
	return func(_ context.Context, stack []uint64) { stack[0] = result }
}

func onGuest(f func(*Guest, []uint64)) func(context.Context, []uint64) {
	return func(ctx context.Context, stack []uint64) {
		g, ok := ctx.Value(guestKey{}).(*Guest)
		if !ok || g.inHost { // a guest that calls its host from within its host is broken
			panic(stop())
		}
		g.inHost = true
		f(g, stack)
		g.inHost = false
	}
}

// hostCall hands over what the guest sends: op, id, payload. Everything else is nothing it should be asking for.
func (g *Guest) hostCall(stack []uint64) {
	argc, argv := uint32(stack[3]), uint32(stack[4])
	if argc < 3 {
		panic(stop())
	}
	op := g.inner.text(g.word(argv))
	id := math.Float64frombits(g.inner.raw(fnGetFloat, uint64(g.word(argv+4))))
	payload := g.inner.text(g.word(argv + 8))
	if g.err != nil {
		panic(stop())
	}
	if g.host.Send(op, id, payload) {
		g.fail(ErrStopped)
		panic(stop())
	}
	stack[0] = g.inner.call(fnUndefined)
}

// onInterrupt lets the host stop the guest. It may come in the midst of another call of the host, when that calls the guest.
func onInterrupt(ctx context.Context, stack []uint64) {
	g, ok := ctx.Value(guestKey{}).(*Guest)
	if !ok {
		panic(stop())
	}
	if g.host.Visit() {
		g.fail(ErrStopped)
		panic(stop())
	}
	stack[0] = 0
}

// maxRejections is how many unhandled rejections a guest keeps in mind.
const maxRejections = 100

// A rejection is of a promise that nobody handles. Keeping the promise keeps its name from being given to another.
type rejection struct {
	promise, reason uint64
	name            uint64
}

// hostRejection notes that a promise was rejected that nobody has handled yet, or that somebody handles it now.
func (g *Guest) hostRejection(stack []uint64) {
	promise, reason, handled := stack[0], stack[1], uint32(stack[2]) != 0
	name := g.inner.call(fnValuePtr, promise)
	if !handled && len(g.rejections) < maxRejections {
		g.rejections = append(g.rejections, rejection{promise, reason, name})
		return
	}
	g.inner.free(promise, reason)
	i := slices.IndexFunc(g.rejections, func(r rejection) bool { return handled && r.name == name })
	if i >= 0 {
		g.inner.free(g.rejections[i].promise, g.rejections[i].reason)
		g.rejections = slices.Delete(g.rejections, i, i+1)
	}
}

func (c *caller) free(values ...uint64) {
	for _, v := range values {
		c.call(fnFreeValue, v)
	}
}

func (g *Guest) hostClock(stack []uint64) {
	if !g.mem.WriteUint64Le(uint32(stack[2]), uint64(g.host.Now())*1_000_000) {
		panic(stop())
	}
	stack[0] = 0
}
