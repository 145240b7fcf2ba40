package executor

import (
	"context"

	"github.com/toolcrib/toolcrib/internal/core/catalogue"
	"github.com/toolcrib/toolcrib/internal/core/outputs"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/source/platform"
)

// builtins are the built-in tools, with the one that reads whole results. That one is the executor's own, see read: it needs to know whose run it is called in.
type builtins struct{ platform.Source }

// List returns the tools.
func (b builtins) List(ctx context.Context) (*contracts.Listing, []contracts.SkippedTool, error) {
	l, skipped, err := b.Source.List(ctx)
	if err == nil {
		l.Tools = append(l.Tools, outputs.Tool())
	}
	return l, skipped, err
}

// readEntry is the tool that reads whole results where the catalogue has it not: its run can call it all the same.
func readEntry() catalogue.Entry {
	t := outputs.Tool()
	t.ID = outputs.ReadID
	t.Hash = t.ContentHash()
	return catalogue.Entry{Tool: &t, Listing: &catalogue.Listing{Listing: &contracts.Listing{Source: platform.ID(), TrustAnnotations: true}}}
}

// reads reports whether a run may read whole results; what cannot be told is no.
func (s *Service) reads(ctx context.Context, t contracts.TenantID, r *contracts.Run) bool {
	e, o, err := s.effective(ctx, t, r)
	return o == nil && err == nil && !e.Forbids(outputs.ReadID)
}

// read answers a call of the tool that reads whole results.
func (s *Service) read(ctx context.Context, j *job) (*contracts.Result, error) {
	r, err := s.outputs.Read(ctx, j.place, j.args, j.call.Body != "")
	switch {
	case err == nil:
		return r, nil
	case contracts.Final(err):
		failed := contracts.TextResult(contracts.AsError(err).Message, nil)
		failed.IsError = true
		return failed, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	s.log.Error("kept result not read", "run", string(j.call.Run), "err", err)
	return nil, contracts.Errorf(contracts.CodeOutcomeUnknown, "the result could not be read; try again")
}
