package embedded

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is read of a query.
const (
	maxQuery   = 4 << 10 // bytes
	maxClauses = 64
)

// What a word of a query counts by the way it stands there.
const (
	framingWeight = 0.7  // in a sentence about the asker
	quotedWeight  = 0.5  // in quotation marks
	literalWeight = 0.2  // in a path, an address and the like
	joinedWeight  = 0.35 // two neighbouring words taken as one, on top of them
	repeatWeight  = 0.1  // each time after the first
)

// What an alternative to a word counts, as part of what the word itself would.
const (
	pieceWeight         = 0.8
	correctionWeight    = 0.8
	synonymWeight       = 0.15
	synonymAloneWeight  = 0.6 // of a word that the catalogue does not know
	synonymCoverage     = 0.3 // of the word, by a tool that holds only a synonym
	distantCorrectionAt = 8   // length from which a word may have two mistakes
)

// A queryWord is a word of a query as it stands there.
type queryWord struct {
	text     string
	glued    bool // belongs to the same identifier as the word before it
	capital  bool
	demanded bool
	weight   float64
	pieces   []string
}

// splitQuery returns the words of a query.
func splitQuery(query string) []queryWord {
	var list []queryWord
	var tokens []token
	context := queryContext{begins: true}
	for part := range strings.FieldsSeq(cut(query, maxQuery)) {
		rest, plus := strings.CutPrefix(part, "+")
		w := queryWord{
			demanded: plus && strings.IndexFunc(rest, unicode.IsLetter) >= 0,
			capital:  startsUpper(rest),
			weight:   context.weigh(part),
		}
		tokens = tokenise(tokens[:0], rest)
		for _, t := range tokens {
			switch t.kind {
			case kindWord:
				w.text, w.glued = t.text, t.glued
				list = append(list, w)
			case kindPiece:
				last := &list[len(list)-1]
				last.pieces = append(last.pieces, t.text)
			}
		}
	}
	return list
}

// cut returns at most n bytes of s, whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// A clause is a word of a query and what stands for it in a view.
type clause struct {
	stem     string
	joined   bool // of two words that have clauses of their own
	demanded bool
	weight   float64 // the idf included
	alts     []alternative
}

// An alternative is a term that stands for the word. Of several in one tool, the
// one that scores most counts.
type alternative struct {
	resolved
	weight float64 // the idf included
	kind   altKind
}

type altKind uint8

const (
	altSelf altKind = iota
	altCorrection
	altSynonym
)

// plan finds for each word of a query what stands for it in the view. Words
// that say nothing are left out.
func (v *View) plan(words []queryWord) []clause {
	var p planner
	for i := range words {
		w := &words[i]
		if i > 0 {
			if c, ok := v.joinedClause(&words[i-1], w); ok {
				p.add(c)
			}
		}
		if !isStopWord(w.text) && (w.demanded || !isFiller(w.text) && !v.isLooseNumber(w.text)) {
			p.add(v.clause(w))
		}
	}
	return p.clauses
}

// isLooseNumber reports whether a word is a number that is no name of anything.
func (v *View) isLooseNumber(word string) bool {
	return isNumber(word) && (len(word) < 3 || !v.knows(word))
}

// planner gathers clauses, one for each stem.
type planner struct{ clauses []clause }

func (p *planner) add(c clause) {
	i := slices.IndexFunc(p.clauses, func(o clause) bool { return o.stem == c.stem })
	switch {
	case i >= 0:
		o := &p.clauses[i]
		o.demanded = o.demanded || c.demanded
		o.joined = o.joined && c.joined
		o.scale(repeatWeight*c.weight + max(o.weight, c.weight))
	case len(p.clauses) < maxClauses:
		p.clauses = append(p.clauses, c)
	}
}

// scale changes the weight of a clause, and of its alternatives with it.
func (c *clause) scale(weight float64) {
	if c.weight > 0 {
		for i := range c.alts {
			c.alts[i].weight *= weight / c.weight
		}
	}
	c.weight = weight
}

// clause finds what stands for one word. A demanded word stands for itself only.
func (v *View) clause(w *queryWord) clause {
	c := clause{stem: stem(w.text), demanded: w.demanded, weight: v.idf(0)}
	if r := v.resolve(c.stem); r.df > 0 {
		c.weight = v.idf(r.df)
		c.alts = append(c.alts, alternative{r, c.weight, altSelf})
	}
	for _, p := range w.pieces {
		if r := v.resolve(stem(p)); r.df > 0 {
			c.alts = append(c.alts, alternative{r, v.idf(r.df) * pieceWeight, altSelf})
		}
	}
	if !c.demanded {
		v.correction(&c, w.text)
		v.synonyms(&c)
	}
	weight := c.weight * w.weight
	c.scale(weight)
	return c
}

// correction adds the word that is meant by a clause without alternatives.
func (v *View) correction(c *clause, word string) {
	if c.alts != nil {
		return
	}
	if s := stem(v.correct(word)); s != "" {
		r := v.resolve(s)
		c.stem = s
		c.alts = append(c.alts, alternative{r, v.idf(r.df) * correctionWeight, altCorrection})
	}
}

// synonyms adds the words that mean much the same.
func (v *View) synonyms(c *clause) {
	weight := synonymWeight
	if c.alts == nil {
		weight = synonymAloneWeight
	}
	for _, s := range synonymsByStem[c.stem] {
		if r := v.resolve(s); r.df > 0 {
			c.alts = append(c.alts, alternative{r, v.idf(r.df) * weight, altSynonym})
		}
	}
}

// joinedClause takes two neighbouring words as one where the catalogue knows
// it: "you tube", "to-do".
func (v *View) joinedClause(a, b *queryWord) (clause, bool) {
	if isNumber(a.text) || isNumber(b.text) || len(a.text)+len(b.text) < 4 {
		return clause{}, false
	}
	if isStopWord(a.text) && isStopWord(b.text) && !b.glued && !(a.capital && b.capital) {
		return clause{}, false // too common: "what to do"
	}
	s := stem(a.text + b.text)
	r := v.resolve(s)
	if r.df == 0 {
		return clause{}, false
	}
	weight := v.idf(r.df) * joinedWeight * min(a.weight, b.weight)
	return clause{stem: s, joined: true, weight: weight, alts: []alternative{{r, weight, altSelf}}}, true
}
