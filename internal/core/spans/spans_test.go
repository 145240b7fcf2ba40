package spans

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// slow gives a text in small pieces.
type slow []byte

func (s slow) From(at int64) ([]byte, error) {
	if at >= int64(len(s)) {
		return nil, io.EOF
	}
	return s[at:min(int64(len(s)), at+7)], nil
}

// random returns JSON of any form, with space between its tokens, escapes and, with big, values that are large.
func random(r *rand.Rand, depth int, big bool) string {
	space := func() string { return strings.Repeat(" \n\t", r.IntN(2)) }
	text := func(most int) string {
		var b strings.Builder
		for range r.IntN(most + 1) {
			b.WriteString([]string{"a", "ä", `\"`, `\\`, `\n`, `\u00e9`, `\ud83d\ude42`, "日", "🙂", "{", "]", ","}[r.IntN(12)])
		}
		return `"` + b.String() + `"`
	}
	var b strings.Builder
	most := 6
	if big && depth > 0 && r.IntN(3) == 0 {
		most = 4_000
	}
	switch k := r.IntN(8); {
	case k < 2 && depth > 0:
		b.WriteString("[" + space())
		for i := range r.IntN(most) {
			if i > 0 {
				b.WriteString(space() + "," + space())
			}
			b.WriteString(random(r, min(depth-1, 9*depth/most), big && most < 100))
		}
		b.WriteString(space() + "]")
	case k < 5 && depth > 0:
		b.WriteString("{" + space())
		for i := range r.IntN(most) {
			if i > 0 {
				b.WriteString(space() + "," + space())
			}
			b.WriteString(strconv.Quote("k"+strconv.Itoa(i)+"/~\"") + space() + ":" + space())
			b.WriteString(random(r, min(depth-1, 9*depth/most), big && most < 100))
		}
		b.WriteString(space() + "}")
	case k == 5:
		return []string{"true", "false", "null", "-0.5e+3", "12345678901234567890"}[r.IntN(5)]
	default:
		return text(most * most)
	}
	return b.String()
}

// check compares everything that a text says of the value at path with what decoding says.
func check(t *testing.T, x *Text, path string, want any) {
	t.Helper()
	v, err := x.Find(path)
	if err != nil {
		t.Fatalf("Find(%q): %v", path, err)
	}
	raw, err := x.Read(v.Start, v.End)
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("the value at %q is %s: %v", path, raw, err)
	}
	if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
		t.Fatalf("the value at %q = %.200s, want %.200s", path, a, b)
	}
	n, err := x.Count(v)
	if err != nil {
		t.Fatal(err)
	}
	switch want := want.(type) {
	case string:
		if int(n) != utf8.RuneCountInString(want) {
			t.Fatalf("Count(%q) = %d, want %d", path, n, utf8.RuneCountInString(want))
		}
	case []any:
		if int(n) != len(want) {
			t.Fatalf("Count(%q) = %d, want %d", path, n, len(want))
		}
		for i, w := range want {
			if i < 3 || i > len(want)-3 || i%1500 == 0 {
				check(t, x, path+"/"+strconv.Itoa(i), w)
			}
		}
	case map[string]any:
		if int(n) != len(want) {
			t.Fatalf("Count(%q) = %d, want %d", path, n, len(want))
		}
		for k, w := range want {
			check(t, x, Pointer(path, k), w)
			if len(want) > 100 {
				break
			}
		}
	}
}

func TestTextsAreFoundTheirWayIn(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		raw := " " + random(r, 5, i%10 == 0) + "\n"
		var want any
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		var s Scanner
		for rest := []byte(raw); len(rest) > 0; {
			n := 1 + r.IntN(min(len(rest), 5000))
			s.Write(rest[:n])
			rest = rest[n:]
		}
		m := s.Map()
		check(t, New(Bytes(raw), m), "", want)
		if len(raw) < 10_000 {
			check(t, New(slow(raw), m), "", want)
		}
	}
}

func TestCharsGiveEveryCharacterOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var b strings.Builder
	for range 60_000 {
		b.WriteString([]string{"a", "ä", `\"`, `\u00e9`, `\ud83d\ude42`, "🙂"}[r.IntN(6)])
	}
	raw := []byte(`{"a":["x","` + b.String() + `"]}`)
	var whole struct{ A []string }
	if err := json.Unmarshal(raw, &whole); err != nil {
		t.Fatal(err)
	}
	x := Of(raw)
	v, err := x.Find("/a/1")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for at := int64(0); ; {
		piece, n, err := x.Chars(v, at, 1+r.Int64N(9000), 10+r.IntN(20_000))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		var s string
		if err := json.Unmarshal([]byte(`"`+string(piece)+`"`), &s); err != nil || int64(utf8.RuneCountInString(s)) != n {
			t.Fatalf("%d characters %.60q: %v", n, piece, err)
		}
		got.WriteString(s)
		at += n
	}
	if got.String() != whole.A[1] {
		t.Error("the pieces are not the text")
	}
	// The places in it are known: the last character is found without reading from the first on.
	if marks := x.m.nodes[v.Start].marks; len(marks) < 5 {
		t.Errorf("%d marks in %d bytes", len(marks), v.Len())
	}
}

func TestNothingIsFoundWhereNothingIs(t *testing.T) {
	x := Of([]byte(`{"a":[1,{"b":null}],"":{"":2},"x~y":3}`))
	for _, path := range []string{"a", "/b", "/a/2", "/a/-1", "/a/x", "/a/0/0", "/a/1/b/c", "//x", "/a/", "/x~0", "/a/99999999999999999999"} {
		if v, err := x.Find(path); !errors.Is(err, ErrNotFound) {
			t.Errorf("Find(%q) = %v, %v, want %v", path, v, err, ErrNotFound)
		}
	}
	for path, want := range map[string]string{"/a/1/b": "null", "//": "2", "/x~0y": "3"} {
		v, err := x.Find(path)
		if b, _ := x.Read(v.Start, v.End); err != nil || string(b) != want {
			t.Errorf("Find(%q) = %s, %v, want %s", path, b, err, want)
		}
	}
	for _, raw := range []string{"", "  ", "[1", `"a`, `{"a`, `{"a":`} {
		for _, path := range []string{"", "/0", "/a"} {
			if v, err := Of([]byte(raw)).Find(path); err == nil && v.End > int64(len(raw)) {
				t.Errorf("Find(%q) in %q = %v", path, raw, v)
			}
		}
	}
}

func TestTheMapOfTheWorstTextStaysSmall(t *testing.T) {
	// Many values that are large and deep: 20 of 64 KiB, each 9,000 deep.
	one := strings.Repeat("[", 9000) + `"` + strings.Repeat("x", 46<<10) + `"` + strings.Repeat("]", 9000)
	raw := []byte("[" + strings.Repeat(one+",", 19) + one + "]")
	x := Of(raw)
	if n := len(x.m.nodes); n > 20*deepest+1 {
		t.Errorf("%d places are kept", n)
	}
	path := "/19" + strings.Repeat("/0", 9000)
	v, err := x.Find(path)
	if err != nil || v.Kind != String || v.Len() != 46<<10+2 {
		t.Errorf("the deepest value is %v, %v", v, err)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		`"plain \\ud800 \" é 🙂"`: "",
		`"\ud83d\ude42"`:         "",
		`"\uD83D\uDE42"`:         "",
		`"a\ud800b"`:             `"a\ufffdb"`,
		`"\ude42\ud83d"`:         `"\ufffd\ufffd"`,
		`"\ud83d\ud83d\ude42"`:   `"\ufffd\ud83d\ude42"`,
		"\"a\xffb\xf0\x9f\"":     "\"a\uFFFDb\uFFFD\"",
		"\"\\ud800\xff\"":        "\"\\ufffd\uFFFD\"",
		`"\ud800`:                `"\ufffd`,
		`"\ud8`:                  "",
	} {
		got := Clean([]byte(in))
		if want == "" {
			want = in
		}
		if string(got) != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	in := []byte(`"\ud800"`)
	if Clean(in); string(in) != `"\ud800"` {
		t.Error("Clean changed what it was given")
	}
}

func TestCompact(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		raw := []byte(random(r, 5, false))
		var want bytes.Buffer
		if err := json.Compact(&want, raw); err != nil {
			t.Fatal(err)
		}
		got, depth := Compact(nil, raw)
		if string(got) != want.String() {
			t.Fatalf("Compact(%s) = %s", raw, got)
		}
		if Deeper(raw, depth) || depth > 0 && !Deeper(raw, depth-1) {
			t.Fatalf("%s is %d deep, and Deeper says otherwise", raw, depth)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for name, piece := range map[string]string{"text": `"` + strings.Repeat("x", 900) + `",`, "items": `{"id":123,"name":"a thing","ok":true},`} {
		raw := []byte("[" + strings.Repeat(piece, 20_000_000/len(piece)) + "1]")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				Of(raw)
			}
		})
	}
}
