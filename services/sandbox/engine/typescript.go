package engine

import (
	"encoding/json"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// maxStrip is how long stripping the types of a body may take.
const maxStrip = 2 * time.Second

// compileTypeScript strips the types of a body that is no JavaScript, and compiles what is left, which has the same lines. When
// it cannot, the body stays ended, with the error of the parser that got further.
func (r *run) compileTypeScript(failed *Failure) guest.Value {
	code, f := r.strip()
	if f != nil {
		r.failure = further(failed, f)
		return 0
	}
	if r.Visit() {
		r.failure = stopFailure(r.clock.why(), r.body.Timeout)
		return 0
	}
	if code == "" || code == r.body.Code {
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

// strip gives the body without its types, or why that cannot be. It gives neither when the engine could not do it.
func (r *run) strip() (string, *Failure) {
	pool := &r.engine.strippers
	iso, err := pool.get()
	if err != nil {
		return "", nil
	}
	defer pool.put(iso)
	s := &stripper{run: r, until: time.Now().Add(min(r.engine.strip, r.clock.remaining()))}
	iso.SetHost(s)
	iso.Call(iso.Function(guest.FuncStrip), iso.String(r.body.Code))
	return s.code, s.failure
}

// A stripper is the host of an isolate that strips the types of a body.
type stripper struct {
	run     *run
	until   time.Time
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
func (s *stripper) Visit() bool { return s.run.Visit() || time.Now().After(s.until) }

// Now implements guest.Host.
func (s *stripper) Now() int64 { return s.run.now }
