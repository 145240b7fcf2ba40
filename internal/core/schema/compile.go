package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// location is where a schema stands for the compiler; it is never loaded.
const (
	base     = "tool:///"
	location = base + "schema"
)

// Compile prepares a schema for checking. Its draft is that of $schema, 2020-12
// where that says nothing known; where it is not valid in its own draft but in an older
// one that many still write, that one. References lead to the schema itself or to
// the drafts' own schemas, nothing is loaded. Formats are checked in the drafts
// that assert them (draft-07 and older), unknown ones never; a pattern that Go cannot run is not checked.
// The error says what is wrong with the schema.
func Compile(raw json.RawMessage) (*Validator, error) {
	doc, _, err := decode(raw, schemaLimits())
	if err != nil {
		return nil, err
	}
	switch doc.(type) {
	case bool, map[string]any:
	default:
		return nil, fmt.Errorf("it is %s; want an object or a boolean", kindOf(doc))
	}
	p := newPatterns()
	p.prepare(doc)
	var first error
	for _, draft := range drafts(doc) {
		sch, err := compile(doc, draft, p)
		if err == nil {
			return newValidator(doc, draft, p, sch), nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// drafts returns the drafts to try, the schema's own first.
func drafts(doc any) []*jsonschema.Draft {
	all := []*jsonschema.Draft{jsonschema.Draft2020, jsonschema.Draft7, jsonschema.Draft4}
	if root, ok := doc.(map[string]any); ok {
		if name, ok := root["$schema"].(string); ok {
			delete(root, "$schema") // the draft is given to the compiler
			if own := draftOf(name); own != nil {
				return append([]*jsonschema.Draft{own}, all...)
			}
		}
	}
	return all
}

// draftOf returns the draft that $schema names, nil for one that is not known.
func draftOf(name string) *jsonschema.Draft {
	_, path, _ := strings.Cut(strings.TrimSuffix(name, "#"), "://")
	switch path {
	case "json-schema.org/draft/2020-12/schema", "json-schema.org/schema":
		return jsonschema.Draft2020
	case "json-schema.org/draft/2019-09/schema":
		return jsonschema.Draft2019
	case "json-schema.org/draft-07/schema":
		return jsonschema.Draft7
	case "json-schema.org/draft-06/schema":
		return jsonschema.Draft6
	case "json-schema.org/draft-04/schema":
		return jsonschema.Draft4
	}
	return nil
}

func compile(doc any, draft *jsonschema.Draft, p *patterns) (sch *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil { // a schema that the library did not foresee
			sch, err = nil, fmt.Errorf("it cannot be read: %v", p)
		}
	}()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(p.engine)
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	if sch, err = c.Compile(location); err != nil {
		return nil, readable(err)
	}
	checkNames(sch)
	return sch, nil
}

// nowhere is the loader that loads nothing.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("nothing is loaded") }

// readable turns the compiler's error into one for whoever wrote the schema.
func readable(err error) error {
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		return fmt.Errorf("it refers to %s; want only references within the schema", clip(strings.TrimPrefix(load.URL, base)))
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if v, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			if fields := newReport(nil).fields(v); len(fields) > 0 {
				return fmt.Errorf("%s %s", orRoot(fields[0].Field), fields[0].Message)
			}
		}
	}
	return errors.New(clip(strings.ReplaceAll(err.Error(), location, "")))
}

func orRoot(pointer string) string {
	if pointer == "" {
		return "it"
	}
	return pointer
}

// prepare changes in a decoded schema what would make a usable schema unusable: a nested $schema that is not
// known is left out, bounds beyond 64 bits become the largest, and a property
// pattern that cannot be run allows everything.
func (p *patterns) prepare(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			p.prepare(item)
		}
	case map[string]any:
		for key, item := range v {
			switch key {
			case "const", "enum", "default", "examples":
				continue // data, or a property of that name, which may go unprepared
			case "$schema":
				if name, ok := item.(string); ok && draftOf(name) == nil {
					delete(v, key)
				}
			case "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties", "maxContains", "minContains":
				if n, ok := item.(json.Number); ok && beyondInt(n) {
					v[key] = json.Number(strconv.Itoa(math.MaxInt64))
				}
			case "patternProperties":
				p.prepareProperties(item)
			}
			p.prepare(item)
		}
	}
}

func (p *patterns) prepareProperties(v any) {
	m, ok := v.(map[string]any)
	if !ok {
		return
	}
	for expr := range m {
		if p.compile(expr).re == nil {
			m[expr] = true
		}
	}
}

func beyondInt(n json.Number) bool {
	if _, err := n.Int64(); err == nil {
		return false
	}
	f, err := n.Float64()
	return err != nil || f >= math.MaxInt64
}
