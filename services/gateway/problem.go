package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolcrib/toolcrib/pkg/client"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A problem is an answer that is an error. It is a huma.StatusError.
type problem struct {
	client.Problem
	cause error  // for the log
	allow string // the methods that can be used, with 405
}

func (p *problem) Error() string                { return string(p.Code) + ": " + p.Detail }
func (p *problem) Unwrap() error                { return p.cause }
func (p *problem) GetStatus() int               { return p.Status }
func (p *problem) ContentType(string) string    { return problemType }
func (p *problem) MarshalJSON() ([]byte, error) { return json.Marshal(p.Problem) }

const problemType = "application/problem+json"

// problemOf is the one place where an error becomes what a caller is told.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	e := contracts.AsError(err)
	return newProblem(contracts.InfoOf(e.Code).HTTP, e, err)
}

func newProblem(status int, e *contracts.Error, cause error) *problem {
	return &problem{cause: cause, Problem: client.Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: e.Message, Code: e.Code, Fields: e.Fields, RetryAfter: e.RetryAfter,
	}}
}

// GetHeaders returns the headers that go with the problem.
func (p *problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfter+999)/1000, 10))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	return h
}

func writeProblem(w http.ResponseWriter, p *problem) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	json.NewEncoder(w).Encode(p)
}

// problemOfHuma turns what huma says of a request that does not fit its schema into a problem.
func problemOfHuma(m *huma.ErrorModel) *problem {
	e := &contracts.Error{Code: contracts.CodeInvalid, Message: m.Detail}
	switch m.Status {
	case http.StatusRequestEntityTooLarge:
		e.Code = contracts.CodeTooLarge
	case http.StatusRequestTimeout:
		e.Code = contracts.CodeTimeout
	case http.StatusInternalServerError:
		e = contracts.AsError(m)
	}
	var told []string
	for _, d := range m.Errors {
		f := contracts.FieldError{Field: pointer(d.Location), Message: d.Message}
		if v := shown(d.Value); v != "" {
			f.Message += ", got " + v
		}
		if !slices.Contains(e.Fields, f) {
			e.Fields = append(e.Fields, f)
			told = append(told, strings.TrimPrefix(strings.TrimPrefix(f.Field, "/")+": ", ": ")+f.Message)
		}
	}
	const most = 5
	if len(told) > most {
		told = append(told[:most], fmt.Sprintf("and %d more", len(told)-most))
	}
	if len(told) > 0 {
		e.Message = strings.Join(told, "; ")
	}
	return newProblem(m.Status, e, m)
}

// pointer returns the JSON pointer for one of huma's locations: /tools/0/name for body.tools[0].name, and /limit for query.limit.
func pointer(location string) string {
	_, rest, ok := strings.Cut(location, ".")
	if !ok {
		return ""
	}
	return "/" + strings.NewReplacer(".", "/", "[", "/", "]", "", "~", "~0", "/", "~1").Replace(rest)
}

// shown returns a short form of a wrong scalar.
func shown(v any) string {
	switch v := v.(type) {
	case string:
		if len(v) <= 80 {
			return strconv.Quote(v)
		}
	case float64, bool, json.Number:
		return fmt.Sprint(v)
	}
	return ""
}
