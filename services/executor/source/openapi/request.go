package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const userAgent = "toolcrib/1"

// wrong is the error for an argument that cannot be sent; nothing was sent.
func wrong(arg, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	e := contracts.Errorf(contracts.CodeInvalidArgs, "%s: %s", clip(arg), message)
	e.Fields = []contracts.FieldError{{Field: "/" + escape(arg), Message: message}}
	return e
}

// A call is one call of an operation.
type call struct {
	binding
	args map[string]json.RawMessage
}

// newCall reads binding and arguments.
func newCall(bind, args json.RawMessage) (*call, error) {
	c := &call{}
	if err := json.Unmarshal(bind, &c.binding); err != nil || c.Method == "" {
		return nil, unavailable("the tool does not say how it is called")
	}
	if err := json.Unmarshal(args, &c.args); err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalidArgs, "the arguments are no JSON object")
	}
	return c, nil
}

// decode returns an argument, nil for one that is absent.
func (c *call) decode(arg string) (any, error) {
	raw, ok := c.args[arg]
	if !ok {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, wrong(arg, "it is no JSON")
	}
	return v, nil
}

// request makes the request of a call to server, with everything but the credentials.
func (c *call) request(ctx context.Context, server *url.URL) (*http.Request, error) {
	path := c.Path
	var query []string
	if before, after, found := strings.Cut(path, "?"); found { // which no path should have
		path, query = before, []string{after}
	}
	r, err := http.NewRequestWithContext(ctx, c.Method, server.String(), nil)
	if err != nil {
		return nil, unavailable("the request cannot be made")
	}
	inPath := map[string]string{}
	for _, p := range c.Params {
		raw, err := c.decode(p.Arg)
		if err != nil {
			return nil, err
		}
		if p.JSON && raw != nil {
			raw = string(encode(raw))
		}
		v, ok := valueOf(raw)
		if !ok {
			continue
		}
		switch p.In {
		case "path":
			inPath[p.Name] = p.path(v)
		case "query":
			esc := escapeAll
			if p.Reserved {
				esc = escapeReserved
			}
			query = append(query, p.query(v, escapeAll, esc)...)
		case "header":
			text, err := p.header(v)
			if err != nil {
				return nil, wrong(p.Arg, "%v", err)
			}
			r.Header.Set(p.Name, text)
		case "cookie":
			for _, part := range p.query(v, asIs, escapeAll) {
				name, text, _ := strings.Cut(part, "=")
				addCookie(r, name, text)
			}
		}
	}
	if err := c.setURL(r.URL, path, inPath, query); err != nil {
		return nil, err
	}
	if len(c.Accept) > 0 {
		r.Header.Set("Accept", strings.Join(c.Accept, ", "))
	} else {
		r.Header.Set("Accept", "*/*")
	}
	r.Header.Set("User-Agent", userAgent)
	return r, c.setBody(r)
}

// setURL fills the path in and adds it and the query to u, that of the server.
func (c *call) setURL(u *url.URL, template string, values map[string]string, query []string) error {
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(u.EscapedPath(), "/"))
	for segment := range strings.SplitSeq(strings.TrimPrefix(template, "/"), "/") {
		b.WriteByte('/')
		text, filled, err := c.segment(segment, values)
		if err != nil {
			return err
		}
		if filled != "" && (text == "." || text == ".." || text == "") {
			return wrong(filled, "it would make the path segment %q, which means another path", text)
		}
		b.WriteString(text)
	}
	path, err := url.PathUnescape(b.String())
	if err != nil {
		return unavailable("the path of the operation is no path")
	}
	u.Path, u.RawPath = path, b.String()
	u.RawQuery = strings.Join(query, "&")
	return nil
}

// segment fills one segment of the path in; filled is an argument that it is made of.
func (c *call) segment(template string, values map[string]string) (text, filled string, err error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(template, "{")
		name, tail, closed := strings.Cut(after, "}")
		if !found || !closed {
			b.WriteString(escapeBut(template, unreserved+"!$&'()*+,;=:@%"))
			return b.String(), filled, nil
		}
		b.WriteString(escapeBut(before, unreserved+"!$&'()*+,;=:@%"))
		filled = name
		for _, p := range c.Params {
			if p.In == "path" && p.Name == name {
				filled = p.Arg
			}
		}
		v, ok := values[name]
		if !ok {
			return "", "", wrong(filled, "it is needed for the path")
		}
		b.WriteString(v)
		template = tail
	}
}

// setBody adds the body.
func (c *call) setBody(r *http.Request) error {
	if c.Body == nil {
		return nil
	}
	data, media, err := c.encodeBody()
	if err != nil || data == nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	r.ContentLength = int64(len(data))
	if len(data) == 0 {
		r.Body = http.NoBody
	}
	r.Header.Set("Content-Type", media)
	return nil
}
