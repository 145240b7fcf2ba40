// Package rewrite changes the WebAssembly module of QuickJS so that a host can bound what it does: the memory gets a
// hard maximum, and loops and bulk operations come past the host every so often, which may stop them there or let
// other goroutines run. It checks that the module is what the engine relies on, and refuses any other.
//
// It is no validator: whoever compiles the result validates it. And it knows the instructions that QuickJS is made of,
// not all there are.
package rewrite

import (
	"bytes"
	"errors"
	"fmt"
)

// Options say how a module is rewritten.
type Options struct {
	MinPages uint32 // of the memory at the start, in pages of 64 KiB
	MaxPages uint32 // of the memory ever
	Fuel     uint32 // loop iterations between two visits to the host
	Bulk     uint32 // bytes that memory.copy and memory.fill do at once; a visit to the host before each such piece
	Hook     string // name of the imported function to visit: no parameters, one i32 that is dropped
	DropData bool   // leaves out the data segments, for memories that are filled otherwise
}

// Counts say what was found in a module.
type Counts struct {
	Loops int // loop headers, each counts the fuel down
	Bulk  int // memory.copy and memory.fill
	Grows int // memory.grow
}

// The sections of a module.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
)

var magic = []byte("\x00asm\x01\x00\x00\x00")

// An Import is a function that a module may import.
type Import struct {
	Module, Name string
	Params       string // a letter each: i for i32, I for i64
	Results      string
}

// Imports lists what QuickJS imports: all that it can reach of its host.
func Imports() []Import {
	const env, wasi = "env", "wasi_snapshot_preview1"
	return []Import{
		{env, "host_get_timezone_offset", "ii", "i"},
		{env, "host_interrupt", "", "i"},
		{env, "host_promise_rejection", "iii", ""},
		{env, "host_module_normalize", "ii", "i"},
		{env, "host_module_load", "ii", "i"},
		{env, "host_call", "iiiii", "i"},
		{wasi, "clock_time_get", "iIi", "i"},
		{wasi, "fd_close", "i", "i"},
		{wasi, "fd_fdstat_get", "ii", "i"},
		{wasi, "fd_seek", "iIii", "i"},
		{wasi, "fd_write", "iiii", "i"},
		{wasi, "random_get", "ii", "i"},
	}
}

// Module rewrites the module src, which stays as it is. It refuses a module that imports anything but functions of
// [Imports], changes its table, has more than one changeable global, a start function, passive data or a memory that is shared.
func Module(src []byte, o Options) ([]byte, Counts, error) {
	if o.Fuel == 0 || o.Fuel > 1<<31-1 || o.Bulk == 0 || o.Bulk > 1<<31-1 || o.MinPages > o.MaxPages || o.MaxPages > 1<<16 {
		return nil, Counts{}, fmt.Errorf("rewrite options %+v: Fuel and Bulk must be from 1 to %d, MinPages at most MaxPages, MaxPages at most %d", o, 1<<31-1, 1<<16)
	}
	m := &module{Options: o}
	if err := m.split(src); err != nil {
		return nil, Counts{}, err
	}
	for _, step := range []func() error{m.types, m.imports, m.functions, m.tables, m.memories, m.globals, m.exports, m.refuse, m.code} {
		if err := step(); err != nil {
			return nil, Counts{}, err
		}
	}
	return m.join(), m.counts, nil
}

// A module is one that is being rewritten.
type module struct {
	Options
	sections [secDataCount + 1][]byte
	present  [secDataCount + 1]bool

	signatures []string // of the types, as params:results
	funcs      uint32   // functions, imported ones included
	nglobals   uint32
	hook       int // index of the hook
	counts     Counts
}

func (m *module) split(src []byte) error {
	if !bytes.HasPrefix(src, magic) {
		return errors.New("this is no WebAssembly module of version 1")
	}
	r := &reader{b: src, pos: len(magic)}
	for r.more() {
		id := r.byte()
		body := r.take(r.u32())
		if id == secCustom { // names and producers: nobody reads them
			continue
		}
		if int(id) >= len(m.sections) || m.present[id] {
			return fmt.Errorf("section %d is unknown or comes twice", id)
		}
		m.sections[id], m.present[id] = body, true
	}
	return r.err
}

// join writes the sections in the order that the format wants.
func (m *module) join() []byte {
	out := bytes.Clone(magic)
	for _, id := range []int{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secElement, secDataCount, secCode, secData} {
		if m.present[id] && !(m.DropData && (id == secData || id == secDataCount)) {
			out = appendSized(append(out, byte(id)), m.sections[id])
		}
	}
	return out
}

// section gives a reader of a section and the number of its entries; of a section that is not there, none.
func (m *module) section(id int) (*reader, uint32) {
	r := &reader{b: m.sections[id]}
	if !m.present[id] {
		return r, 0
	}
	return r, r.u32()
}

// more replaces a section by one with further entries behind those it has.
func (m *module) more(id int, n uint32, entries []byte) {
	r, old := m.section(id)
	m.sections[id] = append(append(appendUint(nil, old+n), r.rest()...), entries...)
	m.present[id] = true
}

// refuse refuses what a clone of a snapshot could not stand.
func (m *module) refuse() error {
	if m.present[secStart] {
		return errors.New("the module has a start function")
	}
	r, n := m.section(secData)
	for range r.times(n) {
		if kind := r.u32(); kind != 0 && r.err == nil {
			return fmt.Errorf("a data segment is of kind %d, not 0 (active)", kind)
		}
		r.constant()
		r.sub()
	}
	return r.err
}

// constant skips a constant expression.
func (r *reader) constant() {
	for r.more() {
		switch op := r.byte(); op {
		case 0x0b: // end
			return
		case 0x23, 0x41, 0x42, 0xd0, 0xd2: // global.get, i32.const, i64.const, ref.null, ref.func
			r.skipNumber()
		case 0x43:
			r.take(4)
		case 0x44:
			r.take(8)
		default:
			r.fail(fmt.Errorf("a constant expression has the instruction %#x", op))
		}
	}
	r.fail(errShort)
}
