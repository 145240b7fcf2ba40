package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/internal/core/control"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// longestText is the most characters of a description or of a server's instructions that a model is shown at the start.
const longestText = 2048

// A shown surface is what the model gets, and how many of its tools are catalogued ones.
type shown struct {
	contracts.Surface
	schemas int
}

// surface builds what the model sees. The same arguments give the same bytes.
func (w *world) surface(mode contracts.SurfaceMode, settings config.ToolSearch, window int) shown {
	s := shown{Surface: contracts.Surface{Tools: []contracts.ModelTool{}}}
	if mode != contracts.SurfaceDirect {
		s.Tools = menu(mode, settings)
	}
	taken := map[string]bool{}
	for _, name := range control.Names() {
		taken[name] = true
	}
	for _, t := range w.exposedTools(mode) {
		// Two ids have one exposed name only where somebody made their hashes alike. The first has it; the other is still found by search and id.
		name := names.Exposed(t.ID, false)
		if taken[name] {
			continue
		}
		taken[name] = true
		s.Tools = append(s.Tools, contracts.ModelTool{
			Name:        name,
			Description: names.Cut(names.Text(cmp.Or(t.Description, t.Title)), longestText),
			InputSchema: cleanSchema(t.InputSchema),
		})
		s.schemas++
	}
	s.Prompt = w.prompt(mode, window)
	return s
}

// exposedTools returns the catalogued tools that the model gets with their schema, sorted by id.
func (w *world) exposedTools(mode contracts.SurfaceMode) (list []*contracts.Tool) {
	for i := range w.parts {
		p := &w.parts[i]
		if mode == contracts.SurfaceDirect {
			p.tools(func(t *contracts.Tool) { list = append(list, t) })
			continue
		}
		for _, j := range p.direct {
			list = append(list, &p.listing.Tools[j])
		}
	}
	slices.SortFunc(list, func(a, b *contracts.Tool) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return list
}

// cleanSchema returns a schema whose titles, descriptions and comments hide no characters. One that is clean keeps its bytes.
func cleanSchema(raw json.RawMessage) json.RawMessage {
	if !bytes.Contains(raw, []byte(`\u`)) && names.Text(string(raw)) == string(raw) {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	if !cleanTexts(v) {
		return raw
	}
	out, err := compact(v)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return out
}

// cleanTexts cleans the texts of a schema for its reader in place and reports whether it changed any.
// Names and values are left: they are what the tool takes.
func cleanTexts(v any) (changed bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			changed = cleanTexts(e) || changed
		}
	case map[string]any:
		for k, e := range v {
			if s, ok := e.(string); ok && (k == "description" || k == "title" || k == "$comment") {
				if c := names.Text(s); c != s {
					v[k], changed = c, true
				}
				continue
			}
			changed = cleanTexts(e) || changed
		}
	}
	return changed
}

// compact returns v as compact JSON in which '<', '>' and '&' stand as they are.
func compact(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
