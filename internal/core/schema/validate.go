package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Validator checks arguments against one schema. It is safe for concurrent
// use and never changes. [Compile] makes one.
type Validator struct {
	doc any // the schema, for messages
	sch *jsonschema.Schema
	// How many evaluations one value of the arguments can need, and how many
	// instructions of patterns one byte; heavy for no bound.
	weight, matching int

	// guarded is the same schema with a budget, for what sch could take too long for. One check at a time uses it.
	mu      sync.Mutex
	guarded func() (*guard, error)
}

func newValidator(doc any, draft *jsonschema.Draft, p *patterns, sch *jsonschema.Schema) *Validator {
	v := &Validator{doc: doc, sch: sch, weight: weigh(sch, own), matching: weigh(sch, instructions)}
	v.guarded = sync.OnceValues(func() (*guard, error) {
		again, err := compile(doc, draft, p)
		if err != nil {
			return nil, err
		}
		return newGuard(again), nil
	})
	return v
}

// Validate checks arguments; absent ones count as {}. It returns nil where they
// fit the schema, else one entry for each wrong field, sorted by field: a missing
// property is named by the pointer that it would have. Messages name kinds, bounds
// and allowed values, never the values given, and are fit for a model.
// Numbers are exact. An object that has a property twice is refused, as are arguments that
// the schema lets grow too costly to check.
func (v *Validator) Validate(args json.RawMessage) []contracts.FieldError {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	wrong, err := v.fields(args)
	if err != nil {
		return []contracts.FieldError{{Message: clip("the arguments " + err.Error())}}
	}
	return wrong
}

// ValidateOutput checks what a tool answered as Validate checks arguments. What is too large or too costly to be checked
// counts as right: an answer has no bounds of ours.
func (v *Validator) ValidateOutput(answer json.RawMessage) []contracts.FieldError {
	wrong, _ := v.fields(answer)
	return wrong
}

// fields returns the wrong fields of a value, or why it cannot be checked.
func (v *Validator) fields(raw json.RawMessage) ([]contracts.FieldError, error) {
	value, values, err := decode(raw, argsLimits())
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	err = v.check(value, values, len(raw))
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return newReport(v.doc).fields(invalid), nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot be checked: %w", err)
	}
	return nil, nil
}

func (v *Validator) check(value any, values, size int) (err error) {
	defer func() {
		switch recover().(type) {
		case nil:
		case spent:
			err = errors.New("they are too large or too deep for a schema as involved as the tool's")
		default: // a schema that the library did not foresee
			err = errors.New("the tool's schema is at fault")
		}
	}()
	room := budget(values)
	if v.weight*values+v.matching*(size/matchUnit+1) <= room {
		return v.sch.Validate(value)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	g, err := v.guarded()
	if err != nil {
		return err
	}
	g.left = room
	return g.sch.Validate(value)
}
