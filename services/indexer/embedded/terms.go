package embedded

// A termIndex finds the postings of a term in all parts of a view.
type termIndex struct {
	ids   hashTable // numbers of terms, by hash
	terms []resolved
	refs  []ref // the first is none
}

// resolved is a term of a view.
type resolved struct {
	df   int32  // visible tools that hold it; 0 for a term that none does
	last uint32 // the last of its refs, 0 for none
}

// A ref is where a part has a term: its postings are those from from to to.
type ref struct {
	part     int32
	from, to uint32
	before   uint32 // the ref of the same term in a part before, 0 for none
	share    impact // what the term scores in every tool of the part at least
	owner    bool   // the term stands in the name or title of the part's source
}

// mergeTerms indexes the terms of parts.
func mergeTerms(parts []part) termIndex {
	total, most := 0, 0
	for i := range parts {
		n := len(parts[i].hashes)
		total += n
		most = max(most, n)
	}
	x := termIndex{ids: newHashTable(most), terms: make([]resolved, 0, most), refs: make([]ref, 1, total+1)}
	for i := range parts {
		p := &parts[i]
		for t, hash := range p.hashes {
			id := x.ids.add(hash)
			if int(id) == len(x.terms) {
				x.terms = append(x.terms, resolved{})
			}
			term := &x.terms[id]
			r := ref{part: int32(i), from: p.starts[t], to: p.starts[t+1], before: term.last}
			n := p.visible
			if t < len(p.shared) && p.shared[t].impact > 0 {
				r.share, r.owner = p.shared[t].impact, p.shared[t].named
			} else {
				n = p.holding(p.postings[r.from:r.to])
			}
			term.df += int32(n)
			term.last = uint32(len(x.refs))
			x.refs = append(x.refs, r)
		}
	}
	return x
}

func (x *termIndex) find(hash uint64) resolved {
	id, ok := x.ids.find(hash)
	if !ok || x.terms[id].df == 0 {
		return resolved{}
	}
	return x.terms[id]
}

// in returns the ref of a term in a part, or nil.
func (x *termIndex) in(term resolved, part int32) *ref {
	for i := term.last; i != 0; i = x.refs[i].before {
		if r := &x.refs[i]; r.part == part {
			return r
		}
	}
	return nil
}

// A hashTable numbers hashes in the order of their coming. It is there because
// views are put together of some hundred thousand of them, in milliseconds.
type hashTable struct {
	cells  []uint32 // numbers, counted from 1; a power of two of them, at most half in use
	hashes []uint64 // by number
}

// newHashTable returns a table with room for n hashes to begin with.
func newHashTable(n int) hashTable {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return hashTable{cells: make([]uint32, size), hashes: make([]uint64, 0, n)}
}

// at returns the cell of a hash, or the empty one where it belongs.
func (t *hashTable) at(hash uint64) *uint32 {
	mask := uint64(len(t.cells) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if c := t.cells[i]; c == 0 || t.hashes[c-1] == hash {
			return &t.cells[i]
		}
	}
}

func (t *hashTable) add(hash uint64) uint32 {
	c := t.at(hash)
	if *c != 0 {
		return *c - 1
	}
	t.hashes = append(t.hashes, hash)
	n := uint32(len(t.hashes))
	*c = n
	if 2*len(t.hashes) > len(t.cells) {
		t.grow()
	}
	return n - 1
}

func (t *hashTable) grow() {
	t.cells = make([]uint32, 2*len(t.cells))
	for i, h := range t.hashes {
		*t.at(h) = uint32(i + 1)
	}
}

func (t *hashTable) find(hash uint64) (uint32, bool) {
	c := *t.at(hash)
	return c - 1, c != 0
}
