package openapi

import (
	"errors"
	"strings"
)

// A filter chooses operations.
type filter struct {
	include, exclude []string
}

func newFilter(include, exclude []string) (*filter, error) {
	for _, list := range [][]string{include, exclude} {
		for _, g := range list {
			if strings.TrimSpace(g) == "" {
				return nil, errors.New("include and exclude: a glob is empty")
			}
		}
	}
	return &filter{include, exclude}, nil
}

// takes reports whether an operation is chosen: one that some glob of include matches, if there are any, and none of exclude.
func (f *filter) takes(o *operation) bool {
	return (len(f.include) == 0 || o.matches(f.include)) && !o.matches(f.exclude)
}

// matches reports whether one of the globs matches: "tag:…" a tag, one with a space method and path, any other the operation's id or, where it has none, its name.
func (o *operation) matches(globs []string) bool {
	for _, g := range globs {
		if tag, ok := strings.CutPrefix(g, "tag:"); ok {
			for _, t := range o.tags {
				if wildcard(tag, t) {
					return true
				}
			}
			continue
		}
		text := o.base
		if method, path, ok := strings.Cut(g, " "); ok {
			g, text = strings.ToUpper(method)+" "+strings.TrimSpace(path), o.method+" "+o.path
		}
		if wildcard(g, text) {
			return true
		}
	}
	return false
}

// wildcard reports whether a pattern matches all of s; '*' is any run of characters, '?' any byte.
func wildcard(pattern, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}
