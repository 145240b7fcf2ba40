package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// How much may wait for one worker to read it, and how long it may read nothing of it.
const (
	maxQueue = 64 << 20
	maxStall = 5 * time.Second
)

// errStuck tells of a worker that does not read.
var errStuck = errors.New("the worker reads nothing")

// A stream is a connection to a worker.
type stream interface {
	io.ReadWriteCloser
	SetDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	// tryWrite writes as much of b as goes without waiting and returns how much that was.
	tryWrite(b []byte) (int, error)
}

// An outbox sends frames to a worker, in order, without making anybody wait: what does not fit into the connection is queued
// within bounds, and a worker that lets the queue grow over them is lost.
type outbox struct {
	conn   stream
	broken func(error) // called once, from any goroutine, when nothing can be sent any more

	mu    sync.Mutex
	queue [][]byte
	size  int
	busy  bool // flush is running
	shut  bool
	wg    sync.WaitGroup
}

// send takes over b.
func (o *outbox) send(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shut {
		return
	}
	if !o.busy {
		n, err := o.conn.tryWrite(b)
		if err != nil {
			o.fail(err)
			return
		}
		if b = b[n:]; len(b) == 0 {
			return
		}
		o.busy = true
		o.wg.Go(o.flush)
	}
	if o.size += len(b); o.size > maxQueue {
		o.fail(fmt.Errorf("%w: %d bytes wait", errStuck, o.size))
		return
	}
	o.queue = append(o.queue, b)
}

// fail is called with o.mu held.
func (o *outbox) fail(err error) {
	o.shut, o.queue = true, nil
	go o.broken(err)
}

// flush writes the queue until it is empty.
func (o *outbox) flush() {
	for {
		o.mu.Lock()
		if len(o.queue) == 0 {
			o.busy = false
			o.mu.Unlock()
			return
		}
		b := o.queue[0]
		o.queue = o.queue[1:]
		o.mu.Unlock()
		err := o.write(b)
		o.mu.Lock()
		o.size -= len(b)
		if err != nil && !o.shut {
			o.fail(err)
		}
		o.mu.Unlock()
	}
}

// write writes b in parts, each of which must get through within maxStall.
func (o *outbox) write(b []byte) error {
	for len(b) > 0 {
		if err := o.conn.SetWriteDeadline(time.Now().Add(maxStall)); err != nil {
			return err
		}
		n, err := o.conn.Write(b[:min(len(b), 64<<10)])
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w for %v", errStuck, maxStall)
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return o.conn.SetWriteDeadline(time.Time{}) // tryWrite obeys it too
}

// close ends the outbox; what is queued is dropped. The connection must be closed already.
func (o *outbox) close() {
	o.mu.Lock()
	o.shut, o.queue = true, nil
	o.mu.Unlock()
	o.wg.Wait()
}
