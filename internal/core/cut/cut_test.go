package cut

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// randomValue returns a JSON value of any form, sometimes deep and sometimes large.
func randomValue(r *rand.Rand, depth int) any {
	switch k := r.IntN(8); {
	case k < 2 && depth > 0:
		out := []any{}
		for range r.IntN(20) {
			out = append(out, randomValue(r, depth-1))
		}
		return out
	case k < 4 && depth > 0:
		out := map[string]any{}
		for range r.IntN(12) {
			out[randomText(r, 12)] = randomValue(r, depth-1)
		}
		return out
	case k == 4:
		return json.Number(fmt.Sprint(r.Int64()))
	case k == 5:
		return r.IntN(2) == 0
	case k == 6:
		return nil
	}
	return randomText(r, 1<<r.IntN(8))
}

func randomText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most + 1) {
		b.WriteRune([]rune("aä\"\\\n\u0001\u2028<日🙂/~")[r.IntN(12)])
	}
	return b.String()
}

func TestCutsFitAndAreJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		whole := Encode(randomValue(r, 5))
		size := r.IntN(2000)
		var parts Parts
		got := JSON(whole, size, "", &parts)
		switch {
		case got == nil && len(parts.List) != 1:
			t.Fatalf("a value left out is told by %v", parts)
		case got == nil:
		case len(got) > size || !json.Valid(got) || !utf8.Valid(got):
			t.Fatalf("JSON(%s, %d) = %s", whole, size, got)
		case len(whole) <= size == parts.Any():
			t.Fatalf("%d bytes in %d: %v", len(whole), size, parts)
		}
		for _, p := range parts.List {
			checkPart(t, whole, got, p)
		}
	}
}

// checkPart checks that a value has what a part says of it, and that what is shown is its beginning.
func checkPart(t *testing.T, whole, got json.RawMessage, p contracts.CutPart) {
	t.Helper()
	x := spans.Of(whole)
	v, err := x.Find(p.Path)
	if err != nil {
		t.Fatalf("a part of %s at %q: %v", whole, p.Path, err)
	}
	if total, _ := x.Count(v); p.Unit != contracts.CutBytes && total != p.Total {
		t.Fatalf("%v, and there are %d in %s", p, total, whole)
	}
	if p.Unit != contracts.CutItems || p.Shown == 0 {
		return
	}
	y := spans.Of(got)
	w, err := y.Find(p.Path)
	if err != nil {
		t.Fatalf("%v is not in %s", p, got)
	}
	if n, _ := y.Count(w); n != p.Shown {
		t.Fatalf("%v, and %d are shown", p, n)
	}
	last := fmt.Sprint(p.Path, "/", p.Shown-1)
	a, _ := x.Find(last)
	b, _ := y.Find(last)
	original, _ := x.Read(a.Start, a.End)
	shown, _ := y.Read(b.Start, b.End)
	if string(original) != string(shown) {
		t.Fatalf("the last item of %v is %s, want it whole: %s", p, shown, original)
	}
}

func TestCutsHurtLeast(t *testing.T) {
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":%d}`, i)
	}
	list := "[" + strings.Join(items, ", ") + "]"
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for name, tt := range map[string]struct {
		in, begins string
		size       int
		parts      Parts
	}{
		"space is no size":    {"{\n  \"a\" : [ 1,  2 ]\n}", `{"a":[1,2]}`, 11, Parts{}},
		"whole items":         {`{"n":1000,"items":` + list + `,"next":"abc"}`, `{"n":1000,"items":[{"id":0},{"id":1},`, 300, Parts{List: []contracts.CutPart{{Path: "/items", Unit: contracts.CutItems, Shown: 27, Total: 1000}}}},
		"a part of the first": {`[{"a":"` + strings.Repeat("x", 100) + `"},1]`, `[{"a":"xxxxx`, 50, Parts{List: []contracts.CutPart{{Unit: contracts.CutItems, Total: 2}}}},
		"a long text":         {`{"ok":true,"page":"` + strings.Repeat("é", 500) + `"}`, `{"ok":true,"page":"éé`, 100, Parts{List: []contracts.CutPart{{Path: "/page", Unit: contracts.CutCharacters, Shown: 37, Total: 500}}}},
		"nothing fits":        {`{"a":12345678901234567890}`, `{}`, 20, Parts{List: []contracts.CutPart{{Path: "/a", Unit: contracts.CutBytes, Total: 20}}}},
		"left out":            {`12345678901234567890`, ``, 10, Parts{List: []contracts.CutPart{{Unit: contracts.CutBytes, Total: 20}}}},
		"too deep":            {`{"a":1,"b":` + deep + `}`, `{"a":1,"b":[[[[`, 5000, Parts{List: []contracts.CutPart{{Path: "/b", Unit: contracts.CutItems, Total: 1}}}},
		"no JSON":             {`{"a"`, ``, 100, Parts{List: []contracts.CutPart{{Unit: contracts.CutBytes, Total: 4}}}},
	} {
		var parts Parts
		got := JSON(json.RawMessage(tt.in), tt.size, "", &parts)
		if !strings.HasPrefix(string(got), tt.begins) || (tt.begins == "") != (got == nil) || len(got) > tt.size {
			t.Errorf("%s: %s, want it to begin with %s", name, got, tt.begins)
		}
		if d := cmp.Diff(tt.parts, parts); d != "" {
			t.Errorf("%s: parts (-want +got):\n%s", name, d)
		}
	}
}

func TestPartsAreBounded(t *testing.T) {
	members := make([]string, 50)
	for i := range members {
		members[i] = fmt.Sprintf(`"m%d":"%s"`, i, strings.Repeat("x", 400))
	}
	var parts Parts
	got := JSON(json.RawMessage("{"+strings.Join(members, ",")+"}"), 3000, "/a", &parts)
	if len(parts.List) != mostParts || parts.Others != 50-mostParts || parts.List[0].Path != "/a/m0" || !json.Valid(got) {
		t.Errorf("parts %+v of %s", parts, got)
	}
	if told := parts.Tell(); !strings.Contains(told, "/a/m0: ") || !strings.HasSuffix(told, "and 42 cuts more") {
		t.Errorf("told: %s", told)
	}
	// An object with very many members keeps the first.
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, `,"k%d":%d`, i, i)
	}
	parts = Parts{}
	got = JSON(json.RawMessage("{"+many.String()[1:]+"}"), 1000, "", &parts)
	if len(parts.List) != 1 || parts.List[0].Unit != contracts.CutMembers || parts.List[0].Total != 5000 || !strings.HasPrefix(string(got), `{"k0":0,`) || len(got) < 900 {
		t.Errorf("parts %+v of %s", parts, got)
	}
}

func TestText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		s := randomText(r, 50)
		size := r.IntN(80)
		got := Text(s, size)
		if n := len(Encode(got)) - 2; n > size || !strings.HasPrefix(s, got) || !utf8.ValidString(got) {
			t.Fatalf("Text(%q, %d) = %q of %d bytes", s, size, got, n)
		}
		if rest := s[len(got):]; rest != "" {
			_, n := utf8.DecodeRuneInString(rest)
			if len(Encode(s[:len(got)+n]))-2 <= size {
				t.Fatalf("Text(%q, %d) = %q, and one more fits", s, size, got)
			}
		}
	}
}
