// Package catalogue loads the frozen catalogue of a run and finds tools in it by
// whatever name a caller uses. It decides nothing: what a run may see was decided when the catalogue was made.
package catalogue

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// How many listings and catalogues a Library keeps in memory.
const (
	keptListings   = 512
	keptCatalogues = 256
)

// A Library loads catalogues and their listings from the object store and keeps
// the latest in memory, shared by all runs of a tenant. Safe for concurrent use.
type Library struct {
	listings   *store.Blobs
	catalogues *store.Blobs
	shelf      *lru.Cache[string, *Listing]
	bound      *lru.Cache[string, *Catalogue]
}

// Open returns a Library over the stores of the bus.
func Open(ctx context.Context, b *bus.Bus) (*Library, error) {
	listings, err := store.OpenBlobs(ctx, b, contracts.StoreListings)
	if err != nil {
		return nil, err
	}
	catalogues, err := store.OpenBlobs(ctx, b, contracts.StoreCatalogues)
	if err != nil {
		return nil, err
	}
	shelf, _ := lru.New[string, *Listing](keptListings)
	bound, _ := lru.New[string, *Catalogue](keptCatalogues)
	return &Library{listings, catalogues, shelf, bound}, nil
}

// A Listing is a loaded listing. It is shared and must not be changed.
type Listing struct {
	*contracts.Listing
	Hash contracts.Hash
	// names finds positions in Tools by exposed and plain names, each exact and in lower case.
	names func() map[string][]int
}

func newListing(l *contracts.Listing, h contracts.Hash) *Listing {
	return &Listing{Listing: l, Hash: h, names: sync.OnceValue(func() map[string][]int {
		m := make(map[string][]int, 4*len(l.Tools))
		for i := range l.Tools {
			id, name := l.Tools[i].ID, l.Tools[i].Name
			forms := []string{name, names.Exposed(id, false), names.Exposed(id, true)}
			for _, f := range forms {
				forms = append(forms, strings.ToLower(f))
			}
			slices.Sort(forms)
			for _, f := range slices.Compact(forms) {
				m[f] = append(m[f], i)
			}
		}
		return m
	})}
}

// PutListing stores a listing, whose tools must be sorted by the bytes of their ids, and returns its hash.
func (l *Library) PutListing(ctx context.Context, t contracts.TenantID, listing *contracts.Listing) (contracts.Hash, error) {
	return put(ctx, l.listings, t, listing)
}

// PutCatalogue stores a catalogue and returns its hash.
func (l *Library) PutCatalogue(ctx context.Context, t contracts.TenantID, c *contracts.Catalogue) (contracts.Hash, error) {
	return put(ctx, l.catalogues, t, c)
}

// PutSurface stores a surface and returns its hash.
func (l *Library) PutSurface(ctx context.Context, t contracts.TenantID, s *contracts.Surface) (contracts.Hash, error) {
	return put(ctx, l.catalogues, t, s)
}

// PutLayers stores policy layers and returns their hash.
func (l *Library) PutLayers(ctx context.Context, t contracts.TenantID, layers []contracts.PolicyLayer) (contracts.Hash, error) {
	return put(ctx, l.catalogues, t, layers)
}

// PutAdmissions stores what there is to say of the tools of a source and returns its hash.
func (l *Library) PutAdmissions(ctx context.Context, t contracts.TenantID, a contracts.Admissions) (contracts.Hash, error) {
	return put(ctx, l.listings, t, a)
}

// Admissions returns what [Library.PutAdmissions] stored.
func (l *Library) Admissions(ctx context.Context, t contracts.TenantID, h contracts.Hash) (contracts.Admissions, error) {
	return load[contracts.Admissions](ctx, l.listings, t, h)
}

func put(ctx context.Context, s *store.Blobs, t contracts.TenantID, v any) (contracts.Hash, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return s.Put(ctx, t, data)
}

func load[V any](ctx context.Context, s *store.Blobs, t contracts.TenantID, h contracts.Hash) (V, error) {
	var v V
	data, err := s.Get(ctx, t, h)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("decode %T %s: %w", v, h, err)
	}
	return v, nil
}

// Surface returns a stored surface.
func (l *Library) Surface(ctx context.Context, t contracts.TenantID, h contracts.Hash) (*contracts.Surface, error) {
	return load[*contracts.Surface](ctx, l.catalogues, t, h)
}

// Layers returns stored policy layers.
func (l *Library) Layers(ctx context.Context, t contracts.TenantID, h contracts.Hash) ([]contracts.PolicyLayer, error) {
	return load[[]contracts.PolicyLayer](ctx, l.catalogues, t, h)
}

// Listing returns the listing of hash h of tenant t.
func (l *Library) Listing(ctx context.Context, t contracts.TenantID, h contracts.Hash) (*Listing, error) {
	key := string(t) + "/" + string(h)
	if x, ok := l.shelf.Get(key); ok {
		return x, nil
	}
	raw, err := load[*contracts.Listing](ctx, l.listings, t, h)
	if err != nil {
		return nil, err
	}
	x := newListing(raw, h)
	l.shelf.Add(key, x)
	return x, nil
}

// Catalogue returns the catalogue of hash h of tenant t with its listings loaded.
func (l *Library) Catalogue(ctx context.Context, t contracts.TenantID, h contracts.Hash) (*Catalogue, error) {
	key := string(t) + "/" + string(h)
	if c, ok := l.bound.Get(key); ok {
		return c, nil
	}
	raw, err := load[*contracts.Catalogue](ctx, l.catalogues, t, h)
	if err != nil {
		return nil, err
	}
	c := &Catalogue{Hash: h, Withdrawn: raw.Withdrawn}
	for _, cl := range raw.Listings {
		listing, err := l.Listing(ctx, t, cl.Listing)
		if err != nil {
			return nil, fmt.Errorf("load the listing of %s: %w", cl.Source, err)
		}
		c.Parts = append(c.Parts, Part{listing, cl.Hidden})
	}
	l.bound.Add(key, c)
	return c, nil
}

// A Part is a listing and the ascending positions of its tools that the run may not see.
type Part struct {
	*Listing
	Hidden []int
}

func (p *Part) hides(i int) bool {
	_, hidden := slices.BinarySearch(p.Hidden, i)
	return hidden
}

// A Catalogue is what one revision of a run may see. It is shared and must not be changed.
type Catalogue struct {
	Hash      contracts.Hash
	Parts     []Part // sorted by source
	Withdrawn map[contracts.ToolID]contracts.Withdrawal
}

// An Entry is a tool with the listing it comes from.
type Entry struct {
	*contracts.Tool
	Listing *Listing
}

// Ref returns the reference to the tool that outcomes carry.
func (e Entry) Ref() *contracts.ToolRef {
	return &contracts.ToolRef{ID: e.ID, Name: e.Name, Source: e.Listing.Source.Kind, Hash: e.Hash}
}

// All yields every tool that the run may see, in the order of their ids.
func (c *Catalogue) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for i := range c.Parts {
			p := &c.Parts[i]
			for j := range p.Tools {
				if !p.hides(j) && !yield(Entry{&p.Tools[j], p.Listing}) {
					return
				}
			}
		}
	}
}

// Size returns the number of tools that the run may see.
func (c *Catalogue) Size() int {
	n := 0
	for _, p := range c.Parts {
		n += len(p.Tools) - len(p.Hidden)
	}
	return n
}

// Resolve finds the tool that a caller means: by id, exposed name, owner.name, owner__name,
// mcp__owner__name, or a bare name; exact first and then without regard to case.
// An unknown name is an error with [contracts.CodeUnknownTool] and up to 3
// suggestions, one that several tools have an error with [contracts.CodeAmbiguousTool] that lists the ids.
func (c *Catalogue) Resolve(name string) (Entry, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return Entry{}, contracts.Errorf(contracts.CodeInvalid, "id: empty; want a tool's id, such as the id of a search hit")
	}
	for _, want := range []string{name, strings.ToLower(name)} {
		for _, find := range []func(string) []Entry{c.byID, c.byOwnerAndName, c.byName} {
			switch found := find(want); {
			case len(found) == 1:
				return found[0], nil
			case len(found) > 1:
				return Entry{}, ambiguous(name, found)
			}
		}
	}
	return Entry{}, c.unknown(name)
}

func ambiguous(name string, found []Entry) error {
	const most = 8
	ids := make([]string, 0, most)
	for _, e := range found[:min(len(found), most)] {
		ids = append(ids, string(e.ID))
	}
	return contracts.Errorf(contracts.CodeAmbiguousTool, "several tools have the name %q; use one of these ids: %s", names.Cut(names.Text(name), 80), strings.Join(ids, ", "))
}

func (c *Catalogue) unknown(name string) error {
	shown := names.Cut(names.Text(name), 80)
	near := c.Suggest(name)
	if len(near) == 0 {
		return contracts.Errorf(contracts.CodeUnknownTool, "there is no tool %q; search for one", shown)
	}
	return contracts.Errorf(contracts.CodeUnknownTool, "there is no tool %q; did you mean %s?", shown, strings.Join(near, ", "))
}

// Suggest returns up to 3 ids whose names are near a wrong one.
func (c *Catalogue) Suggest(name string) []string {
	var known []string
	for e := range c.All() {
		known = append(known, string(e.ID))
	}
	return names.Suggest(name, known, 3)
}

// MayCome returns the sources that are still pending and could bring the tool that
// a caller means by a name that [Catalogue.Resolve] does not know; none where none could.
func MayCome(name string, pending []contracts.SourceStatus) (from []contracts.SourceID) {
	source, _, err := contracts.ToolID(strings.ToLower(strings.TrimSpace(name))).Split()
	for _, p := range pending {
		if err != nil || p.Source == source {
			from = append(from, p.Source)
		}
	}
	return from
}

// StillPending returns the error of a name that is not known, with the sources that could bring it still.
func StillPending(err error, from []contracts.SourceID) error {
	e := contracts.AsError(err)
	if len(from) == 0 || e.Code != contracts.CodeUnknownTool {
		return err
	}
	ids := make([]string, 0, len(from))
	for _, s := range from {
		ids = append(ids, s.String())
	}
	c := *e
	c.Message += " (still being discovered: " + strings.Join(ids, ", ") + ")"
	return &c
}

func (c *Catalogue) byID(want string) []Entry {
	source, _, err := contracts.ToolID(want).Split()
	if err != nil {
		return nil
	}
	p := c.part(source)
	if p == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(p.Tools, contracts.ToolID(want), func(t contracts.Tool, id contracts.ToolID) int { return cmp.Compare(t.ID, id) })
	if ok && !p.hides(i) {
		return []Entry{{&p.Tools[i], p.Listing}}
	}
	// The name part may be written in another case.
	_, name, _ := contracts.ToolID(want).Split()
	return p.named(strings.ToLower(name))
}

func (c *Catalogue) part(s contracts.SourceID) *Part {
	for i := range c.Parts {
		if c.Parts[i].Source == s {
			return &c.Parts[i]
		}
	}
	return nil
}

// byOwnerAndName takes owner.name, owner__name and mcp__owner__name.
func (c *Catalogue) byOwnerAndName(want string) (found []Entry) {
	for i := range c.Parts {
		p := &c.Parts[i]
		rest, ok := strings.CutPrefix(want, string(p.Source.Kind)+"__"+p.Source.Owner+"__")
		if !ok {
			rest, ok = strings.CutPrefix(want, p.Source.Owner+"__")
		}
		if !ok {
			rest, ok = strings.CutPrefix(want, p.Source.Owner+".")
		}
		if ok {
			found = append(found, p.named(rest)...)
		}
	}
	return found
}

func (c *Catalogue) byName(want string) (found []Entry) {
	for i := range c.Parts {
		found = append(found, c.Parts[i].named(want)...)
	}
	return found
}

// named returns the visible tools of the part that have the name, exactly written before others.
func (p *Part) named(want string) (found []Entry) {
	for _, i := range p.names()[want] {
		if !p.hides(i) {
			found = append(found, Entry{&p.Tools[i], p.Listing})
		}
	}
	if len(found) > 1 {
		for _, e := range found {
			if e.Name == want {
				return []Entry{e}
			}
		}
	}
	return found
}
