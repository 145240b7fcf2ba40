package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	longestName      = 128 // of a tool, in bytes
	mostInstructions = 64 << 10
	// pageSize is how large a page of the listing is, in bytes of tools; one that is larger itself has a page of its own.
	pageSize = 256 << 10
)

// A tool is one that the plugin has.
type tool struct {
	name   string
	raw    json.RawMessage
	handle Handler
}

// Tool adds a tool, or replaces the one of that name. It can be called at any time, and what it changes is announced. A tool that cannot be is an error, a
// [contracts.Error] with CodeInvalid, which [Plugin.Run] returns too where it has not begun yet.
func (p *Plugin) Tool(t Tool, h Handler) error {
	made, err := newTool(t, h)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return err
	}
	p.tools[made.name], p.pages = made, nil
	p.changed()
	return nil
}

// Remove takes away the tool of that name, and reports whether there was one. Calls of it that run go on.
func (p *Plugin) Remove(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tools[name] == nil {
		return false
	}
	delete(p.tools, name)
	p.pages = nil
	p.changed()
	return true
}

// changed has the tools announced where the plugin runs. The Plugin is locked.
func (p *Plugin) changed() {
	if !p.ran {
		return
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func newTool(t Tool, h Handler) (*tool, error) {
	bad := func(format string, args ...any) (*tool, error) {
		return nil, contracts.Errorf(contracts.CodeInvalid, "tool "+strconv.Quote(t.Name)+": "+format, args...)
	}
	if t.Name == "" || len(t.Name) > longestName || strings.ContainsFunc(t.Name, func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }) {
		return bad("want a name of 1 to %d printable characters", longestName)
	}
	if h == nil {
		return bad("it has no handler")
	}
	for _, s := range []struct {
		name string
		raw  json.RawMessage
	}{{"inputSchema", t.InputSchema}, {"outputSchema", t.OutputSchema}, {"_meta", t.Meta}} {
		var object map[string]json.RawMessage
		if s.raw != nil && (json.Unmarshal(s.raw, &object) != nil || object == nil) {
			return bad("%s is no JSON object", s.name)
		}
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return bad("%w", err)
	}
	if len(raw) > contracts.PluginToolMost {
		return bad("its definition has %d bytes; at most %d are allowed", len(raw), contracts.PluginToolMost)
	}
	return &tool{t.Name, raw, h}, nil
}

// pages is the listing as it is answered, page by page.
type pages struct {
	revision string
	pages    [][]json.RawMessage // at least one
}

// listing returns the pages of the tools of now, sorted by name.
func (p *Plugin) listing() *pages {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pages != nil {
		return p.pages
	}
	all := make([]*tool, 0, len(p.tools))
	for _, t := range p.tools {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *tool) int { return cmp.Compare(a.name, b.name) })
	made := &pages{pages: [][]json.RawMessage{{}}}
	var whole []byte
	size := 0
	for _, t := range all {
		if size > 0 && size+len(t.raw) > pageSize {
			made.pages = append(made.pages, nil)
			size = 0
		}
		last := len(made.pages) - 1
		made.pages[last] = append(made.pages[last], t.raw)
		size += len(t.raw)
		whole = append(append(whole, t.raw...), '\n')
	}
	made.revision = string(contracts.HashOf(whole))[:32]
	p.pages = made
	return made
}

// answerList answers a request for a page. Its cursor is the number of the page, so that every instance with the same tools understands it.
func (p *Plugin) answerList(r micro.Request) {
	var q contracts.PluginListRequest
	if err := json.Unmarshal(r.Data(), &q); err != nil {
		p.refuse(r, contracts.Errorf(contracts.CodeInvalid, "the request is no JSON object of a list request"))
		return
	}
	l := p.listing()
	n := 0
	if q.Cursor != "" {
		var err error
		if n, err = strconv.Atoi(q.Cursor); err != nil || n < 0 {
			p.refuse(r, contracts.Errorf(contracts.CodeInvalid, "cursor %q: want that of the page before", q.Cursor))
			return
		}
	}
	a := contracts.PluginListAnswer{Protocol: contracts.PluginProtocol, Revision: l.revision, Tools: []json.RawMessage{}}
	if n == 0 {
		a.Title, a.Version, a.Instructions = p.cfg.Title, p.cfg.Version, p.cfg.Instructions
	}
	if n < len(l.pages) { // there may be fewer than before: the revision tells
		a.Tools = l.pages[n]
	}
	if n+1 < len(l.pages) {
		a.NextCursor = strconv.Itoa(n + 1)
	}
	data, err := json.Marshal(a)
	if err == nil {
		err = r.Respond(data)
	}
	if err != nil {
		p.cfg.Log.Error("tools not listed", "err", err)
	}
}

// refuse answers a request with an error, while its handler runs.
func (p *Plugin) refuse(r micro.Request, e *contracts.Error) {
	body, _ := json.Marshal(contracts.PluginAnswer{Error: e})
	if err := r.Error(string(e.Code), string(e.Code), body); err != nil {
		p.cfg.Log.Error("request not answered", "subject", r.Subject(), "err", err)
	}
}

// Typed returns a Handler of a function over Go values: In is decoded from the arguments, and Out, a struct or a map for a tool with an output
// schema, is encoded as the result.
func Typed[In, Out any](f func(ctx context.Context, in In) (Out, error)) Handler {
	return func(ctx context.Context, args json.RawMessage) (*contracts.Result, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, contracts.Errorf(contracts.CodeInvalidArgs, "arguments: %w", err)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		if text, ok := any(out).(string); ok {
			return contracts.TextResult(text, nil), nil
		}
		raw, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		var structured json.RawMessage
		if len(raw) > 0 && raw[0] == '{' {
			structured = raw
		}
		return contracts.TextResult(string(raw), structured), nil
	}
}
