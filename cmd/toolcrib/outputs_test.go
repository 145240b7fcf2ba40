package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A resultPage is a page of a large result.
type resultPage struct {
	Type, Text string
	Next       *int64
}

// TestEveryItem has a hundred thousand small items come back over HTTP, page by page, byte by byte.
func TestEveryItem(t *testing.T) {
	const n = 100_000
	r := rand.New(rand.NewPCG(3, 4))
	items := []byte("[")
	for i := range n {
		if i > 0 {
			items = append(items, ',')
		}
		items = fmt.Appendf(items, []string{`%d`, `"é %d"`, `{"id":%d,"big":12345678901234567890.10}`, `[null,%d]`, `{"":{"\"q\"":%d}}`}[r.IntN(5)], r.IntN(1e6))
	}
	items = append(items, ']')
	server := mcp.NewServer(&mcp.Implementation{Name: "many", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "items", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: json.RawMessage(`{"items":` + string(items) + `}`)}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	c := up(t, t.TempDir(), map[string]any{"many": map[string]any{"type": "http", "url": web.URL}}).client()
	run := openRun(t, c, client.RunOptions{Mode: "tools"}).ID
	o := call(t, c, run, "tool_call", `{"id":"mcp:many:items","args":{}}`)
	if o.Status != contracts.StatusOK || o.Result.More == nil || !json.Valid(o.Result.StructuredContent) {
		t.Fatalf("outcome %+v", o)
	}
	got, pages := []byte("["), 0
	for next := int64(0); ; pages++ {
		var p struct {
			Items json.RawMessage
			Total int64
			Next  *int64
		}
		o := call(t, c, run, "tool_call", fmt.Sprintf(`{"id":"platform:core:read_result","args":{"handle":%q,"path":"/structuredContent/items","offset":%d}}`, o.Result.More.Handle, next))
		if o.Status != contracts.StatusOK || json.Unmarshal(o.Result.StructuredContent, &p) != nil || p.Total != n || len(p.Items) < 3 {
			t.Fatalf("page at %d: %+v", next, o)
		}
		got = append(got, p.Items[1:len(p.Items)-1]...)
		if p.Next == nil {
			break
		}
		got, next = append(got, ','), *p.Next
	}
	if got = append(got, ']'); !bytes.Equal(got, items) {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(items))
	}
	t.Logf("%d bytes in %d pages", len(got), pages+1)
}

// TestLargeResults reads large files through a public server and has them come back whole in every surface.
func TestLargeResults(t *testing.T) {
	folder := realDir(t)
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < 1_500_000 {
		b.WriteString([]string{"some words ", "\"quoted\" ", "été ", "🙂", "a\tb\n"}[r.IntN(5)])
	}
	text := b.String()
	picture := make([]byte, 900_000)
	for i := range picture {
		picture[i] = byte(r.Uint32())
	}
	big, image := filepath.Join(folder, "big.txt"), filepath.Join(folder, "image.png")
	write(t, big, text)
	write(t, image, string(picture))
	s := up(t, t.TempDir(), map[string]any{"filesystem": publicServers(t, folder)["filesystem"]})
	c := s.client()
	args := fmt.Sprintf(`{"path":%q}`, big)

	for _, mode := range []string{"tools", "directory", "direct"} {
		t.Run(mode, func(t *testing.T) {
			run := openRun(t, c, client.RunOptions{Mode: mode}).ID
			o := call(t, c, run, "tool_call", fmt.Sprintf(`{"id":"mcp:filesystem:read_text_file","args":%s}`, args))
			if o.Status != contracts.StatusOK || o.Result.More == nil {
				t.Fatalf("outcome %+v", o)
			}
			var got strings.Builder
			for next := int64(0); ; {
				q := fmt.Sprintf(`{"handle":%q,"path":"/content/0/text","offset":%d}`, o.Result.More.Handle, next)
				name := "platform__core__read_result"
				if mode == "tools" {
					name, q = "tool_call", fmt.Sprintf(`{"id":"platform:core:read_result","args":%s}`, q)
				}
				var p resultPage
				o := call(t, c, run, name, q)
				if o.Status != contracts.StatusOK || json.Unmarshal(o.Result.StructuredContent, &p) != nil {
					t.Fatalf("page at %d: %+v", next, o)
				}
				if got.WriteString(p.Text); p.Next == nil {
					break
				}
				next = *p.Next
			}
			if got.String() != text {
				t.Errorf("%d bytes came back of %d, or others", got.Len(), len(text))
			}
		})
	}
	t.Run("mcp", func(t *testing.T) {
		session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: s.url + "/mcp?mode=direct", HTTPClient: http.DefaultClient}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		listed := ""
		for _, tool := range tools.Tools {
			listed += tool.Name + " "
		}
		if !strings.Contains(listed, "platform__core__read_result ") {
			t.Fatalf("tools/list: %s", listed)
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "filesystem__read_text_file", Arguments: json.RawMessage(args)})
		if err != nil {
			t.Fatal(err)
		}
		more, _ := res.Meta["toolcrib/more"].(map[string]any)
		last, _ := res.Content[len(res.Content)-1].(*mcp.TextContent)
		said, _ := res.StructuredContent.(map[string]any)["_toolcrib"].(string)
		if more["handle"] == nil || last == nil || !strings.Contains(last.Text, fmt.Sprint(more["handle"])) || !strings.Contains(said, fmt.Sprint(more["handle"])) {
			t.Fatalf("_meta %v, last block %v, structured %.200v", res.Meta, last, res.StructuredContent)
		}
		page, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "platform__core__read_result", Arguments: map[string]any{"handle": more["handle"], "path": "/content/0/text", "limit": 20}})
		if err != nil || page.IsError {
			t.Fatalf("page %+v, %v", page, err)
		}
		if got := page.StructuredContent.(map[string]any)["text"]; got != string([]rune(text)[:20]) {
			t.Errorf("the page is %q", got)
		}
	})
	t.Run("code", func(t *testing.T) {
		run := codeRun(t, c, 60_000_000_000)
		code := fmt.Sprintf(`const o = await tools.call("mcp:filesystem:read_text_file", {path: %q});
const {handle} = o.result.more;
let text = "", next = 0, pages = 0;
while (next !== undefined) {
  const p = (await tools.call("platform:core:read_result", {handle, path: "/content/0/text", offset: next})).result.structuredContent;
  text += p.text; next = p.next; pages++;
}
return [text.length, pages, text.slice(-30)];`, big)
		_, res := execBody(t, c, run.ID, code)
		var got []any
		json.Unmarshal(res.Value, &got)
		runes := []rune(text)
		units := float64(len(runes) + strings.Count(text, "🙂")) // as JavaScript counts
		if !res.OK || len(got) != 3 || got[0] != units || !strings.HasSuffix(text, fmt.Sprint(got[2])) {
			t.Errorf("the body returned %s, %+v; want %v", res.Value, res.Error, units)
		}
		if len(res.Logs) != 1 || res.Logs[0].Level != "warn" || !strings.Contains(res.Logs[0].Text, "its result is only a part: ") {
			t.Errorf("logs %+v, want a warning that the result is a part", res.Logs)
		}
		// A picture passes unseen, and is shown in the end.
		o, res := execBody(t, c, run.ID, fmt.Sprintf(`const o = await tools.call("mcp:filesystem:read_media_file", {path: %q}); return o.result.content[0]`, image))
		sum := sha256.Sum256(picture)
		if !res.OK || !strings.Contains(string(res.Value), "content:") || len(o.Result.Content) != 2 {
			t.Fatalf("value %.300s, %+v, %d blocks", res.Value, res.Error, len(o.Result.Content))
		}
		var block struct{ Data string }
		json.Unmarshal(o.Result.Content[1], &block)
		data, _ := base64.StdEncoding.DecodeString(block.Data)
		if shown := sha256.Sum256(data); shown != sum {
			t.Errorf("the picture came back as %d bytes, %s", len(data), hex.EncodeToString(shown[:4]))
		}
		// What a body returns is kept too.
		_, res = execBody(t, c, run.ID, `return Array.from({length: 60000}, (_, i) => ({i}))`)
		if res.More == nil || len(res.More.Parts) != 1 || res.More.Parts[0].Path != "/structuredContent/value" || res.More.Parts[0].Total != 60_000 {
			t.Fatalf("more %+v, %s", res.More, res.Truncated)
		}
		_, next := execBody(t, c, run.ID, fmt.Sprintf(`const p = await tools.call("platform:core:read_result", {handle: %q, path: "/structuredContent/value", offset: 59998});
return p.result.structuredContent.items`, res.More.Handle))
		if string(next.Value) != `[{"i":59998},{"i":59999}]` {
			t.Errorf("the last items of a body's value are %s, %+v", next.Value, next.Error)
		}
	})
}
