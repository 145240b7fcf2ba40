package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Handles stand in a body for the data of content blocks, such as images, which the body can pass on and return but need not hold.
// A handle is a text in the place of the data. Safe for concurrent use.
type handles struct {
	prefix string
	// load gets the value at a path of a kept result, of at most most bytes.
	load func(ctx context.Context, handle, path string, most int64) (json.RawMessage, error)

	mu     sync.Mutex
	blocks []handled
}

// A handled block is here, or in a kept result.
type handled struct {
	data  json.RawMessage // a JSON string
	block json.RawMessage // that the data stood in
	kept  *kept           // in place of both
}

// A kept block stands in the kept result of a call.
type kept struct {
	contracts.CutPart
	handle string
	index  int // among the blocks of the result
}

const (
	// leastHandled is the size in bytes from which on data gets a handle: less is not worth it.
	leastHandled = 512
	// mostLoaded is the bytes of kept data that go into the arguments of one call, or are shown of a body's value.
	mostLoaded = 32 << 20
	mostShown  = 8 << 20
)

func newHandles(body contracts.BodyID) *handles {
	return &handles{prefix: "content:" + string(body) + ":"}
}

// hide returns an outcome as the body sees it: with handles in place of data.
func (h *handles) hide(o *contracts.Outcome) (*contracts.Outcome, error) {
	if o.Result == nil || len(o.Result.Content) == 0 {
		return o, nil
	}
	r, c := *o.Result, *o
	c.Result = &r
	r.Content = make([]json.RawMessage, len(o.Result.Content))
	for i, b := range o.Result.Content {
		r.Content[i] = h.hideBlock(b)
	}
	if r.More == nil {
		return &c, nil
	}
	missing := r.More.Others
	for _, part := range r.More.Parts {
		i, ok := dataIn(part)
		if !ok || i >= len(r.Content) {
			missing++
			continue
		}
		r.Content[i] = h.hideKept(&kept{part, r.More.Handle, i})
	}
	if missing == 0 { // nothing is: the last block says so in vain
		r.More, r.Truncated = nil, ""
		r.Content = r.Content[:len(r.Content)-1]
	}
	return &c, nil
}

// dataIn returns in which block the data stand that were left out.
func dataIn(p contracts.CutPart) (int, bool) {
	rest, ok := strings.CutPrefix(p.Path, "/content/")
	index, place, _ := strings.Cut(rest, "/")
	i, err := strconv.Atoi(index)
	return i, ok && err == nil && i >= 0 && p.Type != "" && (place == "data" || place == "resource/blob")
}

// hideKept returns a block that was left out, with a handle in place of its data.
func (h *handles) hideKept(k *kept) json.RawMessage {
	in := map[string]any{"bytes": k.Total}
	for name, v := range map[string]string{"mimeType": k.MimeType, "uri": k.URI} {
		if v != "" {
			in[name] = v
		}
	}
	block := in
	if handle := h.add(handled{kept: k}); k.Type == "resource" {
		in["blob"] = handle
		block = map[string]any{"resource": in}
	} else {
		in["data"] = handle
	}
	block["type"] = k.Type
	out, err := encode(block)
	if err != nil {
		return json.RawMessage("null") // not reached: texts and a number
	}
	return out
}

// hideBlock hides the data of an image, audio or embedded binary resource.
func (h *handles) hideBlock(block json.RawMessage) json.RawMessage {
	if len(block) < leastHandled {
		return block
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(block, &fields) != nil {
		return block
	}
	key := "data"
	in := fields
	if string(fields["type"]) == `"resource"` {
		key, in = "blob", nil
		if json.Unmarshal(fields["resource"], &in) != nil {
			return block
		}
	}
	data := in[key]
	if len(data) < leastHandled || data[0] != '"' {
		return block
	}
	in[key] = quoted(h.add(handled{data: data, block: block}))
	in["bytes"] = json.RawMessage(fmt.Sprint((len(data) - 2) / 4 * 3)) // base64
	if key == "blob" {
		fields["resource"], _ = encode(in)
	}
	out, err := encode(fields)
	if err != nil {
		return block
	}
	return out
}

func (h *handles) add(b handled) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocks = append(h.blocks, b)
	return fmt.Sprintf("%s%d", h.prefix, len(h.blocks))
}

// get returns what a handle stands for.
func (h *handles) get(handle string) (handled, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, b := range h.blocks {
		if handle == fmt.Sprintf("%s%d", h.prefix, i+1) {
			return b, true
		}
	}
	return handled{}, false
}

// show returns arguments with the data in place of each handle.
func (h *handles) show(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(args, []byte(h.prefix)) {
		return args, nil
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	var failed error
	room := int64(mostLoaded)
	v = replaced(v, func(s string) (any, bool) {
		b, ok := h.get(s)
		if ok && b.kept != nil && failed == nil {
			b.data, failed = h.load(ctx, b.kept.handle, b.kept.Path, room)
			room -= int64(len(b.data))
		}
		return b.data, ok
	})
	if failed != nil {
		return nil, failed
	}
	return encode(v)
}

// shown returns the content blocks that a value refers to, each once; those of an object in the order of its names. In place of kept ones that are not to be shown stands how to read them.
func (h *handles) shown(ctx context.Context, value json.RawMessage) (blocks []json.RawMessage) {
	if !bytes.Contains(value, []byte(h.prefix)) {
		return nil
	}
	var v any
	if json.Unmarshal(value, &v) != nil {
		return nil
	}
	seen := map[string]bool{}
	room := int64(mostShown)
	replaced(v, func(s string) (any, bool) {
		b, ok := h.get(s)
		if !ok || seen[s] {
			return nil, false
		}
		seen[s] = true
		if b.kept != nil {
			b.block = h.showKept(ctx, b.kept, &room)
		}
		blocks = append(blocks, b.block)
		return nil, false
	})
	return blocks
}

// showKept returns a kept block where it is an image that there is room for, and otherwise what says where it is.
func (h *handles) showKept(ctx context.Context, k *kept, room *int64) json.RawMessage {
	if k.Type == "image" {
		block, err := h.load(ctx, k.handle, "/content/"+strconv.Itoa(k.index), *room)
		if err == nil {
			*room -= int64(len(block))
			return block
		}
	}
	return contracts.TextResult(fmt.Sprintf("[%s, %d bytes: to read it call %s with %s]", strings.TrimSpace(k.Type+" "+k.MimeType), k.Total,
		outputs.ReadID, fmt.Sprintf(`{"handle":%q,"path":%q}`, k.handle, k.Path)), nil).Content[0]
}

// replaced returns a decoded JSON value in which texts are replaced, in place, one after the other in an order that depends on the value alone.
func replaced(v any, by func(string) (any, bool)) any {
	switch v := v.(type) {
	case string:
		if n, ok := by(v); ok {
			return n
		}
	case []any:
		for i, e := range v {
			v[i] = replaced(e, by)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			v[k] = replaced(v[k], by)
		}
	}
	return v
}

// encode returns v as JSON without the escapes that only HTML needs.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n")), nil
}
