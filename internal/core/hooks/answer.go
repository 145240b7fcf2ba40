package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// deepest is how deep objects and arrays of an answer may stand in each other, and mostValues how many values it may hold: as with arguments.
	deepest    = 128
	mostValues = 100_000
	// longestReason is in characters.
	longestReason = 1000
)

// decode reads the answer of a hook. It takes what cannot be misunderstood and nothing else: no property twice, none that is not known, none that does
// not go with the decision. The error is a *failure.
func decode(data []byte) (contracts.HookAnswer, error) {
	a, err := decodeAnswer(data)
	if err != nil {
		return contracts.HookAnswer{}, problem("its answer makes no sense: %v", err)
	}
	return a, nil
}

func decodeAnswer(data []byte) (contracts.HookAnswer, error) {
	var a contracts.HookAnswer
	if err := check(data); err != nil {
		return a, err
	}
	fields, err := object(data, "decision", "reason", "arguments", "approval")
	if err != nil {
		return a, err
	}
	if fields["decision"] == nil {
		return a, errors.New("decision is missing; want allow, block, rewrite or approve")
	}
	if err := text(fields, "decision", (*string)(&a.Decision)); err != nil {
		return a, err
	}
	if err := text(fields, "reason", &a.Reason); err != nil {
		return a, err
	}
	if a.Approval, err = terms(fields["approval"]); err != nil {
		return a, err
	}
	if a.Arguments, err = arguments(fields["arguments"]); err != nil {
		return a, err
	}
	return a, fits(&a)
}

// fits checks that what an answer holds goes with its decision, and sets the reason of a block.
func fits(a *contracts.HookAnswer) error {
	switch a.Decision {
	case contracts.HookAllow, contracts.HookBlock, contracts.HookRewrite, contracts.HookApprove:
	default:
		return fmt.Errorf("decision is %q; want allow, block, rewrite or approve", short(string(a.Decision)))
	}
	switch {
	case a.Decision == contracts.HookRewrite && a.Arguments == nil:
		return errors.New("arguments are missing, which rewrite needs")
	case a.Arguments != nil && a.Decision != contracts.HookRewrite && a.Decision != contracts.HookApprove:
		return fmt.Errorf("arguments cannot stand beside %s", a.Decision)
	case a.Approval != nil && a.Decision != contracts.HookApprove:
		return fmt.Errorf("approval cannot stand beside %s", a.Decision)
	}
	if a.Reason = names.Line(a.Reason, longestReason); a.Reason == "" {
		a.Reason = noReason
	}
	return nil
}

// short shortens text for a message.
func short(s string) string { return names.Line(s, 64) }

// object returns the properties of the object raw, those that are null left out. Others than the known ones are an error.
func object(raw []byte, known ...string) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, errors.New("it is no JSON object")
	}
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, k) {
			return nil, fmt.Errorf("there is no property %q; known are %v", short(k), known)
		}
		if string(fields[k]) == "null" {
			delete(fields, k)
		}
	}
	return fields, nil
}

// text reads a property that is a string, where it is there.
func text(fields map[string]json.RawMessage, key string, to *string) error {
	if fields[key] != nil && json.Unmarshal(fields[key], to) != nil {
		return fmt.Errorf("%s is no string", key)
	}
	return nil
}

// arguments returns raw, compact, which must be an object or nil.
func arguments(raw json.RawMessage) (json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, errors.New("arguments are no object")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// terms reads the terms of an approval; nil for none.
func terms(raw json.RawMessage) (*contracts.ApprovalTerms, error) {
	if raw == nil {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, errors.New("approval is no object")
	}
	fields, err := object(raw, "title", "description", "severity", "deciders", "expiresIn")
	if err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	t := &contracts.ApprovalTerms{}
	err = errors.Join(text(fields, "title", &t.Title), text(fields, "description", &t.Description), text(fields, "severity", (*string)(&t.Severity)))
	if err == nil && fields["deciders"] != nil && (json.Unmarshal(fields["deciders"], &t.Deciders) != nil || len(t.Deciders) == 0) {
		err = errors.New("deciders are no list of principals") // an empty one could mean nobody, or everybody
	}
	if err == nil && fields["expiresIn"] != nil && json.Unmarshal(fields["expiresIn"], &t.ExpiresIn) != nil {
		err = errors.New("expiresIn is no whole number")
	}
	if err == nil {
		err = policy.CheckTerms(t)
	}
	if err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	t.Title, t.Description = names.Line(t.Title, len(t.Title)), names.Line(t.Description, len(t.Description))
	return t, nil
}

// check returns an error unless data is one JSON value in which no object has a property twice, of bounded size, depth and number of values.
func check(data []byte) error {
	switch {
	case len(data) > contracts.HookAnswerMost:
		return fmt.Errorf("it has more than %d bytes", contracts.HookAnswerMost)
	case len(bytes.TrimSpace(data)) == 0:
		return errors.New("it is empty")
	case !utf8.Valid(data):
		return errors.New("it is no UTF-8")
	}
	c := checker{d: json.NewDecoder(bytes.NewReader(data))}
	c.d.UseNumber()
	if err := c.value(0); err != nil {
		return err
	}
	if _, err := c.d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// A checker walks over a JSON value.
type checker struct {
	d      *json.Decoder
	values int
}

func (c *checker) value(depth int) error {
	if c.values++; c.values > mostValues {
		return fmt.Errorf("it holds more than %d values", mostValues)
	}
	t, err := c.d.Token()
	if err != nil {
		return errors.New("it is no JSON")
	}
	open, ok := t.(json.Delim)
	switch {
	case !ok:
		return nil
	case depth == deepest:
		return fmt.Errorf("it is nested deeper than %d", deepest)
	}
	seen := map[string]struct{}{}
	for c.d.More() {
		if open == '{' {
			key, err := c.d.Token()
			name, ok := key.(string)
			if err != nil || !ok {
				return errors.New("it is no JSON")
			}
			if _, twice := seen[name]; twice {
				return fmt.Errorf("an object has the property %q twice", short(name))
			}
			seen[name] = struct{}{}
		}
		if err := c.value(depth + 1); err != nil {
			return err
		}
	}
	if _, err := c.d.Token(); err != nil {
		return errors.New("it is no JSON")
	}
	return nil
}
