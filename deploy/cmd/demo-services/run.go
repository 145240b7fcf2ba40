package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/demo"
	"github.com/toolcrib/toolcrib/deploy/fleet"
	"github.com/toolcrib/toolcrib/deploy/keys"
	"github.com/toolcrib/toolcrib/deploy/stage"
)

// options are what the flags say.
type options struct {
	bin, nats, conf, toolcrib, npm string
	throughput, keep               bool
}

// startWithin is how long all processes together may take to be ready on a busy machine.
const startWithin = 2 * time.Minute

func run(ctx context.Context, o options) error {
	for _, p := range []*string{&o.bin, &o.nats, &o.conf, &o.toolcrib, &o.npm} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	dir, err := os.MkdirTemp("", "toolcrib-services-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("Everything is written to", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if o.throughput {
		return throughput(ctx, o, dir)
	}
	return show(ctx, o, dir)
}

// show plays the demo on a fleet, and kills a part of the fleet.
func show(ctx context.Context, o options, dir string) (err error) {
	folder := filepath.Join(dir, "files")
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	npm := o.npm
	if _, err := exec.LookPath("node"); err != nil {
		fmt.Println("Node is not installed; the demo goes on without the public MCP servers.")
		npm = os.DevNull
	}
	players := stage.NewTenant("demo")
	for name, server := range demo.Servers(o.toolcrib, npm, folder) {
		players.Servers[name] = server
	}
	key := rand.Text()
	depot, url, err := demo.StartDepot(ctx, o.toolcrib, key)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, depot.Stop()) }()
	players.Plugins = demo.Plugins(url, key, "")
	count, err := startCounting(ctx, dir, o.toolcrib)
	if err != nil {
		return err
	}
	defer count.stop()
	cfg := o.fleet(dir, map[string]int{"sandbox": 2, "indexer": 2, "executor": 2}, players, count.tenant)
	ledger := keys.Plugin{Tenant: "demo", ID: demo.LedgerName}
	cfg.Plugins = []keys.Plugin{ledger}
	f, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fmt.Fprint(os.Stderr, f.Logs())
		}
	}()
	defer func() { err = errors.Join(err, end(f)) }()
	if err := begin(ctx, f); err != nil {
		return err
	}
	plugin, err := f.StartPlugin(ledger, o.toolcrib, "ledger", "--journal", filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		return err
	}
	fmt.Printf("  %sa plugin on the bus\n", plugin)
	if err := stage.Play(ctx, players, f.URL, folder, os.Stdout); err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	return storm(ctx, f, count)
}

func (o options) fleet(dir string, replicas map[string]int, tenants ...*stage.Tenant) fleet.Config {
	return fleet.Config{
		Dir: dir, Bin: o.bin, NATS: o.nats, Conf: o.conf, File: stage.File(tenants...), Replicas: replicas,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir},
	}
}

// begin starts the services, and the server that they need last.
func begin(ctx context.Context, f *fleet.Fleet) error {
	fmt.Println("== The processes")
	started := time.Now()
	if err := f.StartServices(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	// Each says that it is not ready, and why, before there is a server.
	for _, p := range f.Processes("") {
		if err := waiting(ctx, p); err != nil {
			return err
		}
	}
	fmt.Printf("%d processes of 6 services wait for NATS, and say so\n", len(f.Processes("")))
	if _, err := f.StartNATS(); err != nil {
		return err
	}
	if err := f.Ready(ctx); err != nil {
		return err
	}
	fmt.Printf("all are ready %v after the start of the first\n", time.Since(started).Round(time.Millisecond))
	for _, p := range f.Processes("") {
		fmt.Println(" ", p)
	}
	return nil
}

// waiting waits until the process answers, and returns an error where it says that it is ready.
func waiting(ctx context.Context, p *fleet.Process) error {
	for {
		err := p.Probe(ctx)
		if err == nil {
			return fmt.Errorf("%s says that it is ready without a NATS server", p.Name)
		}
		if _, answered := errors.AsType[*fleet.NotReady](err); answered {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w", p.Name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func end(f *fleet.Fleet) error {
	begun := time.Now()
	if err := f.Stop(); err != nil {
		return err
	}
	fmt.Printf("\nAll processes that were not killed ended well, %v after they were told to.\n", time.Since(begun).Round(time.Millisecond))
	return nil
}
