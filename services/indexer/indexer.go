// Package indexer makes the catalogues of runs searchable and answers their
// searches and describes. What a run may see was decided by the planner; the
// indexer only finds in it.
package indexer

import (
	"context"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/live"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Config says how searches are answered; how many hits they get is in the plan of their run. Its zero value has the defaults of the specification.
type Config struct {
	// IndexBytes bounds the index kept in memory, approximately; 0 means 256 MiB.
	IndexBytes int64
	// PendingWait is how long a search that finds nothing waits for sources that are still pending; 0 means 5 s.
	PendingWait time.Duration
}

// A Service indexes and answers. Any number of replicas share the questions.
type Service struct {
	bus        *bus.Bus
	cfg        Config
	live       *live.State
	library    *catalogue.Library
	shelf      *shelf
	signatures *lru.Cache[contracts.Hash, string]
	log        *slog.Logger
}

// New opens what the service needs; nothing runs until Run. A nil log is silent.
func New(ctx context.Context, b *bus.Bus, cfg Config, log *slog.Logger) (*Service, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.IndexBytes == 0 {
		cfg.IndexBytes = 256 << 20
	}
	if cfg.PendingWait == 0 {
		cfg.PendingWait = 5 * time.Second
	}
	state, err := live.Open(ctx, b)
	if err != nil {
		return nil, err
	}
	library, err := catalogue.Open(ctx, b)
	if err != nil {
		return nil, err
	}
	signatures, _ := lru.New[contracts.Hash, string](20_000)
	return &Service{b, cfg, state, library, newShelf(cfg.IndexBytes), signatures, log}, nil
}

// Name returns "indexer".
func (s *Service) Name() string { return "indexer" }

// Ready returns nil once the sources and policies of all tenants are known.
func (s *Service) Ready(ctx context.Context) error { return s.live.Loaded(ctx) }

// Run indexes and answers until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	return run.Group(ctx, s.live.Run,
		func(ctx context.Context) error {
			return s.bus.Serve(ctx, s.Name(), bus.Answers(contracts.VerbSearch, s.search), bus.Answers(contracts.VerbDescribe, s.describe))
		},
		func(ctx context.Context) error {
			return s.bus.Consume(ctx, bus.Consumer{
				Stream: contracts.StreamEvents, Durable: s.Name(), Workers: 2,
				Filters: []string{contracts.AllRunPlanned, contracts.AllRunRevised},
			}, bus.EventHandler(s.index))
		})
}

// index builds what a new catalogue needs before the first search comes. Other replicas build at their first search of it.
func (s *Service) index(ctx context.Context, sub contracts.Subject, e contracts.Event, _ bus.Message) error {
	var ref contracts.CatalogueRef
	var blob contracts.Hash
	switch e := e.(type) {
	case contracts.RunPlanned:
		ref, blob = e.Plan.Catalogue, e.Plan.CatalogueBlob
	case contracts.RunRevised:
		ref, blob = e.Catalogue, e.CatalogueBlob
	}
	begun := time.Now()
	c, err := s.library.Catalogue(ctx, sub.Tenant, blob)
	if err != nil {
		return err
	}
	s.shelf.view(sub.Tenant, c)
	return s.bus.Publish(ctx, sub.Tenant, contracts.RunReady{
		At: time.Now().UTC(), Run: sub.Run, Catalogue: ref.Hash, Ms: time.Since(begun).Milliseconds(),
	})
}

// describe answers with a tool's exact definition. Where the tool is not known and a source that is still pending could bring it, it waits for that.
func (s *Service) describe(ctx context.Context, t contracts.TenantID, q contracts.DescribeRequest) (contracts.DescribeAnswer, error) {
	deadline := time.NewTimer(s.cfg.PendingWait)
	defer deadline.Stop()
	for {
		_, changed := s.live.Sources(t)
		rec, c, err := s.current(ctx, t, q.Run)
		if err != nil {
			return contracts.DescribeAnswer{}, err
		}
		e, err := c.Resolve(q.ID)
		if err == nil {
			s.publish(ctx, t, contracts.Described{At: time.Now().UTC(), Run: q.Run, ID: contracts.NewSearchID(), Tool: e.ID})
			return described(e), nil
		}
		from := catalogue.MayCome(q.ID, rec.Plan.Pending)
		if contracts.CodeOf(err) != contracts.CodeUnknownTool || len(from) == 0 || !waitFor(ctx, changed, deadline.C) {
			return contracts.DescribeAnswer{}, catalogue.StillPending(err, from)
		}
	}
}

func (s *Service) current(ctx context.Context, t contracts.TenantID, r contracts.RunID) (*contracts.Run, *catalogue.Catalogue, error) {
	rec, err := s.live.Current(ctx, t, r)
	if err != nil {
		return nil, nil, err
	}
	c, err := s.library.Catalogue(ctx, t, rec.Plan.CatalogueBlob)
	return rec, c, err
}

// publish tells what was answered. The answer is right all the same where that fails.
func (s *Service) publish(ctx context.Context, t contracts.TenantID, e contracts.Event) {
	if err := s.bus.Publish(context.WithoutCancel(ctx), t, e); err != nil {
		s.log.Error("event not published", "err", err)
	}
}
