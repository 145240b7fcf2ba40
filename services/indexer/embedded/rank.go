package embedded

import (
	"cmp"
	"slices"
	"strings"
)

// How far what is known of a tool, besides its terms, moves its score.
const (
	nameBonus     = 0.1  // all words of its name are asked for
	coverageShare = 0.3  // of the score that depends on how much of the query the tool holds
	ownerBonus    = 0.1  // its source is named
	actionBonus   = 0.05 // it does what is asked for
	actionMalus   = 0.2  // it does something else
	siblingBonus  = 0.05 // of the score of its source's best tool

	// mostBonus is more than all of them together, for want of exact arithmetic.
	mostBonus = (1 + nameBonus) * (1 + ownerBonus) * (1 + actionBonus) * 1.0001
)

// rankedAtLeast is the number of best tools among which siblings are looked
// for, whatever the limit.
const rankedAtLeast = 50

// matchShare is the part of the best tool's score from which on a tool counts as a match.
const matchShare = 0.1

// candidate is a tool that may be shown.
type candidate struct {
	place
	tier  tier
	score float32
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

// slot returns what a tool gathered.
func (r *ranking) slot(t place) *slot { return &r.slots[r.parts[t.part].base+int(t.doc)] }

// allowed reports whether a tool is visible and holds all demanded words.
func (r *ranking) allowed(t place, s *slot) bool {
	return s.demand >= r.demands && !r.parts[t.part].hidden.has(t.doc)
}

// measure finds out what a tool must score to match.
func (r *ranking) measure() {
	most := float32(0)
	for _, t := range r.touched {
		if s := r.slot(t); s.score > most && r.allowed(t, s) {
			most = s.score
		}
	}
	r.floor = most * matchShare
}

// best returns the n best of the tools that match, best first.
func (r *ranking) best(n int) []candidate {
	r.measure()
	r.total = 0
	top := topList{ranking: r, list: r.top[:0], most: n}
	for _, t := range r.touched {
		s := r.slot(t)
		if !r.matches(s) || !r.allowed(t, s) {
			continue
		}
		r.total++
		if s.score*mostBonus >= top.floor() {
			top.add(candidate{place: t, score: r.adjusted(t, s)})
		}
	}
	list := top.list
	r.top = list[:0]
	r.order(list)
	r.raiseSiblings(list)
	for i := range list {
		list[i].fit = min(1, list[i].score/r.most)
	}
	return list
}

// matches reports whether what a tool gathered is enough to count it.
func (r *ranking) matches(s *slot) bool { return s.score > 0 && s.score >= r.floor }

// complete gives a candidate that was found by its name its score.
func (r *ranking) complete(c *candidate) {
	if s := r.slot(c.place); s.score > 0 {
		c.score = r.adjusted(c.place, s)
		c.fit = min(1, c.score/r.most)
	}
}

// adjusted returns the score of a tool with what is known of it.
func (r *ranking) adjusted(of place, s *slot) float32 {
	t := &r.parts[of.part].traits[of.doc]
	score := s.score
	if t.nameWords > 0 {
		score *= 1 + nameBonus*min(1, float32(s.named)/float32(t.nameWords))
	}
	if r.cover > 0 {
		score *= 1 - coverageShare + coverageShare*s.cover/r.cover
	}
	if r.owned[of.part] {
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

// order sorts candidates, the best first.
func (r *ranking) order(list []candidate) {
	slices.SortFunc(list, r.compare)
}

// compare returns a negative number where a comes before b.
func (v *View) compare(a, b candidate) int {
	if c := cmp.Or(cmp.Compare(b.tier, a.tier), cmp.Compare(b.score, a.score)); c != 0 {
		return c
	}
	return strings.Compare(string(v.tool(a).ID), string(v.tool(b).ID))
}

// topList keeps the best of many candidates: a heap with the worst of them on top.
type topList struct {
	*ranking
	list []candidate
	most int
}

// floor returns a score below which a candidate cannot come in.
func (t *topList) floor() float32 {
	if len(t.list) < t.most {
		return 0
	}
	return t.list[0].score
}

func (t *topList) add(c candidate) {
	if len(t.list) < t.most {
		t.list = append(t.list, c)
		for i := len(t.list) - 1; i > 0 && t.worse(i, (i-1)/2); i = (i - 1) / 2 {
			t.swap(i, (i-1)/2)
		}
		return
	}
	if c.score < t.list[0].score || t.compare(c, t.list[0]) > 0 {
		return
	}
	t.list[0] = c
	for i := 0; ; {
		worst := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(t.list) && t.worse(child, worst) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		t.swap(i, worst)
		i = worst
	}
}

func (t *topList) worse(i, j int) bool { return t.compare(t.list[i], t.list[j]) > 0 }
func (t *topList) swap(i, j int)       { t.list[i], t.list[j] = t.list[j], t.list[i] }
