package contracts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Samples are what earlier versions wrote. They are never changed: a new field
// gets a new sample, the next version of its type.
var sampleFile = regexp.MustCompile(`^([a-z.]+)\.v[0-9]+\.json$`)

// A sample is one committed event.
type sample struct {
	file    string
	typ     contracts.EventType
	subject string            // by the type's pattern and the sample's own ids
	fields  map[string]string // the placeholders of the pattern that the sample fills
	data    []byte
}

// eventSamples returns all samples of events, at least one of each type.
func eventSamples(t *testing.T) []sample {
	t.Helper()
	var all []sample
	files := readSamples(t, "events")
	for _, typ := range contracts.EventTypes() {
		if len(files[typ.Type]) == 0 {
			t.Errorf("testdata/events has no sample of %s", typ.Type)
		}
		for _, f := range files[typ.Type] {
			s := sample{file: f.name, typ: typ, data: f.data, fields: map[string]string{}}
			var ids struct{ Run, Call, Body, Approval, Search, ID, Source string }
			if err := json.Unmarshal(f.data, &ids); err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			s.subject = strings.Replace(typ.Pattern, "{tenant}", string(tenant), 1)
			for p, id := range map[string]string{
				"{run}": ids.Run, "{call}": ids.Call, "{body}": ids.Body, "{approval}": ids.Approval, "{search}": ids.Search, "{id}": ids.ID, "{source}": strings.Replace(ids.Source, ":", "-", 1),
			} {
				if strings.Contains(s.subject, p) {
					s.subject, s.fields[p] = strings.Replace(s.subject, p, id, 1), id
				}
			}
			all = append(all, s)
		}
		delete(files, typ.Type)
	}
	for typ := range files {
		t.Errorf("testdata/events has samples of %s, which is no type of event", typ)
	}
	return all
}

// A file is one sample as it is committed.
type file struct {
	name string
	data []byte
}

// readSamples returns the samples of one folder of testdata by type.
func readSamples(t *testing.T, dir string) map[string][]file {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no samples in testdata/%s: %v", dir, err)
	}
	files := map[string][]file{}
	for _, name := range names {
		m := sampleFile.FindStringSubmatch(filepath.Base(name))
		if m == nil {
			t.Fatalf("%s: want a name like run.closed.v1.json", name)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[m[1]] = append(files[m[1]], file{name, data})
	}
	return files
}

func TestEventSamples(t *testing.T) {
	seen := map[string][]any{}
	types := map[string]reflect.Type{}
	for _, s := range eventSamples(t) {
		decode := func(data []byte) any {
			_, e, err := contracts.DecodeEvent(s.subject, data)
			if err != nil {
				t.Fatalf("%s: %v", s.file, err)
			}
			return e
		}
		checkSample(t, s.file, s.data, decode)
		types[s.typ.Type] = reflect.TypeOf(s.typ.Zero)
		seen[s.typ.Type] = append(seen[s.typ.Type], tree(t, s.data))
	}
	for name, typ := range types {
		checkCovered(t, name, typ, seen[name])
	}
}

// TestRecordSamples does for what is stored what TestEventSamples does for events.
func TestRecordSamples(t *testing.T) {
	files := readSamples(t, "records")
	for name, zero := range map[string]any{
		"run":        contracts.Run{},
		"call":       contracts.Call{},
		"body":       contracts.Body{},
		"outcome":    contracts.Outcome{},
		"source":     contracts.SourceRecord{},
		"policy":     contracts.PolicyRecord{},
		"listing":    contracts.Listing{},
		"catalogue":  contracts.Catalogue{},
		"admissions": contracts.Admissions{},
	} {
		typ := reflect.TypeOf(zero)
		var seen []any
		for _, f := range files[name] {
			checkSample(t, f.name, f.data, func(data []byte) any {
				v := reflect.New(typ)
				if err := json.Unmarshal(data, v.Interface()); err != nil {
					t.Fatalf("%s: %v", f.name, err)
				}
				return v.Elem().Interface()
			})
			seen = append(seen, tree(t, f.data))
		}
		checkCovered(t, name, typ, seen)
	}
}

// checkSample reports a sample that loses something on its way through its Go type, or that minds unknown fields.
func checkSample(t *testing.T, name string, data []byte, decode func([]byte) any) {
	t.Helper()
	encoded := func(data []byte) any {
		again, err := json.Marshal(decode(data))
		if err != nil {
			t.Fatalf("%s: encode again: %v", name, err)
		}
		return tree(t, again)
	}
	got := encoded(data)
	if lost := lost("", tree(t, data), got); len(lost) > 0 {
		t.Errorf("%s decoded and encoded again differs at %s", name, strings.Join(lost, ", "))
	}
	more, err := json.Marshal(withUnknown("", tree(t, data)))
	if err != nil {
		t.Fatal(err)
	}
	if got := encoded(more); !reflect.DeepEqual(got, encoded(data)) {
		t.Errorf("%s with unknown fields = %v, want %v", name, got, encoded(data))
	}
}

// tree returns JSON as maps, slices and values.
func tree(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// lost returns the paths of everything in want that got has not or has with another
// value. What got has beyond it is no loss: newer code writes newer fields.
func lost(path string, want, got any) []string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return []string{path}
		}
		var all []string
		for k := range want {
			all = append(all, lost(path+"/"+k, want[k], got[k])...)
		}
		return all
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return []string{path}
		}
		var all []string
		for i := range want {
			all = append(all, lost(path, want[i], got[i])...)
		}
		return all
	}
	if want != got {
		return []string{path}
	}
	return nil
}

// free are the names of fields that hold maps or any JSON: a key in them is data.
var free = []string{"labels", "sources", "bySource", "toolSearch", "withdrawn", "args", "data", "value", "content", "structuredContent", "inputSchema", "outputSchema", "_meta", "binding"}

// withUnknown returns v with an unknown field in each of its objects.
func withUnknown(name string, v any) any {
	if slices.Contains(free, name) {
		return v
	}
	switch v := v.(type) {
	case map[string]any:
		c := map[string]any{"fieldOfLater": map[string]any{"a": []any{1.0}}}
		for k, x := range v {
			c[k] = withUnknown(k, x)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = withUnknown(name, x)
		}
		return c
	}
	return v
}

// checkCovered reports the fields of typ that no sample has: their names are not held by anything.
func checkCovered(t *testing.T, name string, typ reflect.Type, samples []any) {
	t.Helper()
	for _, path := range uncovered("", typ, samples) {
		t.Errorf("no sample of %s has the field %s; add one, as its next version", name, path)
	}
}

var opaque = []reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[contracts.SourceID](), reflect.TypeFor[json.RawMessage]()}

// uncovered returns the paths of typ's fields that none of vs has.
func uncovered(path string, typ reflect.Type, vs []any) []string {
	switch {
	case slices.Contains(opaque, typ):
		return nil
	case typ.Kind() == reflect.Pointer:
		return uncovered(path, typ.Elem(), vs)
	case typ.Kind() == reflect.Slice, typ.Kind() == reflect.Map:
		var inner []any
		for _, v := range vs {
			switch v := v.(type) {
			case []any:
				inner = append(inner, v...)
			case map[string]any:
				for _, x := range v {
					inner = append(inner, x)
				}
			}
		}
		return uncovered(path, typ.Elem(), inner)
	case typ.Kind() != reflect.Struct:
		return nil
	}
	var all []string
	for f := range fields(typ) {
		var inner []any
		for _, v := range vs {
			if m, ok := v.(map[string]any); ok && m[f.name] != nil {
				inner = append(inner, m[f.name])
			}
		}
		p := path + "/" + f.name
		if len(inner) == 0 {
			all = append(all, p)
			continue
		}
		all = append(all, uncovered(p, f.typ, inner)...)
	}
	return all
}

// A field is one JSON field of a struct.
type field struct {
	name string
	typ  reflect.Type
}

// fields yields the JSON fields of a struct, those of embedded structs among them.
func fields(typ reflect.Type) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for _, f := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "-" {
				continue
			}
			if !yield(field{name, f.Type}) {
				return
			}
		}
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	closed := contracts.RunClosed{Run: run}.Subject(tenant)
	for _, tt := range []struct{ subject, data string }{
		{"", "{}"},
		{"tc.acme.run." + string(run) + ".exploded", "{}"},
		{"tc.acme.source.mcp-a.exploded", "{}"},
		{closed, ""},
		{closed, "{"},
		{closed, `"x"`},
		{closed, `{"at":"yesterday"}`},
		{contracts.SourceFailed{Source: contracts.SourceID{Kind: contracts.SourceMCP, Owner: "a"}}.Subject(tenant), `{"source":"a"}`},
	} {
		if _, e, err := contracts.DecodeEvent(tt.subject, []byte(tt.data)); contracts.CodeOf(err) != contracts.CodeInvalid || e != nil {
			t.Errorf("DecodeEvent(%q, %q) = %v, %v, want nothing and %s", tt.subject, tt.data, e, err, contracts.CodeInvalid)
		}
	}
}

// TestEventTypesComplete has the table hold each type once, with everything that the documentation needs.
func TestEventTypesComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range contracts.EventTypes() {
		if seen[e.Type] {
			t.Errorf("%s is twice in the table", e.Type)
		}
		seen[e.Type] = true
		if e.Sender == "" || e.Text == "" || e.Zero == nil || !strings.HasPrefix(e.Pattern, "tc.{tenant}.") {
			t.Errorf("%s: sender %q, text %q, zero %v, pattern %q: want all of them, the pattern under tc.{tenant}", e.Type, e.Sender, e.Text, e.Zero, e.Pattern)
		}
	}
}

// What is for operators only is not in what the caller of a run is given.
func TestForCaller(t *testing.T) {
	for typ, tt := range map[string]struct{ data, want string }{
		"call.finished": {`{"status":"blocked","ruling":{"layer":"agent a","rule":"r"},"later":1}`, `"ruling"`},
		"run.planned":   {`{"plan":{"policy":"0f","basis":"b1"}}`, `"0f"`},
	} {
		got := contracts.ForCaller(typ, json.RawMessage(tt.data))
		if len(got) == 0 || strings.Contains(string(got), tt.want) || strings.Contains(string(got), `"b1"`) {
			t.Errorf("%s: %s, want it without %s", typ, got, tt.want)
		}
		if got := contracts.ForCaller(typ, json.RawMessage(`{"status":`)); got != nil {
			t.Errorf("%s that cannot be read: %s, want nothing", typ, got)
		}
	}
	if got := contracts.ForCaller("call.running", json.RawMessage(`{"x":1}`)); string(got) != `{"x":1}` {
		t.Errorf("an event without secrets: %s", got)
	}
}
