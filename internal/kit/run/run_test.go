package run_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/toolcrib/toolcrib/internal/kit/run"
)

type service struct {
	name string
	run  func(context.Context) error
}

func (s service) Name() string                  { return s.name }
func (s service) Run(ctx context.Context) error { return s.run(ctx) }

func untilDone(ctx context.Context) error { <-ctx.Done(); return nil }

func TestAll(t *testing.T) {
	broken := errors.New("broken")
	stopped := make(chan struct{})
	err := run.All(t.Context(), time.Minute,
		service{"good", func(ctx context.Context) error { <-ctx.Done(); close(stopped); return nil }},
		service{"bad", func(context.Context) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("All = %v, want the failure", err)
	}
	select {
	case <-stopped:
	default:
		t.Error("All returned before the other service had stopped")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run.All(ctx, time.Minute, service{"a", untilDone}, service{"b", untilDone}); err != nil {
		t.Errorf("clean stop = %v, want nil", err)
	}
	hang := make(chan struct{})
	defer close(hang)
	if err := run.All(ctx, time.Millisecond, service{"stuck", func(context.Context) error { <-hang; return nil }}); !errors.Is(err, run.ErrStuck) {
		t.Errorf("stuck stop = %v, want ErrStuck", err)
	}
	if err := run.All(t.Context(), 0, service{"early", func(context.Context) error { return nil }}); err == nil {
		t.Error("a service that ends by itself gives no error")
	}
}
