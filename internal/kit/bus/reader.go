package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Read returns a reader of a stream, for one who looks at a part of it and goes. Call done when it is no longer
// read: the server would keep the consumer behind it for minutes, and keeps a limited number of them.
func (b *Bus) Read(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig) (c jetstream.Consumer, done func(), err error) {
	if cfg.InactiveThreshold == 0 {
		cfg.InactiveThreshold = time.Minute // where the end of this process comes before done
	}
	if c, err = b.JS.OrderedConsumer(ctx, stream, cfg); err != nil {
		return nil, nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return c, func() {
		info := c.CachedInfo()
		if info == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := b.JS.DeleteConsumer(ctx, stream, info.Name); err != nil {
			b.log.Debug("the reader of a stream was not removed", "stream", stream, "err", err)
		}
	}, nil
}
