package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// wrappers are the names under which weak models give all arguments of a tool.
var wrappers = [...]string{"args", "arguments", "parameters", "params", "input"}

// wrappedArgs returns what stands in {"args": {…}} or the like, also as a text.
func wrappedArgs(args json.RawMessage) (name string, inner json.RawMessage, ok bool) {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil || len(m) != 1 {
		return "", nil, false
	}
	for _, name := range wrappers {
		if raw, there := m[name]; there && string(raw) != "null" {
			inner, _, ok = asObject(raw)
			return name, inner, ok
		}
	}
	return "", nil, false
}

// unwrapped returns the arguments of a call, without what is around them, and how that was mended, "" for not. It is mended only where the
// tool knows nothing of what is around the arguments and takes what is within: a tool that has an argument of that name is given it.
func (d *callDesk) unwrapped(ctx context.Context, t contracts.TenantID, run *contracts.Run, id string, args json.RawMessage) (json.RawMessage, string) {
	name, inner, ok := wrappedArgs(args)
	if !ok {
		return args, ""
	}
	cat, err := d.runs.library.Catalogue(ctx, t, run.Plan.CatalogueBlob)
	if err != nil {
		return args, ""
	}
	e, err := cat.Resolve(id)
	if err != nil {
		return args, ""
	}
	v, err := d.schemas.For(e.Hash, e.InputSchema)
	if err != nil || len(v.Validate(inner)) > 0 {
		return args, ""
	}
	if len(v.Validate(args)) == 0 && mayTake(e.InputSchema, name) {
		return args, ""
	}
	return inner, fmt.Sprintf("the arguments stood in %s", name)
}

// mayTake reports whether a tool that lets unknown arguments pass may know one of that name: it names no others, or names it.
func mayTake(input json.RawMessage, name string) bool {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Others     map[string]json.RawMessage `json:"patternProperties"`
	}
	if json.Unmarshal(input, &s) != nil || len(s.Properties) == 0 || len(s.Others) > 0 {
		return true
	}
	_, ok := s.Properties[name]
	return ok
}
