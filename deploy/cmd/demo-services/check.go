package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// check returns everything that is wrong with what came of the storm, and prints what it saw.
func (s *stormer) check(ctx context.Context, c *counting, killed time.Time) error {
	happened, err := c.read()
	if err != nil {
		return err
	}
	var wrong []error
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	s.checkAnswers(happened, killed, add)
	s.checkCounts(happened, add)
	if err := s.checkStories(ctx, add); err != nil {
		return err
	}
	if len(wrong) > 0 {
		const most = 20
		return fmt.Errorf("%d things went wrong:\n%w", len(wrong), errors.Join(wrong[:min(len(wrong), most)]...))
	}
	fmt.Println("held      every accepted call and body ended in exactly one outcome, and nothing happened twice")
	return nil
}

// checkAnswers checks each answer against what really happened.
func (s *stormer) checkAnswers(happened map[string][]happening, killed time.Time, add func(string, ...any)) {
	calls, bodies := map[string]int{}, map[string]int{}
	var slowest time.Duration
	for _, r := range s.requests {
		if r.err != nil {
			add("%v: no answer: %w", r.notes, r.err)
			continue
		}
		if d := r.ended.Sub(killed); r.asked.Before(killed) && d > slowest {
			slowest = d
		}
		o := &r.answer.Outcome
		what := string(o.Status)
		if o.Error != nil {
			what += " (" + string(o.Error.Code) + ")"
		}
		n := 0
		for _, note := range r.notes {
			n += len(happened[note])
		}
		switch {
		case !r.answer.Final():
			add("%v: the answer %s is not final", r.notes, what)
		case o.Status == contracts.StatusOK && n != len(r.notes):
			add("%v: is ok, and happened %d times", r.notes, n)
		case o.Status != contracts.StatusOK && len(r.notes) == 1 && o.SideEffects == contracts.SideEffectsNone && n != 0:
			add("%v: %s says that nothing happened, and it did", r.notes, what)
		}
		if len(r.notes) == 1 {
			calls[what]++
		} else {
			bodies[what]++
		}
	}
	fmt.Printf("calls     %s\nbodies    %s\n", histogram(calls), histogram(bodies))
	fmt.Printf("slowest   answer to what was on its way: %v after the kill (a lost owner's lease is %v)\n", slowest.Round(10*time.Millisecond), lease)
	if slowest > lease+slack {
		add("what was on its way when the processes were killed took up to %v to end", slowest)
	}
}

// checkCounts checks that nothing happened twice, and that a session's server was one process at a time.
func (s *stormer) checkCounts(happened map[string][]happening, add func(string, ...any)) {
	for note, times := range happened {
		if len(times) > 1 {
			add("%s happened %d times", note, len(times))
		}
	}
	processes := map[int]map[int]bool{} // by run
	for _, r := range s.requests {
		if !r.own {
			continue
		}
		for _, h := range happened[r.notes[0]] {
			if processes[r.run] == nil {
				processes[r.run] = map[int]bool{}
			}
			processes[r.run][h.PID] = true
		}
	}
	moved := 0
	for run, pids := range processes {
		switch {
		case len(pids) == 2:
			moved++
		case len(pids) > 2:
			add("the session of run %d had %d processes of its own server, want one and after the kill another at most", run, len(pids))
		}
	}
	fmt.Printf("sessions  %d had a process of their own server; %d of them had it at the killed executor and got another\n", len(processes), moved)
}

// checkStories checks in the log of each run that what was requested was finished, once each.
func (s *stormer) checkStories(ctx context.Context, add func(string, ...any)) error {
	events := 0
	for _, run := range s.runs {
		seen := map[string]map[string]int{} // kind, id → state → times
		for line, err := range s.client.Log(ctx, run) {
			if err != nil {
				return fmt.Errorf("read the log of %s: %w", run, err)
			}
			events++
			switch line.Type {
			case "call.requested", "call.finished", "body.requested", "body.finished":
				if seen[line.ID] == nil {
					seen[line.ID] = map[string]int{}
				}
				seen[line.ID][line.Type[5:]]++
			}
		}
		for id, states := range seen {
			if states["requested"] != 1 || states["finished"] != 1 {
				add("%s of %s was requested %d times and finished %d times", id, run, states["requested"], states["finished"])
			}
		}
	}
	fmt.Printf("stories   %d events in the logs of %d runs\n", events, len(s.runs))
	return nil
}
