package executor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/core/tokens"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Bounds of what one source may say, in bytes; a longer title of it or longer instructions are cut at that many characters.
const (
	mostTitle        = 4 << 10
	mostDescription  = 1 << 20
	mostSchema       = 1 << 20
	mostMeta         = 64 << 10
	mostInstructions = 64 << 10
	// mostSkipped bounds how many skipped tools are named in a record.
	mostSkipped = 50
)

// curate makes a listing of what a source said: tools sorted by id, measured, and without those that cannot be used,
// which are added to skipped. One bad tool harms only itself.
func (d *discoverer) curate(s *source, raw *contracts.Listing, skipped []contracts.SkippedTool) (*contracts.Listing, []contracts.SkippedTool) {
	l := &contracts.Listing{
		Source: s.id, Title: names.Cut(names.Text(raw.Title), mostTitle), Instructions: names.Cut(raw.Instructions, mostInstructions),
		TrustAnnotations: s.trusted, Tools: make([]contracts.Tool, 0, len(raw.Tools)),
	}
	seen := map[string]bool{}
	for _, t := range raw.Tools {
		err := bounded(&t)
		switch {
		case err != nil:
		case seen[t.Name]:
			err = errors.New("the source has another tool of this name")
		default:
			err = d.complete(s, &t)
		}
		if err != nil {
			skipped = append(skipped, contracts.SkippedTool{Name: t.Name, Reason: err.Error()})
			continue
		}
		seen[t.Name] = true
		l.Tools = append(l.Tools, t)
	}
	slices.SortFunc(l.Tools, func(a, b contracts.Tool) int { return cmp.Compare(a.ID, b.ID) })
	return l, tellable(skipped)
}

// bounded says what of a tool is empty, hidden or too large, whatever it means.
func bounded(t *contracts.Tool) error {
	if t.Name == "" {
		return errors.New("the name is empty")
	}
	if names.Text(t.Name) != t.Name {
		return errors.New("the name holds control or invisible characters")
	}
	for _, part := range []struct {
		name       string
		size, most int
	}{
		{"title", len(t.Title), mostTitle},
		{"description", len(t.Description), mostDescription},
		{"inputSchema", len(t.InputSchema), mostSchema},
		{"outputSchema", len(t.OutputSchema), mostSchema},
		{"_meta", len(t.Meta), mostMeta},
		{"binding", len(t.Binding), mostMeta},
	} {
		if part.size > part.most {
			return fmt.Errorf("%s: %d bytes; at most %d are allowed", part.name, part.size, part.most)
		}
	}
	return nil
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return nil
	}
	return b.Bytes()
}

// complete brings a tool into the form of a listing and fills in what its source does not say of it. The
// error says why the tool cannot be used.
func (d *discoverer) complete(s *source, t *contracts.Tool) error {
	t.InputSchema = compact(schema.Normalise(t.InputSchema))
	t.OutputSchema, t.Meta = compact(t.OutputSchema), compact(t.Meta)
	t.ID = contracts.NewToolID(s.id, t.Name)
	t.Loading = s.loading
	if alwaysLoaded(t.Meta) {
		t.Loading = contracts.LoadingDirect
	}
	t.Hash = t.ContentHash()
	key := t.Hash
	if s.bare {
		key += " bare"
	}
	cost, ok := d.measured.Get(key)
	if !ok { // else it was found good before
		if err := schema.Check(t.Name, t.InputSchema, t.OutputSchema); err != nil {
			return err
		}
		cost.Bytes, cost.Tokens = tokens.Definition(names.Exposed(t.ID, s.bare), t.Description, t.InputSchema)
		d.measured.Add(key, cost)
	}
	t.Bytes, t.Tokens = cost.Bytes, cost.Tokens
	return nil
}

func alwaysLoaded(meta json.RawMessage) bool {
	var m struct {
		Always bool `json:"anthropic/alwaysLoad"`
	}
	return len(meta) > 0 && json.Unmarshal(meta, &m) == nil && m.Always
}

// tellable makes the list of skipped tools short and clean enough for a record.
func tellable(skipped []contracts.SkippedTool) []contracts.SkippedTool {
	const longestName, longestReason = 80, 300
	more := len(skipped) - mostSkipped
	skipped = slices.Clone(skipped[:min(len(skipped), mostSkipped)])
	for i, t := range skipped {
		skipped[i] = contracts.SkippedTool{
			Name:   names.Cut(names.Text(t.Name), longestName),
			Reason: names.Cut(names.Text(t.Reason), longestReason),
		}
	}
	if more > 0 {
		skipped = append(skipped, contracts.SkippedTool{Reason: fmt.Sprintf("and %d tools more", more)})
	}
	return skipped
}
