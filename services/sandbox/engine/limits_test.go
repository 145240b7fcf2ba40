package engine

import (
	"testing"
	"time"
)

// The defaults are those of the specification; a limit that is given stays.
func TestOrDefaults(t *testing.T) {
	want := Limits{Timeout: 10 * time.Second, Code: 64 << 10, Calls: 100, Concurrent: 16, Console: 64 << 10, Value: 256 << 10}
	if got := (Limits{Calls: -1}).OrDefaults(); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	given := Limits{Timeout: time.Second, Code: 1, Calls: 2, Concurrent: 3, Console: 4, Value: 5}
	if got := given.OrDefaults(); got != given {
		t.Errorf("%+v became %+v", given, got)
	}
}
