package executor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A refresh gathers why a source is to be listed again. Safe for concurrent use.
type refresh struct {
	signal chan struct{} // has an element where there is a reason

	mu      sync.Mutex
	changed bool          // the source says so
	asked   bool          // somebody wants it
	forced  bool          // whatever is known already
	busy    bool          // a round is under way
	ended   chan struct{} // closed at the end of the round that is under way or, where none is, of the next
	later   chan struct{} // closed at the end of the round after that
}

func newRefresh() *refresh {
	return &refresh{signal: make(chan struct{}, 1), ended: make(chan struct{}), later: make(chan struct{})}
}

func (r *refresh) toolsChanged() { r.add(func() { r.changed = true }) }

// ask asks for a round and returns a channel that is closed at its end. With force it is one that has not begun yet.
func (r *refresh) ask(force bool) (ended <-chan struct{}) {
	r.add(func() {
		r.asked, r.forced = true, r.forced || force
		if ended = r.ended; force && r.busy {
			ended = r.later
		}
	})
	return ended
}

func (r *refresh) add(set func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set()
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

func (r *refresh) urgent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// begin returns the reasons for the round that begins, and forgets them.
func (r *refresh) begin() (changed, forced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, forced = r.changed, r.forced
	r.changed, r.asked, r.forced, r.busy = false, false, false, true
	return changed, forced
}

func (r *refresh) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.ended)
	r.ended, r.later, r.busy = r.later, make(chan struct{}), false
}

func (r *refresh) hasChanged() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// answer answers [contracts.VerbDiscover].
func (d *discoverer) answer(ctx context.Context, t contracts.TenantID, q contracts.DiscoverRequest) (*contracts.DiscoverAnswer, error) {
	wanted, err := d.wanted(t, q.Sources)
	if err != nil {
		return nil, err
	}
	var rounds []<-chan struct{}
	for _, s := range wanted {
		rec, err := d.sources.Get(ctx, s.key)
		if err != nil && contracts.CodeOf(err) != contracts.CodeNotFound {
			return nil, err
		}
		if q.Force || rec == nil || !d.fresh(rec) {
			rounds = append(rounds, s.refresh.ask(q.Force))
		}
	}
	until := time.NewTimer(time.Duration(max(0, q.Wait)) * time.Millisecond)
	defer until.Stop()
wait:
	for _, ended := range rounds {
		select {
		case <-ended:
		case <-until.C:
			break wait
		case <-ctx.Done():
			break wait
		}
	}
	return d.records(context.WithoutCancel(ctx), wanted)
}

func (d *discoverer) wanted(t contracts.TenantID, ids []contracts.SourceID) ([]*source, error) {
	var out []*source
	for _, id := range ids {
		s := d.configured[contracts.SourceKey(t, id)]
		if s == nil {
			return nil, contracts.Errorf(contracts.CodeNotFound, "sources: there is no source %q", id.String())
		}
		out = append(out, s)
	}
	if len(ids) == 0 {
		for _, s := range d.configured {
			if s.tenant == t {
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(a, b *source) int { return strings.Compare(a.id.String(), b.id.String()) })
	return out, nil
}

func (d *discoverer) records(ctx context.Context, sources []*source) (*contracts.DiscoverAnswer, error) {
	a := &contracts.DiscoverAnswer{Sources: []contracts.SourceRecord{}}
	for _, s := range sources {
		rec, err := d.sources.Get(ctx, s.key)
		switch {
		case contracts.CodeOf(err) == contracts.CodeNotFound:
			rec = &contracts.SourceRecord{Source: s.id, State: contracts.SourceStatePending}
		case err != nil:
			return nil, fmt.Errorf("read the sources: %w", err)
		}
		rec.Unsent, rec.Settings = nil, ""
		a.Sources = append(a.Sources, *rec)
	}
	return a, nil
}
