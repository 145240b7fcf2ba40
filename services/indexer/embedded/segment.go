package embedded

import (
	"hash/maphash"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Segment is the index of one listing. It never changes and is safe for
// concurrent use; all runs whose catalogues hold the listing share it.
type Segment struct {
	source contracts.SourceID
	tools  []contracts.Tool
	traits []toolTraits // by position in tools

	hashes []uint64 // of the terms, which are numbered from 0; see [hashTerm]
	// The postings of term t are the elements starts[t] to starts[t+1], by tool.
	starts   []uint32
	postings []posting
	// shared are the terms that every tool has from its owner. They are the
	// first ones.
	shared []sharedTerm

	forms []form    // words that a misspelt one may mean
	names []nameKey // sorted
	size  int64
}

// A posting says that a tool holds a term.
type posting struct {
	doc    uint32 // position in tools
	impact impact
	fields fieldSet // that hold the term
}

// toolTraits is what ranking knows of a tool besides its terms.
type toolTraits struct {
	nameWords uint8 // words in its name that can be asked for
	acts      action
	pairs     uint64 // see [pairsOf]
}

// sharedTerm is a term that a listing's tools have from their owner.
type sharedTerm struct {
	impact impact // in tools that have the term from nowhere else
	named  bool   // it stands in the owner's name or title
}

// Build makes the index of a listing. The segment keeps the listing's tools:
// the caller must not change them afterwards. A nil listing is an empty one.
func Build(l *contracts.Listing) *Segment {
	if l == nil {
		l = &contracts.Listing{}
	}
	b := newBuilder(l)
	for i := range l.Tools {
		b.tool(&l.Tools[i])
	}
	return b.segment()
}

// Size returns roughly how many bytes of memory the segment takes, with the
// tools that it keeps.
func (s *Segment) Size() int64 { return s.size }

// hashSeed is drawn anew in each process, so that nobody can make up terms that
// are taken for one another; by chance it happens once in billions of catalogues.
var hashSeed = maphash.MakeSeed()

// hashTerm returns the number that stands for a term in segments and views.
func hashTerm(term string) uint64 { return maphash.String(hashSeed, term) }
