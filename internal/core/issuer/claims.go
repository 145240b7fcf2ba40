package issuer

import (
	"strings"
	"time"
)

// Claims are what a token that holds says.
type Claims struct {
	// Audience are those that the token is for.
	Audience []string
	// Expires is from when on the token no longer holds, the skew of clocks included.
	Expires time.Time
	all     map[string]any
}

// Text returns a claim that is a string, "" for none.
func (c Claims) Text(name string) string {
	s, _ := c.claim(name).(string)
	return s
}

// Words returns a claim that is a list of strings, or one string with spaces between words, as scope is; none where it is neither.
func (c Claims) Words(name string) []string {
	switch v := c.claim(name).(type) {
	case string:
		return strings.Fields(v)
	case []any:
		var out []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// claim returns a claim by its name, or by a path with dots through objects, such as realm_access.roles.
func (c Claims) claim(name string) any {
	if v, ok := c.all[name]; ok {
		return v
	}
	var at any = c.all
	for part := range strings.SplitSeq(name, ".") {
		object, _ := at.(map[string]any)
		at = object[part]
	}
	return at
}
