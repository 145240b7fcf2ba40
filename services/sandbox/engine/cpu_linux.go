package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU gives the CPU time that the current thread has used.
func threadCPU() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
