package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	// A server that says nothing for two of these is lost: a connection can die in silence.
	pingEvery = 10 * time.Second
	// The pauses between tries to reach the server.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
)

// InboxPrefix is what the replies to a service of that name are addressed to begin with: each service reads its own alone.
func InboxPrefix(service string) string { return "_INBOX." + service }

// dial connects to the outside server of cfg.
func (b *Bus) dial(cfg Config) (*nats.Conn, error) {
	opts := []nats.Option{
		nats.Name(cfg.name()), nats.CustomInboxPrefix(InboxPrefix(cfg.name())),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.CustomReconnectDelay(pauseBefore),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if !b.closing() {
				b.log.Warn("nats is lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { b.back() }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			b.log.Error("nats", "subject", subject, "err", err)
		}),
	}
	if cfg.Creds != "" {
		creds, err := credentials(cfg.Creds)
		if err != nil {
			return nil, err
		}
		opts = append(opts, creds)
	}
	return nats.Connect(cfg.URL, opts...)
}

// credentials returns how the file at path identifies a service: by its NATS credentials, or by the seed of its key.
func credentials(path string) (nats.Option, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalid, "the credentials of nats: %w", err)
	}
	defer clear(data)
	if bytes.Contains(data, []byte("BEGIN NATS USER JWT")) {
		return nats.UserCredentials(path), nil
	}
	opt, err := nats.NkeyOptionFromSeed(path)
	if err != nil {
		return nil, contracts.Errorf(contracts.CodeInvalid, "the credentials of nats: %s holds neither NATS credentials nor the seed of a key", path)
	}
	return opt, nil
}

// reach connects to the outside server, and waits for it where cfg says so.
func (b *Bus) reach(ctx context.Context, cfg Config) (err error) {
	if err := checkURLs(cfg.URL); err != nil {
		return err
	}
	for try := 1; ; try++ {
		if b.Conn, err = b.dial(cfg); err == nil {
			return nil
		}
		err = fmt.Errorf("connect to nats at %s: %w", plainURLs(cfg.URL), err)
		if cfg.Wait == nil || contracts.CodeOf(err) == contracts.CodeInvalid {
			return err
		}
		cfg.Wait(err)
		if !sleep(ctx, pauseBefore(try)) {
			return ctx.Err()
		}
	}
}

func checkURLs(list string) error {
	for url := range strings.SplitSeq(list, ",") {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(url), "://")
		if ok && (rest == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, scheme)) {
			return contracts.Errorf(contracts.CodeInvalid, "nats.url: %q; want an address such as nats://127.0.0.1:4222, or several with commas between them", scheme+"://…")
		}
	}
	return nil
}

// plainURLs returns the addresses without the credentials that they may hold.
func plainURLs(list string) string {
	var out []string
	for text := range strings.SplitSeq(list, ",") {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(text), "://")
		if !ok {
			scheme, rest = "nats", scheme
		}
		out = append(out, scheme+"://"+rest[strings.LastIndexByte(rest, '@')+1:])
	}
	return strings.Join(out, ",")
}

// pauseBefore returns the pause after the n-th try: longer each time, up to longestPause, and never the same for everybody.
func pauseBefore(n int) time.Duration {
	d := min(firstPause<<min(max(n-1, 0), 10), longestPause)
	return d/2 + rand.N(d/2)
}

// sleep waits for d; it returns false once ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// back is what happens when the server is there again: what it may have lost is made anew before anybody goes on.
func (b *Bus) back() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing() {
		return
	}
	b.background.Go(func() {
		const what = "streams"
		for try := 1; ; try++ {
			err := b.makeAll(b.ctx)
			if b.ctx.Err() != nil {
				return
			}
			if err == nil {
				break
			}
			b.ails(what, err)
			sleep(b.ctx, pauseBefore(try))
		}
		b.well(what)
		b.log.Info("nats is back")
		b.mu.Lock()
		defer b.mu.Unlock()
		close(b.again)
		b.again = make(chan struct{})
	})
}

// Reconnected returns a channel that is closed when the server was lost and is back, with every stream in place.
func (b *Bus) Reconnected() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.again
}

// Keep calls ensure, which makes what the service needs on the server where it is missing, and calls it again
// each time that the server was lost: it can come back without what it had in memory. Of one name only the first ensure is called again.
func (b *Bus) Keep(ctx context.Context, name string, ensure func(context.Context) error) error {
	if err := ensure(ctx); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.ContainsFunc(b.kept, func(k kept) bool { return k.name == name }) {
		b.kept = append(b.kept, kept{name, ensure})
	}
	return nil
}

type kept struct {
	name   string
	ensure func(context.Context) error
}

func (b *Bus) makeAll(ctx context.Context) error {
	b.mu.Lock()
	all := slices.Clone(b.kept)
	b.mu.Unlock()
	for _, k := range all {
		if err := k.ensure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// errBegins is the trouble of what has just begun.
var errBegins = errors.New("it is being set up")

// begins notes for [Bus.Healthy] that something does not work yet, ails that it does not work, and well that it does.
func (b *Bus) begins(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles[what] = errBegins
}

func (b *Bus) ails(what string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was := b.troubles[what]; was == nil || errors.Is(was, errBegins) {
		b.log.Warn("does not work", "what", what, "err", err)
	}
	b.troubles[what] = err
}

func (b *Bus) well(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was := b.troubles[what]; was != nil && !errors.Is(was, errBegins) {
		b.log.Info("works again", "what", what)
	}
	delete(b.troubles, what)
}

// Healthy returns nil while the server answers and everything on it that the service uses works.
func (b *Bus) Healthy(ctx context.Context) error {
	if !b.Conn.IsConnected() {
		return contracts.Errorf(contracts.CodeUnavailable, "nats is lost: %s", b.Conn.Status())
	}
	if _, err := b.JS.Stream(ctx, contracts.StreamEvents); err != nil {
		return contracts.Errorf(contracts.CodeUnavailable, "nats does not answer: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for what, err := range b.troubles {
		return contracts.Errorf(contracts.CodeUnavailable, "%s: %w", what, err)
	}
	return nil
}

// Retry calls f until it fails no more because the server was lost, or ctx is done, and returns what it then returned. Each such failure is
// told to failed, unless that is nil.
func Retry(ctx context.Context, failed func(error), f func(context.Context) error) error {
	for try := 1; ; try++ {
		err := f(ctx)
		if err == nil || !Lost(err) || ctx.Err() != nil {
			return err
		}
		if failed != nil {
			failed(err)
		}
		if !sleep(ctx, pauseBefore(try)) {
			return err
		}
	}
}

// Lost reports whether err says that the server was not reached or could not do its work, so that trying again can help.
func Lost(err error) bool {
	for _, e := range []error{
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded,
		nats.ErrDisconnected, nats.ErrNoServers, nats.ErrStaleConnection, jetstream.ErrNoStreamResponse, jetstream.ErrNoHeartbeat,
		jetstream.ErrStreamNotFound, jetstream.ErrConsumerNotFound, jetstream.ErrConsumerDeleted, jetstream.ErrServerShutdown,
		jetstream.ErrConsumerLeadershipChanged, context.DeadlineExceeded,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code >= 500
}
