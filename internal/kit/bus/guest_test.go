package bus_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
)

// freeAddr returns an address of this machine at which nobody listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestGuests has the embedded server let in those who have a password, for what they may do, and nobody else.
func TestGuests(t *testing.T) {
	addr := freeAddr(t)
	b := connect(t, bus.Config{Dir: t.TempDir(), Listen: addr, Guests: []bus.Guest{
		{Name: "a", Password: "secret of a", Publish: []string{"a.said"}, Subscribe: []string{"a.ask"}},
		{Name: "b", Password: "secret of b", Publish: []string{"b.said"}, Subscribe: []string{"b.ask"}},
	}})
	refused := make(chan error, 10)
	enter := func(opts ...nats.Option) (*nats.Conn, error) {
		conn, err := nats.Connect("nats://"+addr, append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))...)
		if err == nil {
			t.Cleanup(conn.Close)
		}
		return conn, err
	}
	for name, opts := range map[string][]nats.Option{
		"nobody": nil, "a with another's password": {nats.UserInfo("a", "secret of b")}, "the process": {nats.UserInfo("toolcrib", "")},
	} {
		if _, err := enter(opts...); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s is let in: %v", name, err)
		}
	}
	a, err := enter(nats.UserInfo("a", "secret of a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Subscribe("a.ask", func(m *nats.Msg) { m.Respond([]byte("one")) }); err != nil || a.Flush() != nil {
		t.Fatal(err)
	}
	if m, err := b.Conn.Request("a.ask", nil, 20*time.Second); err != nil || string(m.Data) != "one" {
		t.Errorf("asking a: %v, %v", m, err)
	}
	for _, subject := range []string{"b.ask", ">", "tc.>", "$KV.>", "_INBOX.>"} {
		if _, err := a.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("a subscribes to %s: %v", subject, err)
		}
	}
	for _, subject := range []string{"b.said", "tc.local.run.x.closed", "$JS.API.INFO", "$KV.runs.x", "_INBOX.x"} {
		if err := a.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("a publishes to %s: %v", subject, err)
		}
	}
	if err := b.Publish(t.Context(), tenant, closed("run_x")); err != nil {
		t.Errorf("the process itself publishes: %v", err)
	}
}

func TestListenRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, addr := range []string{"0.0.0.0:4222", ":4222", "127.0.0.1", "127.0.0.1:0", "example.com:4222", taken.Addr().String()} {
		b, err := bus.Open(t.Context(), bus.Config{Dir: t.TempDir(), Listen: addr}, nil)
		if err == nil {
			b.Close()
			t.Errorf("Open with the address %q: no error", addr)
		}
	}
}
