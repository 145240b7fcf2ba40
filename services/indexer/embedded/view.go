package embedded

import (
	"math"
	"sync"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Part is what a run sees of one listing.
type Part struct {
	Segment *Segment
	// Hidden are ascending positions in the listing's tools that the run may
	// not see. Positions that the listing does not have say nothing.
	Hidden []int
}

// A View is the catalogue of a run, ready to be searched. What it answers
// depends on the visible tools only: it is the same as if the hidden ones did
// not exist. Safe for concurrent use.
type View struct {
	parts   []part
	size    int // tools of all parts, the hidden ones too
	visible int
	terms   termIndex
	words   func() *wordList // gathered at the first word that no tool holds
	scratch sync.Pool        // of *scratch
}

// part is a segment in a view: its tools have the slots from base on.
type part struct {
	*Segment
	postings []posting // the segment's, nearer at hand
	base     int
	count    int // tools, the hidden ones too
	visible  int
	hidden   bitset // nil where nothing is
}

// NewView makes a view of parts. Parts of which nothing is visible, or without
// a segment, are left out. The view does not keep the slices that it is given.
func NewView(parts []Part) *View {
	v := &View{}
	for _, p := range parts {
		if p.Segment == nil {
			continue
		}
		n := len(p.Segment.tools)
		hidden, count := hiddenSet(p.Hidden, n)
		if count == n {
			continue
		}
		v.parts = append(v.parts, part{p.Segment, p.Segment.postings, v.size, n, n - count, hidden})
		v.size += n
		v.visible += n - count
	}
	v.terms = mergeTerms(v.parts)
	v.words = sync.OnceValue(func() *wordList { return mergeWords(v.parts) })
	v.scratch.New = func() any { return &scratch{slots: make([]slot, v.size), owned: make([]bool, len(v.parts))} }
	return v
}

// holding returns the number of visible tools among those of some postings.
func (p *part) holding(list []posting) int {
	if p.hidden == nil {
		return len(list)
	}
	n := 0
	for i := range list {
		if !p.hidden.has(list[i].doc) {
			n++
		}
	}
	return n
}

// resolve returns a term, with a df of 0 where no visible tool holds it.
func (v *View) resolve(term string) resolved {
	return v.terms.find(hashTerm(term))
}

func (v *View) knows(term string) bool { return v.resolve(term).df > 0 }

// idf returns the weight of a term that df visible tools hold.
func (v *View) idf(df int32) float64 {
	return math.Log(1 + (float64(v.visible)-float64(df)+0.5)/(float64(df)+0.5))
}

// tool returns the tool of a candidate.
func (v *View) tool(c candidate) *contracts.Tool { return &v.parts[c.part].tools[c.doc] }

// bitset is a set of positions of tools.
type bitset []uint64

func (b bitset) has(doc uint32) bool { return b != nil && b[doc>>6]&(1<<(doc&63)) != 0 }

// hiddenSet returns the set of those positions that are below n, and how many there are.
func hiddenSet(positions []int, n int) (bitset, int) {
	var set bitset
	count := 0
	for _, i := range positions {
		if i < 0 || i >= n || set.has(uint32(i)) {
			continue
		}
		if set == nil {
			set = make(bitset, (n+63)/64)
		}
		set[i>>6] |= 1 << (i & 63)
		count++
	}
	return set, count
}
