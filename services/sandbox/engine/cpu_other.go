//go:build !linux

package engine

import "time"

// threadCPU needs Linux.
func threadCPU() time.Duration { return 0 }
