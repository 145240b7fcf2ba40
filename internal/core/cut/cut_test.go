package cut

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
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
		b.WriteRune([]rune("aä\"\\\n\u0001\u2028<日🙂")[r.IntN(10)])
	}
	return b.String()
}

func TestSizeOfIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		v := randomValue(r, 4)
		if got, want := sizeOf(v), len(Encode(v)); got != want {
			t.Fatalf("sizeOf(%s) = %d, want %d", Encode(v), got, want)
		}
	}
	if got, want := sizeOf("\xff"), len(Encode("\xff")); got != want {
		t.Errorf("sizeOf of invalid UTF-8 = %d, want %d", got, want)
	}
}

func TestCutsFitAndAreJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		whole := Encode(randomValue(r, 5))
		size := r.IntN(2000)
		got, notes := JSON(whole, size)
		switch {
		case got == nil && len(notes) != 1:
			t.Fatalf("a value left out is told by %q", notes)
		case got == nil:
		case len(got) > size || !json.Valid(got) || !utf8.Valid(got):
			t.Fatalf("JSON(%s, %d) = %s", whole, size, got)
		case len(whole) <= size != (len(notes) == 0):
			t.Fatalf("%d bytes in %d: notes %q", len(whole), size, notes)
		}
	}
}
