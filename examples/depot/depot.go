// Package depot is an example HTTP service, the warehouse of a small shop, with
// an OpenAPI document of some thirty operations: a realistic source for Toolcrib's demo and
// tests. The data is fictitious and the same in every process, the day stands at 2 March 2026, and the
// state lives in memory.
//
// It knows nothing of Toolcrib, and is no example of how to write a warehouse.
package depot

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

//go:embed openapi.yaml
var document []byte

// Document returns the OpenAPI document of the service, YAML. Its server is relative to where it is found.
func Document() []byte { return slices.Clone(document) }

// base is the path of the API, as the document has it.
const base = "/api/v2"

// today is the day at which the depot's clock stands.
const today = "2026-03-02"

// New returns a depot in its first state: the document at /openapi.yaml, the operations under /api/v2. Where key is not
// empty they answer only requests that carry it in X-Depot-Key, but for the status. Safe for concurrent use.
func New(key string) http.Handler {
	d := &depot{key: key}
	d.fill()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		w.Write(document)
	})
	for pattern, op := range d.operations() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.Handle(method+" "+base+path, d.guarded(path, op))
	}
	return mux
}

// A depot is the state of the service.
type depot struct {
	key string

	mu        sync.Mutex
	items     []*item // by sku
	bins      []*bin  // by name
	moves     []move  // the oldest first
	orders    []*order
	shipments []*shipment
	taken     map[string]string // orders by idempotency key
	reads     int
	changes   int
}

// An operation answers a request with a status and a value, which becomes JSON, or an error, which is a problem.
// The depot is locked.
type operation func(w http.ResponseWriter, r *http.Request) (status int, answer any, err error)

func (d *depot) operations() map[string]operation {
	return map[string]operation{
		"GET /items":                          d.listItems,
		"POST /items":                         d.createItem,
		"GET /items/{sku}":                    d.getItem,
		"PATCH /items/{sku}":                  d.updateItem,
		"DELETE /items/{sku}":                 d.deleteItem,
		"GET /items/{sku}/photo":              d.itemPhoto,
		"GET /items/{sku}/notes":              d.getNotes,
		"PUT /items/{sku}/notes":              d.setNotes,
		"GET /categories":                     d.categoryTree,
		"POST /imports":                       d.importItems,
		"GET /bins":                           d.listBins,
		"GET /bins/{bin}":                     d.getBin,
		"PUT /bins/{bin}/capacity":            d.setCapacity,
		"GET /routes/{stops}":                 d.walkingRoute,
		"GET /zones":                          d.zones,
		"GET /stock":                          d.listStock,
		"GET /stock/moves":                    d.listMoves,
		"POST /stock/moves":                   d.moveStock,
		"POST /stock/counts":                  d.countStock,
		"GET /orders":                         d.listOrders,
		"POST /orders":                        d.createOrder,
		"GET /orders/{order}":                 d.getOrder,
		"POST /orders/{order}/cancel":         d.cancelOrder,
		"DELETE /orders/{order}/lines/{line}": d.deleteOrderLine,
		"POST /orders/{order}/pick":           d.pickOrder,
		"POST /shipments":                     d.createShipment,
		"GET /shipments/{shipment}":           d.getShipment,
		"GET /shipments/{shipment}/label":     d.shipmentLabel,
		"GET /carriers/{carrier}/quote":       d.shippingQuote,
		"GET /reports/inventory":              d.inventoryReport,
		"GET /reports/turnover":               d.turnoverReport,
		"GET /reports/full":                   d.fullReport,
		"GET /status":                         d.status,
		"POST /drills/{status}":               d.fireDrill,
	}
}

// mostBody bounds what a request may send, in bytes.
const mostBody = 1 << 20

// guarded checks the key, counts, and writes what op answers.
func (d *depot) guarded(path string, op operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.key != "" && path != "/status" && r.Header.Get("X-Depot-Key") != d.key {
			write(w, http.StatusUnauthorized, problemf(http.StatusUnauthorized, "X-Depot-Key is missing or wrong"))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		if path == "/drills/{status}" && !pause(r) {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		status, answer, err := op(w, r)
		p, failed := errors.AsType[*problem](err)
		switch {
		case failed:
			write(w, p.Status, p)
			return
		case err != nil:
			write(w, http.StatusBadRequest, problemf(http.StatusBadRequest, "%v", err))
			return
		case r.Method == http.MethodGet:
			d.reads++
		default:
			d.changes++
		}
		write(w, status, answer)
	})
}

// A raw answer is written as it is.
type raw struct {
	media string
	body  []byte
}

func write(w http.ResponseWriter, status int, answer any) {
	b, isRaw := answer.(raw)
	switch answer.(type) {
	case nil:
		w.WriteHeader(status)
		return
	case raw:
	case *problem:
		b.media = "application/problem+json"
	default:
		b.media = "application/json"
	}
	if !isRaw {
		b.body, _ = json.Marshal(answer)
	}
	w.Header().Set("Content-Type", b.media)
	w.WriteHeader(status)
	w.Write(b.body)
}

// A problem is an error as RFC 9457 has it.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// Error returns the detail.
func (p *problem) Error() string { return p.Detail }

func problemf(status int, format string, args ...any) *problem {
	return &problem{http.StatusText(status), status, fmt.Sprintf(format, args...)}
}

func missing(what, name string) error {
	return problemf(http.StatusNotFound, "there is no %s %q", what, name)
}

// read reads a JSON body.
func read(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return problemf(http.StatusBadRequest, "the body: %v", err)
	}
	return nil
}

// page returns the part of n entries that the request asks for, and the cursor of the next, nil for the last.
func page(r *http.Request, n int) (from, to int, next *string, err error) {
	q := r.URL.Query()
	size := 10
	if s := q.Get("limit"); s != "" {
		if size, err = strconv.Atoi(s); err != nil || size < 1 || size > 100 {
			return 0, 0, nil, problemf(http.StatusBadRequest, "limit is %q; want 1 to 100", s)
		}
	}
	if s := q.Get("cursor"); s != "" {
		if from, err = strconv.Atoi(strings.TrimPrefix(s, "c")); err != nil || from < 0 || from > n {
			return 0, 0, nil, problemf(http.StatusBadRequest, "cursor is %q, which no page had", s)
		}
	}
	if to = min(from+size, n); to < n {
		c := "c" + strconv.Itoa(to)
		next = &c
	}
	return from, to, next, nil
}

// nextLink returns a Link header for the page that begins at next.
func nextLink(r *http.Request, next string) string {
	q := r.URL.Query()
	q.Set("cursor", next)
	u := url.URL{Path: r.URL.Path, RawQuery: q.Encode()}
	return "<" + u.String() + `>; rel="next"`
}

// pause waits as long as a drill asks for; it returns false where the caller went away.
func pause(r *http.Request) bool {
	ms, _ := strconv.Atoi(r.URL.Query().Get("delayMs"))
	select {
	case <-time.After(time.Duration(min(ms, 60_000)) * time.Millisecond):
		return true
	case <-r.Context().Done():
		return false
	}
}
