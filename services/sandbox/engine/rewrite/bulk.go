package rewrite

import "slices"

// The functions that take the place of memory.copy and memory.fill work in pieces and visit the hook before each, because
// one large operation can take long: each page that it is the first to touch is a page fault.

// The parameters of both functions.
const (
	to    = 0 // address
	from  = 1 // address, or the byte to fill with
	count = 2 // bytes
)

// The operations on the three numbers on the stack.
func copyOp() []byte { return []byte{opBulk, bulkCopy, 0, 0} }
func fillOp() []byte { return []byte{opBulk, bulkFill, 0} }

func get(local byte) []byte { return []byte{opLocalGet, local} }
func set(local byte) []byte { return []byte{opLocalSet, local} }

// piece pushes the size of a piece.
func (m *module) piece() []byte { return appendInt([]byte{opI32Const}, int32(m.Bulk)) }

// change adds a piece to a local, or takes it away.
func (m *module) change(local, op byte) []byte {
	return slices.Concat(get(local), m.piece(), []byte{op}, set(local))
}

// pieces repeats step, after a visit, while there is a whole piece left.
func (m *module) pieces(step ...[]byte) []byte {
	return slices.Concat(
		[]byte{opBlock, noResult, opLoop, noResult},
		get(count), m.piece(), []byte{opI32LtU, opBrIf, 1},
		m.visit(nil), slices.Concat(step...),
		[]byte{opBr, 0, opEnd, opEnd},
	)
}

// fillFunction fills piece by piece, upwards.
func (m *module) fillFunction() []byte {
	return slices.Concat(
		[]byte{0}, // no further locals
		m.pieces(get(to), get(from), m.piece(), fillOp(), m.change(to, opI32Add), m.change(count, opI32Sub)),
		get(to), get(from), get(count), fillOp(), []byte{opEnd},
	)
}

// copyFunction copies piece by piece, upwards if the destination is below the source and downwards if it is above, so that
// nothing is overwritten before it is copied.
func (m *module) copyFunction() []byte {
	sum := []byte{opLocalGet, count, opI32Add}
	return slices.Concat(
		[]byte{0}, // no further locals
		get(to), get(from), []byte{opI32LeU, opIf, noResult},
		m.pieces(get(to), get(from), m.piece(), copyOp(), m.change(to, opI32Add), m.change(from, opI32Add), m.change(count, opI32Sub)),
		[]byte{opElse},
		m.pieces(m.change(count, opI32Sub), get(to), sum, get(from), sum, m.piece(), copyOp()),
		[]byte{opEnd},
		get(to), get(from), get(count), copyOp(), []byte{opEnd},
	)
}
