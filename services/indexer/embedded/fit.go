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
	evidence, cover := r.evidence(list[0])
	return evidence >= leastEvidence*r.idf(1) || cover >= enoughCover*float64(r.cover)
}

// evidence returns what the words of the query bring to a candidate, and the
// weight of those words; synonyms aside.
func (r *ranking) evidence(of candidate) (score, cover float64) {
	for i := range r.clauses {
		c := &r.clauses[i]
		if c.joined {
			continue
		}
		best := 0.0
		for _, a := range c.alts {
			if a.kind != altSynonym {
				best = max(best, a.weight*r.impact(a.refs, of))
			}
		}
		if best > 0 {
			score += best
			cover += c.weight
		}
	}
	return score, cover
}

// impact returns what the term with these refs scores in a candidate, as part of the most.
func (v *View) impact(refs []ref, of candidate) float64 {
	i, ok := slices.BinarySearchFunc(refs, of.part, func(r ref, part int32) int { return cmp.Compare(r.part, part) })
	if !ok {
		return 0
	}
	p, r := &v.parts[of.part], refs[i]
	list := p.postings[r.from:r.to]
	j, ok := slices.BinarySearchFunc(list, of.doc, func(t posting, doc uint32) int { return cmp.Compare(t.doc, doc) })
	if !ok {
		return float64(r.share) / fullImpact
	}
	return float64(list[j].impact) / fullImpact
}
