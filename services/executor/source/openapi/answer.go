package openapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// mostAnswer bounds the body of an answer, in bytes.
	mostAnswer = 16 << 20
	// keptOfLong is what is kept of the text of a longer one.
	keptOfLong = 64 << 10
	// longestHeader bounds what is told of a header, in characters; longestDetail what an error message takes over.
	longestHeader = 500
	longestDetail = 300
)

// An answer is what a service said.
type answer struct {
	*binding
	target Target

	status int
	header http.Header
	media  string // without parameters, in lower case
	body   []byte
	long   bool // only the beginning of the body was read
}

// read reads the answer; the error is one of reading.
func (a *answer) read(resp *http.Response) error {
	a.status, a.header = resp.StatusCode, resp.Header
	media, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	a.media = media
	var err error
	a.body, err = io.ReadAll(resp.Body)
	if errors.Is(err, guard.ErrTooLarge) {
		a.long, err = true, nil
	}
	if err != nil {
		return err
	}
	if !a.binary() {
		a.body = []byte(decodeText(a.body, params["charset"]))
		a.hide()
	}
	return nil
}

// hide takes secrets out of the text of the body: a service may send back what it was sent. What is short, or a number, could be anything else.
func (a *answer) hide() {
	const shortest = 16
	for _, secret := range a.target.secrets() {
		if len(secret) >= shortest && strings.Trim(secret, "0123456789") != "" {
			a.body = bytes.ReplaceAll(a.body, []byte(secret), []byte("***"))
		}
	}
}

// binary reports whether the body is for no reader.
func (a *answer) binary() bool {
	switch {
	case isJSON(a.media), isText(a.media), len(a.body) == 0:
		return false
	case a.media != "" && a.media != "application/octet-stream":
		return true
	}
	return bytes.IndexByte(a.body, 0) >= 0 || !utf8.Valid(a.body)
}

// decodeText returns text as UTF-8. Of other character sets Latin-1 is known, whose name also stands for that of Windows.
func decodeText(b []byte, charset string) string {
	if utf8.Valid(b) {
		return string(b)
	}
	switch strings.ToLower(charset) {
	case "iso-8859-1", "latin1", "windows-1252":
		var s strings.Builder
		for _, c := range b {
			s.WriteRune(rune(c))
		}
		return s.String()
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// result returns the result of the call, and the error that goes with it where the service says that it failed.
func (a *answer) result() (*contracts.Result, error) {
	if a.status < 200 || a.status > 299 {
		return a.failed()
	}
	if a.long {
		r := contracts.TextResult(a.head(), nil)
		r.Truncated = fmt.Sprintf("the answer has more than %d MiB; this is its beginning", mostAnswer>>20)
		r.IsError = true
		return r, contracts.Errorf(contracts.CodeToolError, "the service answered with more than %d MiB; ask for less", mostAnswer>>20)
	}
	r := a.content()
	if told := a.headers(); told != "" {
		r.Content = append(r.Content, contracts.TextResult(told, nil).Content...)
	}
	return r, nil
}

// content makes a result of a good answer.
func (a *answer) content() *contracts.Result {
	text := bytes.TrimSpace(a.body)
	switch kind, _, _ := strings.Cut(a.media, "/"); {
	case len(a.body) == 0:
		return contracts.TextResult(statusOf(a.status), nil)
	case a.binary() && (kind == "image" || kind == "audio"):
		return a.block(map[string]any{"type": kind, "data": base64.StdEncoding.EncodeToString(a.body), "mimeType": a.media})
	case a.binary():
		return a.block(map[string]any{"type": "resource", "resource": map[string]any{
			"uri": "attachment:" + a.filename(), "mimeType": a.mediaOr("application/octet-stream"), "blob": base64.StdEncoding.EncodeToString(a.body),
		}})
	case (isJSON(a.media) || a.media == "") && json.Valid(text):
		structured := json.RawMessage(text)
		if text[0] != '{' {
			structured = encode(map[string]json.RawMessage{result: structured})
		}
		return contracts.TextResult(string(text), structured)
	}
	return contracts.TextResult(string(a.body), nil)
}

func (a *answer) block(b map[string]any) *contracts.Result {
	return &contracts.Result{Content: []json.RawMessage{encode(b)}}
}

func (a *answer) mediaOr(fallback string) string {
	if a.media == "" {
		return fallback
	}
	return a.media
}

// filename returns the name that the service gives the body, in the form of a URL's part.
func (a *answer) filename() string {
	_, params, _ := mime.ParseMediaType(a.header.Get("Content-Disposition"))
	name := params["filename"]
	if name == "" {
		name = "answer"
	}
	return escapeAll(names.Cut(name, 200))
}

// headers returns what the headers of the answer say that is worth telling, one a line: those that the document speaks of, and where more is to be found.
func (a *answer) headers() string {
	var lines []string
	seen := map[string]bool{}
	worth := append([]string{"Location", "Link"}, a.Headers...)
	if a.Method == http.MethodHead {
		worth = append(worth, "Content-Length", "Content-Type", "Etag", "Last-Modified")
	}
	for _, name := range worth {
		name = http.CanonicalHeaderKey(name)
		v := a.header.Get(name)
		if v == "" || seen[name] || name == "Set-Cookie" {
			continue
		}
		seen[name] = true
		lines = append(lines, name+": "+names.Cut(names.Text(a.target.redact(v)), longestHeader))
	}
	return strings.Join(lines, "\n")
}

// head returns the beginning of a long body, where it is text.
func (a *answer) head() string {
	if a.binary() {
		return "(binary)"
	}
	return strings.ToValidUTF8(string(a.body[:min(len(a.body), keptOfLong)]), "")
}

// failed makes result and error of an answer that is no good one.
func (a *answer) failed() (*contracts.Result, error) {
	said := map[string]any{"status": a.status}
	text := "HTTP " + statusOf(a.status)
	detail := a.detail(said)
	if detail != "" {
		text += ": " + detail
	}
	message := "the service answered " + strings.TrimPrefix(text, "HTTP ")
	var structured json.RawMessage
	if said["body"] != nil {
		structured = encode(said)
	}
	if body := a.head(); len(a.body) > 0 && body != detail {
		text += "\n" + body
	}
	r := contracts.TextResult(text, structured)
	r.IsError = true
	wait, known := a.retryAfter()
	switch {
	case a.status == http.StatusTooManyRequests:
		return r, contracts.Errorf(contracts.CodeRateLimited, "%s", message).After(wait)
	case a.status == http.StatusServiceUnavailable && known:
		return r, contracts.Errorf(contracts.CodeUnavailable, "%s", message).After(wait)
	}
	return r, contracts.Errorf(contracts.CodeToolError, "%s", message)
}

// detail returns what the body of a failure says in a few words: the fields of a problem document or those that services use for it. It puts the body into said where that is JSON.
func (a *answer) detail(said map[string]any) string {
	short := func(s string) string { return names.Cut(strings.TrimSpace(names.Text(s)), longestDetail) }
	text := bytes.TrimSpace(a.body)
	if len(text) == 0 || a.long || a.binary() {
		return ""
	}
	if !json.Valid(text) {
		if a.media == "text/html" {
			return ""
		}
		return short(string(text))
	}
	said["body"] = json.RawMessage(text)
	var fields map[string]any
	if json.Unmarshal(text, &fields) != nil {
		return ""
	}
	if inner, ok := fields["error"].(map[string]any); ok {
		fields = inner
	}
	var parts []string
	for _, key := range []string{"title", "detail", "message", "error", "error_description"} {
		if s, ok := fields[key].(string); ok && s != "" {
			parts = append(parts, s)
		}
		if len(parts) == 2 {
			break
		}
	}
	return short(strings.Join(parts, ": "))
}

// retryAfter returns how long the service asks to wait, at most a day.
func (a *answer) retryAfter() (time.Duration, bool) {
	v := strings.TrimSpace(a.header.Get("Retry-After"))
	if v == "" {
		return 0, false
	}
	const longest = 24 * time.Hour
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		return time.Duration(min(n, uint64(longest/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return min(max(time.Until(at), 0), longest), true
}

// statusOf returns a status as people write it.
func statusOf(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}
