package mcp

import (
	"io"
	"strings"
	"sync"
)

const tailSize = 8 << 10

// A tail keeps the last of what a server writes to its standard error. Safe for concurrent use.
type tail struct {
	mu  sync.Mutex
	buf []byte // the newest bytes, at most twice tailSize
}

func newTail() *tail { return &tail{} }

// fill reads r to its end.
func (t *tail) fill(r io.Reader) {
	chunk := make([]byte, tailSize)
	for {
		n, err := r.Read(chunk)
		t.add(chunk[:n])
		if err != nil {
			return
		}
	}
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if len(t.buf) > 2*tailSize {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-tailSize:]...)
	}
}

// last returns the last line that says something, "" for none.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf[max(0, len(t.buf)-tailSize):]
	lines := strings.Split(strings.ToValidUTF8(string(b), "\uFFFD"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(lines[i]); s != "" {
			return s
		}
	}
	return ""
}
