package names

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"plain\ttext\nwith lines", "plain\ttext\nwith lines"},
		{"Grüße, 世界 — “quoted” €", "Grüße, 世界 — “quoted” €"},
		{"a\x00b\x1b[31mc\rd\x7fe\u0085f", "ab[31mcdef"},
		{"left\u202eright\u202c \u2066iso\u2069 \u200emark\u061c", "leftright iso mark"},
		{"zero\u200bwidth\u200c\u200d\ufeff\u2060\u00ad", "zerowidth"},
		{"tags\U000e0041\U000e0042\U000e007f", "tags"},
		{"sel\ufe0f\U000e0100", "sel"},
		{"fill\u3164\u115f\u034f", "fill"},
		{"par\u2028\u2029", "par"},
		{"bad\xff\xc3utf8", "bad\ufffd\ufffdutf8"},
		{"👩\u200d🚀", "👩🚀"},
		{"kept \ufffd", "kept \ufffd"},
		{"e\u0301", "e\u0301"},
	} {
		if got := Text(tt.in); got != tt.want {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestCut(t *testing.T) {
	long := strings.Repeat("a", 50)
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"abc", 3, "abc"},
		{"世界世", 3, "世界世"},
		{"abcd", 3, "…"},
		{long, 28, "…"},
		{long, 29, "a … [cut, 49 characters more]"},
		{long, 50, long},
		{strings.Repeat("世", 50), 30, "世世 … [cut, 48 characters more]"},
		{strings.Repeat("a", 109), 38, strings.Repeat("a", 10) + " … [cut, 99 characters more]"},
		{strings.Repeat("a", 110), 38, strings.Repeat("a", 9) + " … [cut, 101 characters more]"},
		{"aaae\u0301" + long, 32, "aaa … [cut, 52 characters more]"}, // a letter stays with its mark
	} {
		if got := Cut(tt.in, tt.limit); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.in, tt.limit, got, tt.want)
		}
	}
}

// checkMark checks that a cut text's number is the number of characters left out.
func checkMark(t *testing.T, in, got string) {
	t.Helper()
	head, rest, ok := strings.Cut(got, " … [cut, ")
	var n int
	if _, err := fmt.Sscanf(rest, "%d characters more]", &n); !ok || err != nil {
		t.Errorf("%q has no mark", got)
		return
	}
	if !strings.HasPrefix(in, head) || utf8.RuneCountInString(head)+n != utf8.RuneCountInString(in) {
		t.Errorf("%q: the head or the number %d is wrong", got, n)
	}
}

func TestCutAnyLimit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("ab 世e\u0301\u0302\u0303ñ😀\n")
	for range 3000 {
		var b strings.Builder
		for range rng.IntN(300) {
			b.WriteRune(alphabet[rng.IntN(len(alphabet))])
		}
		s, limit := b.String(), rng.IntN(150)
		got := Cut(s, limit)
		switch n := utf8.RuneCountInString(got); {
		case n > limit:
			t.Fatalf("Cut(%q, %d) has %d characters", s, limit, n)
		case utf8.RuneCountInString(s) <= limit && got != s:
			t.Fatalf("Cut(%q, %d) = %q, want it whole", s, limit, got)
		case got != s && limit >= 40:
			checkMark(t, s, got)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{
		"mcp:calendar:create_event", "mcp:calendar:delete_event", "mcp:calendar:list_events",
		"mcp:mail:send_message", "mcp:weather:get_weather_forecast", "plugin:crm:findCustomer", "platform:core:now",
	}
	for _, tt := range []struct {
		want string
		n    int
		got  []string
	}{
		{"mcp:calendar:create_evnt", 1, []string{"mcp:calendar:create_event"}},
		{"create_evnet", 1, []string{"mcp:calendar:create_event"}},
		{"CREATE_EVENT", 1, []string{"mcp:calendar:create_event"}},
		{"calendar__create_event", 1, []string{"mcp:calendar:create_event"}},
		{"mcp__mail__send_mesage", 3, []string{"mcp:mail:send_message"}},
		{"calendar_create", 1, []string{"mcp:calendar:create_event"}},
		{"weather_forecast", 2, []string{"mcp:weather:get_weather_forecast"}},
		{"find_customer", 3, []string{"plugin:crm:findCustomer"}},
		{"nwo", 3, []string{"platform:core:now"}},
		{"nows", 3, []string{"platform:core:now"}},
		{"translate_document", 3, nil},
		{"", 3, nil},
		{"create_event", 0, nil},
		{"::::", 3, nil},
		{"\xff\xfe", 3, nil},
	} {
		if diff := cmp.Diff(tt.got, Suggest(tt.want, known, tt.n)); diff != "" {
			t.Errorf("Suggest(%q, %d) (-want +got):\n%s", tt.want, tt.n, diff)
		}
	}
}

func TestSuggestOrder(t *testing.T) {
	known := []string{"b_item", "a_item", "a_item", "c_item"}
	if diff := cmp.Diff([]string{"a_item", "b_item", "c_item"}, Suggest("x_item", known, 5)); diff != "" {
		t.Errorf("equally near names (-want +got):\n%s", diff)
	}
	known = []string{"mcp:other:create_event", "create_event"}
	if got := Suggest("create_event", known, 1); len(got) != 1 || got[0] != "create_event" {
		t.Errorf("Suggest = %q, want the very name first", got)
	}
}

func TestSimilarity(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want float64
	}{
		{"abcd", "abcd", 1},
		{"abcd", "abdc", 0.75}, // one swap
		{"abcd", "abc", 0.75},
		{"abcd", "abxd", 0.75},
		{"abcdefghij", "badcfeghij", 0.7},
		{"äbcd", "äbdc", 0.75},
		{"abcd", "wxyz", 0},
		{"", "a", 0},
	} {
		if got := newPattern(tt.a).similarity(tt.b); got != tt.want {
			t.Errorf("similarity(%q, %q) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
		if got := newPattern(tt.b).similarity(tt.a); got != tt.want {
			t.Errorf("similarity(%q, %q) = %v, want %v", tt.b, tt.a, got, tt.want)
		}
	}
}

// TestDistance compares the bit-parallel distance with the textbook's.
func TestDistance(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	random := func() string {
		r := make([]rune, 1+rng.IntN(longest))
		for i := range r {
			r[i] = []rune("abcdé")[rng.IntN(5)]
		}
		return string(r)
	}
	for range 800 {
		a, b := random(), random()
		if rng.IntN(2) == 0 && len(a) > 4 { // two that are near
			b = a[1:3] + "x" + a[3:]
		}
		b = strings.ToValidUTF8(b, "")
		if got, want := newPattern(a).distance(b), alignment([]rune(a), []rune(b)); got != want {
			t.Fatalf("distance(%q, %q) = %d, want %d", a, b, got, want)
		}
	}
}

func alignment(a, b []rune) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}

func FuzzText(f *testing.F) {
	f.Add("create_event", 20)
	f.Add("a\u202eb\xff", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		c := Text(s)
		if !utf8.ValidString(c) || Text(c) != c {
			t.Fatalf("Text(%q) = %q is not clean", s, c)
		}
		for _, r := range c {
			if unicode.Is(unicode.Cf, r) || unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("Text(%q) holds %U", s, r)
			}
		}
		cut := Cut(c, limit)
		if utf8.RuneCountInString(cut) > max(limit, 0) || !utf8.ValidString(cut) {
			t.Fatalf("Cut(%q, %d) = %q", c, limit, cut)
		}
		if got := Suggest(s, []string{s, "other"}, 1); s != "" && (len(got) != 1 || got[0] != s) {
			t.Fatalf("Suggest(%q) = %q, want itself", s, got)
		}
	})
}

func BenchmarkSuggest(b *testing.B) {
	var known []string
	for i := range 10_000 {
		known = append(known, fmt.Sprintf("mcp:server%d:do_some_%d_things", i%100, i))
	}
	for b.Loop() {
		Suggest("server7_do_som_77_things", known, 3)
	}
}

func BenchmarkText(b *testing.B) {
	s := strings.Repeat("A description of the usual kind, with “quotes” — and 世界. ", 40)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		Text(s)
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext é 漢": "plain\n\ttext é 漢",
		"a\u200bb\u202ec":   `a\u{200b}b\u{202e}c`,
		"\x1b\r\U000e0041":  `\u{1b}\u{d}\u{e0041}`,
		"\ue000":            `\u{e000}`,
		"a\xffb\uFFFD":      `a\xffb` + "\uFFFD",
	} {
		if got := Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
	}
}
