package busplugin

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolcrib/toolcrib/internal/kit/natstest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/pkg/plugin"
)

// user is a user of a NATS server who may do what a plugin of that name must, and nothing else.
func user(id contracts.PluginID) *server.User {
	publish, subscribe := contracts.PluginPermissions(tenant, id)
	return &server.User{Username: string(id), Password: "secret", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: publish}, Subscribe: &server.SubjectPermission{Allow: subscribe},
		Response: &server.ResponsePermission{MaxMsgs: 1000, Expires: time.Hour},
	}}
}

// TestPermissions has a plugin whose user may do no more than it must work, and reach nothing of another.
func TestPermissions(t *testing.T) {
	s := natstest.Listen(t, server.Options{Users: []*server.User{{Username: "toolcrib", Password: "secret"}, user(shop), user("thief")}})
	refusals := make(chan error, 100)
	open := func(name string) *nats.Conn {
		conn, err := nats.Connect(s.URL, nats.UserInfo(name, "secret"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	ours := open("toolcrib")
	heard := make(chan string, 100)
	sub, err := ours.Subscribe("plugin.>", func(m *nats.Msg) { heard <- m.Subject })
	if err != nil || ours.Flush() != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	p := plugin.New(open(string(shop)), plugin.Config{Name: string(shop), Version: "1.2.3"})
	p.Tool(plugin.Tool{Name: "big"}, says(strings.Repeat("x", 2<<20)))
	natstest.Run(t, p.Run)
	if got, want := <-heard, contracts.PluginChangedSubject(tenant, shop); got != want {
		t.Errorf("heard %s, want %s", got, want)
	}
	c := New(Config{Conn: ours, Tenant: tenant, Plugin: shop}, func() {})
	defer c.Close()
	if l, _, err := c.List(within(t, 20*time.Second)); err != nil || len(l.Tools) != 1 {
		t.Errorf("List = %+v, %v", l, err)
	}
	if _, err := c.Call(within(t, 20*time.Second), "big", json.RawMessage("{}"), nil); err != nil {
		t.Errorf("Call: %v", err)
	}
	var ping micro.Ping
	m, err := ours.Request("$SRV.PING."+contracts.PluginService(tenant, shop), nil, 20*time.Second)
	if err != nil || json.Unmarshal(m.Data, &ping) != nil || ping.Version != "1.2.3" || ping.Metadata["toolcrib.protocol"] != "1" {
		t.Errorf("ping = %+v, %v", ping, err)
	}
	if len(refusals) > 0 {
		t.Errorf("the plugin was refused something that it needs: %v", <-refusals)
	}

	thief := open("thief")
	for _, subject := range []string{contracts.PluginCallSubject(tenant, shop), contracts.PluginListSubject(tenant, shop), "plugin.>", "_INBOX.>", "tc.>"} {
		if _, err := thief.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		if err := <-refusals; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("subscribing to %s: %v, want a refusal", subject, err)
		}
	}
	for _, subject := range []string{contracts.PluginChangedSubject(tenant, shop), "_INBOX.x", "tc.local.run.x.planned", contracts.PluginCallSubject(tenant, shop)} {
		if err := thief.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		if err := <-refusals; !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("publishing to %s: %v, want a refusal", subject, err)
		}
	}
	other := plugin.New(thief, plugin.Config{Name: string(shop)})
	if err := other.Run(within(t, 20*time.Second)); err == nil || !strings.Contains(err.Error(), "does not allow") {
		t.Errorf("Run of a plugin that is not allowed its subjects: %v", err)
	}
}

func FuzzPage(f *testing.F) {
	for _, s := range []string{
		`{"protocol":1,"title":"x","tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"title":"A"}}],"nextCursor":"1"}`,
		`{"protocol":1,"tools":[null,7,{"name":[]},{"name":"b","inputSchema":3}]}`, `{"error":{"code":"unavailable","retryAfter":-1}}`, `[`, `null`, ``,
	} {
		f.Add([]byte(s), "")
	}
	f.Add([]byte("x"), "500")
	f.Fuzz(func(t *testing.T, body []byte, code string) {
		var g gathering
		asked := 0
		err := g.gather(func(string) (nats.Header, []byte, error) {
			if asked++; asked > 2 {
				return nil, []byte(`{"protocol":1}`), nil
			}
			return nats.Header{micro.ErrorCodeHeader: {code}}, body, nil
		})
		if err != nil {
			return
		}
		l, skipped := g.listing(func(string) bool { return true })
		if len(l.Tools)+len(skipped) != len(g.tools) {
			t.Errorf("%d tools and %d skipped of %d", len(l.Tools), len(skipped), len(g.tools))
		}
		if _, err := json.Marshal(l); err != nil {
			t.Errorf("the listing cannot be encoded: %v", err)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		`{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1},"isError":true}`, `{"content":null,"structuredContent":null}`,
		`{"error":{"code":"rate_limited","message":"x","retryAfter":9223372036854775807}}`, `{"error":null,"content":[]}`, `[`, `null`, ``,
	} {
		f.Add([]byte(s), "", "", "", "")
	}
	f.Add([]byte(`{"content":[]}`), "5000", "1", "2", "500")
	codes := []contracts.Code{
		contracts.CodeToolError, contracts.CodeInvalidArgs, contracts.CodeRateLimited, contracts.CodeSourceUnavailable, contracts.CodeOutcomeUnknown,
	}
	f.Fuzz(func(t *testing.T, body []byte, working, part, parts, code string) {
		header := nats.Header{}
		for k, v := range map[string]string{
			contracts.PluginWorkingHeader: working, contracts.PluginPartHeader: part, contracts.PluginPartsHeader: parts, micro.ErrorCodeHeader: code,
		} {
			if v != "" {
				header.Set(k, v)
			}
		}
		var a answer
		half := len(body) / 2
		_, err := a.take(maps.Clone(header), body[:half])
		if err == nil {
			header.Del(contracts.PluginPartHeader)
			_, err = a.take(header, body[half:])
		}
		if a.working < 0 || a.working > mostWorking {
			t.Errorf("more is waited for within %v", a.working)
		}
		var r *contracts.Result
		if err == nil {
			r, err = decodeAnswer(header, a.body)
		}
		if err != nil {
			if !slices.Contains(codes, contracts.CodeOf(err)) || contracts.AsError(err).RetryAfter < 0 {
				t.Errorf("an error of a kind that Call does not return: %#v", err)
			}
			return
		}
		if _, err := json.Marshal(r); err != nil || r.Content == nil || r.Truncated != "" {
			t.Errorf("the result %+v: %v", r, err)
		}
	})
}
