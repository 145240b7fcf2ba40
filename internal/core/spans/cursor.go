package spans

import (
	"errors"
	"io"
)

// A cursor reads a text byte by byte. After an error, which is kept, it stands still.
type cursor struct {
	t   *Text
	buf []byte // from at on
	at  int64
	err error
}

func (t *Text) cursor(at int64) *cursor { return &cursor{t: t, at: at} }

// peek returns the byte at hand, 0 where there is none.
func (c *cursor) peek() byte {
	if len(c.buf) == 0 {
		if c.err != nil {
			return 0
		}
		c.buf, c.err = c.t.src.From(c.at)
		if errors.Is(c.err, io.EOF) {
			c.err = errShort
		}
		if c.err != nil || len(c.buf) == 0 {
			c.buf = nil
			return 0
		}
	}
	return c.buf[0]
}

// next goes to the next byte.
func (c *cursor) next() {
	if c.peek(); len(c.buf) > 0 {
		c.buf = c.buf[1:]
		c.at++
	}
}

func (c *cursor) jump(at int64) {
	if n := at - c.at; n >= 0 && n <= int64(len(c.buf)) {
		c.buf = c.buf[n:]
	} else {
		c.buf = nil
	}
	c.at = at
}

func (c *cursor) space() {
	for {
		switch c.peek() {
		case ' ', '\t', '\n', '\r':
			c.next()
		default:
			return
		}
	}
}

// chars passes some characters of a text in quotes and returns their number: at least one, at most most, and but for the first one none that reaches beyond end.
func (c *cursor) chars(most, end int64) (n int64) {
	c.peek()
	i, limit := 0, int(min(int64(len(c.buf)), end-c.at))
	for buf := c.buf; n < most && i < limit; n++ {
		b, size := buf[i], 1
		switch {
		case b == '\\':
			size = limit + 1
		case b >= 0xf0:
			size = 4
		case b >= 0xe0:
			size = 3
		case b >= 0x80:
			size = 2
		}
		if i+size > limit {
			break
		}
		i += size
	}
	if n > 0 {
		c.buf = c.buf[i:]
		c.at += int64(i)
		return n
	}
	c.char()
	return 1
}

// char passes one character of a text in quotes.
func (c *cursor) char() {
	if b := c.peek(); b != '\\' {
		c.next()
		for b >= 0x80 && c.peek()&0xc0 == 0x80 {
			c.next()
		}
		return
	}
	if isHigh(c.escape()) {
		c.escape()
	}
}

// escape passes an escape and returns what \u stands for, -1 for another one.
func (c *cursor) escape() rune {
	c.next()
	u := c.peek() == 'u'
	c.next()
	if !u {
		return -1
	}
	var r rune
	for range 4 {
		r = r<<4 | hex(c.peek())
		c.next()
	}
	return r
}

// value passes a value and returns its place.
func (c *cursor) value() (Value, error) {
	v := Value{Kind: Kind(c.peek()), Start: c.at}
	if v.Kind == '-' || v.Kind >= '0' && v.Kind <= '9' {
		v.Kind = '0'
	}
	switch n := c.t.m.nodes[c.at]; {
	case n != nil:
		c.jump(n.end)
	case v.Kind == String:
		c.text()
	case v.Kind == Array || v.Kind == Object:
		c.container()
	default:
		for b := c.peek(); c.err == nil && b != ',' && b != ']' && b != '}' && b > ' '; b = c.peek() {
			c.next()
		}
		if errors.Is(c.err, errShort) && c.at == c.t.m.size { // a word that is all of the text
			c.err = nil
		}
	}
	v.End = c.at
	if c.err == nil && v.End == v.Start {
		c.err = errShort
	}
	return v, c.err
}

// text passes a text in quotes.
func (c *cursor) text() {
	c.next()
	for c.err == nil {
		b := c.peek()
		c.next()
		switch b {
		case '"':
			return
		case '\\':
			c.next()
		}
	}
}

// container passes an array or object.
func (c *cursor) container() {
	for depth := 0; c.err == nil; {
		switch c.peek() {
		case '"':
			c.text()
			continue
		case '{', '[':
			if n := c.t.m.nodes[c.at]; n != nil && depth > 0 {
				c.jump(n.end)
				continue
			}
			depth++
		case '}', ']':
			depth--
		}
		c.next()
		if depth == 0 {
			return
		}
	}
}
