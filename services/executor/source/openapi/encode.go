package openapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"mime"
	"mime/multipart"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// encodeBody returns the body and its Content-Type; nil for none.
func (c *call) encodeBody() ([]byte, string, error) {
	b := c.Body
	values := map[string]json.RawMessage{} // of the properties
	args := map[string]string{}            // the arguments that they are from
	whole, given := c.args[wholeBody]
	if b.Fields != nil {
		for _, f := range b.Fields {
			if v, ok := c.args[f.Arg]; ok {
				values[f.Name], args[f.Name] = v, f.Arg
			}
		}
		if given = b.Required || len(values) > 0; given {
			whole = encode(values)
		}
	}
	if !given {
		return nil, "", nil
	}
	switch b.Kind {
	case kindText:
		var s string
		if json.Unmarshal(whole, &s) != nil {
			s = string(whole)
		}
		return []byte(s), b.Media, nil
	case kindFile:
		f, err := readFile(wholeBody, whole)
		if err != nil {
			return nil, "", err
		}
		return f.data, f.media(b.Media), nil
	case kindForm, kindMultipart:
		if b.Fields == nil {
			if json.Unmarshal(whole, &values) != nil {
				return nil, "", wrong(wholeBody, "it is no object, which a form is")
			}
			for name := range values {
				args[name] = wholeBody
			}
		}
		if b.Kind == kindForm {
			data, err := b.form(values, args)
			return data, b.Media, err
		}
		return b.multipart(values, args)
	}
	return whole, b.Media, nil
}

// form writes the properties as application/x-www-form-urlencoded.
func (b *body) form(values map[string]json.RawMessage, args map[string]string) ([]byte, error) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		raw, err := decode(args[name], values[name])
		if err != nil {
			return nil, err
		}
		t := b.Parts[name]
		if _, isMap := raw.(map[string]any); isMap && t.Style == "" { // an object is JSON unless it has a style
			raw = string(encode(raw))
		}
		v, ok := valueOf(raw)
		if !ok {
			continue
		}
		p := param{Name: name, Style: t.Style, Explode: t.Explode || t.Style == ""}
		esc := url.QueryEscape
		if t.Reserved {
			esc = escapeReserved
		}
		all = append(all, p.query(v, url.QueryEscape, esc)...)
	}
	return []byte(strings.Join(all, "&")), nil
}

func decode(arg string, raw json.RawMessage) (any, error) {
	c := call{args: map[string]json.RawMessage{arg: raw}}
	return c.decode(arg)
}

// multipart writes the properties as multipart/form-data: a list as a part for each element.
func (b *body) multipart(values map[string]json.RawMessage, args map[string]string) ([]byte, string, error) {
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		items := []json.RawMessage{values[name]}
		if t := bytes.TrimSpace(values[name]); len(t) > 0 && t[0] == '[' {
			if json.Unmarshal(values[name], &items) != nil {
				return nil, "", wrong(args[name], "it is no JSON")
			}
		}
		for _, item := range items {
			if err := b.part(w, name, args[name], item); err != nil {
				return nil, "", err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", wrong(wholeBody, "it cannot be written: %v", err)
	}
	return out.Bytes(), w.FormDataContentType(), nil
}

// part writes one part.
func (b *body) part(w *multipart.Writer, name, arg string, raw json.RawMessage) error {
	v, err := decode(arg, raw)
	if err != nil || v == nil {
		return err
	}
	t := b.Parts[name]
	disposition := map[string]string{"name": name}
	media, data := t.Media, []byte(plainText(v))
	if t.File {
		f, err := readFile(arg, raw)
		if err != nil {
			return err
		}
		data, media = f.data, f.media(t.Media)
		disposition["filename"] = f.Filename
		if f.Filename == "" {
			disposition["filename"] = "file"
		}
	} else if media == "" && !isScalar(v) {
		media = "application/json"
	}
	h := textproto.MIMEHeader{"Content-Disposition": {disposed(disposition)}}
	if media != "" {
		h.Set("Content-Type", media)
	}
	p, err := w.CreatePart(h)
	if err != nil {
		return wrong(arg, "it cannot be written: %v", err)
	}
	_, err = p.Write(data)
	return err
}

func isScalar(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

// disposed writes a Content-Disposition as browsers do.
func disposed(fields map[string]string) string {
	quote := strings.NewReplacer("\\", "\\\\", `"`, "%22", "\r", "%0D", "\n", "%0A")
	s := `form-data; name="` + quote.Replace(fields["name"]) + `"`
	if f, ok := fields["filename"]; ok {
		s += `; filename="` + quote.Replace(f) + `"`
	}
	return s
}

// A file is one as an argument.
type file struct {
	Data      *string `json:"data"`
	Text      *string `json:"text"`
	Filename  string  `json:"filename"`
	MediaType string  `json:"mediaType"`
	data      []byte
}

func readFile(arg string, raw json.RawMessage) (*file, error) {
	var f file
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, wrong(arg, "it is no file: want an object with data or text")
	}
	switch {
	case f.Text != nil:
		f.data = []byte(*f.Text)
	case f.Data != nil:
		text := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", " ", "").Replace(*f.Data), "=")
		b, err := base64.RawStdEncoding.DecodeString(text)
		if err != nil {
			return nil, wrong(arg, "data is not base64")
		}
		f.data = b
	default:
		return nil, wrong(arg, "the file has neither data nor text")
	}
	if f.data == nil {
		f.data = []byte{}
	}
	if f.MediaType != "" {
		if _, _, err := mime.ParseMediaType(f.MediaType); err != nil || strings.ContainsFunc(f.MediaType, isControl) {
			return nil, wrong(arg, "mediaType is no media type")
		}
	}
	return &f, nil
}

// media returns the media type of the file: its own, then that of the document, then what is known of its bytes.
func (f *file) media(of string) string {
	switch {
	case f.MediaType != "":
		return f.MediaType
	case of != "" && !strings.Contains(of, "*"):
		return of
	case f.Text != nil:
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}
