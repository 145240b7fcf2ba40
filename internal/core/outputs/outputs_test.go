package outputs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	tenant = contracts.LocalTenant
	run    = contracts.RunID("run_agpdm2v7a5z3vgmnq6xw4hcqzi")
)

func here() Place { return Place{Tenant: tenant, Run: run} }

func textBlock(s string) json.RawMessage {
	return cut.Encode(map[string]any{"type": "text", "text": s})
}

func imageBlock(n int) json.RawMessage {
	return cut.Encode(map[string]any{"type": "image", "mimeType": "image/png", "data": strings.Repeat("QUJD", n/4)})
}

func list(n int, item string) json.RawMessage {
	return json.RawMessage(`{"total":` + strconv.Itoa(n) + `,"items":[` + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + `]}`)
}

// weighed returns what a result counts: its bytes, with images at their weight.
func counted(r *contracts.Result) int {
	n := len(r.StructuredContent)
	for _, w := range ForModel(nil).weigh(r.Content) {
		n += w.size
	}
	return n
}

func checkValid(t *testing.T, r *contracts.Result) {
	t.Helper()
	for _, b := range append(r.Content[:len(r.Content):len(r.Content)], r.StructuredContent) {
		if len(b) > 0 && (!json.Valid(b) || !utf8.Valid(b) || spans.Deeper(b, cut.Nested) || !bytes.Equal(spans.Clean(b), b)) {
			t.Fatalf("not JSON as it should be: %.300s", b)
		}
	}
}

func randomResult(r *rand.Rand) *contracts.Result {
	text := func(most int) string {
		var b strings.Builder
		for range r.IntN(most + 1) {
			b.WriteRune([]rune("aä\"\\\n\u0001\u2028<日🙂")[r.IntN(10)])
		}
		return b.String()
	}
	out := &contracts.Result{Content: []json.RawMessage{}}
	for range r.IntN(6) {
		var block any = map[string]any{"type": "text", "text": text(2000), "_meta": map[string]any{"k": "v"}}
		switch r.IntN(6) {
		case 0:
			block = map[string]any{"type": "image", "data": strings.Repeat("A", r.IntN(4000)), "mimeType": "image/png"}
		case 1:
			block = map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///" + text(9), "text": text(3000)}}
		case 2:
			block = map[string]any{"type": text(5), "x": text(3000)}
		case 3:
			block = map[string]any{"type": "text", "text": "", "y": text(1000)}
		}
		out.Content = append(out.Content, cut.Encode(block))
	}
	switch r.IntN(4) {
	case 0:
		out.StructuredContent = list(r.IntN(300), `{"a": "`+strings.Repeat("x", r.IntN(30))+`"}`)
	case 1:
		out.StructuredContent = cut.Encode(map[string]any{text(20): text(3000), text(10): []any{1, text(100), map[string]any{}}})
	case 2:
		out.StructuredContent = list(r.IntN(100), `[1,2]`)
		out.Content = []json.RawMessage{textBlock(string(out.StructuredContent))}
	}
	return out
}

func TestFittedResultsFitAndAreJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	s := &Shelf{}
	for range 1000 {
		in := randomResult(r)
		size := leastSize + r.IntN(4000)
		b := ForModel(&contracts.Tool{Meta: json.RawMessage(fmt.Sprintf(`{"anthropic/maxResultSizeChars":%d}`, size))})
		out := s.Keep(t.Context(), Place{Unreadable: true}, b, in)
		if got := counted(out); got > size {
			t.Fatalf("%d bytes, budget %d: %s", got, size, cut.Encode(out))
		}
		checkValid(t, out)
		whole := counted(in) <= size
		if whole && out.Truncated != "" || !whole && out.Truncated == "" && len(out.StructuredContent) == len(in.StructuredContent) {
			t.Fatalf("truncated = %q for a result that fits: %v", out.Truncated, whole)
		}
	}
}

func TestFitCutsWhereItHurtsLeast(t *testing.T) {
	for name, tt := range map[string]struct {
		in        *contracts.Result
		content   []string // in the blocks
		structure string   // its beginning
		parts     []string // of what is told
	}{
		"long text": {
			&contracts.Result{Content: []json.RawMessage{textBlock(strings.Repeat("é", 5000))}},
			[]string{`éé\n[cut: `}, "", []string{"/content/0/text: ", " of 5000 characters"},
		},
		"an image among texts": {
			&contracts.Result{Content: []json.RawMessage{textBlock("one"), imageBlock(9000), textBlock("two")}},
			[]string{"one", "[left out: image (image/png), 6750 bytes]", "two"}, "", []string{"/content/1/data: image image/png left out, 6750 bytes"},
		},
		"a large text before a small one": {
			&contracts.Result{Content: []json.RawMessage{textBlock(strings.Repeat("x", 9000)), textBlock("small")}},
			[]string{`xx\n[cut: `, `"small"`}, "", []string{"/content/0/text: "},
		},
		"a text resource": {
			&contracts.Result{Content: []json.RawMessage{cut.Encode(map[string]any{"type": "resource", "resource": map[string]any{"uri": "a:b", "text": strings.Repeat("x", 9000)}})}},
			[]string{`xx\n[cut: `}, "", []string{"/content/0/resource/text: "},
		},
		"many blocks": {
			&contracts.Result{Content: strings2blocks(200, "a short text")},
			strings.Split(strings.Repeat("a short text,", 39), ",")[:39], "", []string{"/content: 39 of 200 items"},
		},
		"many items": {
			&contracts.Result{StructuredContent: list(1000, `{"id":7}`)},
			nil, `{"total":1000,"items":[{"id":7},{"id":7},`, []string{"/structuredContent/items: ", " of 1000 items"},
		},
		"text and structure": {
			&contracts.Result{Content: []json.RawMessage{textBlock(strings.Repeat("x", 5000))}, StructuredContent: list(1000, "1")},
			[]string{`xx\n[cut: `}, `{"total":1000,"items":[1,1,`, []string{"/structuredContent/items: ", "/content/0/text: "},
		},
		"text that says the same": {
			&contracts.Result{
				Content:           []json.RawMessage{textBlock("{\n  \"total\": 1000,\n  \"items\": [" + strings.TrimSuffix(strings.Repeat(`{"a": "b\n\"c\" é"}, `, 1000), ", ") + "]}")},
				StructuredContent: list(1000, `{"a":"b\n\"c\" é"}`),
			},
			[]string{`{\"total\":1000,\"items\":[{\"a\":\"b\\n\\\"c\\\" é\"},{`}, `{"total":1000,"items":[{"a":"b\n\"c\" é"},`, []string{"/structuredContent/items: "},
		},
	} {
		b := ForModel(&contracts.Tool{Meta: json.RawMessage(`{"anthropic/maxResultSizeChars":2500}`)})
		out, parts := b.Fit(tt.in)
		if len(out.Content) != len(tt.content) {
			t.Errorf("%s: %d blocks, want %d", name, len(out.Content), len(tt.content))
			continue
		}
		for i, want := range tt.content {
			if !strings.Contains(string(out.Content[i]), want) {
				t.Errorf("%s: block %d = %s, want %q in it", name, i, out.Content[i], want)
			}
		}
		if !strings.HasPrefix(string(out.StructuredContent), tt.structure) {
			t.Errorf("%s: structured = %s, want it to begin with %s", name, out.StructuredContent, tt.structure)
		}
		told := parts.Tell()
		for _, want := range tt.parts {
			if !strings.Contains(told, want) {
				t.Errorf("%s: told %q, want %q in it", name, told, want)
			}
		}
		if len(parts.List) != len(tt.parts) && name != "long text" && name != "many items" {
			t.Errorf("%s: told %q", name, told)
		}
		if got := counted(out); got > 1500 || got < 700 && name != "an image among texts" {
			t.Errorf("%s: %d bytes", name, got)
		}
	}
}

func strings2blocks(n int, s string) (out []json.RawMessage) {
	for range n {
		out = append(out, textBlock(s))
	}
	return out
}

func TestImagesCountAsModelsPayForThem(t *testing.T) {
	// A picture of 1 MB is shown; a 30th one, one of 6 MB, and data that are no picture are not.
	in := &contracts.Result{Content: []json.RawMessage{imageBlock(1_000_000)}}
	if out, parts := ForModel(nil).Fit(in); parts.Any() || out != in {
		t.Errorf("one picture is cut: %v", parts)
	}
	in = &contracts.Result{Content: []json.RawMessage{imageBlock(6_000_000)}}
	if _, parts := ForModel(nil).Fit(in); !parts.Any() {
		t.Error("a picture of 6 MB is shown")
	}
	in = &contracts.Result{}
	for range 30 {
		in.Content = append(in.Content, imageBlock(200_000))
	}
	out, parts := ForModel(nil).Fit(in)
	shown := 0
	for _, b := range out.Content {
		if bytes.HasPrefix(b, []byte(`{"data"`)) {
			shown++
		}
	}
	if shown != 0 && shown < 14 || shown > 15 || !parts.Any() {
		t.Errorf("%d of 30 pictures are shown", shown)
	}
	// To a body both are handles.
	in = &contracts.Result{Content: []json.RawMessage{textBlock("a"), imageBlock(100_000)}}
	out, parts = ForBody(nil).Fit(in)
	if len(parts.List) != 1 || parts.List[0].Path != "/content/1/data" || parts.List[0].MimeType != "image/png" || len(out.Content) != 2 {
		t.Errorf("a picture for a body: %+v", parts)
	}
}

// everything reads a value in pages and returns it put together again.
func everything(t *testing.T, s *Shelf, at Place, handle, path string, r *rand.Rand, forBody bool) json.RawMessage {
	t.Helper()
	kind, text, raw := readAll(t, s, at, handle, path, r, forBody)
	switch kind {
	case "text", "base64":
		return cut.Encode(text)
	case "json":
		return json.RawMessage(text)
	}
	return raw
}

// readAll reads a value in pages of one kind and returns it as a text, or as JSON.
func readAll(t *testing.T, s *Shelf, at Place, handle, path string, r *rand.Rand, forBody bool) (kind, _ string, _ json.RawMessage) {
	t.Helper()
	var items []json.RawMessage
	var text strings.Builder
	for next := int64(0); ; {
		args := map[string]any{"handle": handle, "path": path, "offset": next}
		if r.IntN(3) == 0 {
			args["limit"] = 1 + r.IntN(500_000)
		}
		p := readPage(t, s, at, args, forBody)
		if kind == "" {
			kind = p.Type
		}
		if p.Type != kind || p.Offset != next {
			t.Fatalf("page %s at %d of %s, want %s at %d", p.Type, p.Offset, path, kind, next)
		}
		switch p.Type {
		case "text", "base64", "json":
			var piece string
			if err := json.Unmarshal(p.Text, &piece); err != nil {
				t.Fatal(err)
			}
			if p.Type == "base64" {
				if _, err := base64.StdEncoding.DecodeString(piece); err != nil {
					t.Fatalf("a page that cannot be decoded by itself: %v", err)
				}
			}
			text.WriteString(piece)
		case "value":
			return kind, "", p.Value
		case "items", "members":
			raw := p.Items
			if p.Type == "members" {
				raw = p.Members
			}
			x := spans.Of(raw)
			root, _ := x.Root()
			for c := range x.Children(root, 0) {
				start := c.Value.Start
				if c.Key.Len() > 0 {
					start = c.Key.Start
				}
				b, _ := x.Read(start, c.Value.End)
				items = append(items, b)
			}
			if l := p.Large; l != nil {
				b := everything(t, s, at, handle, l.Path, r, forBody)
				if p.Type == "members" {
					key := l.Path[strings.LastIndexByte(l.Path, '/')+1:]
					b = append(append(cut.Encode(strings.NewReplacer("~1", "/", "~0", "~").Replace(key)), ':'), b...)
				}
				items = append(items, b)
			}
		}
		if p.Next == nil {
			break
		}
		if *p.Next <= next {
			t.Fatalf("the page after %d is %d", next, *p.Next)
		}
		next = *p.Next
	}
	switch kind {
	case "items":
		return kind, "", slicesJoin("[", items, "]")
	case "members":
		return kind, "", slicesJoin("{", items, "}")
	}
	return kind, text.String(), nil
}

func slicesJoin(begin string, items []json.RawMessage, end string) json.RawMessage {
	out := []byte(begin)
	for i, x := range items {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, x...)
	}
	return append(out, end...)
}

var pageForm = func() *schema.Validator {
	v, err := schema.Compile(Tool().OutputSchema)
	if err != nil {
		panic(err)
	}
	return v
}()

// readPage reads a page and checks that it is one that fits.
func readPage(t *testing.T, s *Shelf, at Place, args map[string]any, forBody bool) page {
	t.Helper()
	res, err := s.Read(t.Context(), at, cut.Encode(args), forBody)
	if err != nil {
		t.Fatalf("read %v: %v", args, err)
	}
	b := ForModel(nil)
	if forBody {
		b = ForBody(nil)
	}
	if out, parts := b.Fit(res); parts.Any() || out != res {
		t.Fatalf("page %v is over the budget: %v", args, parts)
	}
	if len(res.StructuredContent) < 50_000 {
		checkValid(t, res)
		if wrong := pageForm.Validate(res.StructuredContent); len(wrong) > 0 {
			t.Fatalf("page %.500s: %v", res.StructuredContent, wrong)
		}
	} else if !utf8.Valid(res.StructuredContent) { // and whether it is JSON is seen below
		t.Fatalf("page %v is no UTF-8", args)
	}
	var p page
	if err := json.Unmarshal(res.StructuredContent, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func compacted(raw []byte) string {
	out, _ := spans.Compact(nil, raw)
	return string(out)
}

// same compares two JSON texts but for space and for the way that characters are written.
func same(a, b []byte) bool {
	var x, y any
	if bytes.Equal(a, b) || compacted(a) == compacted(b) {
		return true
	}
	decode := func(raw []byte, v *any) bool {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		return d.Decode(v) == nil
	}
	return decode(a, &x) && decode(b, &y) && bytes.Equal(cut.Encode(x), cut.Encode(y))
}

// twoShelves returns a Shelf, and another one of the same bus, as another executor has it.
func twoShelves(t *testing.T) (s, other *Shelf) {
	t.Helper()
	b := natstest.Open(t)
	var shelves [2]*Shelf
	for i := range shelves {
		var err error
		if shelves[i], err = Open(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	return shelves[0], shelves[1]
}

func TestPagesAreTheWhole(t *testing.T) {
	s, other := twoShelves(t)
	deep := func(n int, inner string) string {
		return strings.Repeat("[", n) + inner + strings.Repeat("]", n)
	}
	object := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"key/%d~ \"é":{"n":[%d,"\u00e9\ud83d\ude42"]}`, i, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	var odd strings.Builder
	for i := range 40_000 {
		odd.WriteString([]string{`"`, `\`, "\n", "é", "🙂", "\u2028", "\x00", "a"}[i*7%8])
	}
	for name, raw := range map[string]string{
		"many items":         string(list(100_000, `{"id":12345678901234567890,"ok":true}`)),
		"space":              strings.ReplaceAll(string(list(20_000, `{ "a" : [ 1 , "x y" ] }`)), ",", " ,\n\t"),
		"many members":       object(8_000),
		"large items":        `{"a":[1,` + string(list(9_000, "1.50")) + `,"` + strings.Repeat("é", 60_000) + `",2,{}],"b":""}`,
		"a large key":        `{"` + strings.Repeat("k", 3_000) + `":"` + strings.Repeat("v", 200_000) + `","x":1}`,
		"nested":             deep(100, `"`+strings.Repeat("x", 300_000)+`"`),
		"a number":           `{"n":` + strings.Repeat("7", 90_000) + `,"m":[` + strings.Repeat("8", 110_000) + `]}`,
		"every kind of text": string(cut.Encode(map[string]any{"t": odd.String()})),
	} {
		for _, forBody := range []bool{false, true} {
			in := &contracts.Result{Content: []json.RawMessage{textBlock("hello")}, StructuredContent: json.RawMessage(raw)}
			b := ForModel(nil)
			if forBody && len(raw) > bodySize {
				b = ForBody(nil)
			}
			out := s.Keep(t.Context(), here(), b, in)
			if out.More == nil || out.Truncated == "" {
				t.Fatalf("%s: nothing is said of the rest: %q", name, out.Truncated)
			}
			checkValid(t, out)
			r := rand.New(rand.NewPCG(1, uint64(len(raw))))
			from := s
			if forBody {
				from = other
			}
			if got := everything(t, from, here(), out.More.Handle, "/structuredContent", r, forBody); !same(got, []byte(raw)) {
				t.Errorf("%s: %d bytes came back of %d: %.300s", name, len(got), len(raw), got)
			}
		}
	}
}

func TestReadingGoesOnWhereTheResultWasCut(t *testing.T) {
	s, err := Open(t.Context(), natstest.Open(t))
	if err != nil {
		t.Fatal(err)
	}
	in := &contracts.Result{Content: []json.RawMessage{textBlock("x")}, StructuredContent: list(20_000, `{"id":1}`)}
	out := s.Keep(t.Context(), here(), ForModel(nil), in)
	m := out.More
	if m == nil || len(m.Parts) != 1 || m.Parts[0].Path != "/structuredContent/items" || m.Parts[0].Total != 20_000 || m.Bytes != wholeSize(in) {
		t.Fatalf("more = %+v", m)
	}
	var shown struct{ Items []any }
	if json.Unmarshal(out.StructuredContent, &shown); int64(len(shown.Items)) != m.Parts[0].Shown {
		t.Errorf("%d items are shown, told are %d", len(shown.Items), m.Parts[0].Shown)
	}
	last := string(out.Content[len(out.Content)-1])
	want := fmt.Sprintf(`platform:core:read_result with {\"handle\":\"%s\",\"path\":\"/structuredContent/items\",\"offset\":%d}`, m.Handle, m.Parts[0].Shown)
	if !strings.Contains(last, want) || !strings.Contains(out.Truncated, strings.ReplaceAll(want, `\"`, `"`)) {
		t.Errorf("the note says %s, the result %q; want %s in both", last, out.Truncated, want)
	}
	p := readPage(t, s, here(), map[string]any{"handle": m.Handle}, false)
	if p.Path != m.Parts[0].Path || p.Offset != m.Parts[0].Shown || p.Total != 20_000 || p.Next == nil {
		t.Errorf("without a path: %+v", p)
	}
	p = readPage(t, s, here(), map[string]any{"handle": m.Handle, "path": "/structuredContent/items/19999"}, false)
	if p.Type != "members" || string(p.Members) != `{"id":1}` || p.Next != nil {
		t.Errorf("the last item: %+v", p)
	}
	p = readPage(t, s, here(), map[string]any{"handle": m.Handle, "path": "/structuredContent", "offset": 1, "limit": 6, "as": "json"}, false)
	if p.Type != "json" || string(p.Text) != `"\"total"` || *p.Next != 7 {
		t.Errorf("as JSON: %+v %s", p, p.Text)
	}
	// The same result has the same handle and is stored once; another run has none of it.
	if again := s.Keep(t.Context(), here(), ForModel(nil), in); again.More.Handle != m.Handle {
		t.Errorf("the same result has the handles %s and %s", m.Handle, again.More.Handle)
	}
	other := here()
	other.Run = contracts.NewRunID()
	elsewhere := here()
	elsewhere.Tenant = "acme"
	for _, at := range []Place{other, elsewhere} {
		if _, err := s.Read(t.Context(), at, cut.Encode(map[string]any{"handle": m.Handle}), false); contracts.CodeOf(err) != contracts.CodeNotFound {
			t.Errorf("read from %v: %v, want %s", at, err, contracts.CodeNotFound)
		}
	}
	for _, tt := range []struct {
		args string
		code contracts.Code
		says string
	}{
		{`{}`, contracts.CodeNotFound, "handle: "},
		{`{"handle":"../` + m.Handle + `"}`, contracts.CodeNotFound, "handle: "},
		{`{"handle":"out_aaaaaaaaaaaaaaaaaaaaaaaa"}`, contracts.CodeNotFound, "handle: "},
		{`{"handle":"` + m.Handle + `","path":"/nope"}`, contracts.CodeNotFound, `path: the result has nothing at "/nope"`},
		{`{"handle":"` + m.Handle + `","path":"` + strings.Repeat("/0", 9000) + `"}`, contracts.CodeInvalidArgs, `path: has 18000 bytes`},
		{`{"handle":"` + m.Handle + `","offset":20001}`, contracts.CodeInvalidArgs, "offset: is 20001; the value at \"/structuredContent/items\" has 20000"},
		{`{"handle":"` + m.Handle + `","offset":1.5}`, contracts.CodeInvalidArgs, "offset: is 1.5"},
		{`{"handle":"` + m.Handle + `","limit":0}`, contracts.CodeInvalidArgs, "limit: is 0"},
		{`[]`, contracts.CodeInvalidArgs, "arguments"},
	} {
		if _, err := s.Read(t.Context(), here(), json.RawMessage(tt.args), false); contracts.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("Read(%.100s) = %v, want %s: %s", tt.args, err, tt.code, tt.says)
		}
	}
}

func TestSizeOf(t *testing.T) {
	for meta, want := range map[string]int{
		``: modelSize, `{}`: modelSize, `{"anthropic/maxResultSizeChars":2000}`: 2000, `{"anthropic/maxResultSizeChars":0}`: leastSize,
		`{"anthropic/maxResultSizeChars":900000000}`: mostSize, `{"anthropic/maxResultSizeChars":"many"}`: modelSize,
	} {
		if got := sizeOf(&contracts.Tool{Meta: json.RawMessage(meta)}, modelSize); got != want {
			t.Errorf("sizeOf(%s) = %d, want %d", meta, got, want)
		}
	}
}
