// Package telemetry turns the events of runs into reports and session logs. A
// report is a fold over the events of one run, made when it is asked for, so that
// it cannot come apart from the stream; of a run that ended, report and log are
// kept longer than the stream keeps events. It changes nothing that it records.
package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/internal/kit/run"
	"github.com/toolcrib/toolcrib/internal/kit/store"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Config has no settings yet; its zero value is what everybody uses.
type Config struct{}

// A Service answers for reports and logs.
type Service struct {
	bus     *bus.Bus
	reports *store.Blobs
	log     *slog.Logger
}

// New opens what the service needs; nothing runs until Run. A nil log is silent.
func New(ctx context.Context, b *bus.Bus, _ Config, log *slog.Logger) (*Service, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	reports, err := store.OpenBlobs(ctx, b, contracts.StoreReports)
	return &Service{b, reports, log}, err
}

// Keeps returns the streams and buckets whose settings are this service's to change, see [bus.Config].
func Keeps() []string {
	return []string{contracts.StreamEvents, contracts.StreamDead, contracts.StoreReports}
}

// Name returns "telemetry".
func (s *Service) Name() string { return "telemetry" }

// Ready returns nil: the service needs nothing but the bus.
func (s *Service) Ready(context.Context) error { return nil }

// Run records until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	return run.Group(ctx,
		func(ctx context.Context) error {
			return s.bus.Serve(ctx, s.Name(), bus.Answers(contracts.VerbReport, s.report), bus.Answers(contracts.VerbLog, s.sessionLog))
		},
		func(ctx context.Context) error {
			return s.bus.Consume(ctx, bus.Consumer{
				Stream: contracts.StreamEvents, Durable: s.Name(), Unbounded: true,
				Filters: []string{contracts.AllRunClosed, contracts.AllRunFailed},
			}, bus.EventHandler(s.archive))
		})
}

func (s *Service) report(ctx context.Context, t contracts.TenantID, q contracts.ReportRequest) (contracts.Report, error) {
	lines, err := s.lines(ctx, t, q.Run, 0, 0)
	if err != nil {
		return contracts.Report{}, err
	}
	return fold(q.Run, lines)
}

// What one answer may hold, below the limit of a message.
const answerBytes = 512 << 10

func (s *Service) sessionLog(ctx context.Context, t contracts.TenantID, q contracts.LogRequest) (contracts.LogAnswer, error) {
	lines, err := s.lines(ctx, t, q.Run, q.After, q.Limit+1)
	if err != nil {
		return contracts.LogAnswer{}, err
	}
	a := contracts.LogAnswer{Lines: []contracts.LogLine{}}
	size := 0
	for _, l := range lines {
		size += len(l.Event) + 100
		if len(a.Lines) > 0 && (size > answerBytes || q.Limit > 0 && len(a.Lines) == q.Limit) {
			a.More = true
			break
		}
		a.Lines = append(a.Lines, l)
	}
	return a, nil
}

// lines returns the events of a run after the sequence, from the stream or, once
// that has dropped them, from what was kept when the run ended. most bounds their number; below 2 it does not.
func (s *Service) lines(ctx context.Context, t contracts.TenantID, r contracts.RunID, after uint64, most int) ([]contracts.LogLine, error) {
	if _, err := contracts.ParseRunID(string(r)); err != nil {
		return nil, err
	}
	if most < 2 {
		most = 0
	}
	lines, err := s.stored(ctx, t, r, after, most)
	if err != nil || after == 0 && len(lines) > 0 && lines[0].Type == "run.requested" {
		return lines, err
	}
	kept, err := s.kept(ctx, t, r)
	switch {
	case contracts.CodeOf(err) == contracts.CodeNotFound && (len(lines) > 0 || after > 0):
		return lines, nil
	case contracts.CodeOf(err) == contracts.CodeNotFound:
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no run %q", string(r))
	case err != nil:
		return nil, err
	}
	for len(kept) > 0 && kept[0].Seq <= after {
		kept = kept[1:]
	}
	return kept, nil
}

func (s *Service) kept(ctx context.Context, t contracts.TenantID, r contracts.RunID) ([]contracts.LogLine, error) {
	data, err := s.reports.GetNamed(ctx, t, logName(r))
	if err != nil {
		return nil, err
	}
	var lines []contracts.LogLine
	for line := range bytes.Lines(data) {
		var l contracts.LogLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, contracts.Errorf(contracts.CodeInternal, "session log of %s: %w", r, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func logName(r contracts.RunID) string { return "log/" + string(r) }

// A run's last calls and bodies are awaited this long before its log is kept; after that the log says that they had not ended.
const (
	stragglerPause = time.Second
	stragglerLimit = 10 * time.Minute
)

// archive keeps the log of a run that ended.
func (s *Service) archive(ctx context.Context, sub contracts.Subject, _ contracts.Event, m bus.Message) error {
	lines, err := s.stored(ctx, sub.Tenant, sub.Run, 0, 0)
	if err != nil {
		return err
	}
	r, err := fold(sub.Run, lines)
	if err != nil {
		return err
	}
	if underWay(r) && time.Since(m.Stored) < stragglerLimit {
		return bus.Later(stragglerPause)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return s.reports.PutNamed(ctx, sub.Tenant, logName(sub.Run), b.Bytes())
}

// underWay reports whether something in the run has not ended.
func underWay(r contracts.Report) bool {
	return slices.ContainsFunc(r.Calls, func(c contracts.ReportCall) bool { return c.Status == "" }) ||
		slices.ContainsFunc(r.Bodies, func(b contracts.ReportBody) bool { return b.Running })
}
