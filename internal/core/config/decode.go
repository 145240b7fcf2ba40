package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A decoder fills Go values from the nodes of a file, by the tags of their types, and reports everything that does not fit.
type decoder struct {
	report
	dir    string // that relative paths of references start from
	client bool   // whether the file is one of a desktop client, with its form of references
	left   int    // values still allowed: aliases can make a small file huge
}

const maxValues = 1 << 18

func newDecoder(name, dir string) *decoder {
	return &decoder{report: report{file: name, lines: map[string]int{}}, dir: dir, left: maxValues}
}

// A nodeDecoder is a type that reads itself.
type nodeDecoder interface {
	decodeNode(d *decoder, n *node, path string)
}

// decode fills v, which is addressable, from n. What does not fit is reported and stays as it was.
func (d *decoder) decode(n *node, path string, v reflect.Value, tag reflect.StructTag) {
	if d.left--; d.left < 0 {
		if d.left == -1 {
			d.add(path, "the file holds more than %d values", maxValues)
		}
		return
	}
	if path != "" && n.line > 0 {
		d.lines[path] = n.line
	}
	if t, ok := v.Addr().Interface().(nodeDecoder); ok {
		t.decodeNode(d, n, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, path, v.Elem(), tag)
	case reflect.Struct:
		d.decodeStruct(n, path, v)
	case reflect.Map:
		d.decodeMap(n, path, v, tag)
	case reflect.Slice:
		d.decodeSlice(n, path, v, tag)
	case reflect.Bool:
		if d.want(n, path, kindBool, "true or false") {
			v.SetBool(n.truth)
		}
	case reflect.Int:
		d.decodeInt(n, path, v, tag)
	case reflect.String:
		d.decodeString(n, path, v, tag)
	default:
		panic("config: no way to read a " + v.Type().String())
	}
}

// want reports whether n has kind k. If not it says so, with the value where that is short and cannot be a secret.
func (d *decoder) want(n *node, path string, k kind, allowed string) bool {
	if n.kind == k {
		return true
	}
	got := string(n.kind)
	switch {
	case n.kind == kindBool, n.kind == kindNumber:
		got = clip(n.text)
	case n.kind == kindString && (k == kindBool || k == kindNumber): // not where a list or an object belongs
		got = strconv.Quote(clip(n.text))
	}
	d.add(path, "is %s; want %s", got, allowed)
	return false
}

func (d *decoder) decodeStruct(n *node, path string, v reflect.Value) {
	if n.kind != kindNull && !d.want(n, path, kindObject, string(kindObject)) {
		return
	}
	known := fieldsOf(v.Type())
	for _, f := range known {
		if f.required && n.field(f.key) == nil {
			d.add(join(path, f.key), "is missing")
		}
	}
	for _, nf := range n.fields {
		at := join(path, nf.key)
		i := slices.IndexFunc(known, func(f structField) bool { return f.key == nf.key })
		if i < 0 && d.client && meant(nf.key, known) == "" {
			continue // clients have keys of their own there, such as autoApprove
		}
		if i < 0 {
			d.lines[at] = nf.value.line
			d.add(at, "unknown key; %s", suggest(nf.key, known))
			continue
		}
		d.decode(nf.value, at, v.FieldByIndex(known[i].Index), known[i].Tag)
	}
}

func (d *decoder) decodeMap(n *node, path string, v reflect.Value, tag reflect.StructTag) {
	if n.kind == kindNull || !d.want(n, path, kindObject, string(kindObject)) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, f := range n.fields {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.decode(f.value, join(path, f.key), elem, tag)
		v.SetMapIndex(reflect.ValueOf(f.key).Convert(v.Type().Key()), elem)
	}
}

func (d *decoder) decodeSlice(n *node, path string, v reflect.Value, tag reflect.StructTag) {
	if n.kind == kindNull || !d.want(n, path, kindList, string(kindList)) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(n.items)))
	for i, item := range n.items {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.decode(item, index(path, i), elem, tag)
		v.Set(reflect.Append(v, elem))
	}
}

func (d *decoder) decodeInt(n *node, path string, v reflect.Value, tag reflect.StructTag) {
	low, high := rangeOf(tag)
	allowed := fmt.Sprintf("a whole number from %d to %d", low, high)
	if !d.want(n, path, kindNumber, allowed) {
		return
	}
	i, err := strconv.Atoi(n.number)
	if err != nil || i < low || i > high {
		d.add(path, "is %s; want %s", clip(n.text), allowed)
		return
	}
	v.SetInt(int64(i))
}

func (d *decoder) decodeString(n *node, path string, v reflect.Value, tag reflect.StructTag) {
	enum := enumOf(tag)
	allowed := stringFor(n)
	if enum != nil {
		allowed = oneOf(enum)
	}
	if !d.want(n, path, kindString, allowed) {
		return
	}
	switch {
	case enum != nil && !slices.Contains(enum, n.text):
		d.add(path, "is %q; want %s", clip(n.text), allowed)
	case strings.Contains(n.text, "${env:") || strings.Contains(n.text, "${file:"):
		d.add(path, "cannot hold a reference; %s can", mayRefer)
	default:
		v.SetString(n.text)
	}
}

// mayRefer names the keys whose values can hold references.
const mayRefer = "url, server, command, args, env, cwd, headers, auth, signingKey, password, proxy, creds and apiKey"

// stringFor says what is wanted in place of n where a string is.
func stringFor(n *node) string {
	if n.kind == kindNumber || n.kind == kindBool {
		return "a string (in quotes)"
	}
	return string(kindString)
}

// A structField is a field of a struct with its key.
type structField struct {
	reflect.StructField
	key      string
	required bool
}

// fieldsOf returns the fields of struct type t that a file can set.
func fieldsOf(t reflect.Type) []structField {
	var fields []structField
	for i := range t.NumField() {
		f := t.Field(i)
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key != "" && key != "-" {
			fields = append(fields, structField{f, key, options == ""})
		}
	}
	return fields
}

func rangeOf(tag reflect.StructTag) (low, high int) {
	low, err1 := strconv.Atoi(tag.Get("min"))
	high, err2 := strconv.Atoi(tag.Get("max"))
	if err1 != nil || err2 != nil {
		panic("config: a number without a range: " + string(tag))
	}
	return low, high
}

// enumOf returns the strings that tag allows, nil for any.
func enumOf(tag reflect.StructTag) []string {
	s, ok := tag.Lookup("enum")
	if !ok {
		return nil
	}
	return strings.Split(s, ",")
}

func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = cmp.Or(w, `""`)
	}
	return "one of " + strings.Join(quoted, ", ")
}

// suggest says what stands for an unknown key: the known one that was meant, or all.
func suggest(key string, known []structField) string {
	if best := meant(key, known); best != "" {
		return fmt.Sprintf("did you mean %s?", best)
	}
	var keys []string
	for _, f := range known {
		keys = append(keys, f.key)
	}
	return "known here are " + strings.Join(keys, ", ")
}

// meant returns the known key that an unknown one was meant to be, "" for none.
func meant(key string, known []structField) string {
	simple := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
	}
	best, least := "", 1+max(1, min(len(key), 30)/3)
	for _, f := range known {
		if slices.Contains(strings.Split(f.Tag.Get("hint"), ","), key) {
			best, least = f.key, 0
		}
		if n := distance(simple(clip(key)), simple(f.key)); n < least {
			best, least = f.key, n
		}
	}
	return best
}

// distance returns the number of bytes to insert, remove or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
