package openapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A value is an argument in the form in which parameters are written: text, a list of texts, or texts by name in the order of the names.
type value struct {
	text  string
	list  []string
	pairs [][2]string
	form  form
	raw   any
}

type form int

const (
	isSingle form = iota
	isList
	isObject
)

// valueOf returns v, decoded JSON, as a value; ok is false for null. What stands deeper in a list or an object becomes JSON.
func valueOf(v any) (_ value, ok bool) {
	switch t := v.(type) {
	case nil:
		return value{}, false
	case []any:
		out := value{form: isList, raw: v}
		for _, item := range t {
			if item != nil {
				out.list = append(out.list, plainText(item))
			}
		}
		return out, true
	case map[string]any:
		out := value{form: isObject, raw: v}
		for _, k := range slices.Sorted(maps.Keys(t)) {
			if t[k] != nil {
				out.pairs = append(out.pairs, [2]string{k, plainText(t[k])})
			}
		}
		return out, true
	}
	return value{text: plainText(v), raw: v}, true
}

func plainText(v any) string {
	switch t := v.(type) {
	case string:
		return t
	case json.Number:
		return t.String()
	case bool:
		if t {
			return "true"
		}
		return "false"
	}
	return string(encode(v))
}

// An escaper writes text into a part of a request.
type escaper func(string) string

const unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

// escapeAll percent-encodes everything but unreserved characters.
func escapeAll(s string) string { return escapeBut(s, unreserved) }

// escapeReserved leaves reserved characters that have no meaning of their own within the value of a query.
func escapeReserved(s string) string { return escapeBut(s, unreserved+":/?@!$'()*,;=") }

func escapeBut(s, keep string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

func asIs(s string) string { return s }

// joined writes a value as one text, its parts separated by sep: pairs as name=text where explode is set, else as name and text.
func (v value) joined(sep string, explode bool, esc escaper) string {
	if v.form == isSingle {
		return esc(v.text)
	}
	between := sep
	if explode {
		between = "="
	}
	var parts []string
	for _, s := range v.list {
		parts = append(parts, esc(s))
	}
	for _, p := range v.pairs {
		parts = append(parts, esc(p[0])+between+esc(p[1]))
	}
	return strings.Join(parts, sep)
}

// path writes a value into a path.
func (p param) path(v value) string {
	switch p.Style {
	case "label":
		if p.Explode {
			return "." + v.joined(".", true, escapeAll)
		}
		return "." + v.joined(",", false, escapeAll)
	case "matrix":
		return p.matrix(v)
	}
	return v.joined(",", p.Explode, escapeAll)
}

func (p param) matrix(v value) string {
	name := escapeAll(p.Name)
	if !p.Explode || v.form == isSingle {
		return ";" + name + "=" + v.joined(",", false, escapeAll)
	}
	var b strings.Builder
	for _, s := range v.list {
		b.WriteString(";" + name + "=" + escapeAll(s))
	}
	for _, q := range v.pairs {
		b.WriteString(";" + escapeAll(q[0]) + "=" + escapeAll(q[1]))
	}
	return b.String()
}

// query writes a value as parts of a query or a form, "name=text" each; an empty list or object gives none. key writes names, esc texts.
func (p param) query(v value, key, esc escaper) []string {
	name := key(p.Name)
	if v.form != isSingle && len(v.list)+len(v.pairs) == 0 {
		return nil
	}
	switch {
	case v.form == isSingle:
		return []string{name + "=" + esc(v.text)}
	case p.Style == "deepObject":
		return deep(name, v.raw, key, esc)
	case p.Style == "spaceDelimited" && !p.Explode:
		return []string{name + "=" + v.joined(key(" "), false, esc)}
	case p.Style == "pipeDelimited" && !p.Explode:
		return []string{name + "=" + v.joined(key("|"), false, esc)}
	case !p.Explode:
		return []string{name + "=" + v.joined(",", false, esc)}
	}
	var out []string
	for _, s := range v.list {
		out = append(out, name+"="+esc(s))
	}
	for _, q := range v.pairs {
		out = append(out, key(q[0])+"="+esc(q[1]))
	}
	return out
}

// deep writes name[key]=text for each text in v, and the elements of a list under one name.
func deep(name string, v any, key, esc escaper) []string {
	var out []string
	switch t := v.(type) {
	case nil:
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(t)) {
			out = append(out, deep(name+key("["+k+"]"), t[k], key, esc)...)
		}
	case []any:
		for _, item := range t {
			out = append(out, deep(name, item, key, esc)...)
		}
	default:
		out = append(out, name+"="+esc(plainText(v)))
	}
	return out
}

// header returns a value as the text of a header.
func (p param) header(v value) (string, error) {
	s := v.joined(",", p.Explode, asIs)
	if strings.ContainsFunc(s, isControl) {
		return "", fmt.Errorf("it holds control characters, which a header cannot")
	}
	return s, nil
}
