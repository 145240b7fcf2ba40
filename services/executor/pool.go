package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// mostSessions is how many sessions of a tenant may have a connection of their own to one source.
const mostSessions = 64

// A pool holds the connections to sources. Each is made once however many ask for it, and
// belongs to one goroutine from its dialling to its end. Safe for concurrent use.
type pool struct {
	idle time.Duration
	log  *slog.Logger

	mu     sync.Mutex
	ctx    context.Context // connections are made while it lasts; nil before open
	cancel context.CancelFunc
	links  map[linkKey]*link
	owners sync.WaitGroup
}

// A linkKey names a connection: whose source, and for whom. scope is "" for the one of all runs.
type linkKey struct {
	source contracts.Key
	scope  string
}

// runScope is the scope of a run without a session, sessionScope that of a principal's session.
func runScope(r contracts.RunID) string { return "run " + string(r) }

func sessionScope(principal, session string) string {
	return "session " + principal + "\x00" + session
}

// A link is a place in the pool: a connection, or one that is being made.
type link struct {
	key   linkKey
	src   *source
	ready chan struct{} // closed once conn or err is set
	conn  connection
	err   error
	end   chan struct{} // closed when it is to end at once
	once  sync.Once

	// Guarded by the pool.
	users  int
	used   time.Time
	proven bool // it answered something
	last   bool // nobody new may use it; it ends with its last user
}

func newPool(idle time.Duration, log *slog.Logger) *pool {
	return &pool{idle: idle, log: log, links: map[linkKey]*link{}}
}

func (p *pool) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.cancel = context.WithCancel(context.Background())
}

// close ends all connections and waits for their end.
func (p *pool) close() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.owners.Wait()
}

// use returns a connection to src for scope, which is made where there is none. Call done when it is no longer used.
// A source that failed a moment ago is not tried again yet: the error, a [contracts.Error] with
// [contracts.CodeSourceUnavailable], says when. The error is that of ctx where that ends first.
func (p *pool) use(ctx context.Context, src *source, scope string) (*link, error) {
	l, err := p.take(linkKey{src.key, scope}, src)
	if err != nil {
		return nil, err
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		p.done(l, false)
		return nil, context.Cause(ctx)
	}
	if l.err != nil {
		p.done(l, false)
		return nil, l.err
	}
	return l, nil
}

func (p *pool) take(key linkKey, src *source) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil {
		return nil, contracts.Errorf(contracts.CodeSourceUnavailable, "the executor is stopping").After(time.Second)
	}
	if l := p.links[key]; l != nil && l.usable() {
		l.users++
		return l, nil
	}
	if wait, why := src.retry.wait(); wait > 0 {
		err := contracts.Errorf(contracts.CodeSourceUnavailable, "%s cannot be reached: %s", src.id, why.Message).After(wait)
		err.Cause = why
		return nil, err
	}
	if err := p.makeRoom(key); err != nil {
		return nil, err
	}
	l := &link{key: key, src: src, ready: make(chan struct{}), end: make(chan struct{}), users: 1, used: time.Now()}
	p.links[key] = l
	p.owners.Go(func() { p.own(p.ctx, l) })
	return l, nil
}

// usable reports whether l may get another user: it is being made, or its connection lives. The pool is locked.
func (l *link) usable() bool {
	if l.last {
		return false
	}
	select {
	case <-l.end:
		return false
	case <-l.ready:
	default:
		return true
	}
	if l.err != nil {
		return false
	}
	select {
	case <-l.conn.Done():
		return false
	default:
		return true
	}
}

// makeRoom ends the session's connection that was unused for longest where there are too many. The pool is locked.
func (p *pool) makeRoom(key linkKey) error {
	if key.scope == "" {
		return nil
	}
	n := 0
	var oldest *link
	for k, l := range p.links {
		if k.source != key.source || k.scope == "" {
			continue
		}
		n++
		if l.users == 0 && (oldest == nil || l.used.Before(oldest.used)) {
			oldest = l
		}
	}
	if n < mostSessions {
		return nil
	}
	if oldest == nil {
		return contracts.Errorf(contracts.CodeSourceUnavailable, "%d sessions use the source at this moment, which is the limit", n).After(time.Second)
	}
	delete(p.links, oldest.key)
	oldest.stop()
	return nil
}

// done gives a connection back. worked tells that the source answered.
func (p *pool) done(l *link, worked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.users--
	l.used = time.Now()
	if worked {
		l.proven = true
		l.src.retry.worked()
	}
	if l.last && l.users == 0 {
		l.stop()
	}
}

// drop has nobody new use l, which ends with its last user.
func (p *pool) drop(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire(l)
}

// retire is drop with the pool locked.
func (p *pool) retire(l *link) {
	l.last = true
	if p.links[l.key] == l {
		delete(p.links, l.key)
	}
	if l.users == 0 {
		l.stop()
	}
}

// endRun ends the connections that a run had of its own.
func (p *pool) endRun(t contracts.TenantID, r contracts.RunID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, l := range p.links {
		if k.scope == runScope(r) && k.source.Tenant() == t {
			p.retire(l)
		}
	}
}

func (l *link) stop() { l.once.Do(func() { close(l.end) }) }

// own makes the connection and stays with it to its end.
func (p *pool) own(ctx context.Context, l *link) {
	l.conn, l.err = p.connect(ctx, l.src)
	if l.err != nil {
		l.src.retry.failed(l.err)
	}
	close(l.ready)
	if l.err == nil {
		p.keep(ctx, l)
	}
	p.mu.Lock()
	if p.links[l.key] == l {
		delete(p.links, l.key)
	}
	p.mu.Unlock()
	if l.err == nil {
		l.conn.Close()
	}
}

func (p *pool) connect(ctx context.Context, src *source) (conn connection, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.log.Error("connecting panicked", "source", src.id.String(), "panic", r)
			err = errors.New("internal error")
		}
		if err != nil && contracts.CodeOf(err) != contracts.CodeSourceUnavailable {
			err = contracts.Errorf(contracts.CodeSourceUnavailable, "%w", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, src.connectTime)
	defer cancel()
	conn, err = src.dial(ctx, src.refresh.toolsChanged)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = contracts.Errorf(contracts.CodeSourceUnavailable, "%s (limit %v)", contracts.AsError(err).Message, src.connectTime)
	}
	return conn, err
}

// keep returns when the connection is to be closed.
func (p *pool) keep(ctx context.Context, l *link) {
	check := time.NewTicker(max(p.idle/4, time.Millisecond))
	defer check.Stop()
	for {
		select {
		case <-l.conn.Done():
			p.mu.Lock()
			proven := l.proven
			p.mu.Unlock()
			if !proven {
				l.src.retry.lost("the connection was lost")
			}
			return
		case <-l.end:
			return
		case <-ctx.Done():
			return
		case <-check.C:
			if p.unused(l) {
				return
			}
		}
	}
}

// unused retires a session's connection that nobody used for too long.
func (p *pool) unused(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.key.scope == "" || l.users > 0 || time.Since(l.used) < p.idle {
		return false
	}
	p.retire(l)
	return true
}
