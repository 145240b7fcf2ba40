// Package run is how a process runs its services: together, until told to
// stop, and not longer than a limit after that.
package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// A Service works until its context is done and then returns nil on a clean stop. It owns every goroutine it starts.
type Service interface {
	Name() string
	Run(ctx context.Context) error
}

// ErrStuck is returned where services did not stop within the limit.
var ErrStuck = errors.New("services did not stop in time")

// All runs the services together. When one fails, or ctx is done, all are told to
// stop, and All returns the first failure. A stop that takes longer than limit ends with [ErrStuck]; 0 means no limit.
func All(ctx context.Context, limit time.Duration, services ...Service) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range services {
		g.Go(func() error {
			if err := s.Run(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.Name(), err)
			}
			if ctx.Err() == nil {
				return fmt.Errorf("%s: stopped without being told to", s.Name())
			}
			return nil
		})
	}
	done := make(chan error, 1)
	go func() { done <- g.Wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if limit == 0 {
		return <-done
	}
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return ErrStuck
	}
}

// Group runs functions that make up one service until ctx is done or one of them
// fails, and returns the first failure.
func Group(ctx context.Context, fs ...func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range fs {
		g.Go(func() error { return f(ctx) })
	}
	return g.Wait()
}
