package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

var update = flag.Bool("update", false, "write what is found into the files of testdata/cases")

// A section is a part of a case: a file of testdata/cases has several, each after a line "-- name --".
type section struct{ name, text string }

type sections []section

func readSections(t *testing.T, path string) sections {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out sections
	for _, s := range strings.Split("\n"+string(b), "\n-- ")[1:] {
		name, text, ok := strings.Cut(s+"\n", " --\n")
		if !ok {
			t.Fatalf("%s: bad section %.40q", path, s)
		}
		out = append(out, section{name, strings.TrimSuffix(text, "\n")})
	}
	return out
}

func (s sections) get(name string) string {
	for _, x := range s {
		if x.name == name {
			return x.text
		}
	}
	return ""
}

func (s *sections) set(name, text string) {
	for i := range *s {
		if (*s)[i].name == name {
			(*s)[i].text = text
			return
		}
	}
	*s = append(*s, section{name, text})
}

func (s sections) write(t *testing.T, path string) {
	t.Helper()
	var b strings.Builder
	for _, x := range s {
		b.WriteString("-- " + x.name + " --\n")
		if x.text != "" {
			b.WriteString(strings.TrimSuffix(x.text, "\n") + "\n")
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// settings are what a case says in its section config, JSON.
type settings struct {
	URL, File, Server, Proxy         string
	Variables, Rename, Headers, Auth map[string]string
	Include, Exclude                 []string
	Deprecated, LooseOutputs         bool
}

// A recorder is a proxy that serves the documents of a case under http://docs.example/, and
// records every other request, which it answers with an empty object.
type recorder struct {
	*httptest.Server
	files sections

	mu  sync.Mutex
	got []string
}

func newRecorder(t *testing.T, files sections) *recorder {
	r := &recorder{files: files}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Host == "docs.example" && q.Method == http.MethodGet {
		if text := r.files.get(strings.TrimPrefix(q.URL.Path, "/")); text != "" {
			io.WriteString(w, text)
			return
		}
	}
	r.mu.Lock()
	r.got = append(r.got, onWire(q))
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, "{}")
}

// onWire writes a request as it came, without what says nothing about a call.
func onWire(q *http.Request) string {
	body, _ := io.ReadAll(q.Body)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", q.Method, q.RequestURI)
	if _, params, err := mime.ParseMediaType(q.Header.Get("Content-Type")); err == nil && params["boundary"] != "" {
		q.Header.Set("Content-Type", "multipart/form-data; boundary=BOUNDARY")
		body = bytes.ReplaceAll(bytes.ReplaceAll(body, []byte(params["boundary"]), []byte("BOUNDARY")), []byte("\r\n"), []byte("\n"))
	}
	for _, k := range slices.Sorted(maps.Keys(q.Header)) {
		switch v := strings.Join(q.Header[k], " | "); {
		case k == "Accept-Encoding", k == "User-Agent" && v == userAgent, k == "Content-Length", k == "Proxy-Connection", k == "Accept" && v == "application/json":
		default:
			fmt.Fprintf(&b, "%s: %s\n", k, v)
		}
	}
	if len(body) > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSuffix(readable(body), "\n"))
	}
	return b.String()
}

// readable writes bytes that are no text as \xNN.
func readable(body []byte) string {
	var b strings.Builder
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		if r == utf8.RuneError || r < ' ' && r != '\n' {
			fmt.Fprintf(&b, `\x%02x`, body[0])
			n = 1
		} else {
			b.WriteRune(r)
		}
		body = body[n:]
	}
	return b.String()
}

// dialCase connects to the service of a case.
func dialCase(t *testing.T, s sections, r *recorder) *Conn {
	t.Helper()
	var set settings
	if text := s.get("config"); text != "" {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&set); err != nil {
			t.Fatalf("config: %v", err)
		}
	}
	if set.File != "" {
		folder := t.TempDir()
		for _, x := range s {
			if err := os.WriteFile(filepath.Join(folder, x.name), []byte(x.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		set.File = filepath.Join(folder, set.File)
	} else if set.URL == "" {
		set.URL = "http://docs.example/" + s[0].name
	}
	proxy, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(Config{
		File: set.File, Variables: set.Variables, Include: set.Include, Exclude: set.Exclude, Rename: set.Rename,
		Deprecated: set.Deprecated, LooseOutputs: set.LooseOutputs, Network: guard.Config{Proxy: proxy},
		Resolve: func() (Target, error) {
			return Target{URL: set.URL, Server: set.Server, Headers: set.Headers, Auth: set.Auth}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// written shows a listing for people.
func written(t *testing.T, l *contracts.Listing, skipped []contracts.SkippedTool) string {
	t.Helper()
	var b strings.Builder
	for _, tool := range l.Tools {
		if err := schema.Check(tool.Name, tool.InputSchema, tool.OutputSchema); err != nil {
			t.Errorf("%s cannot be taken into a listing: %v\n%s\n%s", tool.Name, err, tool.InputSchema, tool.OutputSchema)
		}
		fmt.Fprintf(&b, "%s", tool.Name)
		a := tool.Annotations
		var hints []string
		for _, h := range []struct {
			name string
			hint *bool
		}{{"readOnly", a.ReadOnlyHint}, {"destructive", a.DestructiveHint}, {"idempotent", a.IdempotentHint}} {
			if h.hint != nil && *h.hint {
				hints = append(hints, h.name)
			}
		}
		fmt.Fprintf(&b, " [%s]\n", strings.Join(hints, " "))
		if tool.Title != "" {
			fmt.Fprintf(&b, "  title  %s\n", tool.Title)
		}
		fmt.Fprintf(&b, "  about  %s\n", strings.ReplaceAll(tool.Description, "\n", "\n         "))
		fmt.Fprintf(&b, "  input  %s\n", tool.InputSchema)
		if tool.OutputSchema != nil {
			fmt.Fprintf(&b, "  output %s\n", tool.OutputSchema)
		}
	}
	for _, s := range skipped {
		fmt.Fprintf(&b, "skipped %s: %s\n", s.Name, s.Reason)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// TestCases reads each document of testdata/cases, and makes its calls.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d cases, %v, want 20 or more", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			s := readSections(t, path)
			r := newRecorder(t, s)
			c := dialCase(t, s, r)
			l, skipped, err := c.List(t.Context())
			got := ""
			if err != nil {
				got, l = "failed: "+contracts.AsError(err).Message, &contracts.Listing{}
			} else {
				got = written(t, l, skipped)
			}
			wire := strings.TrimSpace(makeCalls(t, c, l, s.get("calls"), r))
			if *update {
				s.set("tools", got)
				s.set("wire", wire)
				s.write(t, path)
				return
			}
			if diff := cmp.Diff(strings.TrimSpace(s.get("tools")), strings.TrimSpace(got)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.TrimSpace(s.get("wire")), wire); diff != "" {
				t.Errorf("wire (-want +got):\n%s", diff)
			}
		})
	}
}

// makeCalls makes the calls, one a line: the name of a tool and its arguments. It returns what went over the wire, or the error.
func makeCalls(t *testing.T, c *Conn, l *contracts.Listing, calls string, r *recorder) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.SplitSeq(calls, "\n") {
		name, args, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		fmt.Fprintf(&b, "> %s\n", line)
		i := slices.IndexFunc(l.Tools, func(tool contracts.Tool) bool { return tool.Name == name })
		if i < 0 {
			t.Errorf("there is no tool %s", name)
			continue
		}
		v, err := schema.Compile(l.Tools[i].InputSchema)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if args == "" {
			args = "{}"
		}
		if wrong := v.Validate(json.RawMessage(args)); len(wrong) > 0 {
			fmt.Fprintf(&b, "against the schema: %s %s\n\n", wrong[0].Field, wrong[0].Message)
			continue
		}
		r.got = nil
		_, err = c.Call(context.WithoutCancel(t.Context()), &l.Tools[i], json.RawMessage(args), nil)
		for _, q := range r.got {
			b.WriteString(q)
		}
		if err != nil {
			fmt.Fprintf(&b, "error: %v\n", err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
