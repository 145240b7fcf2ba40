//go:build !linux || !(amd64 || arm64)

package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
)

// Main is what a worker process does, args being those after the command word. It returns the exit code.
func Main([]string) int {
	fmt.Fprintf(os.Stderr, "sandbox worker: the sandbox needs Linux on amd64 or arm64, this is %s on %s\n", runtime.GOOS, runtime.GOARCH)
	return exitNoEngine
}

// Open starts a pool of workers and waits until the first one is ready; nil log is silent. Its error wraps [ErrNoEngine] where
// trying again does not help.
func Open(context.Context, Config, *slog.Logger) (*Pool, error) {
	return nil, fmt.Errorf("%w: the sandbox needs Linux on amd64 or arm64, this is %s on %s", ErrNoEngine, runtime.GOOS, runtime.GOARCH)
}
