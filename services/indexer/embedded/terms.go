package embedded

import "slices"

// A termIndex finds the postings of a term in all parts of a view.
type termIndex struct {
	ids    map[uint64]uint32 // by hash of the term
	df     []uint32          // by id: visible tools that hold the term
	starts []uint32          // the refs of id are those from starts[id] to starts[id+1], by part
	refs   []ref
}

// A ref is where a part has a term: its postings are those from from to to.
type ref struct {
	part     int32
	from, to uint32
	share    impact // what the term scores in every tool of the part at least
	owner    bool   // the term stands in the name or title of the part's source
}

// resolved is a term of a view.
type resolved struct {
	refs []ref
	df   int // visible tools that hold it
}

// mergeTerms indexes the terms of parts.
func mergeTerms(parts []part) termIndex {
	total := 0
	for i := range parts {
		total += len(parts[i].hashes)
	}
	x := termIndex{ids: make(map[uint64]uint32, min(total, 1<<14)), refs: make([]ref, total)}
	ids := make([]uint32, 0, total) // of all terms of all parts
	for i := range parts {
		for _, h := range parts[i].hashes {
			id, ok := x.ids[h]
			if !ok {
				id = uint32(len(x.df))
				x.ids[h] = id
				x.df = append(x.df, 0)
				x.starts = append(x.starts, 0)
			}
			x.starts[id]++
			ids = append(ids, id)
		}
	}
	x.starts = append(x.starts, 0)
	next := uint32(0)
	for id, n := range x.starts {
		x.starts[id] = next
		next += n
	}
	x.fill(parts, ids)
	return x
}

// fill puts the refs of all terms of all parts, whose ids are given in that
// order, in their places.
func (x *termIndex) fill(parts []part, ids []uint32) {
	next := slices.Clone(x.starts)
	for i := range parts {
		p := &parts[i]
		for t := range p.hashes {
			id := ids[0]
			ids = ids[1:]
			r := ref{part: int32(i), from: p.starts[t], to: p.starts[t+1]}
			n := p.visible
			if t < len(p.shared) && p.shared[t].impact > 0 {
				r.share, r.owner = p.shared[t].impact, p.shared[t].named
			} else {
				n = p.holding(p.postings[r.from:r.to])
			}
			x.df[id] += uint32(n)
			x.refs[next[id]] = r
			next[id]++
		}
	}
}

func (x *termIndex) find(hash uint64) resolved {
	id, ok := x.ids[hash]
	if !ok || x.df[id] == 0 {
		return resolved{}
	}
	return resolved{x.refs[x.starts[id]:x.starts[id+1]], int(x.df[id])}
}
