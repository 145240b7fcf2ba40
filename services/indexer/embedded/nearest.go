package embedded

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	maxNearest = 3
	// leastLikeness is how alike a name must be to the query to be told: the
	// share of their pairs of letters that they have in common.
	leastLikeness = 0.35
	// maxCompared is the number of names that are compared in full.
	maxCompared = 32
)

// nearest returns the ids of the tools that come nearest to a query that
// nothing fits: those that score most or, where none scores, whose names look alike.
func (r *ranking) nearest(query string) []contracts.ToolID {
	r.demands = 0
	list := r.best(rankedAtLeast)
	if len(list) == 0 {
		list = r.alike(query)
	}
	var ids []contracts.ToolID
	for _, c := range list[:min(maxNearest, len(list))] {
		ids = append(ids, r.tool(c).ID)
	}
	return ids
}

// alike returns the tools whose names look like the query, the most alike first.
func (r *ranking) alike(query string) []candidate {
	name := joinWords(tokenise(nil, cut(query, maxWord)))
	pairs := pairsOf(name)
	top := topList{ranking: r, list: r.top[:0], most: maxCompared}
	for i := range r.parts {
		p := &r.parts[i]
		for doc := range p.traits {
			common := bits.OnesCount64(p.traits[doc].pairs & pairs)
			if common > 0 && !p.hidden.has(uint32(doc)) {
				top.add(candidate{place: place{int32(i), uint32(doc)}, score: float32(common)})
			}
		}
	}
	list := top.list
	for i := range list {
		list[i].score = likeness(name, joinWords(tokenise(nil, r.tool(list[i]).Name)))
	}
	list = slices.DeleteFunc(list, func(c candidate) bool { return c.score < leastLikeness })
	r.order(list)
	return list
}

// likeness returns the share of the pairs of neighbouring bytes that a and b
// have in common, from 0 to 1.
func likeness(a, b string) float32 {
	if len(a) < 2 || len(b) < 2 {
		return 0
	}
	x, y := sortedPairs(a), sortedPairs(b)
	common := 0
	for i, j := 0, 0; i < len(x) && j < len(y); {
		switch cmp.Compare(x[i], y[j]) {
		case 0:
			common++
			i++
			j++
		case -1:
			i++
		default:
			j++
		}
	}
	return 2 * float32(common) / float32(len(x)+len(y))
}

func sortedPairs(s string) []uint16 {
	pairs := make([]uint16, 0, len(s)-1)
	for i := 1; i < len(s); i++ {
		pairs = append(pairs, uint16(s[i-1])<<8|uint16(s[i]))
	}
	slices.Sort(pairs)
	return pairs
}
