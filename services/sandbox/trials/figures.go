package trials

import (
	"slices"
	"time"
)

// Figures are what many durations look like.
type Figures struct {
	Count  int           `json:"count"`
	Median time.Duration `json:"median"`
	P99    time.Duration `json:"p99"`
	Max    time.Duration `json:"max"`
}

// FiguresOf sums up durations; the zero Figures for none.
func FiguresOf(all []time.Duration) Figures {
	if len(all) == 0 {
		return Figures{}
	}
	sorted := slices.Sorted(slices.Values(all))
	at := func(percent int) time.Duration { return sorted[(len(sorted)-1)*percent/100] }
	return Figures{Count: len(sorted), Median: at(50), P99: at(99), Max: sorted[len(sorted)-1]}
}
