package bus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// A Guest is one who may connect to the embedded server, and may do there what is said here and no more.
type Guest struct {
	Name, Password     string
	Publish, Subscribe []string // subjects
}

// What a guest may answer to a request that reaches it, in messages, and for how long.
const (
	mostAnswers  = 10_000
	answerWithin = 2 * time.Hour
)

// door adds to opts where the embedded server listens, and who may come in: the guests of cfg and, with what it returns, the process itself.
func (cfg Config) door(opts *server.Options) ([]nats.Option, error) {
	if cfg.Listen == "" {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err == nil {
		opts.Host = host
		opts.Port, err = strconv.Atoi(port)
	}
	if ip := net.ParseIP(host); err != nil || opts.Port == 0 || ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("nats.listen: %q; want an address of this machine alone, such as 127.0.0.1:4222", cfg.Listen)
	}
	free, err := net.Listen("tcp", cfg.Listen) // the server itself does not say that it cannot
	if err != nil {
		return nil, fmt.Errorf("nats.listen: %w", err)
	}
	if err := free.Close(); err != nil {
		return nil, err
	}
	const own = "toolcrib"
	password := rand.Text()
	opts.DontListen = false
	opts.Users = []*server.User{{Username: own, Password: password}}
	for _, g := range cfg.Guests {
		if g.Name == "" || g.Name == own || g.Password == "" {
			return nil, errors.New("nats.listen: a guest needs a name and a password")
		}
		opts.Users = append(opts.Users, &server.User{Username: g.Name, Password: g.Password, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: g.Publish}, Subscribe: &server.SubjectPermission{Allow: g.Subscribe},
			Response: &server.ResponsePermission{MaxMsgs: mostAnswers, Expires: answerWithin},
		}})
	}
	return []nats.Option{nats.UserInfo(own, password)}, nil
}
