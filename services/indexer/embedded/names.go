package embedded

import (
	"cmp"
	"slices"
	"strings"
)

// A nameKey is a tool's name in lower case.
type nameKey struct {
	key string
	doc uint32
}

func sortNames(names []nameKey) []nameKey {
	slices.SortFunc(names, func(a, b nameKey) int {
		return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(a.doc, b.doc))
	})
	return names
}

// fullKey and looseKey return the terms under which tools are found by their
// name: whole in lower case, or by its last part or without what is between its words.
// No word of a text holds the characters that they begin with.
func fullKey(name string) string  { return "=" + name }
func looseKey(name string) string { return "~" + name }

// leafOf returns the part of a name behind its last '.', '/', ':' or "__".
func leafOf(name string) string {
	if i := strings.LastIndexAny(name, "./:"); i >= 0 {
		name = name[i+1:]
	}
	if i := strings.LastIndex(name, "__"); i >= 0 {
		name = name[i+2:]
	}
	return name
}

// joinWords returns the words among tokens as one.
func joinWords(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t.kind == kindWord {
			b.WriteString(t.text)
		}
	}
	return b.String()
}

// beginning returns the keys, sorted, that begin with prefix.
func beginning(keys []nameKey, prefix string) []nameKey {
	from, _ := slices.BinarySearchFunc(keys, prefix, func(k nameKey, p string) int { return strings.Compare(k.key, p) })
	to := from
	for to < len(keys) && strings.HasPrefix(keys[to].key, prefix) {
		to++
	}
	return keys[from:to]
}

// pairsOf returns a sketch of the pairs of neighbouring characters in a name:
// names that share many bits look alike.
func pairsOf(name string) uint64 {
	var set uint64
	for i := 1; i < len(name); i++ {
		set |= 1 << ((uint(name[i-1])*31 + uint(name[i])) & 63)
	}
	return set
}
