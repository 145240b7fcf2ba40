package worker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// A process is a worker process as its parent sees it.
type process interface {
	kill()        // ends it at once; may be called again
	wait() string // waits until it is gone and tells how it ended, with what it wrote to its standard error
}

// errGone is why bodies fail whose worker ended.
var errGone = errors.New("the sandbox worker that ran the body ended before the body did")

// A child is a worker that is ready: its process, the connection to it, and the bodies that it runs. Nothing that comes from it
// is believed unchecked; the first word that does not fit ends it.
type child struct {
	proc process
	conn stream
	out  outbox

	mu    sync.Mutex
	last  uint64
	jobs  map[uint64]*job // nil once the worker is lost
	cause error           // why it was killed by us, nil if it was not
}

func newChild(proc process, conn stream) *child {
	c := &child{proc: proc, conn: conn, jobs: make(map[uint64]*job)}
	c.out.conn = conn
	c.out.broken = func(err error) {
		if !errors.Is(err, errStuck) {
			err = nil // the worker ended by itself
		}
		c.kill(err)
	}
	return c
}

// kill ends the worker because of cause, nil if it is lost anyway. Its bodies learn of it through serve.
func (c *child) kill(cause error) {
	c.mu.Lock()
	if c.cause == nil {
		c.cause = cause
	}
	c.mu.Unlock()
	c.proc.kill()
	_ = c.conn.Close()
}

// breach ends a worker that said what it must not say.
func (c *child) breach(err error) { c.kill(fmt.Errorf("the worker broke the protocol: %w", err)) }

// serve handles what the worker says until the worker is lost; then it ends process, connection and bodies. It tells how the process
// ended, and why we ended the worker: nil if it ended by itself.
func (c *child) serve(ended func()) (state string, cause error) {
	r := bufio.NewReaderSize(c.conn, 64<<10)
	var err error
	for err == nil {
		var f frame
		if f, err = readFrame(r); err == nil {
			err = c.handle(f, ended)
		}
	}
	if errors.Is(err, errFrame) {
		c.breach(err)
	}
	c.mu.Lock()
	jobs := c.jobs
	c.jobs = nil
	cause = c.cause
	c.mu.Unlock()
	for _, j := range jobs {
		j.lose()
	}
	c.proc.kill()
	_ = c.conn.Close()
	c.out.close()
	state = c.proc.wait()
	if cause == nil {
		state = fmt.Sprintf("%s, after %v", state, err)
	}
	return state, cause
}

// handle passes one frame on to its body. What is small it looks into at once; large words for one, which its own goroutine looks into, do not keep
// the others waiting.
func (c *child) handle(f frame, ended func()) error {
	switch f.kind {
	case kindAsk, kindLog, kindEnding:
	default:
		return fmt.Errorf("%w: kind %d from a worker", errFrame, f.kind)
	}
	c.mu.Lock()
	j := c.jobs[f.body]
	if f.kind == kindEnding {
		delete(c.jobs, f.body)
	}
	c.mu.Unlock()
	if j == nil {
		return fmt.Errorf("%w: kind %d for body %d, which is not running", errFrame, f.kind, f.body)
	}
	if now, err := j.hearNow(f); now {
		return err
	}
	if !j.push(f) {
		return fmt.Errorf("%w: more than %d bytes for body %d at once", errFrame, maxInbox, f.body)
	}
	if f.kind == kindEnding {
		j.settle()
		ended()
	}
	return nil
}

// open sends the frame of a body and makes its job, nil if the worker is lost. The frame gets the body's number.
func (c *child) open(l engine.Limits, body []byte) *job {
	body = bytes.Clone(body) // the outbox keeps it, and it may be sent once more to another worker
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jobs == nil {
		return nil
	}
	c.last++
	j := &job{number: c.last, record: newRecord(l), began: time.Now(), wake: make(chan struct{}, 1)}
	c.jobs[j.number] = j
	binary.LittleEndian.PutUint64(body[8:], j.number)
	c.out.send(body) // numbers come to the worker in their order
	return j
}

// overdue gives the worker another d to tell the ending of j, whose caller waits no longer, and kills it then.
func (c *child) overdue(j *job, d time.Duration) {
	j.abandon(time.AfterFunc(d, func() {
		c.mu.Lock()
		late := c.jobs[j.number] == j
		c.mu.Unlock()
		if late {
			c.kill(fmt.Errorf("a body did not end within %v after it had to", d))
		}
	}))
}

// maxInbox bounds the payloads that a body's goroutine has not looked into yet: more than all open asks, the log and the value.
const maxInbox = 64 << 20

// maxNow is how long an ask or a line may be that the goroutine which reads from the worker passes on itself.
const maxNow = 8 << 10

// A job is a body in a worker. The goroutine that reads from the worker pushes frames, the one that runs the body takes them; small ones
// that find nothing before them go to hear at once, which spares a change of goroutines for each ask.
type job struct {
	number uint64
	record *record
	began  time.Time
	wake   chan struct{} // holds one token when there is something to take

	mu        sync.Mutex
	hear      func(frame) error // passes an ask or a line on; nil before and after the body's goroutine listens
	taken     bool              // frames that were taken are being passed on
	heard     bool              // something of the body was passed on
	inbox     []frame
	size      int
	lost      bool // the worker is gone; what is in the inbox came before
	abandoned bool // nobody takes frames any more
	settled   bool // the worker said its last word about the body
	timer     *time.Timer
}

// hearNow passes f on, if that can be done at once; now reports whether it was done.
func (j *job) hearNow(f frame) (now bool, err error) {
	if f.kind == kindEnding || len(f.payload) > maxNow {
		return false, nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.hear == nil || j.taken || len(j.inbox) > 0 || j.abandoned || j.lost {
		return false, nil
	}
	j.heard = true
	return true, j.hear(f)
}

// listen has hear be called from now on, and not any more once it is nil.
func (j *job) listen(hear func(frame) error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hear = hear
}

// push reports whether there was room.
func (j *job) push(f frame) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.abandoned {
		return true
	}
	if j.size += len(f.payload); j.size > maxInbox {
		return false
	}
	j.inbox = append(j.inbox, f)
	j.ring()
	return true
}

// ring is called with j.mu held.
func (j *job) ring() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// take returns what was pushed since the last time. Once that is nothing: whether nothing more will come because the worker is gone, and
// whether nothing was ever passed on.
func (j *job) take() (inbox []frame, lost, quiet bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	inbox = j.inbox
	j.inbox, j.size = nil, 0
	j.taken = len(inbox) > 0
	for _, f := range inbox {
		j.heard = j.heard || f.kind != kindEnding
	}
	return inbox, j.lost, !j.heard
}

func (j *job) lose() {
	j.mu.Lock()
	j.lost = true
	j.ring()
	j.mu.Unlock()
	j.settle()
}

// settle stops the clock of an abandoned job.
func (j *job) settle() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.settled = true
	if j.timer != nil {
		j.timer.Stop()
	}
}

// abandon drops all further frames; t is stopped once the worker has said its last word.
func (j *job) abandon(t *time.Timer) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.abandoned, j.inbox, j.timer = true, nil, t
	if j.settled {
		t.Stop()
	}
}
