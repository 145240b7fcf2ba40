// Package spans finds its way in JSON texts that are too large to be decoded: where a value begins and ends, how
// many items an array has, and at which byte the n-th of them is. It changes no text, and takes only what is valid
// JSON in valid UTF-8 without halves of surrogate pairs, see [Clean].
package spans

const (
	large    = 32 << 10 // bytes from which on the place of a value is kept
	markEach = 32 << 10 // bytes between two marks in a value
	deepest  = 128      // levels of which places are kept, so that a [Map] of the worst text stays small
)

// A Map knows the places of the large values of one text: with it any part of the text is found by reading little
// of it. It is made by a [Scanner], never changes, and is safe for concurrent use.
type Map struct {
	size  int64
	nodes map[int64]*node // by the place of the first byte
}

// A node is a large value.
type node struct {
	end   int64 // behind the last byte
	count int64 // items, members or characters
	marks []mark
}

// A mark says that the n-th item, member or character begins at a byte.
type mark struct{ n, at int64 }

// A Scanner makes the Map of a text that is written to it. The zero value is ready; it is not safe for concurrent use.
type Scanner struct {
	at    int64
	nodes map[int64]*node
	stack []frame
	word  bool // within a number, true, false or null
	text  text
}

// A frame is an array or object that is open.
type frame struct {
	object, key bool // key: the next text is the key of a member
	place
}

// A place counts what is in an open value.
type place struct {
	start, count, marked int64
	marks                []mark
}

// begin notes that the next item, member or character begins at a byte.
func (p *place) begin(at int64) {
	if at-p.marked >= markEach {
		p.marks = append(p.marks, mark{p.count, at})
		p.marked = at
	}
	p.count++
}

// text is the state within a text in quotes.
type text struct {
	open, key bool
	escape    int  // of an escape: 0 outside, 1 after the backslash, 2 to 5 hexadecimal digits to come + 1
	code      rune // of \u, as far as it is read
	low       bool // the escape that comes is the second half of a surrogate pair
	place
}

// Write takes the next bytes of the text. It never fails.
func (s *Scanner) Write(p []byte) (int, error) {
	for i := 0; i < len(p); {
		if s.text.open {
			i = s.inText(p, i)
			continue
		}
		at := s.at + int64(i)
		switch p[i] {
		case ' ', '\t', '\n', '\r', ':':
			s.word = false
		case ',':
			s.word = false
			if n := len(s.stack); n > 0 {
				s.stack[n-1].key = s.stack[n-1].object
			}
		case '"':
			s.openText(at)
		case '{', '[':
			s.value(at)
			object := p[i] == '{'
			s.stack = append(s.stack, frame{object: object, key: object, place: place{start: at, marked: at}})
		case '}', ']':
			s.word = false
			if n := len(s.stack); n > 0 {
				f := &s.stack[n-1]
				s.stack = s.stack[:n-1]
				s.keep(&f.place, at+1)
			}
		default:
			if !s.word {
				s.word = true
				s.value(at)
			}
		}
		i++
	}
	s.at += int64(len(p))
	return len(p), nil
}

// value notes that a value begins at a byte; the members of objects are counted by their keys.
func (s *Scanner) value(at int64) {
	if n := len(s.stack); n > 0 && !s.stack[n-1].object {
		s.stack[n-1].begin(at)
	}
}

func (s *Scanner) openText(at int64) {
	s.text = text{open: true, place: place{start: at, marked: at}}
	n := len(s.stack)
	if n == 0 || !s.stack[n-1].key {
		s.value(at)
		return
	}
	s.stack[n-1].begin(at)
	s.stack[n-1].key, s.text.key = false, true
}

// inText reads on in a text from p[i] and returns where it stops.
func (s *Scanner) inText(p []byte, i int) int {
	t := &s.text
	for ; i < len(p); i++ {
		if t.escape == 0 {
			if i = t.plain(p, i, s.at); i == len(p) {
				break
			}
		}
		c := p[i]
		switch {
		case t.escape > 0:
			t.escaped(c)
		case c == '"':
			t.open = false
			if !t.key {
				s.keep(&t.place, s.at+int64(i)+1)
			}
			return i + 1
		case c == '\\':
			t.escape = 1
			if !t.low {
				t.begin(s.at + int64(i))
			}
		}
	}
	return i
}

// plain passes the characters from p[i] on that stand for themselves; p begins at a byte of the text.
func (t *text) plain(p []byte, i int, at int64) int {
	count, due := t.count, t.marked+markEach-at
	for ; i < len(p); i++ {
		c := p[i]
		if c == '"' || c == '\\' {
			break
		}
		if c&0xc0 == 0x80 {
			continue
		}
		if int64(i) >= due {
			t.marked = at + int64(i)
			t.marks = append(t.marks, mark{count, t.marked})
			due = int64(i) + markEach
		}
		count++
	}
	t.count = count
	return i
}

// escaped takes a byte of an escape.
func (t *text) escaped(c byte) {
	switch t.escape {
	case 1:
		t.escape, t.code = 0, 0
		if c == 'u' {
			t.escape = 5
		}
	case 2:
		t.escape = 0
		t.code = t.code<<4 | hex(c)
		t.low = !t.low && isHigh(t.code)
	default:
		t.escape--
		t.code = t.code<<4 | hex(c)
	}
}

// keep keeps the place of a value that ends before a byte, where it is large or all of the text.
func (s *Scanner) keep(p *place, end int64) {
	if depth := len(s.stack); depth > 0 && (end-p.start < large || depth > deepest) {
		return
	}
	if s.nodes == nil {
		s.nodes = map[int64]*node{}
	}
	s.nodes[p.start] = &node{end, p.count, p.marks}
}

// Map returns the map of what was written.
func (s *Scanner) Map() *Map { return &Map{s.at, s.nodes} }

func hex(c byte) rune {
	switch {
	case c >= 'a':
		return rune(c-'a') + 10
	case c >= 'A':
		return rune(c-'A') + 10
	}
	return rune(c - '0')
}

func isHigh(r rune) bool { return r >= 0xd800 && r < 0xdc00 }
func isLow(r rune) bool  { return r >= 0xdc00 && r < 0xe000 }
