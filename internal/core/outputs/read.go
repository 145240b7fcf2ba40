package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// modelPage is the most bytes of a page for a model. It stands in the result twice, once as a text in quotes, and must not be cut itself.
	modelPage = 32_000
	// bodyPage is the same for a body, which is given it once.
	bodyPage = 900_000
	// longestPointer bounds paths, in bytes.
	longestPointer = 4096
)

// A whole is a kept result that is open.
type whole struct {
	manifest
	places *spans.Map
}

// asked are the arguments of the tool that reads.
type asked struct {
	Handle string      `json:"handle"`
	Path   *string     `json:"path"`
	Offset json.Number `json:"offset"`
	Limit  json.Number `json:"limit"`
	As     string      `json:"as"`
}

var handleForm = regexp.MustCompile(`^` + handlePrefix + `[a-z2-7]{24}$`)

// Read answers a call of the tool [ReadID] of a run; forBody has the page be one for a body. An error that is [contracts.Final] is for the model, which asked for something
// that there is not.
func (s *Shelf) Read(ctx context.Context, at Place, args json.RawMessage, forBody bool) (*contracts.Result, error) {
	var a asked
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalidArgs, "arguments: %w", err)
	}
	w, err := s.open(ctx, at, a.Handle)
	if err != nil {
		return nil, err
	}
	p := &pager{text: s.text(ctx, at.Tenant, w), page: page{Handle: a.Handle}, room: modelPage}
	if forBody {
		p.room = bodyPage
	}
	if err := p.ask(a, w.Parts); err != nil {
		return nil, err
	}
	b, err := p.read(a.As == "json")
	if err != nil {
		return nil, err
	}
	if forBody {
		return &contracts.Result{Content: []json.RawMessage{}, StructuredContent: b}, nil
	}
	return contracts.TextResult(string(b), b), nil
}

// ask takes path, offset and limit over.
func (p *pager) ask(a asked, cuts []contracts.CutPart) error {
	offset, err := whole64("offset", a.Offset, 0)
	if err != nil {
		return err
	}
	if p.limit, err = whole64("limit", a.Limit, math.MaxInt64); err != nil {
		return err
	}
	if p.limit == 0 {
		return contracts.Errorf(contracts.CodeInvalidArgs, "limit: is 0; want at least 1")
	}
	p.Offset = offset
	switch {
	case a.Path != nil:
		p.Path = *a.Path
	case len(cuts) > 0:
		if p.Path = cuts[0].Path; a.Offset == "" && a.As == "" && cuts[0].Unit != contracts.CutBytes {
			p.Offset = cuts[0].Shown
		}
	}
	if len(p.Path) > longestPointer {
		return contracts.Errorf(contracts.CodeInvalidArgs, `path: has %d bytes, at most %d are allowed; read the value above it with "as":"json"`, len(p.Path), longestPointer)
	}
	return nil
}

// whole64 reads a count.
func whole64(field string, n json.Number, fallback int64) (int64, error) {
	if n == "" {
		return fallback, nil
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f != math.Trunc(f) {
		return 0, contracts.Errorf(contracts.CodeInvalidArgs, "%s: is %s; want a whole number that is not negative", field, names.Cut(n.String(), 40))
	}
	return int64(min(f, 1<<53)), nil
}

// Value returns the JSON of the value at a path of a kept result of the run, of at most most bytes. A larger one is an error with [contracts.CodeTooLarge].
func (s *Shelf) Value(ctx context.Context, at Place, handle, path string, most int64) (json.RawMessage, error) {
	w, err := s.open(ctx, at, handle)
	if err != nil {
		return nil, err
	}
	t := s.text(ctx, at.Tenant, w)
	v, err := t.Find(path)
	if err != nil {
		return nil, notThere(err, path)
	}
	if v.Len() > most {
		return nil, contracts.Errorf(contracts.CodeTooLarge, "the value at %s has %d bytes, at most %d can be taken at once", path, v.Len(), most)
	}
	return t.Read(v.Start, v.End)
}

// open returns the kept result of a handle.
func (s *Shelf) open(ctx context.Context, at Place, handle string) (*whole, error) {
	if !handleForm.MatchString(handle) {
		return nil, contracts.Errorf(contracts.CodeNotFound, "handle: %q is none; want one that a cut result of this run names", names.Cut(names.Text(handle), 80))
	}
	key := wholeKey(at, handle)
	if w, ok := s.wholes.Get(key); ok {
		return w, nil
	}
	w, err := s.load(ctx, at, handle)
	if err == nil {
		s.wholes.Add(key, w)
	}
	return w, err
}

// load reads a kept result once, to know its way in it.
func (s *Shelf) load(ctx context.Context, at Place, handle string) (*whole, error) {
	data, err := s.payloads.GetNamed(ctx, at.Tenant, manifestName(at.Run, handle))
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return nil, contracts.Errorf(contracts.CodeNotFound, "handle: this run has no result of the handle %s, or it is no longer kept", handle)
	}
	if err != nil {
		return nil, err
	}
	w := &whole{}
	if err := json.Unmarshal(data, &w.manifest); err != nil {
		return nil, fmt.Errorf("decode the manifest of %s: %w", handle, err)
	}
	var scan spans.Scanner
	for _, h := range w.Large.Parts {
		part, err := s.payloads.Get(ctx, at.Tenant, h)
		if err != nil {
			return nil, gone(err)
		}
		scan.Write(part)
	}
	w.places = scan.Map()
	return w, nil
}

// gone says of a part that is missing that the result is no longer kept.
func gone(err error) error {
	if contracts.CodeOf(err) == contracts.CodeNotFound {
		return contracts.Errorf(contracts.CodeNotFound, "handle: the result is no longer kept")
	}
	return err
}

// text returns the kept result as a text, for as long as ctx lives.
func (s *Shelf) text(ctx context.Context, t contracts.TenantID, w *whole) *spans.Text {
	return spans.New(&source{ctx, s, t, w.Large}, w.places)
}

// A source gives the bytes of a kept result.
type source struct {
	ctx    context.Context
	shelf  *Shelf
	tenant contracts.TenantID
	large  store.Large
}

// From implements [spans.Source].
func (r *source) From(at int64) ([]byte, error) {
	h, start := r.large.At(at)
	if h == "" {
		return nil, io.EOF
	}
	key := string(r.tenant) + "/" + string(h)
	part, ok := r.shelf.parts.Get(key)
	if !ok {
		var err error
		if part, err = r.shelf.payloads.Get(r.ctx, r.tenant, h); err != nil {
			return nil, gone(err)
		}
		r.shelf.parts.Add(key, part)
	}
	if at-start >= int64(len(part)) {
		return nil, io.EOF
	}
	return part[at-start:], nil
}

// notThere is the error about a path.
func notThere(err error, path string) error {
	if errors.Is(err, spans.ErrNotFound) {
		return contracts.Errorf(contracts.CodeNotFound, "path: the result has nothing at %q", names.Cut(names.Text(path), 200))
	}
	return err
}
