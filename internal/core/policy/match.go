package policy

import "github.com/toolcrib/toolcrib/pkg/contracts"

// A Matcher is a short list of globs over tool ids. It never changes and is safe for concurrent use. A nil Matcher matches every tool.
type Matcher struct{ globs []glob }

// NewMatcher compiles globs; it returns nil for none. The error names the glob that is none, and what is allowed.
func NewMatcher(globs []string) (*Matcher, error) {
	if len(globs) == 0 {
		return nil, nil
	}
	m := &Matcher{}
	for _, s := range globs {
		g, err := parseGlob(s)
		if err != nil {
			return nil, err
		}
		m.globs = append(m.globs, g)
	}
	return m, nil
}

// Match reports whether one of the globs matches all of id.
func (m *Matcher) Match(id contracts.ToolID) bool {
	if m == nil {
		return true
	}
	for i := range m.globs {
		if m.globs[i].match(string(id)) {
			return true
		}
	}
	return false
}
