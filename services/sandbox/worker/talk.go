package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// patience is how long a body's caller waits for the worker's own word once the body had to end.
const patience = 50 * time.Millisecond

// A talk runs one body on one worker: it passes on what the body says to its door, and what comes through the door to the
// worker, and ends at the body's limit whatever the worker does. It belongs to one goroutine, but for passNow.
type talk struct {
	child *child
	job   *job
	door  engine.Door
	grace time.Duration

	clock stopwatch
}

// run runs the body of j to its end. again reports that the worker was lost before anything went through the door: the body may
// run once more elsewhere.
func (c *child) run(ctx context.Context, j *job, d engine.Door, grace time.Duration) (end engine.Ending, again bool) {
	t := &talk{child: c, job: j, door: d, grace: grace}
	t.clock.start(j.record.limits.Timeout + patience)
	defer t.clock.stop()
	j.listen(t.passNow)
	defer j.listen(nil)
	return t.converse(ctx)
}

// converse goes on until the body ended or had to end.
func (t *talk) converse(ctx context.Context) (end engine.Ending, again bool) {
	answers, pauses, done := t.door.Answers(), t.door.Pauses(), ctx.Done()
	limit := failed(engine.CodeTimeout, fmt.Sprintf("the body took longer than %v", t.job.record.limits.Timeout))
	for {
		select {
		case <-t.job.wake:
			if end, again, over := t.hear(); over {
				return end, again
			}
		case a, ok := <-answers:
			if !ok {
				answers = nil
			} else {
				t.answer(a)
			}
		case still, ok := <-pauses:
			if !ok {
				pauses = nil
			} else {
				t.pause(still)
			}
		case <-done:
			limit = failed(engine.CodeCancelled, "the body was cancelled")
			answers, pauses, done = nil, nil, nil
			t.child.out.send(bare(kindCancel, t.job.number))
			t.clock.stop()
			t.clock.start(patience)
		case <-t.clock.over():
			if end, again, over := t.hear(); over {
				return end, again
			}
			t.child.overdue(t.job, max(t.grace-patience, 0))
			limit.CPU = t.clock.elapsed()
			return limit, false
		}
	}
}

// hear passes on what the worker said; over reports that this was its last word about the body.
func (t *talk) hear() (end engine.Ending, again, over bool) {
	for {
		inbox, lost, quiet := t.job.take()
		if len(inbox) == 0 {
			if lost {
				end = failed(engine.CodeUnavailable, errGone.Error())
				end.CPU = t.clock.elapsed()
			}
			return end, quiet, lost
		}
		for _, f := range inbox {
			end, over, err := t.pass(f)
			if err != nil {
				t.child.breach(err)
				return failed(engine.CodeUnavailable, errGone.Error()), false, true
			}
			if over {
				return end, false, true
			}
		}
	}
}

// passNow passes on an ask or a line, on the goroutine that reads from the worker.
func (t *talk) passNow(f frame) error {
	_, _, err := t.pass(f)
	if err == nil {
		return nil
	}
	t.child.breach(err)
	return err
}

// pass checks one frame and passes it on.
func (t *talk) pass(f frame) (end engine.Ending, over bool, err error) {
	switch f.kind {
	case kindAsk:
		a, err := decode[engine.Ask](f)
		if err == nil {
			err = t.job.record.ask(a)
		}
		if err == nil {
			t.door.Ask(a)
		}
		return end, false, err
	case kindLog:
		l, err := decode[engine.Log](f)
		if err == nil {
			err = t.job.record.log(l)
		}
		if err == nil {
			t.door.Log(l)
		}
		return end, false, err
	default:
		end, err := decode[engine.Ending](f)
		if err == nil {
			err = t.job.record.ending(end)
		}
		end.CPU = min(end.CPU, time.Since(t.job.began))
		return end, true, err
	}
}

// answer sends a to the worker, or an error in its place where it is too long. Answers that nobody waits for are dropped.
func (t *talk) answer(a engine.Answer) {
	if !t.job.record.answered(a.ID) {
		return
	}
	if len(a.Value) > maxAnswer {
		a.Value, a.Error = nil, &engine.Thrown{Message: fmt.Sprintf("the answer has %d bytes, at most %d fit into a body", len(a.Value), maxAnswer)}
	}
	out, err := encode(kindAnswer, t.job.number, a)
	if err != nil {
		a.Value, a.Error = nil, &engine.Thrown{Message: "the answer cannot be passed to a body: " + clip(err.Error(), 200)}
		out, _ = encode(kindAnswer, t.job.number, a)
	}
	t.child.out.send(out)
}

// pause stops the body's clock, here and in the worker, or lets it go on.
func (t *talk) pause(still bool) {
	if still == t.clock.still {
		return
	}
	if still {
		t.clock.stop()
		t.child.out.send(bare(kindPause, t.job.number))
		return
	}
	t.clock.start(t.clock.left)
	t.child.out.send(bare(kindResume, t.job.number))
}

// A stopwatch measures how long a body ran, without its pauses, and tells when that was long enough.
type stopwatch struct {
	left  time.Duration // of the limit, when it stood still the last time
	ran   time.Duration // before it went on the last time
	since time.Time
	still bool
	timer *time.Timer
}

// start lets the watch run for another d.
func (w *stopwatch) start(d time.Duration) {
	w.left, w.since, w.still = d, time.Now(), false
	w.timer = time.NewTimer(d)
}

// stop makes it stand still. It may be called again.
func (w *stopwatch) stop() {
	if w.still {
		return
	}
	w.timer.Stop()
	w.still = true
	d := time.Since(w.since)
	w.ran += d
	w.left = max(w.left-d, 0)
}

// over gives a value when the time is over, and never while the watch stands still.
func (w *stopwatch) over() <-chan time.Time {
	if w.still {
		return nil
	}
	return w.timer.C
}

// elapsed is how long the watch ran in all.
func (w *stopwatch) elapsed() time.Duration {
	if w.still {
		return w.ran
	}
	return w.ran + time.Since(w.since)
}
