package openapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/guard"
)

// load returns the document of the configuration, its version checked.
func (c *Conn) load(ctx context.Context, target Target) (*description, error) {
	l := &loader{conn: c, target: target, left: mostBytes}
	d := &description{all: map[string]*document{}, load: l.other}
	data, base, err := l.first(ctx)
	if err != nil {
		return nil, err
	}
	root, err := parse(data)
	if err != nil {
		return nil, err
	}
	d.main = &document{root: root, base: base}
	d.all[base.String()] = d.main
	d.folder = base.ResolveReference(&url.URL{Path: "./"}).String()
	m, ok := root.(map[string]any)
	if !ok {
		return nil, errors.New("the document is no object; want an OpenAPI 3.0 or 3.1 document")
	}
	version := fmt.Sprint(m["openapi"])
	switch {
	case m["swagger"] != nil:
		return nil, fmt.Errorf("the document is Swagger %s; want OpenAPI 3.0 or 3.1", clip(fmt.Sprint(m["swagger"])))
	case m["openapi"] == nil:
		return nil, errors.New("the document has no key openapi; want an OpenAPI 3.0 or 3.1 document")
	case version != "3" && !strings.HasPrefix(version, "3."):
		return nil, fmt.Errorf("openapi: is %q; want 3.0 or 3.1", clip(version))
	}
	return d, nil
}

// A loader loads the document and those that it refers to.
type loader struct {
	conn   *Conn
	target Target
	base   *url.URL // of the first document
	left   int64    // bytes
}

// first loads the document and returns where it was found.
func (l *loader) first(ctx context.Context) ([]byte, *url.URL, error) {
	if file := l.conn.cfg.File; file != "" {
		l.base = &url.URL{Scheme: "file", Path: filepath.ToSlash(file)}
		data, err := l.readFile(os.Open(file))
		return data, l.base, err
	}
	u, err := url.Parse(l.target.URL)
	if err != nil {
		return nil, nil, errors.New("url: not an http or https URL")
	}
	data, at, err := l.fetch(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	at.RawQuery = "" // which may hold a key
	l.base = at
	return data, at, nil
}

// other loads a document that another refers to: of the same origin, or of the folder of the first.
func (l *loader) other(ctx context.Context, u *url.URL) ([]byte, error) {
	if l.conn.cfg.File == "" {
		if !guard.SameOrigin(l.base, u) {
			return nil, errors.New("the document is of another origin")
		}
		data, _, err := l.fetch(ctx, u)
		return data, err
	}
	if u.Scheme != "file" || u.Host != "" {
		return nil, errors.New("the document is no file beside the first")
	}
	folder := filepath.Dir(l.conn.cfg.File)
	name, err := filepath.Rel(folder, filepath.FromSlash(u.Path))
	if err != nil {
		return nil, errors.New("the document is not in the folder of the first")
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return l.readFile(nil, err)
	}
	defer root.Close()
	return l.readFile(root.Open(name))
}

func (l *loader) readFile(f *os.File, err error) ([]byte, error) {
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = e.Err // whoever sees the source need not know where the file is
		}
		return nil, fmt.Errorf("read the document: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.New("read the document: it is no regular file")
	}
	return l.read(f)
}

// read reads as much as is allowed.
func (l *loader) read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, l.left+1))
	switch l.left -= int64(len(data)); {
	case l.left < 0 || errors.Is(err, guard.ErrTooLarge):
		return nil, fmt.Errorf("the document has more than %d MiB", mostBytes>>20)
	case err != nil:
		return nil, fmt.Errorf("read the document: %w", err)
	}
	return data, nil
}

// fetch gets a document and returns where it was found.
func (l *loader) fetch(ctx context.Context, u *url.URL) ([]byte, *url.URL, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, errors.New("url: not an http or https URL")
	}
	r.Header.Set("Accept", "application/json, application/yaml;q=0.9, */*;q=0.5")
	r.Header.Set("User-Agent", userAgent)
	if first, err := url.Parse(l.target.URL); err == nil && guard.SameOrigin(first, u) {
		for k, v := range l.target.Headers {
			r.Header.Set(k, v)
		}
	}
	resp, err := l.conn.client.Do(r)
	if err != nil {
		return nil, nil, fmt.Errorf("get the document: %s", reason(ctx, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("get the document: the server answered %s", statusOf(resp.StatusCode))
	}
	data, err := l.read(resp.Body)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("get the document: %s", reason(ctx, err))
	}
	at := *resp.Request.URL
	at.Fragment, at.User = "", nil
	return data, &at, err
}

// reason says why a request failed, without its URL, which may hold secrets.
func reason(ctx context.Context, err error) string {
	if r, ok := errors.AsType[*guard.Refusal](err); ok {
		return r.Error()
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return "the server did not answer in time"
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}
