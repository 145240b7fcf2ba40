package hooks

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A responder is a plugin on the bus.
type responder struct {
	conn    *nats.Conn
	subject string
}

func (r *responder) most() int { return contracts.PluginMessageMost }

func (r *responder) close() {}

// exchange is that of transport.
func (r *responder) exchange(ctx context.Context, body []byte) ([]byte, error) {
	if r.conn == nil || !r.conn.IsConnected() {
		return nil, silence("nats is not connected")
	}
	m := &nats.Msg{Subject: r.subject, Header: nats.Header{}, Data: body}
	common(ctx, m.Header)
	m.Header.Set(contracts.HookIDHeader, newID())
	reply, err := r.conn.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, silence("no instance of it is on the bus")
	case err != nil:
		return nil, silence("it could not be asked: %v", err)
	case reply.Header.Get(micro.ErrorCodeHeader) != "":
		return nil, problem("it answered with the error %s: %s", reply.Header.Get(micro.ErrorCodeHeader), reply.Header.Get(micro.ErrorHeader))
	}
	return reply.Data, nil
}
