package embedded

import (
	"cmp"
	"slices"
)

// A query is answered with tools only if the best one fits: if what it holds of
// the query's words is worth leastEvidence of a word that a single tool holds
// in its description several times, or at least enoughCover of all words.
const (
	leastEvidence = 0.435
	enoughCover   = 0.5
)

// fits reports whether the best of the tools that match, best first, fits the
// query well enough for them to be shown. Demanded words that it holds are enough.
func (r *ranking) fits(list []candidate) bool {
	switch {
	case len(list) == 0:
		return false
	case r.demands > 0:
		return true
	}
	covers := r.slot(list[0].place).cover >= enoughCover*r.cover
	return covers || r.evidence(list[0]) >= leastEvidence*r.idf(1)
}

// evidence returns what the words of the query bring to a candidate, synonyms aside.
func (r *ranking) evidence(of candidate) float64 {
	sum := 0.0
	for i := range r.clauses {
		c := &r.clauses[i]
		if c.joined {
			continue
		}
		most := 0.0
		for _, a := range c.alts {
			if a.cover == 1 {
				most = max(most, a.weight*r.impact(a.resolved, of))
			}
		}
		sum += most
	}
	return sum
}

// impact returns what a term scores in a candidate, as part of the most.
func (v *View) impact(term resolved, of candidate) float64 {
	r := v.terms.in(term, of.part)
	if r == nil {
		return 0
	}
	list := v.parts[of.part].postings[r.from:r.to]
	i, ok := slices.BinarySearchFunc(list, of.doc, func(t posting, doc uint32) int { return cmp.Compare(t.doc, doc) })
	if !ok {
		return float64(r.share) / fullImpact
	}
	return float64(list[i].impact) / fullImpact
}
