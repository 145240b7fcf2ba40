package busplugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/internal/mcpform"
)

const (
	pageTimeout      = 10 * time.Second
	mostPages        = 2_000
	mostListingBytes = 64 << 20
	// mostTries is how often a listing is begun anew whose pages do not belong together.
	mostTries = 5
)

// errMixed says that the pages of a listing are of different revisions.
var errMixed = errors.New("the tools changed again and again while they were listed, or the instances of the plugin have different ones")

// List returns the tools of the plugin that the configuration lets through, each as the plugin tells of it, and those that make no sense as a tool. Ids, hashes and sizes are
// the caller's to fill in. The error is a [contracts.Error] with [contracts.CodeSourceUnavailable].
func (c *Conn) List(ctx context.Context) (*contracts.Listing, []contracts.SkippedTool, error) {
	ctx, stop := c.bound(ctx)
	defer stop()
	var err error
	for range mostTries {
		var g gathering
		if err = g.gather(c.page(ctx)); err == nil {
			l, skipped := g.listing(c.takes)
			return l, skipped, nil
		}
		if !errors.Is(err, errMixed) {
			break
		}
	}
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return nil, nil, e
	}
	return nil, nil, unavailable("list tools: %w", err)
}

// page returns a function that asks for the page at a cursor.
func (c *Conn) page(ctx context.Context) func(cursor string) (header nats.Header, body []byte, _ error) {
	subject := contracts.PluginListSubject(c.cfg.Tenant, c.cfg.Plugin)
	return func(cursor string) (nats.Header, []byte, error) {
		body, _ := json.Marshal(contracts.PluginListRequest{Protocol: contracts.PluginProtocol, Cursor: cursor})
		ctx, cancel := context.WithTimeout(ctx, pageTimeout)
		defer cancel()
		m, err := c.cfg.Conn.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: body})
		switch {
		case err == nil:
			return m.Header, m.Data, nil
		case errors.Is(err, context.DeadlineExceeded):
			return nil, nil, unavailable("the plugin did not answer in time")
		}
		return nil, nil, unsent(err)
	}
}

// A gathering is a listing as far as its pages are known.
type gathering struct {
	first *contracts.PluginListAnswer
	tools []json.RawMessage
}

// gather asks for all pages.
func (g *gathering) gather(ask func(cursor string) (nats.Header, []byte, error)) error {
	size := 0
	for cursor, n := "", 0; ; n++ {
		header, body, err := ask(cursor)
		if err != nil {
			return err
		}
		p, err := decodePage(header, body)
		if err != nil {
			return err
		}
		switch size += len(body); {
		case size > mostListingBytes:
			return fmt.Errorf("the listing has more than %d MiB", mostListingBytes>>20)
		case g.first == nil:
			g.first = p
		case g.first.Revision != p.Revision:
			return errMixed
		}
		g.tools = append(g.tools, p.Tools...)
		switch {
		case p.NextCursor == "":
			return nil
		case p.NextCursor == cursor || n >= mostPages:
			return errors.New("the pages of the listing have no end")
		case p.Revision == "":
			return errors.New("a listing of several pages needs a revision")
		}
		cursor = p.NextCursor
	}
}

// decodePage reads an answer to a request for a page.
func decodePage(header nats.Header, body []byte) (*contracts.PluginListAnswer, error) {
	var p contracts.PluginListAnswer
	err := json.Unmarshal(body, &p)
	switch code := header.Get(micro.ErrorCodeHeader); {
	case err == nil && p.Error != nil:
		return nil, said(contracts.CodeSourceUnavailable, p.Error)
	case code != "":
		return nil, said(contracts.CodeSourceUnavailable, &contracts.Error{Code: contracts.Code(code), Message: header.Get(micro.ErrorHeader)})
	case err != nil:
		return nil, errors.New("the answer is no list of tools")
	}
	return &p, protocol(p.Protocol)
}

// listing returns what was gathered.
func (g *gathering) listing(takes func(name string) bool) (*contracts.Listing, []contracts.SkippedTool) {
	l := &contracts.Listing{Title: g.first.Title, Instructions: g.first.Instructions, Tools: []contracts.Tool{}}
	var skipped []contracts.SkippedTool
	for _, raw := range g.tools {
		t, skip := mcpform.Tool(raw)
		switch {
		case skip != nil && takes(skip.Name):
			skipped = append(skipped, *skip)
		case skip == nil && takes(t.Name):
			l.Tools = append(l.Tools, *t)
		}
	}
	return l, skipped
}
