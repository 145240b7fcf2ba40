package openapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// result is the property that an answer stands in which is no object.
const result = "result"

// output makes the output schema of an operation, and notes in bind what its good answers are. It is nil where
// the good answers are not all JSON of one known shape, or where their schemas cannot be read.
func (b *builder) output(o *operation, bind *binding) json.RawMessage {
	responses := o.at.child("responses")
	var schemas []place
	promised := !b.conn.cfg.LooseOutputs && o.method != "HEAD"
	for _, status := range slices.Sorted(maps.Keys(responses.object())) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		r, err := b.of.follow(b.ctx, responses.child(status))
		if err != nil {
			promised = false
			continue
		}
		for name := range r.child("headers").object() {
			bind.Headers = append(bind.Headers, name)
		}
		content := r.child("content")
		inJSON := false
		for _, media := range slices.Sorted(maps.Keys(content.object())) {
			if !isMedia(media) {
				continue
			}
			bind.Accept = append(bind.Accept, media)
			if isJSON(media) {
				inJSON = true
				schemas = append(schemas, content.child(media).child("schema"))
			}
		}
		promised = promised && inJSON
	}
	slices.Sort(bind.Headers)
	bind.Headers = slices.Compact(bind.Headers)
	bind.Headers = bind.Headers[:min(len(bind.Headers), mostHeaders)]
	bind.Accept = preferJSON(bind.Accept)
	if !promised || len(schemas) == 0 {
		return nil
	}
	if len(slices.CompactFunc(slices.Clone(schemas), b.same)) > 1 {
		return nil
	}
	return b.promise(schemas[0])
}

// mostHeaders bounds the headers that are told of an answer.
const mostHeaders = 10

// preferJSON returns media types without doubles, JSON alone where there is any: then nothing else is asked for.
func preferJSON(all []string) []string {
	var out []string
	for _, m := range all {
		if isJSON(m) && !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, m := range all {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out
}

// same reports whether two schemas are one.
func (b *builder) same(x, y place) bool {
	x, err := b.of.follow(b.ctx, x)
	if err != nil {
		return false
	}
	y, err = b.of.follow(b.ctx, y)
	return err == nil && (x.key() == y.key() || string(encode(x.value)) == string(encode(y.value)))
}

// promise makes the output schema of answers that the schema at p describes.
func (b *builder) promise(p place) json.RawMessage {
	if p.value == nil {
		return nil
	}
	shape := b.schemas.shapeOf(p, 0)
	if shape == anything {
		return nil
	}
	if shape == objects {
		var err error
		if p, err = b.of.follow(b.ctx, p); err != nil {
			return nil
		}
	}
	v, c, err := b.schemas.convert(p, response)
	if err != nil {
		return nil
	}
	root, ok := v.(map[string]any)
	if shape == otherwise {
		root, ok = map[string]any{"type": "object", "properties": map[string]any{result: v}, "required": []any{result}}, true
	}
	if !ok {
		return nil
	}
	if root["type"] == nil {
		root["type"] = "object"
	}
	raw, err := b.schemas.complete(root, c.refs, b.outputs)
	if err != nil || len(raw) > 2*b.outputs.bytes {
		return nil
	}
	return raw
}
