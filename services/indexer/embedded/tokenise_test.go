package embedded

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func sortTools(tools []contracts.Tool) {
	slices.SortFunc(tools, func(a, b contracts.Tool) int { return strings.Compare(string(a.ID), string(b.ID)) })
}

// spelled writes tokens down: pieces in brackets, joined forms behind a plus.
func spelled(tokens []token) string {
	var list []string
	for _, t := range tokens {
		switch t.kind {
		case kindPiece:
			list = append(list, "("+t.text+")")
		case kindJoined:
			list = append(list, "+"+t.text)
		default:
			list = append(list, t.text)
		}
	}
	return strings.Join(list, " ")
}

func TestTokenise(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{" \t\n-._", ""},
		{"List all the issues.", "list all the issues"},
		{"create_issue", "create issue +createissue"},
		{"createIssue", "create issue +createissue"},
		{"create-issue", "create issue +createissue"},
		{"repos.create", "repos create +reposcreate"},
		{"a__b", "a b +ab"},
		{"get_file_contents", "get file contents +getfile +filecontents"},
		{"getHTTPResponse", "get http response +gethttp +httpresponse"},
		{"HTTPServer", "http server +httpserver"},
		{"YouTube", "you tube +youtube"},
		{"MySQL", "my sql +mysql"},
		{"GitHub's API", "git hub +github api"},
		{"To Do", "to do"},
		{"to-do", "to do +todo"},
		{"e-mail", "e mail +email"},
		{"VMs", "vm"},
		{"listVMsByIDs", "list vm by id +listvm +vmby +byid"},
		{"URLs and APIs", "url and api"},
		{"GetURLs", "get url +geturl"},
		{"oauth2", "oauth2 (oauth)"},
		{"OAuth2Token", "o auth2 (auth) token +oauth2 +auth2token"},
		{"ms365", "ms365 (365)"},
		{"s3 EC2 k8s", "s3 ec2 k8s"},
		{"S3Bucket", "s3 bucket +s3bucket"},
		{"Base64Encode", "base64 (base) encode +base64encode"},
		{"get_3d_model", "get 3d model +get3d +3dmodel"},
		{"12306-mcp", "12306 mcp +12306mcp"},
		{"1.2.3", "1 2 3"},
		{"don't, it's Bezos'", "dont it bezos"},
		{"Next.js", "next js +nextjs"},
		{"end. Next", "end next"},
		{"a/b:c", "a b c"},
		{"Straße Ærø Łódź", "strasse aero lodz"},
		{"Đà Nẵng, đặt vé", "da nang dat ve"},
		{"ＡＢＣ ﬁle", "abc file"},
		{"Ελλάδα ΟΔΟΣ", "ελλαδα οδοσ"},
		{"ёлка", "елка"},
		{"使用必应搜索", "使用 用必 必应 应搜 搜索"},
		{"用", "用"},
		{"get天气info", "get 天气 info"},
		{"東京の天気", "東京 京の の天 天気"},
		{"がぎ", "がぎ"},
		{"한국어", "한국 국어"},
		{"in\u200bvisi\u00adble", "invisible"},
		{"bad\xffbytes", "bad bytes"},
		{strings.Repeat("x", maxWord) + " " + strings.Repeat("y", maxWord+1), strings.Repeat("x", maxWord)},
	} {
		if got := spelled(tokenise(nil, tt.in)); got != tt.want {
			t.Errorf("tokenise(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestTokeniseAppends(t *testing.T) {
	got := tokenise(tokenise(nil, "a b"), "c_d")
	want := []token{{"a", kindWord, false}, {"b", kindWord, false}, {"c", kindWord, false}, {"d", kindWord, true}, {"cd", kindJoined, true}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(token{})); diff != "" {
		t.Errorf("tokens differ (-want +got):\n%s", diff)
	}
}

func TestStem(t *testing.T) {
	for _, tt := range []struct{ a, b string }{
		{"issues", "issue"}, {"creating", "create"}, {"created", "create"}, {"repositories", "repository"},
		{"vms", "vm"}, {"pdfs", "pdf"}, {"gpus", "gpu"}, {"cpus", "cpu"}, {"ids", "id"}, {"urls", "url"}, {"prs", "pr"}, {"history", "histories"},
	} {
		if a, b := stem(tt.a), stem(tt.b); a != b {
			t.Errorf("stem(%q) = %q, stem(%q) = %q, want them equal", tt.a, a, tt.b, b)
		}
	}
	for _, word := range []string{"", "s", "as", "天气", "größe", "s3", "css", "glass"} {
		if got := stem(word); got != word {
			t.Errorf("stem(%q) = %q, want it as it is", word, got)
		}
	}
}

func FuzzTokenise(f *testing.F) {
	for _, s := range []string{"", "createIssue", "get_file-contents.v2", "VMs IDs", "Đà Nẵng", "使用必应", "a'b’c", "\xff\u200b", "e\u0301'S", "ab'", "1.2.3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tokens := tokenise(nil, s)
		for _, tok := range tokens {
			if tok.text == "" || !utf8.ValidString(tok.text) || len(tok.text) > maxWord && tok.kind != kindWord {
				t.Fatalf("tokenise(%q): token %q", s, tok.text)
			}
			if strings.ContainsFunc(tok.text, unicode.IsSpace) || strings.ContainsAny(tok.text, "=~+ABCXYZ") {
				t.Fatalf("tokenise(%q): token %q holds what no word holds", s, tok.text)
			}
		}
		if len(tokens) > 3*len(s)+1 {
			t.Fatalf("tokenise(%q): %d tokens", s, len(tokens))
		}
		again := tokenise(nil, s)
		if !slices.Equal(tokens, again) {
			t.Fatalf("tokenise(%q) differs from time to time", s)
		}
		stem(s)
	})
}
