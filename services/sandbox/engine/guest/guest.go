package guest

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Why a guest cannot go on.
var (
	ErrStopped = errors.New("the host stopped the guest")
	ErrTrapped = errors.New("the guest trapped")
	ErrMemory  = errors.New("the guest has no memory left")
	ErrStack   = errors.New("the guest has no stack left")
)

// A Value is a JavaScript value, as the address of a cell in the guest's memory. 0 is none.
type Value uint32

// The functions of the module that are called.
const (
	fnMalloc = iota
	fnFree
	fnEval
	fnCall
	fnNewString
	fnNewNumber
	fnGetText
	fnFreeText
	fnGetFloat
	fnFreeValue
	fnIsException
	fnException
	fnRunJob
	fnGetProp
	fnTrue
	fnFalse
	fnUndefined
	fnValuePtr
	fnCount
)

func functionNames() [fnCount]string {
	return [fnCount]string{
		fnMalloc: "wasm_malloc", fnFree: "wasm_free", fnEval: "qjs_eval", fnCall: "qjs_call", fnNewString: "qjs_new_string",
		fnNewNumber: "qjs_new_number", fnGetText: "qjs_get_string_len", fnFreeText: "qjs_free_cstring", fnGetFloat: "qjs_get_float64",
		fnFreeValue: "qjs_free_value", fnIsException: "qjs_is_exception", fnException: "qjs_get_exception",
		fnRunJob: "qjs_execute_pending_job", fnGetProp: "qjs_get_prop_string", fnTrue: "qjs_get_true", fnFalse: "qjs_get_false",
		fnUndefined: "qjs_get_undefined", fnValuePtr: "qjs_get_value_ptr",
	}
}

// A Guest is one instance of QuickJS. Only one goroutine at a time may use it, and none from within its [Host].
// After a call for which [Guest.Err] is not nil nothing works any more but Err and Close.
type Guest struct {
	mod    api.Module
	mem    api.Memory
	lm     *mapping // nil where the memory is not mapped
	ctx    context.Context
	host   Host
	err    error
	inHost bool
	outer  caller // called by the host
	inner  caller // called by the host's answers to a call of the guest
	stack  api.Global
	top    uint32 // where the stack begins; it grows down to 0

	image      *Image
	scratch    uint32
	rejections []rejection
}

// A caller calls functions of a guest. Each function's calls must not nest, hence two callers for a guest.
type caller struct {
	g     *Guest
	fns   [fnCount]api.Function
	stack [8]uint64
}

// instantiate makes a guest. memory is nil for a memory of wazero's own.
func (r *Runtime) instantiate(memory *mapping) (*Guest, error) {
	g := &Guest{lm: memory}
	g.ctx = context.WithValue(context.Background(), guestKey{}, g)
	ctx := g.ctx
	if memory != nil {
		ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return memory }))
	}
	var err error
	if g.mod, err = r.rt.InstantiateModule(ctx, r.mod, wazero.NewModuleConfig().WithName("").WithStartFunctions()); err != nil {
		return nil, fmt.Errorf("instantiate the module: %w", err)
	}
	g.mem = g.mod.Memory()
	g.outer.g, g.inner.g = g, g
	g.stack = g.mod.ExportedGlobal("__stack_pointer")
	g.top = uint32(g.stack.Get())
	return g, nil
}

// Err says why the guest cannot go on, nil while it can.
func (g *Guest) Err() error { return g.err }

func (g *Guest) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// SetHost gives the guest its host.
func (g *Guest) SetHost(h Host) { g.host = h }

// Close frees the guest. It must be called once.
func (g *Guest) Close() error { return g.mod.Close(context.Background()) }

// call calls a function whose result has 32 bits: of what wazero gives for it the upper half means nothing.
func (c *caller) call(fn int, args ...uint64) uint64 { return uint64(uint32(c.raw(fn, args...))) }

// raw calls a function. Once the guest has failed it does nothing and gives 0.
func (c *caller) raw(fn int, args ...uint64) uint64 {
	g := c.g
	if g.err != nil {
		return 0
	}
	f := c.fns[fn]
	if f == nil {
		f = g.mod.ExportedFunction(functionNames()[fn])
		if f == nil {
			g.fail(fmt.Errorf("%w: it has no function %s", ErrTrapped, functionNames()[fn]))
			return 0
		}
		c.fns[fn] = f
	}
	n := max(1, copy(c.stack[:], args))
	if err := f.CallWithStack(g.ctx, c.stack[:n]); err != nil {
		g.inHost = false
		why := ErrTrapped
		if g.overflowed() {
			why = ErrStack
		}
		g.fail(fmt.Errorf("%w: %w", why, err))
		return 0
	}
	return c.stack[0]
}

// lastFrame is less stack than any function needs that can be the last one: QuickJS's own limit stops all others before.
const lastFrame = 64 << 10

// overflowed reports whether a guest that trapped did so at the end of its stack. Functions of QuickJS that call each other without JavaScript
// between them get there, past the limit of the JavaScript stack.
func (g *Guest) overflowed() bool {
	at := uint32(g.stack.Get())
	return at < lastFrame || at > g.top
}

// word reads a number of 32 bits.
func (g *Guest) word(at uint32) uint32 {
	v, ok := g.mem.ReadUint32Le(at)
	if !ok {
		g.fail(fmt.Errorf("%w: it points at %d, beyond its memory", ErrTrapped, at))
	}
	return v
}

// put copies text into the guest, with a NUL behind it, and gives its address.
func (c *caller) put(text string) uint64 {
	g := c.g
	p := c.call(fnMalloc, uint64(len(text))+1)
	if g.err != nil {
		return 0
	}
	at := uint32(p)
	if at == 0 || !g.mem.WriteString(at, text) || !g.mem.WriteByte(at+uint32(len(text)), 0) {
		g.fail(ErrMemory)
		return 0
	}
	return uint64(at)
}

// text reads a value as text, which calls what the guest has for that.
func (c *caller) text(v uint32) string {
	g := c.g
	p := uint32(c.call(fnGetText, uint64(v), uint64(g.scratch)))
	if g.err != nil || p == 0 {
		return ""
	}
	b, ok := g.mem.Read(p, g.word(g.scratch))
	if !ok {
		g.fail(fmt.Errorf("%w: a text reaches beyond its memory", ErrTrapped))
		return ""
	}
	s := string(b)
	c.call(fnFreeText, uint64(p))
	return s
}

// Text gives v as JavaScript's String(v) does, "" where that throws.
func (g *Guest) Text(v Value) string { return g.outer.text(uint32(v)) }

// String makes a string.
func (g *Guest) String(s string) Value {
	p := g.outer.put(s)
	v := Value(g.outer.call(fnNewString, p, uint64(len(s))))
	g.outer.call(fnFree, p)
	return v
}

// Number makes a number.
func (g *Guest) Number(f float64) Value {
	return Value(g.outer.call(fnNewNumber, math.Float64bits(f)))
}

// Bool makes a boolean.
func (g *Guest) Bool(b bool) Value {
	if b {
		return Value(g.outer.call(fnTrue))
	}
	return Value(g.outer.call(fnFalse))
}

// Free gives up values.
func (g *Guest) Free(values ...Value) {
	for _, v := range values {
		if v != 0 {
			g.outer.call(fnFreeValue, uint64(v))
		}
	}
}

// Eval runs a script and gives its value, or that it threw, which [Guest.Exception] tells.
func (g *Guest) Eval(source, file string) (v Value, threw bool) {
	s, f := g.outer.put(source), g.outer.put(file)
	r := g.outer.call(fnEval, s, uint64(len(source)), f, 0)
	g.outer.call(fnFree, s)
	g.outer.call(fnFree, f)
	return g.result(r)
}

// Call calls the function fn and frees the arguments.
func (g *Guest) Call(fn Value, args ...Value) (v Value, threw bool) {
	argv := uint32(g.outer.call(fnMalloc, uint64(4*len(args))+1))
	if g.err == nil && argv == 0 {
		g.fail(ErrMemory)
	}
	for i, a := range args {
		if g.err == nil && (a == 0 || !g.mem.WriteUint32Le(argv+uint32(4*i), uint32(a))) {
			g.fail(ErrMemory)
		}
	}
	this := g.outer.call(fnUndefined)
	r := g.outer.call(fnCall, uint64(fn), this, uint64(len(args)), uint64(argv))
	g.outer.call(fnFreeValue, this)
	g.outer.call(fnFree, uint64(argv))
	g.Free(args...)
	return g.result(r)
}

func (g *Guest) result(r uint64) (Value, bool) {
	if g.err != nil {
		return 0, false
	}
	if r == 0 {
		g.fail(ErrMemory)
		return 0, false
	}
	threw := g.outer.call(fnIsException, r) != 0
	return Value(r), threw && g.err == nil
}

// Exception gives what was thrown last.
func (g *Guest) Exception() Value {
	return Value(g.outer.call(fnException))
}

// Unhandled gives the reasons of the first rejected promises that nobody handles.
func (g *Guest) Unhandled() []Value {
	reasons := make([]Value, len(g.rejections))
	for i, r := range g.rejections {
		reasons[i] = Value(r.reason)
	}
	return reasons
}

// Jobs runs what waits to be run, such as the continuations of promises, until done says that it is enough or nothing is left.
// threw says that a job threw.
func (g *Guest) Jobs(done func() bool) (threw bool) {
	for g.err == nil && !done() {
		if g.host.Visit() {
			g.fail(ErrStopped)
			return false
		}
		switch ran := int32(g.outer.call(fnRunJob)); {
		case ran < 0:
			return g.err == nil
		case ran == 0:
			return false
		}
	}
	return false
}
