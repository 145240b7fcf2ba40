package embedded

import (
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// builder gathers the postings of one listing, tool by tool.
type builder struct {
	listing *contracts.Listing
	terms   map[string]uint32
	counts  []uint32              // by term: number of entries
	words   map[string]*wordEntry // by text of a token
	owner   frequencies           // of the terms that all tools have from their owner
	doc     frequencies           // of the terms of the tool being read
	lengths [numFields]float64    // of the fields being read
	shares  []float64             // by term: weighted frequency from the owner
	entries []entry
	traits  []toolTraits
	names   []nameKey
	tokens  []token
}

// wordEntry is what is known of a distinct token: its term and, for
// corrections, the tools that hold it.
type wordEntry struct {
	text string
	term uint32
	stop bool
	all  bool     // held by every tool, through the owner
	docs []uint32 // tools that hold it in more than the texts of parameters
}

// entry is a posting before it is put in its place.
type entry struct {
	term uint32
	posting
}

// allTools stands in place of a tool's position for what all tools have.
const allTools = -1

func newBuilder(l *contracts.Listing) *builder {
	b := &builder{listing: l, terms: map[string]uint32{}, words: map[string]*wordEntry{}}
	b.text(&b.owner, fieldOwner, l.Source.Owner, allTools)
	b.text(&b.owner, fieldOwner, l.Title, allTools)
	b.text(&b.owner, fieldInstructions, l.Instructions, allTools)
	b.shares = make([]float64, len(b.terms))
	for _, t := range b.owner.counted {
		b.shares[t] = b.weighted(&b.owner, t)
	}
	return b
}

// text counts the words of a text of the tool at position doc.
func (b *builder) text(into *frequencies, in field, text string, doc int) {
	b.tokens = tokenise(b.tokens[:0], text)
	for _, t := range b.tokens {
		if t.kind == kindJoined && in == fieldParamText {
			continue
		}
		w := b.word(t.text)
		if w.stop {
			continue
		}
		if t.kind == kindWord {
			b.lengths[in]++
		}
		if doc == allTools {
			w.all = true
		} else if in != fieldParamText {
			w.held(uint32(doc))
		}
		into.add(w.term, in)
	}
}

// held notes that the tool read last holds the word.
func (w *wordEntry) held(doc uint32) {
	if n := len(w.docs); n == 0 || w.docs[n-1] != doc {
		w.docs = append(w.docs, doc)
	}
}

func (b *builder) word(text string) *wordEntry {
	if w, ok := b.words[text]; ok {
		return w
	}
	text = strings.Clone(text)
	w := &wordEntry{text: text, stop: isStopWord(text)}
	if !w.stop {
		w.term = b.term(stem(text))
	}
	b.words[text] = w
	return w
}

func (b *builder) term(s string) uint32 {
	t, ok := b.terms[s]
	if !ok {
		t = uint32(len(b.terms))
		b.terms[s] = t
		b.counts = append(b.counts, 0)
	}
	return t
}

// weighted returns the frequency of a term over all fields, each by its weight
// and length.
func (b *builder) weighted(f *frequencies, term uint32) float64 {
	sum := 0.0
	for i, n := range f.count[term] {
		if n != 0 {
			t := fieldTraits[i]
			sum += t.weight * float64(n) / (1 - t.slope + t.slope*b.lengths[i]/t.length)
		}
	}
	return sum
}

// tool reads the next tool.
func (b *builder) tool(t *contracts.Tool) {
	doc := len(b.traits)
	b.lengths = [numFields]float64{}
	b.text(&b.doc, fieldName, t.Name, doc)
	name := joinWords(b.tokens)
	b.traits = append(b.traits, toolTraits{
		nameWords: uint8(min(b.lengths[fieldName], 255)),
		acts:      actionOfName(b.tokens),
		pairs:     pairsOf(name),
	})
	b.name(t.Name, name, uint32(doc))
	b.text(&b.doc, fieldTitle, t.Title, doc)
	b.text(&b.doc, fieldDescription, t.Description, doc)
	p := readSchema(t.InputSchema)
	for _, name := range p.names {
		b.text(&b.doc, fieldParam, name, doc)
	}
	for _, text := range p.texts {
		b.text(&b.doc, fieldParamText, text, doc)
	}
	for _, term := range b.doc.counted {
		w := b.weighted(&b.doc, term)
		if int(term) < len(b.shares) {
			w += b.shares[term]
		}
		b.enter(term, posting{uint32(doc), impactOf(w), b.doc.seen[term]})
	}
	b.doc.clear()
}

// name enters what a caller may write for a tool's name.
func (b *builder) name(name, joined string, doc uint32) {
	full := strings.ToLower(name)
	b.names = append(b.names, nameKey{full, doc})
	b.enter(b.term(fullKey(full)), posting{doc: doc})
	if leaf := leafOf(full); leaf != full && leaf != "" {
		b.enter(b.term(looseKey(leaf)), posting{doc: doc})
		if leaf == joined {
			return
		}
	}
	if joined != full && joined != "" {
		b.enter(b.term(looseKey(joined)), posting{doc: doc})
	}
}

func (b *builder) enter(term uint32, p posting) {
	b.entries = append(b.entries, entry{term, p})
	b.counts[term]++
}

// segment puts everything in its place.
func (b *builder) segment() *Segment {
	s := &Segment{
		source:   b.listing.Source,
		tools:    b.listing.Tools,
		traits:   b.traits,
		hashes:   make([]uint64, len(b.terms)),
		starts:   make([]uint32, len(b.terms)+1),
		postings: make([]posting, len(b.entries)),
		shared:   make([]sharedTerm, len(b.shares)),
		forms:    b.forms(),
		names:    sortNames(b.names),
	}
	for text, t := range b.terms {
		s.hashes[t] = hashTerm(text)
	}
	for t, n := range b.counts {
		s.starts[t+1] = s.starts[t] + n
	}
	next := slices.Clone(s.starts)
	for _, e := range b.entries {
		s.postings[next[e.term]] = e.posting
		next[e.term]++
	}
	for t, w := range b.shares {
		s.shared[t] = sharedTerm{impactOf(w), b.owner.seen[t].has(fieldOwner)}
	}
	s.size = sizeOf(s)
	return s
}

// sizeOf estimates the memory that a segment takes.
func sizeOf(s *Segment) int64 {
	const fixed, perTool, perTerm, perPosting, perForm, perName = 512, 320, 12, 8, 56, 24
	n := fixed + len(s.tools)*perTool + len(s.hashes)*perTerm + len(s.postings)*perPosting + len(s.shared)*8
	for i := range s.forms {
		n += perForm + len(s.forms[i].text) + 4*len(s.forms[i].docs)
	}
	for i := range s.names {
		n += perName + len(s.names[i].key)
	}
	for i := range s.tools {
		t := &s.tools[i]
		n += len(t.ID) + len(t.Name) + len(t.Title) + len(t.Description)
		n += len(t.InputSchema) + len(t.OutputSchema) + len(t.Meta) + len(t.Hash)
	}
	return int64(n)
}

// frequencies counts terms by field. Its tables are as long as there are terms
// and are cleared through the list of those that were counted.
type frequencies struct {
	counted []uint32
	seen    []fieldSet
	count   [][numFields]float32
}

func (f *frequencies) add(term uint32, in field) {
	for int(term) >= len(f.count) {
		f.count = append(f.count, [numFields]float32{})
		f.seen = append(f.seen, 0)
	}
	if f.seen[term] == 0 {
		f.counted = append(f.counted, term)
	}
	f.seen[term] |= 1 << in
	f.count[term][in]++
}

func (f *frequencies) clear() {
	for _, t := range f.counted {
		f.count[t], f.seen[t] = [numFields]float32{}, 0
	}
	f.counted = f.counted[:0]
}
