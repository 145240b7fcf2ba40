// Package fleet runs a hosted Toolcrib on this machine: a NATS server and every service as processes of
// their own, as many of each as wished, each service with its own key. It is for demonstrations and
// measurements; it decides nothing that a deployment would have to repeat.
package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolcrib/toolcrib/deploy/keys"
)

// A Config says what to run.
type Config struct {
	Dir  string // for everything that is written; must exist
	Bin  string // folder with the binaries of the services, by their names
	NATS string // binary of the NATS server
	Conf string // its configuration, nats/nats.conf
	// File is the configuration of the services but for where NATS, the API and the data are.
	File map[string]any
	// Replicas says how many there are of a service; of one that is not in it there is one.
	Replicas map[string]int
	Environ  []string // of the services, such as PATH, besides what they need
	// Plugins may connect to the server, each with a key of its own.
	Plugins []keys.Plugin
}

// A Fleet is a NATS server and services that run. Safe for concurrent use.
type Fleet struct {
	// URL is that of the API.
	URL string

	cfg     Config
	conf    string
	natsEnv []string
	natsURL string
	file    string

	mu        sync.Mutex
	processes []*Process
}

const natsName = "nats"

// New prepares a fleet: keys, addresses and configuration. Nothing runs yet.
func New(cfg Config) (*Fleet, error) {
	f := &Fleet{cfg: cfg, file: filepath.Join(cfg.Dir, "toolcrib.json")}
	var err error
	if f.natsEnv, err = keys.Make(f.keys()); err != nil {
		return nil, err
	}
	if f.conf, err = f.admit(); err != nil {
		return nil, err
	}
	addresses, err := FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	f.natsURL, f.URL = "nats://"+addresses[0], "http://"+addresses[1]
	file := maps.Clone(cfg.File)
	file["listen"] = addresses[1]
	file["data"] = filepath.Join(cfg.Dir, "data")
	file["nats"] = map[string]any{"url": f.natsURL, "creds": "${env:TOOLCRIB_NATS_CREDS}"}
	b, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"data", "log", natsName} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, dir), 0o700); err != nil {
			return nil, err
		}
	}
	return f, os.WriteFile(f.file, b, 0o600)
}

func (f *Fleet) keys() string { return filepath.Join(f.cfg.Dir, "keys") }

// admit returns the path of a configuration of the server that lets the plugins in.
func (f *Fleet) admit() (string, error) {
	conf, err := os.ReadFile(f.cfg.Conf)
	if err != nil {
		return "", err
	}
	var users []string
	for _, p := range f.cfg.Plugins {
		user, err := p.User(f.keys())
		if err != nil {
			return "", err
		}
		users = append(users, user)
	}
	text, err := keys.WithUsers(string(conf), users...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(f.cfg.Dir, "nats.conf")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// FreeAddresses returns addresses of this machine on which nothing listens.
func FreeAddresses(n int) ([]string, error) {
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// StartNATS starts the NATS server.
func (f *Fleet) StartNATS() (*Process, error) {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(f.natsURL, "nats://"))
	if err != nil {
		return nil, err
	}
	environ := append([]string{"TOOLCRIB_NATS_STORE=" + filepath.Join(f.cfg.Dir, natsName)}, f.natsEnv...)
	return f.start(natsName, "", f.cfg.NATS, environ, "-c", f.conf, "-a", host, "-p", port)
}

// StartServices starts every service as often as wished, in an order that is never the same.
func (f *Fleet) StartServices() error {
	var all []string
	for _, s := range keys.Services() {
		for range max(f.cfg.Replicas[s], 1) {
			all = append(all, s)
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, s := range all {
		if _, err := f.StartService(s); err != nil {
			return err
		}
	}
	return nil
}

// StartService starts one more of a service.
func (f *Fleet) StartService(service string) (*Process, error) {
	addresses, err := FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	environ := append([]string{"TOOLCRIB_NATS_CREDS=" + keys.File(f.keys(), service)}, f.cfg.Environ...)
	return f.start(service, addresses[0], filepath.Join(f.cfg.Bin, service), environ, "--config", f.file, "--health", addresses[0])
}

// StartPlugin starts a plugin: a command that takes --nats, --creds and --tenant besides args. It is a service by the plugin's name here.
func (f *Fleet) StartPlugin(p keys.Plugin, binary string, args ...string) (*Process, error) {
	args = append(slices.Clone(args), "--nats", f.natsURL, "--creds", p.File(f.keys()), "--tenant", string(p.Tenant))
	return f.start(string(p.ID), "", binary, f.cfg.Environ, args...)
}

// Processes returns those of a service that were started, in that order; "nats" is a service here, and "" all.
func (f *Fleet) Processes(service string) []*Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*Process
	for _, p := range f.processes {
		if service == "" || p.Service == service {
			out = append(out, p)
		}
	}
	return out
}

// Ready waits until every service that runs says that it is ready. The error is why one is not, once ctx is done.
func (f *Fleet) Ready(ctx context.Context) error {
	for _, p := range f.Processes("") {
		for p.health != "" {
			err := p.Probe(ctx)
			if err == nil || p.killed.Load() {
				break
			}
			if ended := f.ended(); ended != nil {
				return ended
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not ready: %w", p.Name, err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	return f.ended()
}

// ended returns an error where a process ended that nobody killed.
func (f *Fleet) ended() error {
	for _, p := range f.Processes("") {
		select {
		case <-p.done:
			if !p.killed.Load() {
				return fmt.Errorf("%s ended: %w", p.Name, p.err)
			}
		default:
		}
	}
	return nil
}

// CPU returns the CPU time that each service has used, all of its replicas and their children together.
func (f *Fleet) CPU() map[string]time.Duration {
	all := processTimes()
	out := map[string]time.Duration{}
	for _, p := range f.Processes("") {
		out[p.Service] += all.tree(p.pid())
	}
	return out
}

// stopWithin is how long a process may take to stop; the services give up by themselves after 20 s.
const stopWithin = 40 * time.Second

// Stop tells all processes to stop, the NATS server after the services, and waits. The error says which of those that were
// not killed did not end well.
func (f *Fleet) Stop() error {
	services := slices.DeleteFunc(f.Processes(""), func(p *Process) bool { return p.Service == natsName })
	err := stopAll(services)
	return errors.Join(err, stopAll(f.Processes(natsName)))
}

func stopAll(all []*Process) error {
	for _, p := range all {
		p.terminate()
	}
	var err error
	for _, p := range all {
		err = errors.Join(err, p.stopped(stopWithin))
	}
	return err
}

// Logs returns the end of each log that has something at least as grave as a warning, for whoever looks for a reason.
func (f *Fleet) Logs() string {
	var out strings.Builder
	for _, p := range f.Processes("") {
		data, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		lines = slices.DeleteFunc(lines, func(l string) bool {
			return strings.Contains(l, "level=INFO") || strings.Contains(l, "[INF]") || l == ""
		})
		if len(lines) == 0 {
			continue
		}
		const most = 8
		fmt.Fprintf(&out, "-- %s\n%s\n", p.Name, strings.Join(lines[max(0, len(lines)-most):], "\n"))
	}
	return out.String()
}
