package indexer

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// What a model is shown of a tool, in characters.
const (
	descriptionLimit = 2048
	signatureLimit   = 300
)

func (s *Service) search(ctx context.Context, t contracts.TenantID, q contracts.SearchRequest) (contracts.SearchAnswer, error) {
	if len(q.Queries) == 0 {
		return s.one(ctx, t, q.Run, "query", q.Query, q.Limit)
	}
	if q.Query != "" {
		return contracts.SearchAnswer{}, contracts.Errorf(contracts.CodeInvalid, "query: give either query or queries")
	}
	if len(q.Queries) > contracts.SearchMaxQueries {
		return contracts.SearchAnswer{}, contracts.Errorf(contracts.CodeInvalid, "queries: %d; at most %d are allowed", len(q.Queries), contracts.SearchMaxQueries)
	}
	batch := contracts.SearchAnswer{Hits: []contracts.Hit{}, Pending: []contracts.SourceStatus{}, Failed: []contracts.SourceStatus{}}
	for i, query := range q.Queries {
		a, err := s.one(ctx, t, q.Run, "queries/"+strconv.Itoa(i), query, q.Limit)
		if err != nil {
			return contracts.SearchAnswer{}, err
		}
		batch.Results = append(batch.Results, a)
	}
	return batch, nil
}

// one answers one query, which stands in field. Where it finds nothing and sources are still pending, it waits for them.
func (s *Service) one(ctx context.Context, t contracts.TenantID, r contracts.RunID, field, query string, limit int) (contracts.SearchAnswer, error) {
	if _, err := control.Query(field, query); err != nil {
		return contracts.SearchAnswer{}, err
	}
	if limit < 0 {
		return contracts.SearchAnswer{}, control.Wrong("limit", fmt.Sprintf("is %d; want a positive integer", limit))
	}
	a := contracts.SearchAnswer{ID: contracts.NewSearchID(), Query: query}
	begun := time.Now()
	deadline := time.NewTimer(s.cfg.PendingWait)
	defer deadline.Stop()
	var took time.Duration
	for waited := false; ; waited = true {
		_, changed := s.live.Sources(t)
		rec, c, err := s.current(ctx, t, r)
		if err != nil {
			return contracts.SearchAnswer{}, err
		}
		a.Limit, a.Clamped = limitOf(rec.Plan, limit)
		searching := time.Now()
		s.find(&a, t, c, query)
		took = time.Since(searching)
		a.Pending, a.Failed = orEmpty(rec.Plan.Pending), orEmpty(rec.Plan.Failed)
		if len(a.Hits) > 0 || len(a.Pending) == 0 || !waitFor(ctx, changed, deadline.C) {
			if waited || len(a.Hits) == 0 && len(a.Pending) > 0 {
				a.Waited = time.Since(begun).Milliseconds()
			}
			break
		}
	}
	e := contracts.Searched{
		At: time.Now().UTC(), Run: r, Search: a.ID, Query: query, Limit: a.Limit, Total: a.Total, Hits: []contracts.ToolID{},
		Nearest: a.Nearest, Pending: a.Pending, Micros: took.Microseconds(),
	}
	for _, h := range a.Hits {
		e.Hits = append(e.Hits, h.ID)
	}
	s.publish(ctx, t, e)
	return a, nil
}

// limitOf returns how many hits a search that asks for limit gets, by what the run was told, and whether it asked for more.
func limitOf(p *contracts.Plan, limit int) (int, bool) {
	most := cmp.Or(p.SearchMost, contracts.SearchMaxLimit)
	if limit == 0 {
		limit = cmp.Or(p.SearchLimit, contracts.SearchDefaultLimit)
	}
	return min(limit, most), limit > most
}

// waitFor reports whether changed came before the deadline.
func waitFor(ctx context.Context, changed <-chan struct{}, deadline <-chan time.Time) bool {
	select {
	case <-changed:
		return true
	case <-deadline:
	case <-ctx.Done():
	}
	return false
}

func orEmpty(s []contracts.SourceStatus) []contracts.SourceStatus {
	if s == nil {
		return []contracts.SourceStatus{}
	}
	return s
}

func (s *Service) find(a *contracts.SearchAnswer, t contracts.TenantID, c *catalogue.Catalogue, query string) {
	a.Hits, a.Nearest = []contracts.Hit{}, nil
	if ids, ok := strings.CutPrefix(strings.TrimSpace(query), "select:"); ok {
		s.pick(a, c, ids)
		return
	}
	r := s.shelf.view(t, c).Search(query, a.Limit)
	a.Total, a.Nearest = r.Total, r.Nearest
	for _, m := range r.Hits {
		a.Hits = append(a.Hits, s.hit(m.Tool, m.Source, m.Score))
	}
}

// pick answers "select:a,b" with exactly the tools named; what cannot be found is left out and its nearest names are told.
func (s *Service) pick(a *contracts.SearchAnswer, c *catalogue.Catalogue, ids string) {
	for id := range strings.SplitSeq(ids, ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		e, err := c.Resolve(id)
		if err != nil {
			for _, near := range c.Suggest(id) {
				a.Nearest = append(a.Nearest, contracts.ToolID(near))
			}
			continue
		}
		if a.Total++; len(a.Hits) < a.Limit {
			a.Hits = append(a.Hits, s.hit(e.Tool, e.Listing.Source, 1))
		}
	}
}

func (s *Service) hit(t *contracts.Tool, source contracts.SourceID, score float64) contracts.Hit {
	return contracts.Hit{
		ID: t.ID, Source: source.Kind, Owner: source.Owner, Name: t.Name, Title: names.Text(t.Title),
		Description: names.Cut(names.Text(t.Description), descriptionLimit), Input: s.signature(t), Score: score,
	}
}

func (s *Service) signature(t *contracts.Tool) string {
	if sig, ok := s.signatures.Get(t.Hash); ok {
		return sig
	}
	sig := names.Text(schema.Signature(t.InputSchema, signatureLimit))
	s.signatures.Add(t.Hash, sig)
	return sig
}

func described(e catalogue.Entry) contracts.DescribeAnswer {
	return contracts.DescribeAnswer{
		ID: e.ID, Source: e.Listing.Source.Kind, Owner: e.Listing.Source.Owner, Name: e.Name, Title: names.Text(e.Title),
		Description: names.Text(e.Description), InputSchema: e.InputSchema, OutputSchema: e.OutputSchema,
		Annotations: e.Annotations, Hash: e.Hash,
	}
}
