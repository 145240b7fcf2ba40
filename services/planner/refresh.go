package planner

import (
	"context"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// mostStale is how many questions to the executor can wait for being asked.
	mostStale = 64
	// askTimeout bounds a question to the executor.
	askTimeout = 10 * time.Second
)

// A staleness is the sources of a tenant that are to be discovered again.
type staleness struct {
	tenant  contracts.TenantID
	sources []contracts.SourceID
}

func (q staleness) name(i int) string { return string(q.tenant) + "/" + q.sources[i].String() }

// refresh has the sources of the tenant whose listing is no longer fresh discovered again, and waits for nothing. A
// source that the executor is being asked for already is not asked for twice.
func (s *Service) refresh(t contracts.TenantID) {
	q := staleness{tenant: t}
	records, _ := s.state.Sources(t)
	for _, r := range records {
		if !usable(r) || time.Since(r.Discovered) <= contracts.ListingFresh {
			continue
		}
		q.sources = append(q.sources, r.Source)
		if last := len(q.sources) - 1; !s.asking.enter(q.name(last), 1) {
			q.sources = q.sources[:last]
		}
	}
	if len(q.sources) == 0 {
		return
	}
	select {
	case s.stale <- q:
	default: // the next run tries again
		s.asked(q)
	}
}

// asked says that the question is over.
func (s *Service) asked(q staleness) {
	for i := range q.sources {
		s.asking.leave(q.name(i))
	}
}

// refreshes asks the executor until ctx is done.
func (s *Service) refreshes(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case q := <-s.stale:
			running.Go(func() { s.ask(ctx, q) })
		case <-ctx.Done():
			return nil
		}
	}
}

// ask asks for a discovery. Without an answer the listings at hand stay in use.
func (s *Service) ask(ctx context.Context, q staleness) {
	defer s.asked(q)
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := bus.Ask[contracts.DiscoverAnswer](ctx, s.bus, q.tenant, contracts.VerbDiscover, contracts.DiscoverRequest{Sources: q.sources})
	if err != nil {
		s.log.Debug("sources are not refreshed", "tenant", q.tenant, "err", err)
	}
}
