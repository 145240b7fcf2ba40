package embedded

import (
	"cmp"
	"slices"
)

// How far what is known of a tool, besides its terms, moves its score.
const (
	nameBonus     = 0.1  // all words of its name are asked for
	coverageShare = 0.3  // of the score that depends on how much of the query the tool holds
	ownerBonus    = 0.1  // its source is named
	actionBonus   = 0.05 // it does what is asked for
	actionMalus   = 0.2  // it does something else
	siblingBonus  = 0.05 // of the score of its source's best tool

	mostBonus = (1 + nameBonus) * (1 + ownerBonus) * (1 + actionBonus)
)

// rankedAtLeast is the number of best tools among which siblings are looked
// for, whatever the limit.
const rankedAtLeast = 50

// matchShare is the part of the best tool's score from which on a tool counts as a match.
const matchShare = 0.1

// candidate is a tool that may be shown.
type candidate struct {
	part  int32
	doc   uint32
	tier  tier
	score float32
	cover float32 // weight of the words of the query that it holds
	fit   float32 // score as part of what the query can score at most
}

// ranking turns the slots of a search into candidates.
type ranking struct {
	*View
	*scratch
	clauses []clause
	acts    action
	demands uint8
	cover   float32 // weight of all words of the query
	most    float32 // what the query can score
	floor   float32 // what a tool must score to match
	total   int     // tools that match
}

func (v *View) newRanking(s *scratch, clauses []clause, words []queryWord) *ranking {
	r := &ranking{View: v, scratch: s, clauses: clauses, acts: actionsOfQuery(words)}
	for i := range clauses {
		c := &clauses[i]
		r.most += float32(c.weight)
		if !c.joined {
			r.cover += float32(c.weight)
		}
		if c.demanded {
			r.demands++
		}
	}
	return r
}

// measure finds out what a tool must score to match.
func (r *ranking) measure() {
	most := float32(0)
	for i := range r.parts {
		p := &r.parts[i]
		for doc := range p.tools {
			if s := &r.slots[p.base+doc]; s.score > most && s.demand >= r.demands && !p.hidden.has(uint32(doc)) {
				most = s.score
			}
		}
	}
	r.floor = most * matchShare
}

// best returns the n best of the tools that match, best first.
func (r *ranking) best(n int) []candidate {
	r.measure()
	r.total = 0
	top := r.top[:0]
	floor := float32(0) // of the adjusted score
	for i := range r.parts {
		p := &r.parts[i]
		owned := r.owned[i]
		for doc := range p.tools {
			s := &r.slots[p.base+doc]
			if !r.matches(s) || p.hidden.has(uint32(doc)) {
				continue
			}
			r.total++
			if s.score*mostBonus < floor {
				continue
			}
			c := candidate{part: int32(i), doc: uint32(doc), cover: s.cover}
			if c.score = r.adjusted(s, &p.traits[doc], owned); c.score < floor {
				continue
			}
			if top = append(top, c); len(top) == 2*n {
				r.order(top)
				top = top[:n]
				floor = top[n-1].score
			}
		}
	}
	r.order(top)
	r.top = top
	top = top[:min(n, len(top))]
	r.raiseSiblings(top)
	for i := range top {
		top[i].fit = min(1, top[i].score/r.most)
	}
	return top
}

// matches reports whether what a tool gathered is enough to count it.
func (r *ranking) matches(s *slot) bool {
	return s.score > 0 && s.score >= r.floor && s.demand >= r.demands
}

// complete gives a candidate that was found by its name its score.
func (r *ranking) complete(c *candidate) {
	p := &r.parts[c.part]
	s := &r.slots[p.base+int(c.doc)]
	if s.score > 0 {
		c.score = r.adjusted(s, &p.traits[c.doc], r.owned[c.part])
		c.cover, c.fit = s.cover, min(1, c.score/r.most)
	}
}

// adjusted returns the score of a tool with what is known of it.
func (r *ranking) adjusted(s *slot, t *toolTraits, owned bool) float32 {
	score := s.score
	if t.nameWords > 0 {
		score *= 1 + nameBonus*min(1, float32(s.named)/float32(t.nameWords))
	}
	score *= 1 - coverageShare + coverageShare*s.cover/r.cover
	if owned {
		score *= 1 + ownerBonus
	}
	switch {
	case r.acts == 0 || t.acts == 0:
	case r.acts&t.acts != 0:
		score *= 1 + actionBonus
	default:
		score *= 1 - actionMalus
	}
	return score
}

// raiseSiblings raises the tools of sources that have others near the top.
func (r *ranking) raiseSiblings(top []candidate) {
	lead := make([]float32, len(top))
	for i, c := range top {
		first := slices.IndexFunc(top, func(o candidate) bool { return o.part == c.part })
		lead[i] = top[first].score
	}
	for i := range top {
		top[i].score += siblingBonus * lead[i]
	}
	r.order(top)
}

func (r *ranking) order(list []candidate) {
	slices.SortFunc(list, func(a, b candidate) int {
		if c := cmp.Or(cmp.Compare(b.tier, a.tier), cmp.Compare(b.score, a.score)); c != 0 {
			return c
		}
		return r.compareIDs(a, b)
	})
}
