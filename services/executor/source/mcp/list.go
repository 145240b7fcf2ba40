package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	mostPages        = 10_000
	mostListingBytes = 128 << 20
)

// List returns all tools of the server in its own order, each as the server says it, and those that make no
// sense as a tool. Ids, hashes and sizes are the caller's to fill in. The error is a [contracts.Error] with
// [contracts.CodeSourceUnavailable].
func (c *Conn) List(ctx context.Context) (*contracts.Listing, []contracts.SkippedTool, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	l := &contracts.Listing{Tools: []contracts.Tool{}}
	if info := c.session.InitializeResult(); info != nil {
		l.Instructions = info.Instructions
		if info.ServerInfo != nil {
			l.Title = info.ServerInfo.Title
			if l.Title == "" {
				l.Title = info.ServerInfo.Name
			}
		}
	}
	var skipped []contracts.SkippedTool
	seen := map[string]bool{}
	size := 0
	for cursor := ""; ; {
		page, err := c.page(ctx, cursor)
		if err != nil {
			return nil, nil, c.lost(ctx, "list tools: ", err)
		}
		if size += page.size; size > mostListingBytes {
			return nil, nil, c.cfg.unavailable(fmt.Sprintf("list tools: the listing has more than %d MiB", mostListingBytes>>20))
		}
		for _, raw := range page.Tools {
			if t, skip := parseTool(raw); skip != nil {
				skipped = append(skipped, *skip)
			} else {
				l.Tools = append(l.Tools, *t)
			}
		}
		if page.NextCursor == "" {
			return l, skipped, nil
		}
		if cursor = page.NextCursor; seen[cursor] || len(seen) >= mostPages {
			return nil, nil, c.cfg.unavailable("list tools: the pages of the listing have no end")
		}
		seen[cursor] = true
	}
}

type page struct {
	Tools      []json.RawMessage `json:"tools"`
	NextCursor string            `json:"nextCursor"`
	size       int
}

func (c *Conn) page(ctx context.Context, cursor string) (*page, error) {
	got := &capture{}
	_, err := c.session.ListTools(withCapture(ctx, got), &sdk.ListToolsParams{Cursor: cursor})
	raw, failure := got.answer()
	switch {
	case failure != nil && failure.Code == jsonrpc.CodeMethodNotFound:
		return &page{}, nil // a server without tools
	case failure != nil:
		return nil, &refusal{failure}
	case raw == nil && err != nil:
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if raw == nil { // the session answered from what the server lets it keep
		raw = c.pages[cursor]
	}
	c.pages[cursor] = raw
	p := &page{size: len(raw)}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, errors.New("the answer is no list of tools")
	}
	return p, nil
}

// parseTool reads one tool of a listing, or says why it cannot be one.
func parseTool(raw json.RawMessage) (*contracts.Tool, *contracts.SkippedTool) {
	var named struct {
		Name any `json:"name"`
	}
	json.Unmarshal(raw, &named) // whatever it is, the name is worth telling
	name, _ := named.Name.(string)
	skip := func(format string, args ...any) (*contracts.Tool, *contracts.SkippedTool) {
		return nil, &contracts.SkippedTool{Name: name, Reason: fmt.Sprintf(format, args...)}
	}
	var w struct {
		Name         string          `json:"name"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
		Annotations  *struct {
			contracts.Annotations
			Title string `json:"title"`
		} `json:"annotations"`
		Meta json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && e.Field != "" {
			return skip("%s: it is a JSON %s", e.Field, e.Value)
		}
		return skip("it is no JSON object with the fields of a tool")
	}
	t := &contracts.Tool{
		Name: w.Name, Title: w.Title, Description: w.Description,
		InputSchema: present(w.InputSchema), OutputSchema: present(w.OutputSchema), Meta: present(w.Meta),
	}
	if w.Annotations != nil {
		if t.Title == "" {
			t.Title = w.Annotations.Title
		}
		if a := w.Annotations.Annotations; a != (contracts.Annotations{}) {
			t.Annotations = &a
		}
	}
	return t, nil
}

// present returns raw, nil where it is null.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}
