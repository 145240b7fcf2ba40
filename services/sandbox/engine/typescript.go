package engine

import (
	"encoding/json"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// compileTypeScript strips the types of a body that is no JavaScript, and compiles what is left, which has the same lines. When
// it cannot, the body stays ended, with the error of the parser that got further.
func (r *run) compileTypeScript(failed *Failure) guest.Value {
	code, f := r.strip()
	switch {
	case r.Visit():
		r.failure = stopFailure(r.clock.why(), r.body.Timeout)
		return 0
	case f != nil && f.Code != CodeSyntax:
		r.failure = f
		return 0
	case f != nil:
		r.failure = further(failed, f)
		return 0
	case code == "" || code == r.body.Code:
		return 0
	}
	r.ended, r.failure = false, nil
	if !r.newIsolate() {
		return 0
	}
	fn := r.compile(code)
	if r.ended && r.failure.Code == CodeSyntax {
		r.failure = further(failed, r.failure)
	}
	return fn
}

// strip gives the body without its types, or why that cannot be. It gives neither when the body is too much for the parser. It takes
// of the body's time: when that is over, so is the stripping.
func (r *run) strip() (string, *Failure) {
	pool := &r.engine.strippers
	iso, err := pool.get()
	if err != nil {
		return "", failure(CodeUnavailable, "the sandbox has no isolate to strip types in: %v", err)
	}
	defer pool.put(iso)
	s := &stripper{run: r}
	iso.SetHost(s)
	iso.Call(iso.Function(guest.FuncStrip), iso.String(r.body.Code))
	if iso.refused {
		return "", failure(CodeMemory, "there was no memory left to strip the types of the body")
	}
	return s.code, s.failure
}

// A stripper is the host of an isolate that strips the types of a body.
type stripper struct {
	run     *run
	code    string
	failure *Failure
}

// Send implements guest.Host.
func (s *stripper) Send(op string, _ float64, payload string) (stop bool) {
	switch op {
	case "done":
		_ = json.Unmarshal([]byte(payload), &s.code) // without it the body is no TypeScript
	case "fail":
		if f := readFailure(payload, s.run.body.Code, true); f.Code == CodeSyntax {
			s.failure = f
		}
	}
	return false
}

// Visit implements guest.Host.
func (s *stripper) Visit() bool { return s.run.Visit() }

// Now implements guest.Host.
func (s *stripper) Now() int64 { return s.run.now }
