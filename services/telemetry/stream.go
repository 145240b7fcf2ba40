package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// stored returns the events of a run that the stream holds after the sequence, at most most of them; 0 means all.
func (s *Service) stored(ctx context.Context, t contracts.TenantID, r contracts.RunID, after uint64, most int) ([]contracts.LogLine, error) {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{contracts.RunEvents(t, r)}}
	if after > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, after+1
	}
	c, done, err := s.bus.Read(ctx, contracts.StreamEvents, cfg)
	if err != nil {
		return nil, fmt.Errorf("read the events of %s: %w", r, err)
	}
	defer done()
	info, err := c.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the events of %s: %w", r, err)
	}
	n := int(info.NumPending)
	if most > 0 {
		n = min(n, most)
	}
	if n == 0 {
		return nil, nil
	}
	it, err := c.Messages()
	if err != nil {
		return nil, fmt.Errorf("read the events of %s: %w", r, err)
	}
	defer it.Stop()
	lines := make([]contracts.LogLine, 0, n)
	for len(lines) < n {
		m, err := it.Next(jetstream.NextContext(ctx))
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, contracts.Errorf(contracts.CodeTimeout, "the events of the run were not read in time")
		}
		if err != nil {
			return nil, fmt.Errorf("read the events of %s: %w", r, err)
		}
		l, err := line(m)
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func line(m jetstream.Msg) (contracts.LogLine, error) {
	meta, err := m.Metadata()
	if err != nil {
		return contracts.LogLine{}, fmt.Errorf("event %s: %w", m.Subject(), err)
	}
	sub, err := contracts.ParseSubject(m.Subject())
	if err != nil {
		return contracts.LogLine{}, err
	}
	var head struct {
		At time.Time `json:"at"`
	}
	if err := json.Unmarshal(m.Data(), &head); err != nil {
		return contracts.LogLine{}, fmt.Errorf("event %s: %w", m.Subject(), err)
	}
	return contracts.LogLine{Seq: meta.Sequence.Stream, Type: sub.Type, ID: sub.ID, At: head.At, Event: m.Data()}, nil
}
