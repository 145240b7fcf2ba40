package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/internal/kit/trace"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// headerDeadline carries the asker's deadline, in milliseconds since 1970.
const headerDeadline = "Toolcrib-Deadline"

// askTimeout bounds a question whose context has no deadline.
const askTimeout = 30 * time.Second

// Ask sends question q of tenant t and returns the answer of whichever replica
// takes it. It waits for a service that is not up yet while ctx allows, 5 s at
// most. The other side's error comes back as a [contracts.Error]; silence is one with
// [contracts.CodeUnavailable] or [contracts.CodeTimeout].
func Ask[A any](ctx context.Context, b *Bus, t contracts.TenantID, v contracts.Verb, q any) (A, error) {
	var answer A
	data, err := json.Marshal(q)
	if err != nil {
		return answer, fmt.Errorf("encode question %s: %w", v, err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m := &nats.Msg{Subject: contracts.AskSubject(t, v), Data: data, Header: nats.Header{}}
	trace.Inject(ctx, m.Header)
	deadline, _ := ctx.Deadline()
	m.Header.Set(headerDeadline, strconv.FormatInt(deadline.UnixMilli(), 10))

	var reply *nats.Msg
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(20*time.Millisecond),
		backoff.WithMaxInterval(500*time.Millisecond), backoff.WithMaxElapsedTime(5*time.Second))
	err = backoff.Retry(func() error {
		var err error
		reply, err = b.request(ctx, v, m)
		if err != nil && !errors.Is(err, nats.ErrNoResponders) {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(wait, ctx))
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return answer, contracts.Errorf(contracts.CodeUnavailable, "no service answers %q", string(v)).After(time.Second)
	case errors.Is(err, context.DeadlineExceeded):
		return answer, contracts.Errorf(contracts.CodeTimeout, "%q was not answered in time", string(v))
	case err != nil:
		return answer, contracts.Errorf(contracts.CodeUnavailable, "ask %q: %w", string(v), err)
	}
	if reply.Header.Get(micro.ErrorCodeHeader) != "" {
		var e contracts.Error
		if err := json.Unmarshal(reply.Data, &e); err != nil || e.Code == "" {
			return answer, contracts.Errorf(contracts.CodeInternal, "%q was refused without a reason", string(v))
		}
		return answer, &e
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return answer, fmt.Errorf("decode the answer to %s: %w", v, err)
	}
	return answer, nil
}

// request sends a question and returns the reply. Where the server was lost meanwhile, and the question or its answer with it, it is asked again.
func (b *Bus) request(ctx context.Context, v contracts.Verb, m *nats.Msg) (*nats.Msg, error) {
	if v.Once() {
		return b.Conn.RequestMsgWithContext(ctx, m)
	}
	for {
		back := b.Reconnected()
		try, cancel := context.WithCancel(ctx)
		go func() {
			select {
			case <-back:
				cancel()
			case <-try.Done():
			}
		}()
		reply, err := b.Conn.RequestMsgWithContext(try, m)
		lost := err != nil && try.Err() != nil && ctx.Err() == nil
		cancel()
		if !lost {
			return reply, err
		}
	}
}

// An Answerer answers the questions of one verb. Make one with [Answers].
type Answerer struct {
	verb contracts.Verb
	do   func(ctx context.Context, t contracts.TenantID, data []byte) (any, error)
}

// Answers returns an Answerer that calls answer for each question, concurrently.
// Its context ends at the asker's deadline. An error that is not a [contracts.Error] reaches the asker as an internal one, without its text.
func Answers[Q, A any](v contracts.Verb, answer func(ctx context.Context, t contracts.TenantID, q Q) (A, error)) Answerer {
	return Answerer{v, func(ctx context.Context, t contracts.TenantID, data []byte) (any, error) {
		var q Q
		if err := json.Unmarshal(data, &q); err != nil {
			return nil, contracts.Errorf(contracts.CodeInvalid, "question %s: %w", v, err)
		}
		return answer(ctx, t, q)
	}}
}

// mostQuestions bounds the questions that one replica works on at once.
const mostQuestions = 256

// Serve answers questions as service name until ctx is done, then finishes those
// it took and returns nil. Replicas of equal name share the questions.
func (b *Bus) Serve(ctx context.Context, name string, answerers ...Answerer) error {
	what := "answers of " + name
	b.begins(what)
	defer b.well(what)
	svc, err := micro.AddService(b.Conn, micro.Config{Name: name, Version: "1.0.0"})
	if err != nil {
		return fmt.Errorf("serve %s: %w", name, err)
	}
	defer svc.Stop()
	slots := make(chan struct{}, mostQuestions)
	var running sync.WaitGroup
	base := context.WithoutCancel(ctx)
	for _, a := range answerers {
		h := micro.HandlerFunc(func(r micro.Request) {
			slots <- struct{}{}
			// The request is micro's again once the handler returns: it reads what the answer writes into it.
			q := &nats.Msg{Subject: r.Subject(), Reply: r.Reply(), Header: nats.Header(r.Headers()), Data: r.Data()}
			running.Go(func() {
				defer func() { <-slots }()
				b.answer(base, a, q)
			})
		})
		if err := svc.AddEndpoint(string(a.verb), h, micro.WithEndpointSubject(contracts.AllAsks(a.verb))); err != nil {
			return fmt.Errorf("serve %s: %w", a.verb, err)
		}
	}
	if err := b.Conn.Flush(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve %s: %w", name, err)
	}
	b.well(what)
	<-ctx.Done()
	svc.Stop()
	b.handOver(ctx)
	running.Wait()
	return nil
}

// handOverWithin bounds how long a stopping service waits for the questions that are on their way to it.
const handOverWithin = 2 * time.Second

// handOver waits until the handlers were called with everything that the server had sent before.
func (b *Bus) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handOverWithin)
	defer cancel()
	if b.Conn.FlushWithContext(ctx) != nil {
		return
	}
	done := make(chan struct{})
	if b.Conn.Barrier(func() { close(done) }) != nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

func (b *Bus) answer(ctx context.Context, a Answerer, q *nats.Msg) {
	ctx = trace.Extract(ctx, q.Header)
	ms, err := strconv.ParseInt(q.Header.Get(headerDeadline), 10, 64)
	deadline := time.UnixMilli(ms)
	if err != nil {
		deadline = time.Now().Add(askTimeout)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ctx, end := trace.Start(ctx, "answer "+string(a.verb))
	out, err := b.tryAnswer(ctx, a, q)
	end(err)
	if err != nil {
		e := contracts.AsError(err)
		if e.Code == contracts.CodeInternal {
			b.log.Error("question not answered", "verb", a.verb, "err", err)
		}
		b.refuse(q, e)
		return
	}
	data, err := json.Marshal(out)
	if err == nil {
		err = b.Conn.Publish(q.Reply, data)
	}
	if err != nil {
		b.log.Error("answer not sent", "verb", a.verb, "err", err)
		b.refuse(q, contracts.Errorf(contracts.CodeTooLarge, "the answer is too large to be sent"))
	}
}

// refuse answers a question with an error, in the form of the micro protocol.
func (b *Bus) refuse(q *nats.Msg, e *contracts.Error) {
	body, _ := json.Marshal(e)
	_ = b.Conn.PublishMsg(&nats.Msg{Subject: q.Reply, Data: body, Header: nats.Header{
		micro.ErrorHeader: {string(e.Code)}, micro.ErrorCodeHeader: {string(e.Code)},
	}})
}

func (b *Bus) tryAnswer(ctx context.Context, a Answerer, q *nats.Msg) (out any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("answering %s panicked: %v", a.verb, p)
		}
	}()
	t, err := contracts.AskTenant(q.Subject)
	if err != nil {
		return nil, err
	}
	return a.do(ctx, t, q.Data)
}
