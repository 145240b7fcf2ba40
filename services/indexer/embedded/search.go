package embedded

import "github.com/toolcrib/toolcrib/pkg/contracts"

// A Match is a tool that fits a query.
type Match struct {
	Tool   *contracts.Tool // of the listing that the segment was built of; not to be changed
	Source contracts.SourceID
	Score  float64 // from 0 to 1, never higher than that of the match before
}

// A Result is the answer to a query.
type Result struct {
	Hits  []Match // best first; empty where nothing fits
	Total int     // tools that match, shown or not; 0 where nothing fits
	// Nearest are at most three ids of tools that come near, best first, where
	// nothing fits.
	Nearest []contracts.ToolID
}

// Search answers a query with at most limit tools. A query of spaces or stop
// words only, that is no name of a tool either, has an empty result.
func (v *View) Search(query string, limit int) Result {
	words := splitQuery(query)
	clauses := v.plan(words)
	named := v.named(query, words)
	if len(clauses) == 0 && len(named) == 0 {
		return Result{}
	}
	s := v.scratch.Get().(*scratch)
	defer v.scratch.Put(s)
	s.reset(v)
	for i := range clauses {
		v.score(&clauses[i], uint16(i+1), s)
	}
	r := v.newRanking(s, clauses, words)
	list := r.best(max(limit, rankedAtLeast))
	fits := r.fits(list)
	if !fits {
		list = list[:0]
		r.total = 0
	}
	list = r.withNamed(list, named)
	if len(list) == 0 {
		return Result{Nearest: r.nearest(query)}
	}
	result := Result{Total: r.total}
	for _, c := range list[:max(0, min(limit, len(list)))] {
		p := &v.parts[c.part]
		result.Hits = append(result.Hits, Match{&p.tools[c.doc], p.source, c.shown()})
	}
	return result
}

// scratch is the memory of one search.
type scratch struct {
	slots   []slot
	touched []place // whose slots are in use, hidden ones too
	owned   []bool  // by part: its source is named in the query
	top     []candidate
}

// place is where a tool is in a view.
type place struct {
	part int32
	doc  uint32
}

// slot gathers what a tool scores.
type slot struct {
	score  float32
	cover  float32 // weight of the words of the query that the tool holds
	last   float32 // what the clause being scored brought
	clause uint16  // the last one that brought something, counted from 1
	named  uint8   // words of the query in the tool's name
	demand uint8   // demanded words that the tool holds
}

// reset makes the scratch ready for another search of v.
func (s *scratch) reset(v *View) {
	for _, t := range s.touched {
		s.slots[v.parts[t.part].base+int(t.doc)] = slot{}
	}
	s.touched = s.touched[:0]
	clear(s.owned)
}

// score adds what a clause, the nth, brings to each tool.
func (v *View) score(c *clause, n uint16, s *scratch) {
	for i := range c.alts {
		a := &c.alts[i]
		e := effect{clause: n, demand: c.demanded}
		if !c.joined {
			e.cover = float32(c.weight * a.cover)
			e.name = a.cover == 1
		}
		weight := float32(a.weight / fullImpact)
		for at := a.last; at != 0; at = v.terms.refs[at].before {
			r := &v.terms.refs[at]
			p := &v.parts[r.part]
			slots := s.slots[p.base : p.base+p.count]
			for _, t := range p.postings[r.from:r.to] {
				if slots[t.doc].clause == 0 {
					s.touched = append(s.touched, place{r.part, t.doc})
				}
				e.add(&slots[t.doc], weight*float32(t.impact), t.fields)
			}
			if r.share == 0 {
				continue
			}
			if r.owner && e.name && i == 0 {
				s.owned[r.part] = true
			}
			for k := range slots { // tools with postings have it in them already
				if slots[k].clause == 0 {
					s.touched = append(s.touched, place{r.part, uint32(k)})
				}
				e.add(&slots[k], weight*float32(r.share), 0)
			}
		}
	}
}

// effect is how an alternative of a clause acts on a tool.
type effect struct {
	clause uint16
	cover  float32
	name   bool // count the tools that have it in their name
	demand bool
}

// add brings x to a tool for a term in some of its fields. The first
// alternative of a clause in a tool covers its word, later ones can only raise the score.
func (e *effect) add(s *slot, x float32, in fieldSet) {
	if s.clause == e.clause {
		if x > s.last {
			s.score += x - s.last
			s.last = x
		}
		return
	}
	s.clause, s.last = e.clause, x
	s.score += x
	s.cover += e.cover
	if e.name && in.has(fieldName) {
		s.named++
	}
	if e.demand {
		s.demand++
	}
}
