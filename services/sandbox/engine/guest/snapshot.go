package guest

import (
	"errors"
	"fmt"
)

// A Snapshot is the state of a booted guest, apart from its memory.
type Snapshot struct {
	Pages     uint32           `json:"pages"`     // of its memory
	Stack     uint32           `json:"stack"`     // what the stack pointer is
	Scratch   uint32           `json:"scratch"`   // address of 8 bytes for the host's use
	Functions map[string]Value `json:"functions"` // what the prelude left on the global object
}

// headroom is memory that a snapshot has to spare, so that a guest seldom grows. What is not used costs nothing.
const headroom = 2 << 20

// firstGC is how large a guest's heap gets, in bytes, before it looks for cycles: that touches all of the prelude, whose
// pages it would have to copy, and few bodies leave cycles.
const firstGC = 6 << 20

// Boot boots a guest, whose module must have its data segments, runs prelude in it, and gives its snapshot and its memory.
// The prelude finds the function __send on the global object, and leaves there the functions named in hidden, which Boot deletes.
func (r *Runtime) Boot(prelude string, hidden ...string) (*Snapshot, []byte, error) {
	g, err := r.instantiate(nil)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = g.Close() }()
	host := &bootHost{}
	g.SetHost(host)
	if err := g.boot(); err != nil {
		return nil, nil, fmt.Errorf("boot: %w", err)
	}
	if _, err := g.script(prelude, "prelude.js"); err != nil {
		return nil, nil, fmt.Errorf("run the prelude: %w", err)
	}
	s := &Snapshot{Scratch: g.scratch, Functions: map[string]Value{}}
	for _, name := range hidden {
		v, err := g.script("globalThis."+name, "take.js")
		if err != nil {
			return nil, nil, fmt.Errorf("take %s: %w", name, err)
		}
		if kind, err := g.script("typeof globalThis."+name+" + delete globalThis."+name, "take.js"); err != nil || g.Text(kind) != "functiontrue" {
			return nil, nil, fmt.Errorf("take %s: the prelude left no function that can be deleted (%w)", name, err)
		}
		s.Functions[name] = v
	}
	if g.Jobs(func() bool { return false }) {
		return nil, nil, fmt.Errorf("run the prelude's jobs: %s", g.Text(g.Exception()))
	}
	if host.sent != "" {
		return nil, nil, fmt.Errorf("the prelude sent %q while it was loaded", host.sent)
	}
	g.export("qjs_run_gc")
	g.export("qjs_set_gc_threshold", firstGC)
	g.settle()
	if g.err != nil {
		return nil, nil, g.err
	}
	s.Pages, s.Stack = g.mem.Size()/pageSize, uint32(g.stack.Get())
	memory, ok := g.mem.Read(0, g.mem.Size())
	if !ok {
		return nil, nil, errors.New("the memory cannot be read")
	}
	memory = append([]byte(nil), memory...)
	clear(memory[:s.Stack]) // what the stack held is of no use any more
	return s, memory, nil
}

// boot starts QuickJS in a guest.
func (g *Guest) boot() error {
	g.export("_initialize")
	if status := g.export("qjs_init"); status != 0 && g.err == nil {
		return fmt.Errorf("qjs_init gave %d", int32(status))
	}
	g.export("qjs_set_memory_limit", heapLimit)
	g.export("qjs_set_max_stack_size", StackSize)
	g.export("qjs_set_promise_rejection_handler", 1)
	g.scratch = uint32(g.outer.call(fnMalloc, 8))
	name := g.outer.put("__send")
	send := g.export("qjs_new_host_function", name, 6, 0)
	global := g.export("qjs_get_global")
	g.export("qjs_set_prop_string", global, name, send)
	return g.err
}

// settle gives the heap room to spare and fills the holes below it, for ever: so a clone allocates in new pages, one after
// the other, and not in holes that are all over the memory, each in a page that it would have to copy.
func (g *Guest) settle() {
	top := g.outer.call(fnMalloc, headroom)
	g.outer.call(fnFree, top)
	for size := uint64(headroom / 2); size > 0 && g.err == nil; size -= min(size, max(8, size/64&^7)) {
		for p := g.outer.call(fnMalloc, size); p != 0; p = g.outer.call(fnMalloc, size) {
			if p >= top {
				g.outer.call(fnFree, p)
				break
			}
			g.mem.Write(uint32(p), make([]byte, size))
		}
	}
}

// export calls an exported function that is only needed for booting.
func (g *Guest) export(name string, args ...uint64) uint64 {
	if g.err != nil {
		return 0
	}
	f := g.mod.ExportedFunction(name)
	if f == nil {
		g.fail(fmt.Errorf("the module has no function %s", name))
		return 0
	}
	results, err := f.Call(g.ctx, args...)
	if err != nil {
		g.fail(fmt.Errorf("%s: %w", name, err))
		return 0
	}
	if len(results) == 0 {
		return 0
	}
	return uint64(uint32(results[0]))
}

// script runs a trusted script.
func (g *Guest) script(source, file string) (Value, error) {
	v, threw := g.Eval(source, file)
	if threw {
		e := g.Exception()
		stack, _ := g.Call(g.mustFunction("(e) => String(e) + '\\n' + (e && e.stack)"), e)
		return 0, errors.New(g.Text(stack))
	}
	return v, g.err
}

func (g *Guest) mustFunction(source string) Value {
	v, _ := g.Eval(source, "host.js")
	return v
}

// bootHost is the host of a guest that is being booted: nothing may happen.
type bootHost struct{ sent string }

func (h *bootHost) Visit() bool { return false }
func (h *bootHost) Now() int64  { return 0 }
func (h *bootHost) Send(op string, _ float64, payload string) bool {
	h.sent = op + " " + payload
	return false
}
