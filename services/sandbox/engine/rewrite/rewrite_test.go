package rewrite

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

func options() Options {
	return Options{MinPages: 18, MaxPages: 1024, Fuel: 10_000, Bulk: 64 << 10, Hook: "host_interrupt"}
}

func quickjs(t *testing.T) []byte {
	t.Helper()
	src, err := os.ReadFile("../npm/node_modules/quickjs-wasi/quickjs.wasm")
	if err != nil {
		t.Fatalf("%v: run `make engine`", err)
	}
	return src
}

func TestQuickJS(t *testing.T) {
	src := quickjs(t)
	before := bytes.Clone(src)
	for _, drop := range []bool{false, true} {
		o := options()
		o.DropData = drop
		out, counts, err := Module(src, o)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Counts{Loops: 1278, Bulk: 143, Grows: 2}, counts); diff != "" {
			t.Errorf("counts with DropData %v (-want +got):\n%s", drop, diff)
		}
		rt := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
		mod, err := rt.CompileModule(t.Context(), out) // which validates it
		if err != nil {
			t.Fatalf("with DropData %v: %v", drop, err)
		}
		least := mod.ExportedMemories()["memory"].Min()
		if most, ok := mod.ExportedMemories()["memory"].Max(); least != o.MinPages || !ok || most != o.MaxPages {
			t.Errorf("the memory has from %d to %d pages, want %d to %d", least, most, o.MinPages, o.MaxPages)
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(src, before) {
		t.Error("Module changed its input")
	}
	if again, _, err := Module(mustModule(t, src, options()), options()); err == nil {
		t.Errorf("a module that is rewritten already was rewritten again, to %d bytes: its fuel is a second global that changes", len(again))
	}
}

func mustModule(t *testing.T, src []byte, o Options) []byte {
	t.Helper()
	out, _, err := Module(src, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// parts are the sections of a small module, by number.
type parts map[int][]byte

func (p parts) with(id int, body ...byte) parts {
	q := parts{}
	for k, v := range p {
		q[k] = v
	}
	q[id] = body
	return q
}

func (p parts) module() []byte {
	out := bytes.Clone(magic)
	for _, id := range []int{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart, secElement, secDataCount, secCode, secData} {
		if body, ok := p[id]; ok {
			out = appendSized(append(out, byte(id)), body)
		}
	}
	return out
}

func text(s string) []byte { return appendSized(nil, []byte(s)) }

// small gives a module with the functions loop(n), copy(to, from, n) and fill(to, byte, n).
func small() parts {
	hook := slices.Concat(text("env"), text("host_interrupt"))
	code := func(b ...byte) []byte { return appendSized(nil, append([]byte{0}, append(b, opEnd)...)) }
	return parts{
		secType:     {3, 0x60, 0, 1, typeI32, 0x60, 1, typeI32, 0, 0x60, 3, typeI32, typeI32, typeI32, 0},
		secImport:   slices.Concat([]byte{1}, hook, []byte{0, 0}),
		secFunction: {3, 1, 2, 2},
		secTable:    {1, 0x70, 0, 1},
		secMemory:   {1, 0, 1},
		secGlobal:   {1, typeI32, 1, opI32Const, 0, opEnd},
		secExport: slices.Concat([]byte{5}, text("memory"), []byte{2, 0}, text("__stack_pointer"), []byte{3, 0},
			text("loop"), []byte{0, 1}, text("copy"), []byte{0, 2}, text("fill"), []byte{0, 3}),
		secCode: slices.Concat([]byte{3},
			code(opLoop, noResult, opLocalGet, 0, opI32Const, 1, opI32Sub, 0x22, 0, opBrIf, 0, opEnd),
			code(opLocalGet, 0, opLocalGet, 1, opLocalGet, 2, opBulk, bulkCopy, 0, 0),
			code(opLocalGet, 0, opLocalGet, 1, opLocalGet, 2, opBulk, bulkFill, 0)),
		secData: slices.Concat([]byte{1, 0, opI32Const, 0, opEnd}, text("data")),
	}
}

func TestRefuses(t *testing.T) {
	imported := func(module, name string, description ...byte) []byte {
		return slices.Concat([]byte{2}, text("env"), text("host_interrupt"), []byte{0, 0}, text(module), text(name), description)
	}
	withCode := func(b ...byte) parts {
		return small().with(secFunction, 1, 1).with(secExport, slices.Concat([]byte{2}, text("memory"), []byte{2, 0}, text("__stack_pointer"), []byte{3, 0})...).
			with(secCode, append([]byte{1}, appendSized(nil, append([]byte{0}, append(b, opEnd)...))...)...)
	}
	for name, src := range map[string][]byte{
		"nothing":                       nil,
		"four thousand million types":   small().with(secType, 0xff, 0xff, 0xff, 0xff, 0x0f).module(),
		"version 2":                     append([]byte("\x00asm\x02\x00\x00\x00"), small().module()[8:]...),
		"a component":                   []byte("\x00asm\x0d\x00\x01\x00"),
		"unknown import":                small().with(secImport, imported("env", "host_exec", 0, 0)...).module(),
		"import of another module":      small().with(secImport, imported("host", "host_call", 0, 0)...).module(),
		"import of another type":        small().with(secImport, imported("wasi_snapshot_preview1", "fd_close", 0, 0)...).module(),
		"import of an unknown type":     small().with(secImport, imported("wasi_snapshot_preview1", "fd_close", 0, 9)...).module(),
		"imported memory":               small().with(secImport, imported("env", "memory", 2, 0, 1)...).module(),
		"imported global":               small().with(secImport, imported("env", "g", 3, typeI32, 1)...).module(),
		"no hook":                       small().with(secImport, 0).module(),
		"two globals that change":       small().with(secGlobal, 2, typeI32, 1, opI32Const, 0, opEnd, typeI32, 1, opI32Const, 0, opEnd).module(),
		"no global that changes":        small().with(secGlobal, 1, typeI32, 0, opI32Const, 0, opEnd).module(),
		"a global of another type":      small().with(secGlobal, 1, typeI64, 1, 0x42, 0, opEnd).module(),
		"two tables":                    small().with(secTable, 2, 0x70, 0, 1, 0x70, 0, 1).module(),
		"a table of references":         small().with(secTable, 1, 0x6f, 0, 1).module(),
		"no table":                      small().with(secTable, 0).module(),
		"shared memory":                 small().with(secMemory, 1, 3, 1, 2).module(),
		"memory of 64 bits":             small().with(secMemory, 1, 4, 1).module(),
		"two memories":                  small().with(secMemory, 2, 0, 1, 0, 1).module(),
		"memory that is too large":      small().with(secMemory, 1, 0, 19).module(),
		"start function":                small().with(secStart, 1).module(),
		"passive data":                  small().with(secData, append([]byte{1, 1}, text("data")...)...).module(),
		"data of another memory":        small().with(secData, append([]byte{1, 2, 1, opI32Const, 0, opEnd}, text("data")...)...).module(),
		"a section twice":               append(small().module(), 5, 3, 1, 0, 1),
		"an unknown section":            append(small().module(), 13, 1, 0),
		"memory is not exported":        small().with(secExport, append([]byte{1}, append(text("__stack_pointer"), 3, 0)...)...).module(),
		"stack pointer is not exported": small().with(secExport, append([]byte{1}, append(text("memory"), 2, 0)...)...).module(),
		"table.set":                     withCode(opI32Const, 0, 0xd0, 0x70, 0x26, 0).module(),
		"table.grow":                    withCode(0xd0, 0x70, opI32Const, 1, opBulk, 15, 0, opDrop).module(),
		"table.fill":                    withCode(opI32Const, 0, 0xd0, 0x70, opI32Const, 0, opBulk, 17, 0).module(),
		"memory.init":                   withCode(opI32Const, 0, opI32Const, 0, opI32Const, 0, opBulk, 8, 0, 0).module(),
		"data.drop":                     withCode(opBulk, 9, 0).module(),
		"vector instruction":            withCode(0xfd, 0x0f, opDrop).module(),
		"atomic instruction":            withCode(0xfe, 3, 0).module(),
		"tail call":                     withCode(opI32Const, 0, 0x12, 1).module(),
		"a number of 70 bits":           withCode(0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0).module(),
	} {
		if out, _, err := Module(src, options()); err == nil {
			t.Errorf("%s: Module gave %d bytes, want an error", name, len(out))
		}
	}
}

func TestRefusesOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no fuel":           func(o *Options) { o.Fuel = 0 },
		"too much fuel":     func(o *Options) { o.Fuel = 1 << 31 },
		"no bulk":           func(o *Options) { o.Bulk = 0 },
		"minimum > maximum": func(o *Options) { o.MinPages = 1025 },
		"too many pages":    func(o *Options) { o.MaxPages = 1<<16 + 1 },
		"another hook":      func(o *Options) { o.Hook = "host_call" },
	} {
		o := options()
		change(&o)
		if _, _, err := Module(small().module(), o); err == nil {
			t.Errorf("%s: Module gave no error", name)
		}
	}
}

func TestTruncated(t *testing.T) {
	src := small().module()
	whole := mustModule(t, src, options())
	for n := range src {
		if out, _, err := Module(src[:n], options()); err == nil && bytes.Equal(out, whole) {
			t.Errorf("the first %d of %d bytes count as the whole module", n, len(src))
		}
	}
}

// runSmall rewrites and instantiates the small module. visit is called by the hook.
func runSmall(t *testing.T, o Options, visit func()) api.Module {
	t.Helper()
	rt := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, err := rt.NewHostModuleBuilder("env").NewFunctionBuilder().WithFunc(func() uint32 { visit(); return 1 }).Export("host_interrupt").Instantiate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mod, err := rt.Instantiate(t.Context(), mustModule(t, small().module(), o))
	if err != nil {
		t.Fatal(err)
	}
	return mod
}

func call(t *testing.T, m api.Module, name string, args ...uint64) {
	t.Helper()
	if _, err := m.ExportedFunction(name).Call(t.Context(), args...); err != nil {
		t.Fatalf("%s%v: %v", name, args, err)
	}
}

func TestFuel(t *testing.T) {
	visits := 0
	o := options()
	o.Fuel = 100
	m := runSmall(t, o, func() { visits++ })
	call(t, m, "loop", 99)
	if visits != 0 {
		t.Errorf("%d visits after 99 iterations, want none", visits)
	}
	call(t, m, "loop", 1)
	call(t, m, "loop", 1000)
	if visits != 11 {
		t.Errorf("%d visits after 1,100 iterations, want 11", visits)
	}
}

func TestBulk(t *testing.T) {
	visits := 0
	o := options()
	o.Bulk = 16
	m := runSmall(t, o, func() { visits++ })
	fresh := make([]byte, 200)
	for i := range fresh {
		fresh[i] = byte(i)
	}
	for _, n := range []int{0, 1, 15, 16, 17, 32, 63, 100} {
		for _, at := range [][2]int{{0, 100}, {100, 0}, {10, 11}, {11, 10}, {10, 26}, {26, 10}, {10, 40}, {40, 10}, {5, 5}} {
			to, from := at[0], at[1]
			m.Memory().Write(0, fresh)
			want := bytes.Clone(fresh)
			copy(want[to:], want[from:from+n])
			visits = 0
			call(t, m, "copy", uint64(to), uint64(from), uint64(n))
			if got, _ := m.Memory().Read(0, 200); !bytes.Equal(got, want) {
				t.Errorf("copy %d bytes from %d to %d gave\n%v, want\n%v", n, from, to, got, want)
			}
			if visits != n/16 {
				t.Errorf("copy %d bytes: %d visits, want %d", n, visits, n/16)
			}
		}
		m.Memory().Write(0, fresh)
		want := bytes.Clone(fresh)
		copy(want[7:], bytes.Repeat([]byte{0xaa}, n))
		visits = 0
		call(t, m, "fill", 7, 0xaa, uint64(n))
		if got, _ := m.Memory().Read(0, 200); !bytes.Equal(got, want) {
			t.Errorf("fill %d bytes gave\n%v, want\n%v", n, got, want)
		}
		if visits != n/16 {
			t.Errorf("fill %d bytes: %d visits, want %d", n, visits, n/16)
		}
	}
}

func TestDropData(t *testing.T) {
	for _, drop := range []bool{false, true} {
		o := options()
		o.DropData = drop
		m := runSmall(t, o, func() {})
		want := "data"
		if drop {
			want = "\x00\x00\x00\x00"
		}
		if got, _ := m.Memory().Read(0, 4); string(got) != want {
			t.Errorf("with DropData %v the memory starts with %q, want %q", drop, got, want)
		}
	}
}

func FuzzModule(f *testing.F) {
	f.Add(small().module())
	f.Add(magic)
	f.Fuzz(func(t *testing.T, src []byte) {
		out, _, err := Module(src, options())
		if err == nil && !bytes.HasPrefix(out, magic) {
			t.Errorf("Module gave no module: %x", out)
		}
	})
}
