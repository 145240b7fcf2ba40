package embedded

import (
	"cmp"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// tier is how well a query is a tool's name. Tools of a higher tier come first,
// whatever they score.
type tier uint8

const (
	tierNone   tier = iota
	tierPrefix      // the beginning of its name
	tierLoose       // the last part of its name, or its name but for what is between the words
	tierName        // its name
	tierOwned       // its name with its owner, or its id
	tierExact       // one of these, to the letter
)

// shown returns a candidate's score as the caller sees it, in step with the order of tiers.
func (c candidate) shown() float64 {
	const below, step = 0.9, 0.02
	if c.tier == tierNone {
		return below * float64(c.fit)
	}
	return below + step*(float64(c.tier-tierPrefix)+float64(c.fit))
}

// named returns the tools that a query names: as a whole or, by their full
// names, in one of its words. Each tool is there once.
func (v *View) named(query string, words []queryWord) []candidate {
	m := matcher{View: v}
	whole := strings.Trim(strings.TrimSpace(cut(query, maxQuery)), "'\"`")
	if whole == "" {
		return nil
	}
	m.names(whole)
	m.loose(whole, words)
	if strings.ContainsAny(whole, " \t\n") {
		for part := range strings.FieldsSeq(whole) {
			if part = strings.Trim(part, "'\"`.,;:!?()"); isIdentifier(part) {
				m.names(part)
			}
		}
	} else if isIdentifier(whole) || len(words) == 1 && !v.knows(stem(words[0].text)) {
		m.prefix(strings.ToLower(whole))
	}
	return m.once()
}

// isIdentifier reports whether a word is written as no word of prose is.
func isIdentifier(part string) bool {
	return strings.ContainsAny(part, "_:") || strings.ContainsRune(strings.Trim(part, "."), '.') || isCamel(part)
}

func isCamel(part string) bool {
	last := classNone
	for _, r := range part {
		c := classOf(r)
		if last == classLower && c == classUpper {
			return true
		}
		last = c
	}
	return false
}

// matcher gathers tools by their names.
type matcher struct {
	*View
	found []candidate
}

// Longer texts are no names.
const maxName = 512

// names finds the tools that name names in full.
func (m *matcher) names(name string) {
	if len(name) > maxName {
		return
	}
	lower := strings.ToLower(name)
	m.lookup(fullKey(lower), tierName, nil, func(t *contracts.Tool) bool { return t.Name == name })
	for owner, rest := range qualified(lower) {
		exact := func(t *contracts.Tool) bool { return strings.HasSuffix(name, t.Name) }
		m.lookup(fullKey(rest), tierOwned, owner.is, exact)
	}
}

// loose finds the tools whose last part of the name is name, or whose name is
// written with the same words.
func (m *matcher) loose(name string, words []queryWord) {
	m.lookup(looseKey(strings.ToLower(name)), tierLoose, nil, nil)
	var joined strings.Builder
	for i := range words {
		joined.WriteString(words[i].text)
	}
	m.lookup(looseKey(joined.String()), tierLoose, nil, nil)
	m.lookup(fullKey(joined.String()), tierLoose, nil, nil)
}

// lookup adds the visible tools with a key, of sources that are right: in a
// higher tier where they are exactly meant.
func (m *matcher) lookup(key string, in tier, right func(contracts.SourceID) bool, exact func(*contracts.Tool) bool) {
	for at := m.resolve(key).last; at != 0; at = m.terms.refs[at].before {
		r := &m.terms.refs[at]
		p := &m.parts[r.part]
		if right != nil && !right(p.source) {
			continue
		}
		for _, t := range p.postings[r.from:r.to] {
			as := in
			if exact != nil && exact(&p.tools[t.doc]) {
				as = tierExact
			}
			m.add(r.part, t.doc, as)
		}
	}
}

func (m *matcher) add(part int32, doc uint32, in tier) {
	if !m.parts[part].hidden.has(doc) {
		m.found = append(m.found, candidate{place: place{part, doc}, tier: in})
	}
}

// once returns the tools that were found, each in its highest tier.
func (m *matcher) once() []candidate {
	slices.SortFunc(m.found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.doc, b.doc), cmp.Compare(b.tier, a.tier))
	})
	return slices.CompactFunc(m.found, func(a, b candidate) bool { return a.place == b.place })
}

// Prefixes shorter than minPrefix say too little.
const minPrefix = 3

// prefix finds the tools whose names begin with name, with or without their owner.
func (m *matcher) prefix(name string) {
	if len(name) > maxName {
		return
	}
	for i := range m.parts {
		p := &m.parts[i]
		if len(name) >= minPrefix {
			m.beginning(int32(i), name)
		}
		for owner, rest := range qualified(name) {
			if rest != "" && owner.is(p.source) {
				m.beginning(int32(i), rest)
			}
		}
	}
}

func (m *matcher) beginning(part int32, prefix string) {
	for _, k := range beginning(m.parts[part].names, prefix) {
		m.add(part, k.doc, tierPrefix)
	}
}

// qualifier names a source, by its owner or as a whole.
type qualifier struct{ kind, owner string }

func (q qualifier) is(s contracts.SourceID) bool {
	return q.owner == s.Owner && (q.kind == "" || q.kind == string(s.Kind))
}

// qualified yields the ways to read a name, in lower case, as one with its
// owner: source:owner:name, owner.name, owner__name, mcp__owner__name.
func qualified(name string) func(yield func(qualifier, string) bool) {
	return func(yield func(qualifier, string) bool) {
		if kind, rest, ok := strings.Cut(name, ":"); ok {
			if owner, rest, ok := strings.Cut(rest, ":"); ok && !yield(qualifier{kind, owner}, rest) {
				return
			}
		}
		if owner, rest, ok := strings.Cut(name, "."); ok && !yield(qualifier{owner: owner}, rest) {
			return
		}
		name, mcp := strings.CutPrefix(name, "mcp__")
		kind := ""
		if mcp {
			kind = string(contracts.SourceMCP)
		}
		for i := range name { // an owner may hold "__" itself
			if strings.HasPrefix(name[i:], "__") && !yield(qualifier{kind, name[:i]}, name[i+2:]) {
				return
			}
		}
	}
}

// withNamed puts the tools that a query names before those of list, which may
// hold them too.
func (r *ranking) withNamed(list, named []candidate) []candidate {
	if len(named) == 0 {
		return list
	}
	counted := len(list) > 0 // among the tools that match
	for i := range named {
		c := &named[i]
		r.complete(c)
		if s := r.slot(c.place); !counted || !r.matches(s) || !r.allowed(c.place, s) {
			r.total++
		}
	}
	r.order(named)
	for _, c := range list {
		if !slices.ContainsFunc(named, func(n candidate) bool { return n.place == c.place }) {
			named = append(named, c)
		}
	}
	return named
}
