package hooks

import (
	"context"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// After tells the hooks that are for it how a call ended, and does not wait for that. They can change nothing. It is done once, at most: what cannot be delivered, and what
// comes faster than a hook takes it, is lost, which [Config.Told] hears. Neither c nor o may be changed any more. Of ctx only the trace counts.
func (s *Set) After(ctx context.Context, c Call, o contracts.Outcome) {
	if s != nil && concern(s.after, c.Tool.ID) {
		s.tellAll(context.WithoutCancel(ctx), c, o)
	}
}

func (s *Set) tellAll(ctx context.Context, c Call, o contracts.Outcome) {
	size := len(c.Arguments) + sizeOf(&o)
	news := &news{set: s, call: c, outcome: o}
	for _, h := range s.after {
		if !h.tools.Match(c.Tool.ID) {
			continue
		}
		switch {
		case !h.queue.enter(size):
			s.told(&c, h, time.Now(), problem("it takes what it is told too slowly, and was not told this"))
		case !s.begin(1):
			h.queue.leave(size)
			s.told(&c, h, time.Now(), problem("the hooks of the tenant are being changed, and it was not told this"))
		default:
			go func() {
				defer s.end()
				defer h.queue.leave(size)
				s.tell(ctx, h, news)
			}()
		}
	}
}

// tell tells one hook, when its turn comes.
func (s *Set) tell(ctx context.Context, h *hook, n *news) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	select {
	case h.queue.turns <- struct{}{}:
		defer func() { <-h.queue.turns }()
	case <-ctx.Done():
		s.told(&n.call, h, time.Now(), context.Cause(ctx))
		return
	}
	start := time.Now()
	body, err := n.body(h.via.most())
	if err == nil {
		_, err = h.ask(ctx, body)
	}
	s.told(&n.call, h, start, err)
}

func (s *Set) told(c *Call, h *hook, start time.Time, err error) {
	if s.cfg.Told == nil {
		return
	}
	run := contracts.HookRun{Hook: h.Name, Event: contracts.HookAfter, Decision: contracts.HookTold, Advisory: h.Advisory, Micros: time.Since(start).Microseconds()}
	if err != nil {
		run.Decision, run.Problem = failed(err)
	}
	s.cfg.Told(c.Run, c.ID, run)
}

// A news is how a call ended.
type news struct {
	set     *Set
	call    Call
	outcome contracts.Outcome

	mu     sync.Mutex
	bodies map[int][]byte // by how large they can be
}

// body returns the request in at most that many bytes. What makes it too large is left out: first the result, then the arguments.
func (n *news) body(most int) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.bodies[most]; b != nil {
		return b, nil
	}
	q := n.set.request(contracts.HookAfter, &n.call)
	o := n.outcome
	q.Outcome = &o
	if len(q.Arguments) > contracts.HookArgumentsMost {
		q.Arguments, q.Omitted = nil, append(q.Omitted, "arguments")
	}
	b, err := encode(&q)
	if err == nil && len(b) > most && o.Result != nil {
		o.Result, q.Omitted = nil, append(q.Omitted, "outcome.result")
		b, err = encode(&q)
	}
	if err == nil && len(b) > most && q.Arguments != nil {
		q.Arguments, q.Omitted = nil, append(q.Omitted, "arguments")
		b, err = encode(&q)
	}
	if err != nil {
		return nil, problem("the call or its outcome is no JSON")
	}
	if n.bodies == nil {
		n.bodies = map[int][]byte{}
	}
	n.bodies[most] = b
	return b, nil
}

// sizeOf returns about how many bytes an outcome has.
func sizeOf(o *contracts.Outcome) int {
	if o.Result == nil {
		return 0
	}
	n := len(o.Result.StructuredContent)
	for _, block := range o.Result.Content {
		n += len(block)
	}
	return n
}

// What waits for a hook at most, and how many requests it gets at once.
const (
	mostWaiting      = 128
	mostWaitingBytes = 16 << 20
	atOnce           = 4
)

// A queue bounds what waits for a hook.
type queue struct {
	turns chan struct{} // has an element for each request that is under way

	mu    sync.Mutex
	n     int
	bytes int
}

func newQueue() queue { return queue{turns: make(chan struct{}, atOnce)} }

// enter takes so many bytes, or returns false where too much waits already.
func (q *queue) enter(bytes int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n >= mostWaiting || q.n > 0 && q.bytes+bytes > mostWaitingBytes {
		return false
	}
	q.n++
	q.bytes += bytes
	return true
}

func (q *queue) leave(bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n--
	q.bytes -= bytes
}
