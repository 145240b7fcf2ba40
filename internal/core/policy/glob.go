package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// longestGlob is the most bytes of a glob.
const longestGlob = 1024

// globs finds the first of a list of globs that matches a text. Most globs of a
// long list are names or begin with one, so they are looked up by that prefix.
// Those without one are tried one by one, but only where their signature fits.
type globs struct {
	list    []glob
	needs   []signature      // what a text must hold for the glob at the same position
	exact   map[string][]int // positions of globs without special characters, ascending
	byHead  map[string][]int // positions of the others by their literal prefix, ascending
	lengths []int            // of the keys of byHead, ascending
}

func compileGlobs(rules []string) (*globs, error) {
	g := &globs{exact: map[string][]int{}, byHead: map[string][]int{}}
	var seen [longestGlob + 1]bool
	for i, rule := range rules {
		one, err := parseGlob(rule)
		if err != nil {
			return nil, err
		}
		g.list, g.needs = append(g.list, one), append(g.needs, one.signature())
		head := one.parts[0].literal
		if !one.starred && len(one.parts) == 1 && one.parts[0].plain() {
			g.exact[head] = append(g.exact[head], i)
			continue
		}
		g.byHead[head] = append(g.byHead[head], i)
		seen[len(head)] = true
	}
	for n, ok := range seen {
		if ok {
			g.lengths = append(g.lengths, n)
		}
	}
	return g, nil
}

// match returns the first glob of the list that matches all of s, whose signature is has.
func (g *globs) match(s string, has *signature) (rule string, ok bool) {
	first := len(g.list)
	if same := g.exact[s]; len(same) > 0 {
		first = same[0]
	}
	for _, n := range g.lengths {
		if n > len(s) {
			break
		}
		for _, i := range g.byHead[s[:n]] {
			if i >= first {
				break
			}
			if has.holds(&g.needs[i]) && g.list[i].match(s) {
				first = i
			}
		}
	}
	if first == len(g.list) {
		return "", false
	}
	return g.list[first].text, true
}

// all adds the positions of the globs of the list that match all of s, whose signature is has, to hits.
func (g *globs) all(hits []int, s string, has *signature) []int {
	hits = append(hits, g.exact[s]...)
	for _, n := range g.lengths {
		if n > len(s) {
			break
		}
		for _, i := range g.byHead[s[:n]] {
			if has.holds(&g.needs[i]) && g.list[i].match(s) {
				hits = append(hits, i)
			}
		}
	}
	return hits
}

// A signature is a set of hashes of the bytes and pairs of bytes of a text.
type signature [4]uint64

func (g *signature) add(s string) {
	for i := range len(s) {
		g.set(s[i] * 167)
		if i > 0 {
			g.set(s[i-1]*31 ^ s[i]*113)
		}
	}
}

func (g *signature) set(h byte) { g[h>>6] |= 1 << (h & 63) }

// holds reports whether a text with the signature g can hold all that part stands for.
func (g *signature) holds(part *signature) bool {
	return part[0]&^g[0]|part[1]&^g[1]|part[2]&^g[2]|part[3]&^g[3] == 0
}

// A glob is a pattern split at its stars.
type glob struct {
	text    string
	parts   []part // at least one; a star stands between two
	starred bool
}

// A part is a run of a pattern without a star: literal text, then single characters.
type part struct {
	literal string
	rest    []single // after the literal
}

// signature returns what every text that the glob matches holds.
func (g *glob) signature() (sig signature) {
	for _, p := range g.parts {
		sig.add(p.literal)
		for _, one := range p.rest {
			sig.add(one.literal)
		}
	}
	return sig
}

func (p *part) plain() bool { return len(p.rest) == 0 }

// A single matches one character: '?', a class, or, after the first of these in a part, a literal byte.
type single struct {
	any     bool
	literal string
	ranges  [][2]rune
	not     bool
}

// parseGlob reads a glob: '*' is any run of characters, '?' one character,
// '[a-z_]' one of a class, '[^…]' or '[!…]' one outside it, '\' makes the next character literal.
func parseGlob(s string) (glob, error) {
	bad := func(what string) (glob, error) { return glob{}, fmt.Errorf("glob %q: %s", clip(s), what) }
	switch {
	case s == "":
		return bad("it is empty; want a pattern over tool ids such as mcp:calendar:*")
	case len(s) > longestGlob:
		return bad(fmt.Sprintf("it has %d bytes; want at most %d", len(s), longestGlob))
	}
	g := glob{text: s, parts: []part{{}}}
	var lit strings.Builder
	flush := func() {
		p := &g.parts[len(g.parts)-1]
		switch {
		case lit.Len() == 0:
		case p.plain() && p.literal == "":
			p.literal = lit.String()
		default:
			p.rest = append(p.rest, single{literal: lit.String()})
		}
		lit.Reset()
	}
	add := func(one single) {
		flush()
		p := &g.parts[len(g.parts)-1]
		p.rest = append(p.rest, one)
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '*':
			flush()
			g.starred = true
			g.parts = append(g.parts, part{})
		case '?':
			add(single{any: true})
		case '[':
			one, n, err := parseClass(s[i:])
			if err != "" {
				return bad(err)
			}
			add(one)
			i += n - 1
		case '\\':
			if i++; i == len(s) {
				return bad(`it ends in '\'; want a character after it`)
			}
			lit.WriteByte(s[i])
		default:
			lit.WriteByte(s[i])
		}
	}
	flush()
	return g, nil
}

// parseClass reads the class that s begins with; n is its length in bytes.
func parseClass(s string) (one single, n int, problem string) {
	i := 1
	if i < len(s) && (s[i] == '^' || s[i] == '!') {
		one.not = true
		i++
	}
	char := func() (r rune, ok bool) {
		if i < len(s) && s[i] == '\\' {
			i++
		}
		if i >= len(s) {
			return 0, false
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		return r, true
	}
	for {
		switch {
		case i >= len(s):
			return one, 0, "a '[' has no ']'"
		case s[i] == ']' && len(one.ranges) == 0:
			return one, 0, "a class [] is empty"
		case s[i] == ']':
			return one, i + 1, ""
		}
		low, ok := char()
		high := low
		if ok && i+1 < len(s) && s[i] == '-' && s[i+1] != ']' {
			i++
			high, ok = char()
		}
		if !ok {
			return one, 0, "a '[' has no ']'"
		}
		if high < low {
			return one, 0, fmt.Sprintf("the range %c-%c of a class is reversed", low, high)
		}
		one.ranges = append(one.ranges, [2]rune{low, high})
	}
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// match reports whether the glob matches all of s. Its time is at most that of len(s) times the glob's length.
func (g *glob) match(s string) bool {
	n, ok := g.parts[0].at(s)
	if !ok {
		return false
	}
	s = s[n:]
	if !g.starred {
		return s == ""
	}
	// Between two stars the first place that fits is as good as any; the last part must fit at the end.
	for i := range g.parts[1 : len(g.parts)-1] {
		end, ok := g.parts[i+1].find(s)
		if !ok {
			return false
		}
		s = s[end:]
	}
	return g.parts[len(g.parts)-1].ends(s)
}

// at reports whether s begins with the part, and how many bytes that takes.
func (p *part) at(s string) (n int, ok bool) {
	if !strings.HasPrefix(s, p.literal) {
		return 0, false
	}
	n = len(p.literal)
	for i := range p.rest {
		size := p.rest[i].size(s[n:])
		if size == 0 {
			return 0, false
		}
		n += size
	}
	return n, true
}

// find returns where the first occurrence of the part in s ends.
func (p *part) find(s string) (end int, ok bool) {
	if p.plain() {
		i := strings.Index(s, p.literal)
		return i + len(p.literal), i >= 0
	}
	for i := 0; i <= len(s); i += width(s[i:]) {
		if n, ok := p.at(s[i:]); ok {
			return i + n, true
		}
		if i == len(s) {
			break
		}
	}
	return 0, false
}

// ends reports whether s ends with the part.
func (p *part) ends(s string) bool {
	if p.plain() {
		return strings.HasSuffix(s, p.literal)
	}
	for i := 0; i < len(s); i += width(s[i:]) {
		if n, ok := p.at(s[i:]); ok && i+n == len(s) {
			return true
		}
	}
	return false
}

// width returns the length of the character that s begins with; an invalid byte is one character.
func width(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// size returns how many bytes of s's beginning the single takes; 0 where it does not match.
func (o *single) size(s string) int {
	if o.literal != "" {
		if strings.HasPrefix(s, o.literal) {
			return len(o.literal)
		}
		return 0
	}
	if s == "" {
		return 0
	}
	r, n := utf8.DecodeRuneInString(s)
	if o.any {
		return n
	}
	in := false
	for _, c := range o.ranges {
		in = in || c[0] <= r && r <= c[1]
	}
	if in == o.not {
		return 0
	}
	return n
}
