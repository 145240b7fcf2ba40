package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Handles stand in a body for the data of content blocks, such as images, which the body can pass on and return but need not hold.
// A handle is a text in the place of the data. Safe for concurrent use.
type handles struct {
	prefix string

	mu     sync.Mutex
	blocks []handled
}

type handled struct {
	data  json.RawMessage // a JSON string
	block json.RawMessage // that the data stood in
}

// leastHandled is the size in bytes from which on data gets a handle: less is not worth it.
const leastHandled = 512

func newHandles(body contracts.BodyID) *handles {
	return &handles{prefix: "content:" + string(body) + ":"}
}

// hide returns an outcome as the body sees it: with handles in place of data.
func (h *handles) hide(o *contracts.Outcome) (json.RawMessage, error) {
	if o.Result != nil && len(o.Result.Content) > 0 {
		r, c := *o.Result, *o
		r.Content = make([]json.RawMessage, len(o.Result.Content))
		for i, b := range o.Result.Content {
			r.Content[i] = h.hideBlock(b)
		}
		c.Result = &r
		o = &c
	}
	return encode(o)
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
	in[key] = quoted(h.add(handled{data, block}))
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
func (h *handles) show(args json.RawMessage) (json.RawMessage, error) {
	if !bytes.Contains(args, []byte(h.prefix)) {
		return args, nil
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	return encode(replaced(v, func(s string) (any, bool) {
		b, ok := h.get(s)
		return b.data, ok
	}))
}

// shown returns the content blocks that a value refers to, each once, in their order.
func (h *handles) shown(value json.RawMessage) (blocks []json.RawMessage) {
	if !bytes.Contains(value, []byte(h.prefix)) {
		return nil
	}
	var v any
	if json.Unmarshal(value, &v) != nil {
		return nil
	}
	seen := map[string]bool{}
	replaced(v, func(s string) (any, bool) {
		if b, ok := h.get(s); ok && !seen[s] {
			seen[s] = true
			blocks = append(blocks, b.block)
		}
		return nil, false
	})
	return blocks
}

// replaced returns a decoded JSON value in which texts are replaced, in place.
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
		for k, e := range v {
			v[k] = replaced(e, by)
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
