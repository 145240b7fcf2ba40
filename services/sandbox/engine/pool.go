package engine

import (
	"errors"
	"os"
	"sync"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
)

// An isolate is a guest with its age.
type isolate struct {
	*guest.Guest
	runs    int
	refused bool // it could not grow for want of budget
}

// A pool keeps isolates of one image that are as good as new.
type pool struct {
	engine *Engine
	image  *guest.Image
	most   int
	learn  bool // from the next isolate that comes back

	mu   sync.Mutex
	idle []*isolate // the last one was used last, its memory is warm
}

func (p *pool) open(e *Engine, s guest.Snapshot, f *os.File, most int) (err error) {
	p.engine, p.most = e, most
	p.image, err = guest.NewImage(s, f)
	return err
}

// get gives an isolate, made anew if none is there.
func (p *pool) get() (*isolate, error) {
	if i := p.take(); i != nil {
		return i, nil
	}
	i := &isolate{}
	g, err := p.engine.rt.Clone(p.image, func(bytes int64) bool {
		ok := p.engine.reserve(bytes)
		i.refused = i.refused || !ok
		return ok
	})
	if err != nil {
		return nil, err
	}
	i.Guest = g
	return i, nil
}

func (p *pool) take() *isolate {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	i := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	return i
}

// put takes an isolate back if there is room for it and it can be made as good as new, and frees it if not.
func (p *pool) put(i *isolate) {
	i.runs++
	if p.learn {
		i.Learn()
	}
	if i.runs < maxRuns && p.room() && i.Reset() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.idle = append(p.idle, i)
		return
	}
	p.drop(i)
}

// room reports whether another isolate may be kept. Several that come back at once may be a few too many.
func (p *pool) room() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) < p.most
}

// drop frees an isolate. Nothing can be done about an error: the memory is unmapped all the same.
func (p *pool) drop(i *isolate) { _ = i.Close() }

// close frees all.
func (p *pool) close() error {
	var errs []error
	for i := p.take(); i != nil; i = p.take() {
		errs = append(errs, i.Close())
	}
	if p.image != nil {
		errs = append(errs, p.image.Close())
	}
	return errors.Join(errs...)
}
