package indexer

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/indexer/embedded"
)

// keptViews is how many assembled catalogues are kept. They are small beside the segments they share.
const keptViews = 256

// A shelf keeps the segments of listings and the views of catalogues in memory,
// the least used leaving first. Segments and views belong to one tenant each. Safe for concurrent use.
type shelf struct {
	mu       sync.Mutex
	segments *simplelru.LRU[string, *slot]
	views    *simplelru.LRU[string, *embedded.View]
	size     int64
	most     int64
}

// A slot builds its segment once, however many ask for it.
type slot struct {
	once    sync.Once
	segment *embedded.Segment
}

func newShelf(most int64) *shelf {
	s := &shelf{most: most}
	s.segments, _ = simplelru.NewLRU(1<<20, func(_ string, x *slot) { s.size -= x.bytes() })
	s.views, _ = simplelru.NewLRU[string, *embedded.View](keptViews, nil)
	return s
}

func (x *slot) bytes() int64 {
	if x.segment == nil {
		return 0
	}
	return x.segment.Size()
}

// view returns the view of a catalogue, building what is missing.
func (s *shelf) view(t contracts.TenantID, c *catalogue.Catalogue) *embedded.View {
	key := string(t) + "/" + string(c.Hash)
	s.mu.Lock()
	v, ok := s.views.Get(key)
	s.mu.Unlock()
	if ok {
		return v
	}
	parts := make([]embedded.Part, 0, len(c.Parts))
	for _, p := range c.Parts {
		parts = append(parts, embedded.Part{Segment: s.segment(t, p.Listing), Hidden: p.Hidden})
	}
	v = embedded.NewView(parts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views.Add(key, v)
	return v
}

func (s *shelf) segment(t contracts.TenantID, l *catalogue.Listing) *embedded.Segment {
	key := string(t) + "/" + string(l.Hash)
	s.mu.Lock()
	x, ok := s.segments.Get(key)
	if !ok {
		x = &slot{}
		s.segments.Add(key, x)
	}
	s.mu.Unlock()
	x.once.Do(func() {
		segment := embedded.Build(searchable(l.Listing))
		s.mu.Lock()
		defer s.mu.Unlock()
		x.segment = segment
		if now, ok := s.segments.Peek(key); !ok || now != x {
			return // it left while it was built
		}
		s.size += segment.Size()
		for s.size > s.most && s.segments.Len() > 1 {
			s.segments.RemoveOldest()
			s.views.Purge() // a view holds its segments
		}
	})
	return x.segment
}

// searchable returns the listing without its source's instructions: they speak of all its
// tools, also of those that a run may not see, and would have each of them found by what is said of another.
func searchable(l *contracts.Listing) *contracts.Listing {
	c := *l
	c.Instructions = ""
	return &c
}
