package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A session is an MCP session and the run that it is.
type session struct {
	ss     *mcp.ServerSession
	who    principal
	run    contracts.RunID
	tools  *mcp.ListToolsResult
	ctx    context.Context // done when the session is to end
	cancel context.CancelFunc

	mu   sync.Mutex
	busy int // requests on their way
	used time.Time
}

// use marks the session as used until the returned function is called.
func (s *session) use() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.used = s.busy+1, time.Now()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.busy, s.used = s.busy-1, time.Now()
	}
}

// idleSince returns when the session was used last, and whether it is not being used.
func (s *session) idleSince() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.busy == 0
}

// sessions are the open MCP sessions. Safe for concurrent use.
type sessions struct {
	most  int
	ended func(*session) // called once for each session, when it has ended

	mu       sync.Mutex
	open     map[string]*session
	reserved int // places of sessions that are being opened
	stopped  bool
	waiting  sync.WaitGroup // for the end of each session
}

func newSessions(most int, ended func(*session)) *sessions {
	return &sessions{most: most, ended: ended, open: map[string]*session{}}
}

// get returns the session of an id, nil where there is none.
func (l *sessions) get(id string) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[id]
}

// reserve keeps a place for one more session of tenant t, until it is added or the place released. Where
// there are as many as there can be, it ends one.
func (l *sessions) reserve(t contracts.TenantID) error {
	out, err := l.displace(t)
	if out != nil {
		out.cancel()
		out.ss.Close()
	}
	return err
}

// displace takes a place, and returns the session that had it before, nil for none.
func (l *sessions) displace(t contracts.TenantID) (*session, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return nil, errStopping()
	}
	var out *session
	if len(l.open)+l.reserved >= l.most {
		if out = l.oldest(t); out == nil {
			return nil, contracts.Errorf(contracts.CodeRateLimited, "there are %d sessions, the most there can be, and all are busy", l.most).After(time.Second)
		}
		delete(l.open, out.ss.ID())
	}
	l.reserved++
	return out, nil
}

// release gives a reserved place back.
func (l *sessions) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserved--
}

func errStopping() error {
	return contracts.Errorf(contracts.CodeUnavailable, "the service is stopping")
}

// oldest returns the session that has been idle for longest among those of the tenant that has the most, with one more for t; nil where all are busy.
func (l *sessions) oldest(t contracts.TenantID) *session {
	count := map[contracts.TenantID]int{t: 1}
	most := 0
	for _, s := range l.open {
		count[s.who.tenant]++
		most = max(most, count[s.who.tenant])
	}
	var oldest *session
	var since time.Time
	for _, s := range l.open {
		used, idle := s.idleSince()
		if idle && count[s.who.tenant] == most && (oldest == nil || used.Before(since)) {
			oldest, since = s, used
		}
	}
	return oldest
}

// add makes a session known, in the place reserved for it, and sees to its end. Where it returns an error the place is still reserved.
func (l *sessions) add(s *session) error {
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.used = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return errStopping()
	}
	l.reserved--
	id := s.ss.ID()
	l.open[id] = s
	l.waiting.Go(func() {
		s.ss.Wait()
		s.cancel()
		l.mu.Lock()
		if l.open[id] == s {
			delete(l.open, id)
		}
		l.mu.Unlock()
		l.ended(s)
	})
	return nil
}

// stop ends all sessions and waits until their runs are closed, or ctx is done. Calls on their way are cancelled after limit.
func (l *sessions) stop(ctx context.Context, limit time.Duration) {
	l.mu.Lock()
	l.stopped = true
	for _, s := range l.open {
		t := time.AfterFunc(limit, s.cancel)
		context.AfterFunc(s.ctx, func() { t.Stop() })
		go s.ss.Close()
	}
	l.mu.Unlock()
	done := make(chan struct{})
	go func() {
		l.waiting.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
