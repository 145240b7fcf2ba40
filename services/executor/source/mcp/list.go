package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/internal/mcpform"
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
			if t, skip := mcpform.Tool(raw); skip != nil {
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
