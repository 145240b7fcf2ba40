package executor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolcrib/toolcrib/internal/core/admission"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/source/mcp"
)

const (
	listTimeout = 30 * time.Second
	// atOnce is how many sources are discovered at once. One that takes longer than slotTime goes on outside of that number, so that it holds up nobody.
	atOnce   = 8
	slotTime = time.Second
	// leastCalm is how long a source's news of changed tools are gathered before it is listed, at least;
	// each time in a row that the listing turns out to be the same doubles it, up to mostCalm.
	leastCalm     = 200 * time.Millisecond
	mostCalm      = time.Minute
	longestReason = 500 // in characters
	// soon is the pause after a failure that has nothing to do with the source.
	soon = time.Second
)

// A discoverer keeps the listings of all sources up to date.
type discoverer struct {
	*Service
	slots    chan struct{}
	measured *lru.Cache[contracts.Hash, contracts.Cost] // sizes of tools
	scanner  *admission.Scanner
	flagged  *lru.Cache[contracts.Hash, []contracts.Flag] // of tools, also where there are none
}

const keptMeasures = 50_000

func newDiscoverer(s *Service) *discoverer {
	measured, _ := lru.New[contracts.Hash, contracts.Cost](keptMeasures)
	flagged, _ := lru.New[contracts.Hash, []contracts.Flag](keptMeasures)
	return &discoverer{Service: s, slots: make(chan struct{}, atOnce), measured: measured, scanner: admission.NewScanner(), flagged: flagged}
}

// run discovers until ctx is done.
func (d *discoverer) run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range d.configured {
		all.Go(func() { d.follow(ctx, s) })
	}
	for {
		err := d.forgetOthers(ctx)
		if err == nil || ctx.Err() != nil {
			break
		}
		d.log.Error("sources that are no longer configured were not removed", "err", err)
		sleep(ctx, soon, nil)
	}
	<-ctx.Done()
	return nil
}

// forgetOthers removes the records of sources that are not configured.
func (d *discoverer) forgetOthers(ctx context.Context) error {
	var gone []contracts.Key
	err := d.sources.List(ctx, ">", func(key contracts.Key, rec *contracts.SourceRecord) error {
		if d.configured[key] == nil && !rec.Removed {
			gone = append(gone, key)
		}
		return nil
	})
	for _, key := range gone {
		if err == nil {
			err = d.forget(ctx, key)
		}
	}
	return err
}

// forget removes the record of a source, or leaves nothing of it but what was admitted, so that no tool is new when the source comes back.
func (d *discoverer) forget(ctx context.Context, key contracts.Key) error {
	rec, err := d.sources.Transition(ctx, key, func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
		*rec = contracts.SourceRecord{Outbox: rec.Outbox, Source: rec.Source, Admission: rec.Admission, Removed: true}
		return nil, nil
	})
	if err != nil || rec.Admission != nil {
		return err
	}
	return d.bucket.Delete(ctx, string(key))
}

// follow keeps one source's listing up to date. Each has a goroutine of its own, so that none waits for another.
func (d *discoverer) follow(ctx context.Context, s *source) {
	due := d.begin(ctx, s)
	calm := leastCalm
	for sleep(ctx, due, s.refresh.signal) {
		if !s.refresh.urgent() && s.refresh.hasChanged() {
			for end := time.Now().Add(calm); time.Now().Before(end) && !s.refresh.urgent(); {
				if !sleep(ctx, time.Until(end), s.refresh.signal) {
					return
				}
			}
		}
		changed, forced := s.refresh.begin()
		var same bool
		due, same = d.round(ctx, s, changed || forced, forced)
		switch {
		case changed && same:
			calm = min(2*calm, mostCalm)
		case changed:
			calm = leastCalm
		}
		s.refresh.end()
	}
}

// sleep waits for d, or for a signal; it returns false once ctx is done.
func sleep(ctx context.Context, d time.Duration, signal <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-signal:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// begin brings the record of a source up to its configuration, and returns when to list it.
func (d *discoverer) begin(ctx context.Context, s *source) (due time.Duration) {
	for {
		err := d.change(ctx, s, func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
			if rec.Settings != s.settings {
				*rec = contracts.SourceRecord{Outbox: rec.Outbox, Source: s.id, Settings: s.settings, Admission: rec.Admission}
			}
			age := time.Since(rec.Discovered)
			due = 0
			switch {
			case rec.Listing == "" || age >= contracts.ListingUsable:
				rec.State, rec.Reason = contracts.SourceStatePending, ""
			case d.fresh(rec):
				due = d.freshFor(rec)
			}
			rec.AlwaysLoad = s.alwaysLoad
			return d.reviewAgain(ctx, s, rec)
		})
		if err == nil {
			return due
		}
		d.log.Error("source not recorded", "tenant", string(s.tenant), "source", s.id.String(), "err", err)
		if !sleep(ctx, soon, nil) {
			return 0
		}
	}
}

// fresh reports whether the record needs no refresh yet.
func (d *discoverer) fresh(rec *contracts.SourceRecord) bool {
	return rec.State == contracts.SourceStateReady && rec.Reason == "" && time.Since(rec.Discovered) < d.cfg.Fresh
}

// freshFor returns for how long a fresh record needs no refresh, a little less than it could be.
func (d *discoverer) freshFor(rec *contracts.SourceRecord) time.Duration {
	return max(0, time.Until(rec.Discovered.Add(d.cfg.Fresh-d.cfg.Fresh/20)))
}

// round lists a source where that is due, and returns when the next one is and whether the listing is the one known before.
func (d *discoverer) round(ctx context.Context, s *source, anyway, forced bool) (due time.Duration, same bool) {
	rec, err := d.sources.Get(ctx, s.key)
	if err != nil && contracts.CodeOf(err) != contracts.CodeNotFound {
		d.log.Error("source not read", "tenant", string(s.tenant), "source", s.id.String(), "err", err)
		return soon, true
	}
	if rec != nil && !anyway && d.fresh(rec) && d.freshFor(rec) > 0 {
		return d.freshFor(rec), true // another executor was faster
	}
	if forced {
		s.retry.worked()
	} else if wait, _ := s.retry.wait(); wait > 0 {
		return wait, true
	}
	free, ok := d.slot(ctx)
	if !ok {
		return 0, true
	}
	begin := time.Now()
	listing, skipped, err := d.list(ctx, s)
	free()
	switch {
	case ctx.Err() != nil:
		return 0, true
	case err != nil:
		err = d.failed(ctx, s, err)
		due, _ = s.retry.wait()
		due = max(due, leastCalm)
	default:
		same, err = d.listed(ctx, s, listing, skipped, begin)
		due = d.cfg.Fresh - d.cfg.Fresh/20
	}
	if err != nil {
		d.log.Error("source not recorded", "tenant", string(s.tenant), "source", s.id.String(), "err", err)
		due = soon
	}
	return due, same
}

// slot waits for one of the places of sources that are discovered at once. free may be called late, and often.
func (d *discoverer) slot(ctx context.Context) (free func(), ok bool) {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, false
	}
	release := sync.OnceFunc(func() { <-d.slots })
	late := time.AfterFunc(slotTime, release)
	return func() { late.Stop(); release() }, true
}

// list asks the source for its tools and puts them into the form of a listing.
func (d *discoverer) list(ctx context.Context, s *source) (_ *contracts.Listing, _ []contracts.SkippedTool, err error) {
	defer func() {
		if r := recover(); r != nil {
			d.log.Error("listing panicked", "source", s.id.String(), "panic", r)
			err = contracts.Errorf(contracts.CodeSourceUnavailable, "internal error")
		}
	}()
	l, err := d.pool.use(ctx, s, "")
	if err != nil {
		return nil, nil, err
	}
	worked := false
	defer func() { d.pool.done(l, worked) }()
	bound, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	raw, skipped, err := l.conn.List(bound)
	if err != nil {
		d.pool.drop(l)
		s.retry.failed(err)
		return nil, nil, err
	}
	worked = true
	listing, skipped := d.curate(s, raw, skipped)
	return listing, skipped, nil
}

// listed records a good listing.
func (d *discoverer) listed(ctx context.Context, s *source, l *contracts.Listing, skipped []contracts.SkippedTool, begin time.Time) (same bool, _ error) {
	err := d.change(ctx, s, func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
		now, before := time.Now().UTC(), rec.Listing
		events, err := d.review(ctx, s, rec, l)
		if err != nil {
			return nil, err
		}
		same = rec.Listing == before
		quiet := same && rec.State == contracts.SourceStateReady && rec.Reason == ""
		rec.State, rec.Reason, rec.Detail = contracts.SourceStateReady, "", ""
		rec.Discovered, rec.Skipped, rec.AlwaysLoad, rec.Settings = now, skipped, s.alwaysLoad, s.settings
		if quiet {
			return events, nil
		}
		return append(events, contracts.SourceListed{
			At: now, Source: s.id, Listing: rec.Listing, Tools: rec.Tools, Skipped: skipped, Ms: time.Since(begin).Milliseconds(),
		}), nil
	})
	return same, err
}

// failed records why a source could not be listed. The listing known before stays in use while it is not too old.
func (d *discoverer) failed(ctx context.Context, s *source, why error) error {
	reason := names.Cut(names.Text(contracts.AsError(why).Message), longestReason)
	said, _ := errors.AsType[mcp.Said](why)
	return d.change(ctx, s, func(rec *contracts.SourceRecord) ([]contracts.Event, error) {
		kept := rec.Listing != "" && time.Since(rec.Discovered) < contracts.ListingUsable
		before := *rec
		rec.State = contracts.SourceStateFailed
		if kept {
			rec.State = contracts.SourceStateReady
		}
		rec.AlwaysLoad, rec.Settings = s.alwaysLoad, s.settings
		rec.Detail = names.Text(string(said))
		if sameReason(before.Reason, reason) {
			if rec.State == before.State {
				return nil, nil
			}
			reason = before.Reason
		}
		rec.Reason = reason
		return []contracts.Event{contracts.SourceFailed{At: time.Now().UTC(), Source: s.id, Reason: reason, Kept: kept}}, nil
	})
}

// sameReason reports whether two reasons differ in nothing but numbers: times, process ids and the like.
func sameReason(a, b string) bool {
	numberless := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, s)
	}
	return a != "" && numberless(a) == numberless(b)
}

// change changes the record of a source, which is made where it is missing.
func (d *discoverer) change(ctx context.Context, s *source, f func(*contracts.SourceRecord) ([]contracts.Event, error)) error {
	for {
		_, err := d.sources.Transition(ctx, s.key, f)
		if contracts.CodeOf(err) != contracts.CodeNotFound {
			return err
		}
		rec := &contracts.SourceRecord{Source: s.id, Settings: s.settings}
		events, err := f(rec)
		if err != nil {
			return err
		}
		if err = d.sources.Create(ctx, s.key, rec, events...); contracts.CodeOf(err) != contracts.CodeConflict {
			return err
		}
	}
}
