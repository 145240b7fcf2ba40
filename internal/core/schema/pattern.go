package schema

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	longestPattern = 4 << 10
	// programRoom is how many instructions all patterns of a schema may have together.
	programRoom = 200_000
	// matchRoom bounds the work of one match: instructions times bytes. A longer text is not checked.
	matchRoom = 1 << 25
)

// patterns compiles the regular expressions of one schema. JSON Schema means those of
// ECMAScript; one that Go cannot run (look-ahead, back reference), or that is too
// large, is not checked: it matches everything, for the tool checks it itself.
type patterns struct {
	room  int
	known map[string]*pattern
}

func newPatterns() *patterns { return &patterns{room: programRoom, known: map[string]*pattern{}} }

// A pattern is one regular expression; re is nil where it is not checked.
type pattern struct {
	text string
	re   *regexp.Regexp
	size int // instructions
}

// engine has the signature of a [jsonschema.RegexpEngine].
func (p *patterns) engine(text string) (jsonschema.Regexp, error) { return p.compile(text), nil }

func (p *patterns) compile(text string) *pattern {
	if c, ok := p.known[text]; ok {
		return c
	}
	c := &pattern{text: text}
	p.known[text] = c
	if len(text) > longestPattern {
		return c
	}
	expr := goSyntax(text)
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return c
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil || len(prog.Inst) > p.room {
		return c
	}
	if c.re, err = regexp.Compile(expr); err != nil {
		return c
	}
	c.size = len(prog.Inst)
	p.room -= c.size
	return c
}

// String returns the expression as the schema has it.
func (c *pattern) String() string { return c.text }

// MatchString reports whether s matches, or cannot be checked.
func (c *pattern) MatchString(s string) bool {
	return !c.checks(s) || c.re.MatchString(s)
}

func (c *pattern) checks(s string) bool { return c.re != nil && len(s) <= matchRoom/c.size }

// goSyntax rewrites the escapes \uXXXX and \u{X} of ECMAScript, which Go writes \x{X}.
func goSyntax(s string) string {
	if !strings.Contains(s, `\u`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		hex, n := "", 0
		if s[i+1] == 'u' {
			hex, n = unicodeEscape(s[i+2:])
		}
		if n == 0 {
			b.WriteString(s[i : i+2])
			i++
			continue
		}
		b.WriteString(`\x{` + hex + `}`)
		i += 1 + n
	}
	return b.String()
}

// unicodeEscape returns the digits that follow \u and how many bytes they take, 0 for none.
func unicodeEscape(s string) (hex string, n int) {
	if inner, ok := strings.CutPrefix(s, "{"); ok {
		hex, _, ok = strings.Cut(inner, "}")
		if !ok {
			return "", 0
		}
		n = len(hex) + 2
	} else if len(s) >= 4 {
		hex, n = s[:4], 4
	}
	if _, err := strconv.ParseUint(hex, 16, 32); err != nil {
		return "", 0
	}
	return hex, n
}
