package planner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A world is what a run may see at one moment. Nothing that policy hides has left a trace in it.
type world struct {
	basis   string
	parts   []part // sorted by source; each has a visible tool
	pending []contracts.SourceStatus
	failed  []contracts.SourceStatus
	// quarantined are tools that no run may see until they are admitted.
	quarantined map[contracts.ToolID]bool
}

// A part is a source's listing as a run may see it.
type part struct {
	*view
	listing *catalogue.Listing
}

func (p *part) source() contracts.SourceID { return p.listing.Source }

// tools calls f with every tool that the run may see, in the order of ids.
func (p *part) tools(f func(*contracts.Tool)) {
	hidden := p.hidden
	for i := range p.listing.Tools {
		if len(hidden) > 0 && hidden[0] == i {
			hidden = hidden[1:]
			continue
		}
		f(&p.listing.Tools[i])
	}
}

// A view is what a policy leaves of a listing. It is shared by runs and must not be changed.
type view struct {
	hidden  []int // ascending positions
	visible int
	hash    contracts.Hash // over the visible tools
	cost    contracts.Cost // of exposing all visible tools directly
	direct  []int          // positions of the visible tools that are direct in every surface
	// deferred is the tokens of the visible tools that are not.
	deferred int
	// exposed finds the visible tools by their exposed names in lower case.
	exposed func() map[string]contracts.ToolID
}

func newView(l *catalogue.Listing, e *policy.Effective) *view {
	v, sum := &view{}, sha256.New()
	for i := range l.Tools {
		t := &l.Tools[i]
		if e.See(policy.ToolOf(t, l.TrustAnnotations)).Denied() {
			v.hidden = append(v.hidden, i)
			continue
		}
		v.visible++
		fmt.Fprintf(sum, "%s %s\n", t.ID, t.Hash)
		c := costOf(t)
		v.cost.Bytes += c.Bytes
		v.cost.Tokens += c.Tokens
		if t.Loading == contracts.LoadingDirect {
			v.direct = append(v.direct, i)
		} else {
			v.deferred += c.Tokens
		}
	}
	v.hash = contracts.Hash(hex.EncodeToString(sum.Sum(nil)))
	v.exposed = sync.OnceValue(func() map[string]contracts.ToolID {
		m := make(map[string]contracts.ToolID, v.visible)
		p := part{v, l}
		p.tools(func(t *contracts.Tool) { m[strings.ToLower(names.Exposed(t.ID, false))] = t.ID })
		return m
	})
	return v
}

// costOf returns what the tool's definition costs; a listing that a caller sent may not tell it.
func costOf(t *contracts.Tool) contracts.Cost {
	if t.Tokens > 0 {
		return contracts.Cost{Bytes: t.Bytes, Tokens: t.Tokens}
	}
	b, n := tokens.Definition(t.Name, t.Description, t.InputSchema)
	return contracts.Cost{Bytes: b, Tokens: n}
}

// size returns the number of tools that the run may see.
func (w *world) size() int {
	n := 0
	for i := range w.parts {
		n += w.parts[i].visible
	}
	return n
}

// hash names the tools that the run may see, by nothing but themselves: what policy hides leaves no trace in it.
func (w *world) hash() contracts.Hash {
	sum := sha256.New()
	for i := range w.parts {
		io.WriteString(sum, string(w.parts[i].hash))
	}
	return contracts.Hash(hex.EncodeToString(sum.Sum(nil)))
}

// survey returns what a run of tenant t may see now, with its client tools. The world's basis is read before anything else: what
// changes meanwhile makes another basis, and so another revision.
func (s *Service) survey(ctx context.Context, t contracts.TenantID, basis string, e *policy.Effective, client contracts.Hash) (*world, error) {
	w := &world{basis: basis, quarantined: map[contracts.ToolID]bool{}}
	key := viewKey(t, e)
	records, _ := s.state.Sources(t)
	for _, r := range records {
		if r.Source.Kind == contracts.SourceClient { // these come with a run
			continue
		}
		if err := s.look(ctx, w, t, r, e, key); err != nil {
			return nil, err
		}
	}
	if client != "" {
		l, err := s.library.Listing(ctx, t, client)
		if contracts.CodeOf(err) == contracts.CodeNotFound {
			return nil, contracts.Errorf(contracts.CodeInvalid, "clientTools: their listing is not stored any more")
		}
		if err != nil {
			return nil, fmt.Errorf("read the client tools: %w", err)
		}
		if l.Source.Kind != contracts.SourceClient {
			return nil, contracts.Errorf(contracts.CodeInvalid, "clientTools: they are those of %s; want a source of kind %s", l.Source, contracts.SourceClient)
		}
		w.add(s, l, e, key)
	}
	slices.SortFunc(w.parts, func(a, b part) int { return strings.Compare(a.source().String(), b.source().String()) })
	return w, nil
}

// look adds one source to the world.
func (s *Service) look(ctx context.Context, w *world, t contracts.TenantID, r *contracts.SourceRecord, e *policy.Effective, key string) error {
	switch status := (contracts.SourceStatus{Source: r.Source}); {
	case usable(r):
		l, err := s.library.Listing(ctx, t, r.Listing)
		if unreadable(err) {
			s.log.Error("listing cannot be read", "tenant", t, "source", r.Source, "err", err)
			if couldShow(e, r.Source) {
				status.Reason = "its listing cannot be read"
				w.failed = append(w.failed, status)
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the listing of %s: %w", r.Source, err)
		}
		w.add(s, l, e, key)
	case !couldShow(e, r.Source):
	case r.State == contracts.SourceStateFailed:
		status.Reason = reason(r.Reason)
		w.failed = append(w.failed, status)
	default:
		w.pending = append(w.pending, status)
	}
	return nil
}

func (w *world) add(s *Service, l *catalogue.Listing, e *policy.Effective, key string) {
	for _, id := range l.Quarantined {
		w.quarantined[id] = true
	}
	if v := s.view(key, l, e); v.visible > 0 {
		w.parts = append(w.parts, part{v, l})
	}
}

// usable reports whether the source has a listing that runs can use.
func usable(r *contracts.SourceRecord) bool {
	return r.State == contracts.SourceStateReady && r.Listing != ""
}

// waiting reports whether the source is still being discovered.
func waiting(r *contracts.SourceRecord) bool {
	return !usable(r) && r.State != contracts.SourceStateFailed
}

// unreadable reports whether trying again to read a listing cannot help: it is gone or damaged.
func unreadable(err error) bool {
	if err == nil {
		return false
	}
	if _, ok := errors.AsType[*contracts.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); ok {
		return true
	}
	_, ok := errors.AsType[*json.UnmarshalTypeError](err)
	return ok
}

// longestReason is the most characters of a source's reason that a run is told.
const longestReason = 300

func reason(s string) string {
	if s = oneLine(s, longestReason); s == "" {
		return "no reason is known"
	}
	return s
}

// viewKey names what a policy shows to a run among the views of a tenant.
func viewKey(t contracts.TenantID, e *policy.Effective) string {
	return string(t) + "/" + string(e.Sight()) + "/"
}

func (s *Service) view(key string, l *catalogue.Listing, e *policy.Effective) *view {
	key += string(l.Hash)
	if v, ok := s.views.Get(key); ok {
		return v
	}
	v := newView(l, e)
	s.views.Add(key, v)
	return v
}

// catalogue returns the world as a catalogue without withdrawn tools.
func (w *world) catalogue() *contracts.Catalogue {
	c := &contracts.Catalogue{Listings: make([]contracts.CatalogueListing, 0, len(w.parts))}
	for i := range w.parts {
		p := &w.parts[i]
		c.Listings = append(c.Listings, contracts.CatalogueListing{Source: p.source(), Listing: p.listing.Hash, Visible: p.visible, Hidden: p.hidden})
	}
	return c
}

// describe writes into the plan what the world is: its size, its cost and what is missing from it.
func (w *world) describe(p *contracts.Plan) {
	p.Basis = w.basis
	p.Pending = orEmpty(w.pending)
	p.Failed = orEmpty(w.failed)
	p.Catalogue.Size, p.Catalogue.Hash = w.size(), w.hash()
	p.Catalogue.Sources = map[contracts.SourceKind]int{}
	p.Direct, p.BySource = contracts.Cost{}, map[contracts.SourceKind]contracts.Cost{}
	for i := range w.parts {
		kind, c := w.parts[i].source().Kind, w.parts[i].cost
		p.Catalogue.Sources[kind] += w.parts[i].visible
		of := p.BySource[kind]
		p.BySource[kind] = contracts.Cost{Bytes: of.Bytes + c.Bytes, Tokens: of.Tokens + c.Tokens}
		p.Direct.Bytes += c.Bytes
		p.Direct.Tokens += c.Tokens
	}
}

func orEmpty(s []contracts.SourceStatus) []contracts.SourceStatus {
	if s == nil {
		return []contracts.SourceStatus{}
	}
	return s
}
