package planner

import (
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// couldShow reports whether policy lets through some tool that a source could have,
// for sources whose tools are not known. It looks for a witness: an id of the source that the policy allows,
// made from the globs of the allow lists. So true is always right; false can be wrong only where
// the allow lists of several layers have nothing in common but ids that none of their globs shows alone.
func couldShow(e *policy.Effective, source contracts.SourceID) bool {
	prefix := source.String() + ":"
	for _, name := range [...]string{"x", "list_items", "Get", "0", "_", "é"} {
		if !e.See(policy.Tool{ID: contracts.ToolID(prefix + name)}).Denied() {
			return true
		}
	}
	for _, l := range e.Layers() {
		globs := slices.Clone(l.Allow)
		for _, r := range l.Rules {
			if r.Effect == contracts.PolicyAllow {
				globs = append(globs, r.Tools...)
			}
		}
		for _, g := range globs {
			for _, name := range witnesses(g, prefix) {
				if !e.See(policy.Tool{ID: contracts.ToolID(prefix + name)}).Denied() {
					return true
				}
			}
		}
	}
	return false
}

// mostWitnesses bounds the names that one glob is tried with.
const mostWitnesses = 64

// witnesses returns names with which an id that begins with prefix may match the glob.
func witnesses(glob, prefix string) []string {
	tokens := globTokens(glob)
	// at holds the positions in tokens at which a match of the prefix, as far as it is read, can stand.
	at := map[int]bool{}
	reach := func(set map[int]bool, i int) {
		set[i] = true
		for i < len(tokens) && tokens[i] == "*" { // a star can be passed over
			i++
			set[i] = true
		}
	}
	reach(at, 0)
	for j := range len(prefix) {
		next := map[int]bool{}
		for i := range at {
			if i == len(tokens) {
				continue
			}
			switch tok := tokens[i]; {
			case tok == "*":
				reach(next, i)
			case tok == "?" || tok[0] == '[' || tok[len(tok)-1] == prefix[j]: // a class is believed here; the decision tells
				reach(next, i+1)
			}
		}
		at = next
	}
	var names []string
	for i := range len(tokens) {
		if at[i] && len(names) < mostWitnesses {
			for _, filler := range [...]string{"x", ""} {
				if n := instance(tokens[i:], filler); n != "" {
					names = append(names, n)
				}
			}
		}
	}
	return names
}

// globTokens splits a glob into "*", "?", classes "[…]" and single bytes, escaped ones with their '\'.
func globTokens(g string) (tokens []string) {
	for len(g) > 0 {
		n := 1
		switch g[0] {
		case '\\':
			n = min(2, len(g))
		case '[':
			if end := strings.IndexByte(g[1:], ']'); end > 0 {
				n = end + 2
			}
		}
		tokens = append(tokens, g[:n])
		g = g[n:]
	}
	return tokens
}

// instance returns a text that matches the tokens, with filler for each star; "" where none was found.
func instance(tokens []string, filler string) string {
	var b strings.Builder
	for _, tok := range tokens {
		switch {
		case tok == "*":
			b.WriteString(filler)
		case tok == "?":
			b.WriteByte('x')
		case tok[0] == '[' && len(tok) > 2:
			switch body := strings.TrimRight(tok[1:], "]"); body[0] {
			case '^', '!':
				b.WriteByte('~')
			case '\\':
				b.WriteString(body[1:min(2, len(body))])
			default:
				b.WriteString(body[:1])
			}
		default:
			b.WriteByte(tok[len(tok)-1])
		}
	}
	return b.String()
}
