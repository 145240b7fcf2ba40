package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/source/busplugin"
)

// busSource is the source of a plugin on the bus.
func busSource(t contracts.TenantID, c config.BusSource, conn *nats.Conn) *source {
	s := &source{
		id: c.ID, settings: busSettings(c), alwaysLoad: c.AlwaysLoad, trusted: c.TrustAnnotations,
		loading: c.Loading, connectTime: connectTimeout,
	}
	if c.Timeout > 0 {
		s.callTime = time.Duration(c.Timeout) * time.Millisecond
	}
	plugin := contracts.PluginID(c.Plugin)
	s.announces = contracts.PluginChangedSubject(t, plugin)
	s.dial = func(_ context.Context, changed func()) (connection, error) {
		return byName{busplugin.New(busplugin.Config{
			Conn: conn, Tenant: t, Plugin: plugin, Include: c.Include, Exclude: c.Exclude,
		}, changed)}, nil
	}
	return s
}

// busSettings returns the fingerprint of what decides which tools the plugin has and how they are listed.
func busSettings(c config.BusSource) contracts.Hash {
	b, _ := json.Marshal([]any{c.ID, "bus", c.Plugin, c.Include, c.Exclude, c.AlwaysLoad, c.TrustAnnotations, c.Loading})
	return contracts.HashOf(b)
}

// hearPlugins has every plugin on the bus listed again when it says that it is there or changed, and all of them when such news may have been missed.
func (s *Service) hearPlugins(ctx context.Context) error {
	var all []*source
	for _, src := range s.configured {
		if src.announces != "" {
			all = append(all, src)
		}
	}
	if len(all) == 0 {
		<-ctx.Done()
		return nil
	}
	for _, src := range all {
		news := announced(src)
		sub, err := s.bus.Conn.Subscribe(src.announces, func(*nats.Msg) { news() })
		if err != nil {
			return fmt.Errorf("hear of %s: %w", src.id, err)
		}
		defer sub.Unsubscribe()
	}
	s.bus.Conn.FlushWithContext(ctx) // what is announced from here on is heard
	for _, src := range all {
		missed(src)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.bus.Reconnected():
			for _, src := range all {
				missed(src)
			}
		}
	}
}

// missed is what is to be done when the plugin may have said something that was not heard: what is thought of it may not hold.
func missed(src *source) {
	src.retry.worked()
	src.refresh.toolsChanged()
}

// comesBackWithin is for how long calls wait for a plugin that is missing. It covers the 2 s after which NATS clients try again to reach a server, and the start of an
// instance that takes the place of another.
const comesBackWithin = 5 * time.Second

// use returns a connection as the pool does, but waits for a plugin that may come back.
func (s *Service) use(ctx context.Context, h *hold) (*link, error) {
	for {
		works := h.job.source.retry.works()
		l, err := s.pool.use(ctx, h.job.source, h.job.scope)
		switch {
		case err == nil:
			return l, nil
		case h.comesBack(ctx, works, err):
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		default:
			return nil, err
		}
	}
}

// comesBack reports whether a call can be tried again that ended with err. Where that says that nobody is there it waits, for a while, until works is closed.
func (h *hold) comesBack(ctx context.Context, works <-chan struct{}, err error) bool {
	if !errors.Is(err, busplugin.ErrAbsent) {
		return false
	}
	limit := time.NewTimer(min(comesBackWithin-h.job.source.retry.missing(), time.Until(h.job.deadline)/2))
	defer limit.Stop()
	select {
	case <-works:
		return ctx.Err() == nil
	case <-limit.C:
	case <-ctx.Done():
	}
	return false
}

// leastQuiet is how often a plugin can end, by saying that it is there, the pause after its failures.
const leastQuiet = 2 * time.Second

// announced returns what is to be done when the plugin says that it is there or changed.
func announced(src *source) func() {
	var mu sync.Mutex
	var last time.Time
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.Sub(last) >= leastQuiet {
			last = now
			src.retry.worked()
		}
		src.refresh.toolsChanged()
	}
}
