package openapi

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func TestAnswers(t *testing.T) {
	png := []byte("\x89PNG\r\n\x1a\nimage")
	image := `{"data":"` + base64.StdEncoding.EncodeToString(png) + `","mimeType":"image/png","type":"image"}`
	tests := []struct {
		name    string
		status  int
		headers string // "Name: value" lines
		body    string
		want    string // the result as JSON
		code    contracts.Code
		says    string // of the error
		after   int64
	}{
		{"object", 200, "Content-Type: application/json", ` {"n": 12345678901234567890} `,
			`{"content":[{"type":"text","text":"{\"n\": 12345678901234567890}"}],"structuredContent":{"n":12345678901234567890}}`, "", "", 0},
		{"array", 200, "Content-Type: application/json; charset=utf-8", `[1]`, `{"content":[{"type":"text","text":"[1]"}],"structuredContent":{"result":[1]}}`, "", "", 0},
		{"scalar", 200, "Content-Type: application/vnd.x+json", `"a"`, `{"content":[{"type":"text","text":"\"a\""}],"structuredContent":{"result":"a"}}`, "", "", 0},
		{"null", 200, "Content-Type: application/json", `null`, `{"content":[{"type":"text","text":"null"}],"structuredContent":{"result":null}}`, "", "", 0},
		{"no JSON at all", 200, "Content-Type: application/json", `{"a":`, `{"content":[{"type":"text","text":"{\"a\":"}]}`, "", "", 0},
		{"text", 200, "Content-Type: text/csv", "a,b\n", `{"content":[{"type":"text","text":"a,b\n"}]}`, "", "", 0},
		{"latin", 200, "Content-Type: text/plain; charset=ISO-8859-1", "caf\xe9", `{"content":[{"type":"text","text":"café"}]}`, "", "", 0},
		{"broken text", 200, "Content-Type: text/plain", "a\xffb", `{"content":[{"type":"text","text":"a�b"}]}`, "", "", 0},
		{"untyped JSON", 200, "Content-Type: ", `{"a":1}`, `{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`, "", "", 0},
		{"image", 200, "Content-Type: image/png", string(png), `{"content":[` + image + `]}`, "", "", 0},
		{"drawing", 200, "Content-Type: image/svg+xml", "<svg/>", `{"content":[{"type":"text","text":"<svg/>"}]}`, "", "", 0},
		{"audio", 200, "Content-Type: audio/wav", "RIFF", `{"content":[{"data":"UklGRg==","mimeType":"audio/wav","type":"audio"}]}`, "", "", 0},
		{"file", 200, "Content-Type: application/pdf\nContent-Disposition: attachment; filename=\"a b.pdf\"", "%PDF",
			`{"content":[{"resource":{"blob":"JVBERg==","mimeType":"application/pdf","uri":"attachment:a%20b.pdf"},"type":"resource"}]}`, "", "", 0},
		{"bytes", 200, "Content-Type: application/octet-stream", "\x00\x01", `{"content":[{"resource":{"blob":"AAE=","mimeType":"application/octet-stream","uri":"attachment:answer"},"type":"resource"}]}`, "", "", 0},
		{"nothing", 204, "", "", `{"content":[{"type":"text","text":"204 No Content"}]}`, "", "", 0},
		{"created", 201, "Location: /things/7\nX-Rate: 5\nX-Hidden: no", "", `{"content":[{"type":"text","text":"201 Created"},{"type":"text","text":"Location: /things/7\nX-Rate: 5"}]}`, "", "", 0},
		{"problem", 404, "Content-Type: application/problem+json", `{"title":"Not here","detail":"There is no thing 7.","status":404}`,
			`{"content":[{"type":"text","text":"HTTP 404 Not Found: Not here: There is no thing 7.\n{\"title\":\"Not here\",\"detail\":\"There is no thing 7.\",\"status\":404}"}],"structuredContent":{"body":{"title":"Not here","detail":"There is no thing 7.","status":404},"status":404},"isError":true}`,
			contracts.CodeToolError, "the service answered 404 Not Found: Not here: There is no thing 7.", 0},
		{"error object", 500, "Content-Type: application/json", `{"error":{"message":"it broke","code":3}}`,
			`{"content":[{"type":"text","text":"HTTP 500 Internal Server Error: it broke\n{\"error\":{\"message\":\"it broke\",\"code\":3}}"}],"structuredContent":{"body":{"error":{"message":"it broke","code":3}},"status":500},"isError":true}`,
			contracts.CodeToolError, "500 Internal Server Error: it broke", 0},
		{"plain error", 400, "Content-Type: text/plain", "no", `{"content":[{"type":"text","text":"HTTP 400 Bad Request: no"}],"isError":true}`, contracts.CodeToolError, "400 Bad Request: no", 0},
		{"silent error", 403, "", "", `{"content":[{"type":"text","text":"HTTP 403 Forbidden"}],"isError":true}`, contracts.CodeToolError, "403 Forbidden", 0},
		{"page", 502, "Content-Type: text/html", "<h1>Bad</h1>", `{"content":[{"type":"text","text":"HTTP 502 Bad Gateway\n<h1>Bad</h1>"}],"isError":true}`, contracts.CodeToolError, "502 Bad Gateway", 0},
		{"too many", 429, "Retry-After: 7\nContent-Type: text/plain", "slow down", `{"content":[{"type":"text","text":"HTTP 429 Too Many Requests: slow down"}],"isError":true}`, contracts.CodeRateLimited, "429 Too Many Requests: slow down", 7000},
		{"too many, for how long nobody knows", 429, "Retry-After: soon", "", `{"content":[{"type":"text","text":"HTTP 429 Too Many Requests"}],"isError":true}`, contracts.CodeRateLimited, "429", 0},
		{"too long", 429, "Retry-After: 99999999999", "", `{"content":[{"type":"text","text":"HTTP 429 Too Many Requests"}],"isError":true}`, contracts.CodeRateLimited, "429", 86400000},
		{"away", 503, "Retry-After: 60", "", `{"content":[{"type":"text","text":"HTTP 503 Service Unavailable"}],"isError":true}`, contracts.CodeUnavailable, "503 Service Unavailable", 60000},
		{"away until", 503, "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT", "", `{"content":[{"type":"text","text":"HTTP 503 Service Unavailable"}],"isError":true}`, contracts.CodeUnavailable, "503", 0},
		{"away for good", 503, "", "", `{"content":[{"type":"text","text":"HTTP 503 Service Unavailable"}],"isError":true}`, contracts.CodeToolError, "503", 0},
		{"not modified", 304, "", "", `{"content":[{"type":"text","text":"HTTP 304 Not Modified"}],"isError":true}`, contracts.CodeToolError, "304", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ts := serve(t, "  /x: {post: {operationId: x, responses: {'201': {description: ok, headers: {X-Rate: {schema: {type: integer}}}}}}}\n", func(w http.ResponseWriter, _ *http.Request) {
				for line := range strings.SplitSeq(tt.headers, "\n") {
					if k, v, ok := strings.Cut(line, ": "); ok {
						w.Header()[k] = []string{v}
						if v == "" {
							w.Header()[k] = nil // not even guessed
						}
					}
				}
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			})
			c := connect(t, Target{URL: ts.URL + "/openapi.yaml"})
			r, err := c.Call(t.Context(), list(t, c)["x"], json.RawMessage(`{}`), nil)
			got, _ := json.Marshal(r)
			if diff := cmp.Diff(decoded(t, tt.want), decoded(t, string(got))); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if code := contracts.CodeOf(err); code != tt.code {
				t.Errorf("code %q of %v, want %q", code, err, tt.code)
			}
			if e := contracts.AsError(err); e != nil && (!strings.Contains(e.Message, tt.says) || e.RetryAfter != tt.after) {
				t.Errorf("error %q after %d ms, want %q after %d", e.Message, e.RetryAfter, tt.says, tt.after)
			}
		})
	}
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}
