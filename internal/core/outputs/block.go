package outputs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A kind is what a content block is, as far as cutting it goes.
type kind struct {
	in             *spans.Text
	typ, mime, uri string
	text, data     spans.Value // long texts and binary data; zero where there are none
	textPath       string      // within the block
	dataPath       string
}

// look reads what kind a block is. A block that is no object has no type.
func look(block json.RawMessage) kind {
	k := kind{in: spans.Of(block)}
	k.typ = k.field("/type")
	switch k.typ {
	case "text":
		k.textPath = "/text"
	case "image", "audio":
		k.dataPath, k.mime = "/data", k.field("/mimeType")
	case "resource":
		k.textPath, k.dataPath = "/resource/text", "/resource/blob"
		k.mime, k.uri = k.field("/resource/mimeType"), k.field("/resource/uri")
	default:
		k.mime, k.uri = k.field("/mimeType"), k.field("/uri")
	}
	k.text, k.data = k.find(k.textPath), k.find(k.dataPath)
	return k
}

// find returns a text in quotes within the block.
func (k *kind) find(path string) spans.Value {
	if path == "" {
		return spans.Value{}
	}
	v, err := k.in.Find(path)
	if err != nil || v.Kind != spans.String {
		return spans.Value{}
	}
	return v
}

// field returns a short text of the block, without what hides in it.
func (k *kind) field(path string) string {
	const longest = 300
	v := k.find(path)
	if v.Len() == 0 || v.Len() > 4*longest {
		return ""
	}
	s, err := k.in.Key(v)
	if err != nil {
		return ""
	}
	return names.Cut(names.Text(s), longest)
}

// isImage reports whether the block is an image that models can look at.
func (k *kind) isImage() bool {
	return k.typ == "image" && slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, k.mime)
}

// decoded is the bytes that the data of a block stand for, in base64.
func (k *kind) decoded() int64 { return max(0, k.data.Len()-int64(len(`""`))) / 4 * 3 }

// shorten returns the i-th block of a result cut to size bytes: the beginning of its text, or else words that say what is left out.
func (k *kind) shorten(block json.RawMessage, i, size int, parts *cut.Parts) json.RawMessage {
	path := "/content/" + strconv.Itoa(i)
	if short := k.head(block, size-1, path, parts); short != nil {
		return short
	}
	part := contracts.CutPart{
		Path: path, Unit: contracts.CutBytes, Total: int64(len(block)), Type: names.Cut(k.typ, 40), MimeType: names.Cut(k.mime, 60), URI: k.uri,
	}
	if part.Type == "" {
		part.Type = "block"
	}
	if k.data.Len() > 0 {
		part.Path, part.Total = path+k.dataPath, k.decoded()
	} else if k.text.Len() > 0 {
		part.Path = path + k.textPath
	}
	parts.Add(part)
	for _, said := range []string{
		fmt.Sprintf("[left out: %s, %d bytes]", joined(part.Type, part.MimeType), part.Total), "[left out]",
	} {
		if out := contracts.TextResult(said, nil).Content[0]; len(out) < size {
			return out
		}
	}
	return json.RawMessage(`{"type":"text","text":""}`)
}

func joined(typ, mime string) string {
	if mime == "" {
		return typ
	}
	return typ + " (" + mime + ")"
}

// head returns the block with the beginning of its text, nil where it has none or hardly anything of it would be left.
func (k *kind) head(block json.RawMessage, size int, path string, parts *cut.Parts) json.RawMessage {
	const longestMark, least = 70, 40
	beside := len(block) - int(k.text.Len())
	room := size - beside - longestMark
	if k.text.Len() == 0 || room < least || spans.Deeper(block, cut.Nested) {
		return nil
	}
	head, n, err := k.in.Chars(k.text, 0, int64(room), room)
	if err != nil {
		return nil
	}
	total, err := k.in.Count(k.text)
	if err != nil {
		return nil
	}
	parts.Add(contracts.CutPart{Path: path + k.textPath, Unit: contracts.CutCharacters, Shown: n, Total: total})
	mark := fmt.Sprintf(`\n[cut: %d of %d characters]"`, n, total)
	return slices.Concat(block[:k.text.Start], []byte{'"'}, head, []byte(mark), block[k.text.End:])
}
