package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Publish stores an event of tenant t. Events that belong to a record's change are published by the record's table instead.
func (b *Bus) Publish(ctx context.Context, t contracts.TenantID, e contracts.Event) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode %T: %w", e, err)
	}
	m := &nats.Msg{Subject: e.Subject(t), Data: data, Header: nats.Header{}}
	trace.Inject(ctx, m.Header)
	if _, err := b.JS.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("publish %s: %w", m.Subject, err)
	}
	return nil
}

// A Wakeup is what [contracts.StreamDispatch] carries: the key of a record that may need work. The truth is in the record.
type Wakeup struct {
	Key contracts.Key `json:"key"`
}

// Wake tells the executors of a call. It is an [contracts.Error] with
// [contracts.CodeRateLimited] where the tenant has too many calls waiting. msgID
// makes equal wake-ups one; "" sends it in any case.
func (b *Bus) Wake(ctx context.Context, key contracts.Key, msgID string) error {
	data, _ := json.Marshal(Wakeup{key})
	m := &nats.Msg{Subject: contracts.DispatchSubject(key.Tenant()), Data: data, Header: nats.Header{}}
	trace.Inject(ctx, m.Header)
	var opts []jetstream.PublishOpt
	if msgID != "" {
		opts = append(opts, jetstream.WithMsgID(msgID))
	}
	_, err := b.JS.PublishMsg(ctx, m, opts...)
	const errMaxPerSubject = 10077 // JSStreamStoreFailed with "maximum messages per subject exceeded"
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == errMaxPerSubject {
		return contracts.Errorf(contracts.CodeRateLimited, "too many calls of the tenant are waiting: %w", err).After(time.Second)
	}
	if err != nil {
		return fmt.Errorf("wake the executor for %s: %w", key, err)
	}
	return nil
}

// Schedule has an empty message appear under subject due at time at. Scheduling again under the same timer subject replaces it.
// The server keeps it over restarts; it can come late, and never early.
func (b *Bus) Schedule(ctx context.Context, timer, due string, at time.Time) error {
	m := &nats.Msg{Subject: timer, Header: nats.Header{}}
	m.Header.Set(jetstream.ScheduleHeader, "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set(jetstream.ScheduleTargetHeader, due)
	if _, err := b.JS.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("schedule %s: %w", timer, err)
	}
	return nil
}

// Unschedule forgets a timer. It is no error where there is none.
func (b *Bus) Unschedule(ctx context.Context, timer string) error {
	s, err := b.JS.Stream(ctx, contracts.StreamTimers)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(timer))
	}
	if err != nil {
		return fmt.Errorf("unschedule %s: %w", timer, err)
	}
	return nil
}
