package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// CheckTerms returns an error that names the field of t, its value and what is allowed, unless t can be asked. nil can be.
func CheckTerms(t *contracts.ApprovalTerms) error {
	if _, problem := problemOf(t); problem != "" {
		return errors.New(problem)
	}
	return nil
}

// problemOf returns what is wrong with t, and where, as a JSON Pointer from t without its first slash; "" for nothing.
func problemOf(t *contracts.ApprovalTerms) (field, problem string) {
	if t == nil {
		return "", ""
	}
	const longestTitle, longestText, longestDecider, mostDeciders = 80, 512, 256, 100
	most := int64(contracts.ApprovalTimeoutMax / time.Second)
	title, text := utf8.RuneCountInString(t.Title), utf8.RuneCountInString(t.Description)
	switch {
	case title > longestTitle:
		return "title", fmt.Sprintf("the title of the approval has %d characters; want at most %d", title, longestTitle)
	case text > longestText:
		return "description", fmt.Sprintf("the description of the approval has %d characters; want at most %d", text, longestText)
	case t.Severity != "" && rankOf(t.Severity) < 0:
		return "severity", fmt.Sprintf("severity %q; want info, warning or critical", clip(string(t.Severity)))
	case t.ExpiresIn < 0 || t.ExpiresIn > most:
		return "expiresIn", fmt.Sprintf("expiresIn %d; want seconds from 1 to %d, or 0 for %d", t.ExpiresIn, most, contracts.ApprovalTimeout/time.Second)
	case t.Deciders != nil && len(t.Deciders) == 0:
		return "deciders", "deciders is empty; leave it out for everybody with the scope approve"
	case len(t.Deciders) > mostDeciders:
		return "deciders", fmt.Sprintf("there are %d deciders; want at most %d", len(t.Deciders), mostDeciders)
	}
	for i, d := range t.Deciders {
		if d == "" || len(d) > longestDecider {
			return fmt.Sprintf("deciders/%d", i), fmt.Sprintf("decider %q; want a principal of 1 to %d bytes", clip(d), longestDecider)
		}
	}
	return "", ""
}

// CompleteTerms returns t, which nil is the zero value of, with every default in place and the deciders sorted, each once. t stays as it is.
func CompleteTerms(t *contracts.ApprovalTerms) contracts.ApprovalTerms {
	var c contracts.ApprovalTerms
	if t != nil {
		c = *t
	}
	if c.Severity == "" {
		c.Severity = contracts.SeverityWarning
	}
	if c.ExpiresIn == 0 {
		c.ExpiresIn = int64(contracts.ApprovalTimeout / time.Second)
	}
	c.Deciders = slices.Clone(c.Deciders)
	slices.Sort(c.Deciders)
	c.Deciders = slices.Compact(c.Deciders)
	return c
}

// rankOf returns the place of s among the severities, -1 for none.
func rankOf(s contracts.Severity) int {
	return slices.Index([]contracts.Severity{contracts.SeverityInfo, contracts.SeverityWarning, contracts.SeverityCritical}, s)
}

// StricterTerms returns complete terms that satisfy both a and b, which are complete: the higher severity, the shorter time, and only
// who may decide by both; ok is false where that is nobody. Title and description are those of the more severe one.
func StricterTerms(a, b contracts.ApprovalTerms) (c contracts.ApprovalTerms, ok bool) {
	c = a
	if x, y := rankOf(a.Severity), rankOf(b.Severity); y > x || x == y && (b.Title < a.Title || b.Title == a.Title && b.Description < a.Description) {
		c = b
	}
	c.ExpiresIn = min(a.ExpiresIn, b.ExpiresIn)
	switch {
	case len(a.Deciders) == 0:
		c.Deciders = b.Deciders
	case len(b.Deciders) == 0:
		c.Deciders = a.Deciders
	default:
		c.Deciders = nil
		for _, d := range a.Deciders {
			if slices.Contains(b.Deciders, d) {
				c.Deciders = append(c.Deciders, d)
			}
		}
		return c, len(c.Deciders) > 0
	}
	return c, true
}
