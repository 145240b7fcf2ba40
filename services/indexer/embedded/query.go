package embedded

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Bounds of what is read of a query.
const (
	maxQuery   = contracts.SearchLongestQuery
	maxClauses = 64
	minJoined  = 4 // bytes of two words that are taken as one
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
	pieceWeight      = 0.8
	correctionWeight = 0.8
	synonymWeight    = 0.15
	loneWeight       = 0.6 // of a synonym where the catalogue does not know the word itself
)

// How much of a word a tool covers that holds a synonym of it only.
const (
	synonymCover = 0.3
	loneCover    = 0.6
)

// Synonyms of a known word are left out as saying nothing where more than one in
// commonShare tools hold them, if that is more than commonCount tools.
const (
	commonShare = 8
	commonCount = 2
)

// A queryWord is a word of a query as it stands there.
type queryWord struct {
	text     string
	glued    bool // belongs to the same identifier as the word before it
	capital  bool
	framing  bool // in a sentence about the asker
	demanded bool
	weight   float64
	pieces   []string // see [kindPiece]
	joined   []string // of a demanded word: the joined forms of its identifier
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
			framing:  context.framing,
		}
		tokens = tokenise(tokens[:0], rest)
		list = appendWords(list, tokens, w)
	}
	weighFraming(list)
	return list
}

// appendWords appends the words among the tokens of one part of a query, which
// have everything but the text in common with w.
func appendWords(list []queryWord, tokens []token, w queryWord) []queryWord {
	from := len(list)
	for _, t := range tokens {
		switch t.kind {
		case kindWord:
			w.text, w.glued = t.text, t.glued
			list = append(list, w)
		case kindPiece:
			last := &list[len(list)-1]
			last.pieces = append(last.pieces, t.text)
		case kindJoined:
			for i := from; w.demanded && i < len(list); i++ {
				list[i].joined = append(list[i].joined, t.text)
			}
		}
	}
	return list
}

// weighFraming lowers the weight of the sentences about the asker, unless there
// are no others.
func weighFraming(list []queryWord) {
	if !slices.ContainsFunc(list, func(w queryWord) bool { return !w.framing }) {
		return
	}
	for i := range list {
		if list[i].framing {
			list[i].weight *= framingWeight
		}
	}
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
	cover  float64 // how much of the word it covers: 1, or less for a synonym
}

// plan finds for each word of a query what stands for it in the view. Words
// that say nothing are left out, those that say little unless there are no others.
func (v *View) plan(words []queryWord) []clause {
	p := planner{View: v}
	for i := range words {
		w := &words[i]
		if i > 0 {
			p.addJoined(&words[i-1], w)
		}
		if w.demanded || !isFiller(w.text) && !v.isLooseNumber(w.text) {
			p.addWord(w)
		}
	}
	if len(p.clauses) > 0 {
		return p.clauses
	}
	for i := range words {
		p.addWord(&words[i])
	}
	return p.clauses
}

// isLooseNumber reports whether a word is a number that is no name of anything.
func (v *View) isLooseNumber(word string) bool {
	return isNumber(word) && (len(word) < 3 || !v.knows(word))
}

// planner gathers clauses, one for each stem and at most maxClauses.
type planner struct {
	*View
	clauses []clause
}

func (p *planner) addWord(w *queryWord) {
	if len(p.clauses) < maxClauses && !isStopWord(w.text) {
		p.add(p.clause(w))
	}
}

// add adds a clause or, where there is one of its stem, raises that one's weight.
func (p *planner) add(c clause) {
	i := slices.IndexFunc(p.clauses, func(o clause) bool { return o.stem == c.stem })
	if i < 0 {
		p.clauses = append(p.clauses, c)
		return
	}
	o := &p.clauses[i]
	weight := repeatWeight*c.weight + max(o.weight, c.weight)
	if c.demanded || o.joined { // what is said of the word itself, in these words, counts
		*o = c
	}
	o.scale(weight)
}

// addJoined takes two neighbouring words as one where the catalogue knows it:
// "you tube", "to-do".
func (p *planner) addJoined(a, b *queryWord) {
	if len(p.clauses) == maxClauses || isNumber(a.text) || isNumber(b.text) || len(a.text)+len(b.text) < minJoined {
		return
	}
	if isStopWord(a.text) && isStopWord(b.text) && !b.glued && !(a.capital && b.capital) {
		return // too common: "what to do"
	}
	s := stem(a.text + b.text)
	r := p.resolve(s)
	if r.df == 0 || slices.ContainsFunc(p.clauses, func(o clause) bool { return o.stem == s }) {
		return
	}
	weight := p.idf(r.df) * joinedWeight * min(a.weight, b.weight)
	p.add(clause{stem: s, joined: true, weight: weight, alts: []alternative{{r, weight, 1}}})
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

// clause finds what stands for one word.
func (v *View) clause(w *queryWord) clause {
	c := clause{stem: stem(w.text), demanded: w.demanded, weight: v.idf(0)}
	if r := v.resolve(c.stem); r.df > 0 {
		c.weight = v.idf(v.commonness(c.stem, r.df))
		c.alts = append(c.alts, alternative{r, c.weight, 1})
	}
	if c.demanded { // it stands for itself only
		v.others(&c, w.joined, 1)
	} else {
		v.others(&c, w.pieces, pieceWeight)
		v.correction(&c, w.text)
		v.synonyms(&c)
	}
	c.scale(c.weight * w.weight)
	return c
}

// others adds other forms of the word.
func (v *View) others(c *clause, words []string, weight float64) {
	for _, w := range words {
		if r := v.resolve(stem(w)); r.df > 0 {
			c.alts = append(c.alts, alternative{r, v.idf(r.df) * weight, 1})
		}
	}
}

// commonness returns the df by which a stem is weighed: for a plain verb that of
// the most common one of its meaning. That a catalogue says "list" where others
// say "show" makes "show" no telling word.
func (v *View) commonness(stem string, df int32) int32 {
	for _, s := range plainVerbsByStem[stem] {
		df = max(df, v.resolve(s).df)
	}
	return df
}

// correction adds the word that is meant by a clause without alternatives.
func (v *View) correction(c *clause, word string) {
	if c.alts != nil {
		return
	}
	if s := stem(v.correct(word)); s != "" {
		r := v.resolve(s)
		c.stem = s
		c.alts = append(c.alts, alternative{r, v.idf(r.df) * correctionWeight, 1})
	}
}

// synonyms adds the words that mean much the same. Beside the word itself, those
// that so many tools hold that they say next to nothing are left out.
func (v *View) synonyms(c *clause) {
	weight, cover, most := synonymWeight, synonymCover, max(commonCount, v.visible/commonShare)
	if c.alts == nil {
		weight, cover, most = loneWeight, loneCover, v.visible
	}
	for _, s := range synonymsByStem[c.stem] {
		if r := v.resolve(s); r.df > 0 && int(r.df) <= most {
			c.alts = append(c.alts, alternative{r, v.idf(r.df) * weight, cover})
		}
	}
}
