package outputs

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolcrib/toolcrib/internal/core/cut"
	"github.com/toolcrib/toolcrib/internal/core/names"
	"github.com/toolcrib/toolcrib/internal/core/schema"
	"github.com/toolcrib/toolcrib/internal/core/spans"
	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// mostKept is the bytes of a whole result that is kept, as JSON.
	mostKept = 64 << 20
	// keepWithin bounds how long that takes.
	keepWithin = time.Minute
	// mostValidated is the bytes of structured content up to which it is held against its schema: it is decoded for that, into many times as much.
	mostValidated = 8 << 20

	keptSchemas = 500
	keptWholes  = 64 // their places, not their bytes
	keptParts   = 16 // of 1 MiB
)

// A Shelf keeps whole results, each for one run, and gives them in pages. Safe for concurrent use.
type Shelf struct {
	payloads *store.Blobs
	schemas  *schema.Cache
	wholes   *lru.Cache[string, *whole] // by tenant, run and handle
	parts    *lru.Cache[string, []byte] // by tenant and hash
	log      *slog.Logger
}

// Open returns a Shelf over the stores of the bus.
func Open(ctx context.Context, b *bus.Bus) (*Shelf, error) {
	p, err := store.OpenBlobs(ctx, b, contracts.StorePayloads)
	if err != nil {
		return nil, err
	}
	wholes, _ := lru.New[string, *whole](keptWholes)
	parts, _ := lru.New[string, []byte](keptParts)
	return &Shelf{p, schema.NewCache(keptSchemas), wholes, parts, b.Log()}, nil
}

// A Place is where a result belongs.
type Place struct {
	Tenant contracts.TenantID
	Run    contracts.RunID
	// Unreadable says that policy denies the run the tool [ReadID]: then nothing is kept, and nothing named.
	Unreadable bool
}

// Outcome returns how a call ended that its tool answered with r: held against the tool's output schema, and within the budget.
func (s *Shelf) Outcome(ctx context.Context, at Place, t *contracts.Tool, b Budget, r *contracts.Result) contracts.Outcome {
	o := contracts.Outcome{Status: contracts.StatusOK}
	wrong := s.wrong(t, r)
	o.Result = s.Keep(ctx, at, b, r)
	switch {
	case r.IsError:
		o.Status, o.SideEffects = contracts.StatusError, contracts.SideEffectsDone
		o.Error = contracts.Errorf(contracts.CodeToolError, "%s", says(o.Result))
	case wrong != "":
		o.Status, o.SideEffects = contracts.StatusError, contracts.SideEffectsDone
		o.Error = contracts.Errorf(contracts.CodeInvalidOutput, "the tool answered, but not as its output schema says: %s", wrong)
	}
	return o
}

// wrong says what of a result is against the tool's output schema, "" for nothing. Of very large ones that is not found out, and pages are made here.
func (s *Shelf) wrong(t *contracts.Tool, r *contracts.Result) string {
	if len(t.OutputSchema) == 0 || t.ID == ReadID || r.IsError || len(r.StructuredContent) > mostValidated {
		return ""
	}
	if len(r.StructuredContent) == 0 {
		return "structuredContent is missing"
	}
	v, err := s.schemas.For(t.Hash, t.OutputSchema)
	if err != nil {
		return "" // not the answer's fault; listings hold only schemas that can be used
	}
	fields := v.ValidateOutput(r.StructuredContent)
	if len(fields) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s", fields[0].Field, fields[0].Message)
}

// says returns the beginning of what a failed tool says.
func says(r *contracts.Result) string {
	const most = 300
	for _, b := range r.Content {
		var block struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if json.Unmarshal(b, &block) == nil && block.Type == "text" && block.Text != "" {
			return "the tool failed and says: " + names.Cut(names.Text(block.Text), most)
		}
	}
	return "the tool said that it failed"
}

// Keep returns r within the budget, clean, and says in it what was cut and how to read on. What was cut is stored, up to 64 MiB; that it could not
// be is said too, and no error: the result itself is not lost. A More of r, which a source may have sent, is dropped. r is not changed.
func (s *Shelf) Keep(ctx context.Context, at Place, b Budget, r *contracts.Result) *contracts.Result {
	clean := *r
	clean.More = nil
	clean.StructuredContent = spans.Clean(r.StructuredContent)
	clean.Content = make([]json.RawMessage, len(r.Content))
	for i := range r.Content {
		clean.Content[i] = spans.Clean(r.Content[i])
	}
	out, parts := b.Fit(&clean)
	if !parts.Any() {
		return out
	}
	size := wholeSize(&clean)
	kept, why := s.store(ctx, at, &clean, size, parts)
	out.More = kept
	told := note{what: parts, size: size, more: kept, why: why}
	out.Truncated = strings.TrimPrefix(r.Truncated+"; "+told.text(true), "; ")
	out.Content = append(out.Content[:len(out.Content):len(out.Content)], told.block(b.noteRoom()))
	return out
}

// store stores the whole of a result, or says why it is not kept.
func (s *Shelf) store(ctx context.Context, at Place, r *contracts.Result, size int64, parts cut.Parts) (*contracts.More, string) {
	switch {
	case at.Unreadable:
		return nil, "the rest is not kept"
	case size > mostKept:
		return nil, fmt.Sprintf("the rest is not kept, since that is more than %d MiB: ask the tool for less", mostKept>>20)
	}
	// The tool has answered: what becomes of its answer is not a matter of the call's time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepWithin)
	defer cancel()
	handle, err := s.put(ctx, at, r, parts)
	if err != nil {
		s.log.Error("result not kept", "tenant", string(at.Tenant), "run", string(at.Run), "bytes", size, "err", err)
		return nil, "the rest could not be kept"
	}
	list := append([]contracts.CutPart{}, parts.List...) // never null
	return &contracts.More{Handle: handle, Bytes: size, Parts: list, Others: parts.Others}, ""
}

// A manifest is what stands under a handle. It is read by later versions: fields are only added.
type manifest struct {
	Large store.Large         `json:"large"`
	Parts []contracts.CutPart `json:"parts"` // where reading begins
}

func (s *Shelf) put(ctx context.Context, at Place, r *contracts.Result, parts cut.Parts) (string, error) {
	var scan spans.Scanner
	large, err := s.payloads.PutLarge(ctx, at.Tenant, io.TeeReader(wholeText(r), &scan), mostKept)
	if err != nil {
		return "", err
	}
	handle := handleOf(at.Run, large)
	w := &whole{manifest{large, parts.List}, scan.Map()}
	data, err := json.Marshal(w.manifest)
	if err != nil {
		return "", fmt.Errorf("encode the manifest of %s: %w", handle, err)
	}
	if err := s.payloads.PutNamed(ctx, at.Tenant, manifestName(at.Run, handle), data); err != nil {
		return "", err
	}
	s.wholes.Add(wholeKey(at, handle), w) // to be read soon, as a rule
	return handle, nil
}

// wholeKey is where the place of a whole result is remembered.
func wholeKey(at Place, handle string) string {
	return string(at.Tenant) + "/" + manifestName(at.Run, handle)
}

// manifestName has the run in it: a handle is good for its own run only.
func manifestName(r contracts.RunID, handle string) string { return string(r) + "/" + handle }

// handleOf returns the handle of a whole result, the same for the same in one run.
func handleOf(r contracts.RunID, l store.Large) string {
	h := sha256.New()
	io.WriteString(h, string(r))
	for _, p := range l.Parts {
		io.WriteString(h, "/"+string(p))
	}
	return handlePrefix + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:handleBytes]))
}

const (
	handlePrefix = "out_"
	handleBytes  = 15
)

// wholeText gives a result as the JSON that is kept of it.
func wholeText(r *contracts.Result) io.Reader {
	list := []io.Reader{strings.NewReader(`{"content":[`)}
	for i, b := range r.Content {
		if i > 0 {
			list = append(list, strings.NewReader(","))
		}
		list = append(list, readerOf(b))
	}
	list = append(list, strings.NewReader(`]`))
	if len(r.StructuredContent) > 0 {
		list = append(list, strings.NewReader(`,"structuredContent":`), readerOf(r.StructuredContent))
	}
	return io.MultiReader(append(list, strings.NewReader(`}`))...)
}

// wholeSize returns the bytes that wholeText gives.
func wholeSize(r *contracts.Result) int64 {
	n := len(`{"content":[]}`) + max(0, len(r.Content)-1)
	for _, b := range r.Content {
		n += len(b)
	}
	if len(r.StructuredContent) > 0 {
		n += len(`,"structuredContent":`) + len(r.StructuredContent)
	}
	return int64(n)
}
