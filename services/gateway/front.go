package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	mostBody      = 8 << 20          // bytes of a request's body
	readWithin    = time.Minute      // for the body of a request
	writeWithin   = 20 * time.Second // for the reader to take one write; a slower one is cut off
	headerWithin  = 10 * time.Second
	refusedWithin = 2 * time.Second // for what is left of the body of a request that is refused
	idleWithin    = 2 * time.Minute // between requests of a connection
	mostHeaders   = 64 << 10
)

// A front stands before all routes: it knows who may use which, and bounds what a request may cost.
type front struct {
	mux    *http.ServeMux
	scopes map[string][]string // of each pattern: one of them is needed; none means that everybody may
	keys   *keyring
	// metadata tells clients who gives out tokens; nil where nobody does.
	metadata *metadata
	port     int
	// patience is how long a reader may take for one write.
	patience time.Duration
	log      *slog.Logger
}

func newFront(keys *keyring, addr net.Addr, log *slog.Logger) *front {
	f := &front{mux: http.NewServeMux(), scopes: map[string][]string{}, keys: keys, patience: writeWithin, log: log}
	if tcp, ok := addr.(*net.TCPAddr); ok {
		f.port = tcp.Port
	}
	return f
}

// handle adds a route that needs one of the scopes, none for one that is open to all.
func (f *front) handle(pattern string, scopes []string, h http.Handler) {
	f.scopes[pattern] = scopes
	f.mux.Handle(pattern, h)
}

func (f *front) server(log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: f, ReadHeaderTimeout: headerWithin, IdleTimeout: idleWithin, MaxHeaderBytes: mostHeaders,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, pattern := f.mux.Handler(r)
	ctx := trace.Extract(r.Context(), nats.Header(r.Header))
	ctx, end := trace.Start(ctx, "http "+spanName(r, pattern))
	r = r.WithContext(ctx)
	out := &response{ResponseWriter: w, patience: f.patience}
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			f.log.Error("request panicked", "route", pattern, "panic", p)
			f.fail(out, contracts.Errorf(contracts.CodeInternal, "internal error"))
		} else if p != nil {
			end(nil)
			panic(p)
		}
		end(nil)
	}()
	out.Header().Set("X-Content-Type-Options", "nosniff")
	r, err := f.admit(out, r, pattern)
	if err != nil {
		f.refuse(out, r, pattern, err)
		return
	}
	f.mux.ServeHTTP(out, r)
}

func spanName(r *http.Request, pattern string) string {
	if pattern == "" || strings.Contains(pattern, " ") {
		return pattern
	}
	return r.Method + " " + pattern
}

// admit decides whether a request is handled at all. It returns the request with who makes it, and with its body read.
func (f *front) admit(w *response, r *http.Request, pattern string) (*http.Request, error) {
	if f.keys.open != nil {
		if err := checkLocal(r, f.port); err != nil {
			return r, err
		}
	}
	if pattern == "" {
		return r, f.noRoute(r)
	}
	scopes, known := f.scopes[pattern]
	if !known {
		return r, contracts.Errorf(contracts.CodeForbidden, "nobody may use this route")
	}
	if len(scopes) > 0 {
		who, err := f.keys.authenticate(r, scopes)
		if err != nil {
			return r, err
		}
		r = r.WithContext(withPrincipal(r.Context(), who))
	}
	return r, readBody(w, r)
}

// noRoute tells a wrong method from a wrong path.
func (f *front) noRoute(r *http.Request) error {
	var methods []string
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := f.mux.Handler(other); pattern != "" {
			methods = append(methods, m)
		}
	}
	if len(methods) == 0 {
		return contracts.Errorf(contracts.CodeNotFound, "there is no %s", clip(r.URL.Path))
	}
	e := contracts.Errorf(contracts.CodeInvalid, "%s cannot be used with %s; want %s", clip(r.URL.Path), clip(r.Method), strings.Join(methods, ", "))
	p := newProblem(http.StatusMethodNotAllowed, e, nil)
	p.allow = strings.Join(methods, ", ")
	return p
}

// readBody reads the body of a request into memory, so that its size and the time it takes are bounded in one place.
func readBody(w *response, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	rc := http.NewResponseController(w.ResponseWriter)
	rc.SetReadDeadline(time.Now().Add(readWithin))
	data, err := io.ReadAll(http.MaxBytesReader(w.ResponseWriter, r.Body, mostBody))
	rc.SetReadDeadline(time.Time{})
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return contracts.Errorf(contracts.CodeTooLarge, "the body of the request is larger than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return contracts.Errorf(contracts.CodeInvalid, "the body of the request could not be read: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}

// refuse answers a request that is not handled. A body that was announced is waited for no longer: the answer must not depend on it.
func (f *front) refuse(w *response, r *http.Request, pattern string, err error) {
	http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Now().Add(refusedWithin))
	if c := f.challenge(r, pattern, err); c != "" {
		w.Header().Set("WWW-Authenticate", c)
	}
	writeProblem(w, problemOf(err)) // not logged: whoever has no credential must not fill the log
}

// challenge returns what a caller is told of the credential that is wanted, as RFC 6750 has it; "" where it does not lack one.
func (f *front) challenge(r *http.Request, pattern string, err error) string {
	text, needed := `Bearer realm="toolcrib"`, f.scopes[pattern]
	switch contracts.CodeOf(err) {
	case contracts.CodeUnauthenticated:
		if r.Header.Get("Authorization") != "" {
			text += fmt.Sprintf(`, error="invalid_token", error_description=%q`, contracts.AsError(err).Message)
		}
	case contracts.CodeForbidden:
		if len(needed) == 0 || f.keys.open != nil {
			return ""
		}
		text += `, error="insufficient_scope"`
	default:
		return ""
	}
	if f.metadata != nil {
		text += f.metadata.challenge(r, needed)
	}
	return text
}

// fail answers with a problem, where nothing was answered yet, and logs a fault of ours.
func (f *front) fail(w *response, err error) {
	p := problemOf(err)
	logProblem(f.log, p)
	if !w.begun {
		writeProblem(w, p)
	}
}

// logProblem logs the cause of a fault of ours. What a caller did wrong is told to the caller.
func logProblem(log *slog.Logger, p *problem) {
	if p.Status >= 500 && !errors.Is(p.cause, context.Canceled) {
		log.Error("request failed", "code", p.Code, "detail", p.Detail, "err", p.cause)
	}
}

// A response gives the reader a time to take each write, so that a slow one is cut off.
type response struct {
	http.ResponseWriter
	patience time.Duration
	begun    bool
}

func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	w.begun = true
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.patience))
	return w.ResponseWriter.Write(b)
}

// FlushError sends what was written.
func (w *response) FlushError() error {
	w.begun = true
	rc := http.NewResponseController(w.ResponseWriter)
	rc.SetWriteDeadline(time.Now().Add(w.patience))
	return rc.Flush()
}

// Flush is FlushError for those who know only http.Flusher.
func (w *response) Flush() { w.FlushError() }
