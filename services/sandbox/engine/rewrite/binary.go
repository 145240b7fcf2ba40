package rewrite

import (
	"errors"
	"fmt"
	"iter"
)

var errShort = errors.New("the module ends too early")

// A reader reads a module's binary form. After an error it yields zeros; whoever reads asks for err at the end.
type reader struct {
	b   []byte
	pos int
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.pos = len(r.b)
}

func (r *reader) more() bool { return r.err == nil && r.pos < len(r.b) }

func (r *reader) byte() byte {
	if r.pos >= len(r.b) {
		r.fail(errShort)
		return 0
	}
	r.pos++
	return r.b[r.pos-1]
}

// take gives the next n bytes, which still belong to the module.
func (r *reader) take(n uint32) []byte {
	if uint64(n) > uint64(len(r.b)-r.pos) {
		r.fail(errShort)
		return nil
	}
	r.pos += int(n)
	return r.b[r.pos-int(n) : r.pos]
}

// times counts to n, or to the first error.
func (r *reader) times(n uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := uint32(0); i < n && r.err == nil && yield(i); i++ {
		}
	}
}

// u32 reads an unsigned LEB128 number of at most 32 bits.
func (r *reader) u32() uint32 {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			if v > 1<<32-1 {
				break
			}
			return uint32(v)
		}
	}
	r.fail(fmt.Errorf("a number at byte %d has over 32 bits", r.pos))
	return 0
}

// skipNumber skips a LEB128 number of at most 64 bits, of either sign.
func (r *reader) skipNumber() {
	for range 10 {
		if r.byte()&0x80 == 0 {
			return
		}
	}
	r.fail(fmt.Errorf("a number at byte %d has over 64 bits", r.pos))
}

func (r *reader) name() string { return string(r.take(r.u32())) }

// rest gives what has not been read yet.
func (r *reader) rest() []byte {
	if r.err != nil {
		return nil
	}
	return r.b[r.pos:]
}

// sub reads a length and gives a reader of that many bytes.
func (r *reader) sub() *reader {
	return &reader{b: r.take(r.u32())}
}

func appendUint(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendInt(b []byte, v int32) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// appendSized appends body behind its length.
func appendSized(b, body []byte) []byte {
	return append(appendUint(b, uint32(len(body))), body...)
}
