package rewrite

import (
	"fmt"
)

// The instructions that matter here.
const (
	opBlock      = 0x02
	opLoop       = 0x03
	opIf         = 0x04
	opElse       = 0x05
	opEnd        = 0x0b
	opBr         = 0x0c
	opBrIf       = 0x0d
	opCall       = 0x10
	opDrop       = 0x1a
	opLocalGet   = 0x20
	opLocalSet   = 0x21
	opGlobalGet  = 0x23
	opGlobalSet  = 0x24
	opMemoryGrow = 0x40
	opI32Const   = 0x41
	opI32Eqz     = 0x45
	opI32LtU     = 0x49
	opI32LeU     = 0x4d
	opI32Add     = 0x6a
	opI32Sub     = 0x6b
	opBulk       = 0xfc

	bulkCopy = 10
	bulkFill = 11

	noResult = 0x40
)

// code rewrites the functions: each loop header burns fuel, each bulk operation goes through one of two functions
// that are added at the end.
func (m *module) code() error {
	r, n := m.section(secCode)
	out := appendUint(nil, n+2)
	burn := m.burn()
	for i := range r.times(n) {
		body := r.sub()
		if r.err != nil {
			break
		}
		fn, err := m.function(body, burn)
		if err != nil {
			return fmt.Errorf("read function %d: %w", i, err)
		}
		out = appendSized(out, fn)
	}
	if r.err != nil {
		return fmt.Errorf("read the code: %w", r.err)
	}
	out = appendSized(out, m.copyFunction())
	out = appendSized(out, m.fillFunction())
	m.sections[secCode], m.present[secCode] = out, true
	return nil
}

func (m *module) visit(b []byte) []byte {
	return append(appendUint(append(b, opCall), uint32(m.hook)), opDrop)
}

// burn is the code of a loop header: fuel -= 1; if fuel == 0 { hook(); fuel = Fuel }.
func (m *module) burn() []byte {
	fuel := appendUint(nil, m.nglobals)
	global := func(b []byte, op byte) []byte { return append(append(b, op), fuel...) }
	b := global(nil, opGlobalGet)
	b = append(b, opI32Const, 1, opI32Sub)
	b = global(b, opGlobalSet)
	b = global(b, opGlobalGet)
	b = append(b, opI32Eqz, opIf, noResult)
	b = m.visit(b)
	b = appendInt(append(b, opI32Const), int32(m.Fuel))
	b = global(b, opGlobalSet)
	return append(b, opEnd)
}

func (m *module) function(r *reader, burn []byte) ([]byte, error) {
	for range r.times(r.u32()) { // locals
		r.u32()
		r.byte()
	}
	if r.err != nil {
		return nil, r.err
	}
	out := append(make([]byte, 0, len(r.b)+len(r.b)/4), r.b[:r.pos]...)
	for r.more() {
		start := r.pos
		op := r.byte()
		sub := r.operands(op)
		if r.err != nil {
			break
		}
		if op == opBulk && (sub == bulkCopy || sub == bulkFill) {
			m.counts.Bulk++
			out = appendUint(append(out, opCall), m.funcs+sub-bulkCopy)
			continue
		}
		out = append(out, r.b[start:r.pos]...)
		switch op {
		case opLoop:
			m.counts.Loops++
			out = append(out, burn...)
		case opMemoryGrow:
			m.counts.Grows++
		}
	}
	return out, r.err
}

// operands skips what follows the instruction op, and gives the second number of a two-part instruction.
func (r *reader) operands(op byte) (sub uint32) {
	switch {
	case op >= opBlock && op <= opIf: // block, loop, if
		r.skipNumber()
	case op == opBr, op == opBrIf, op == opCall, op >= opLocalGet && op <= opGlobalSet, op == 0x3f, op == opMemoryGrow, op == opI32Const, op == 0x42, op == 0xd0, op == 0xd2:
		r.skipNumber() // br, br_if, call, variables, memory.size, constants, references
	case op == 0x0e: // br_table
		for n := r.u32(); r.err == nil; n-- {
			r.u32()
			if n == 0 {
				break
			}
		}
	case op == 0x11, op >= 0x28 && op <= 0x3e: // call_indirect, loads and stores
		r.u32()
		r.u32()
	case op == 0x1c: // select with types
		r.take(r.u32())
	case op == 0x43:
		r.take(4)
	case op == 0x44:
		r.take(8)
	case op == opBulk:
		return r.bulkOperands()
	case op <= 0x01, op == opElse, op == opEnd, op == 0x0f, op == opDrop, op == 0x1b, op >= opI32Eqz && op <= 0xc4, op == 0xd1: // no operands
	default:
		r.fail(fmt.Errorf("the instruction %#x at byte %d is not known here", op, r.pos-1))
	}
	return 0
}

func (r *reader) bulkOperands() uint32 {
	sub := r.u32()
	switch {
	case sub <= 7: // saturating conversions
	case sub == bulkCopy:
		if to, from := r.u32(), r.u32(); to != 0 || from != 0 {
			r.fail(fmt.Errorf("memory.copy at byte %d is not of memory 0", r.pos))
		}
	case sub == bulkFill:
		if r.u32() != 0 {
			r.fail(fmt.Errorf("memory.fill at byte %d is not of memory 0", r.pos))
		}
	default: // memory.init, data.drop and all that changes a table: a clone would not get it back
		r.fail(fmt.Errorf("the instruction 0xfc %d at byte %d is not known here", sub, r.pos))
	}
	return sub
}
