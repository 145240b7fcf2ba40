package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/guard"
)

// address finds out where an operation is sent, and whether credentials may go there.
func (b *builder) address(o *operation, bind *binding) error {
	if b.target.Server != "" {
		return nil
	}
	server, err := b.server(o)
	if err != nil {
		return err
	}
	if (len(bind.Auth) > 0 || len(b.target.Headers) > 0) && !b.conn.trusts(b.target, server) {
		return fmt.Errorf("it is sent to %s://%s, which the configuration does not name and which gets no credentials of it; set server", server.Scheme, server.Host)
	}
	bind.Server = server.String()
	return nil
}

// trusts reports whether credentials may be sent to a server that the document names: the operator
// chose the document's own origin, or has the document as a file.
func (c *Conn) trusts(target Target, server *url.URL) bool {
	if c.cfg.File != "" {
		return true
	}
	from, err := url.Parse(target.URL)
	return err == nil && guard.SameOrigin(from, server)
}

// server returns the first server that the document has for an operation, whole.
func (b *builder) server(o *operation) (*url.URL, error) {
	at := place{doc: o.item.doc, value: map[string]any{"url": "/"}}
	for _, p := range []place{o.at, o.item, b.root} {
		if list := p.child("servers"); len(list.list()) > 0 {
			at = list.item(0)
			break
		}
	}
	text, err := b.variables(at)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("server %q: it is no URL", clip(text))
	}
	u = at.doc.base.ResolveReference(u)
	switch {
	case u.Scheme == "file":
		return nil, fmt.Errorf("server %q: it is relative, and the document is a file; set server", clip(text))
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("server %q: it is no http or https URL", clip(text))
	case u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("server %q: it has a query or a user; set server", clip(u.Redacted()))
	}
	u.Fragment = ""
	return u, nil
}

// variables returns the URL of the server at p with the values of its variables.
func (b *builder) variables(p place) (string, error) {
	rest := p.text("url")
	if rest == "" {
		return "", errors.New("a server has no url")
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(rest, "{")
		out.WriteString(before)
		name, tail, closed := strings.Cut(after, "}")
		if !found || !closed {
			out.WriteString(rest[len(before):])
			return out.String(), nil
		}
		v := p.child("variables").child(name)
		value, given := b.conn.cfg.Variables[name]
		if !given {
			value = v.text("default")
			if _, ok := v.object()["default"]; !ok {
				return "", fmt.Errorf("server %q: its variable %s has no default; set it in variables, or set server", clip(p.text("url")), clip(name))
			}
		}
		allowed := v.child("enum")
		if given && len(allowed.list()) > 0 && !slices.Contains(allowed.list(), any(value)) {
			return "", fmt.Errorf("variables: %s is %q, which server %q does not have", clip(name), clip(value), clip(p.text("url")))
		}
		out.WriteString(value)
		rest = tail
	}
}
