package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/demo"
	"github.com/toolcrib/toolcrib/deploy/fleet"
	"github.com/toolcrib/toolcrib/deploy/keys"
	"github.com/toolcrib/toolcrib/deploy/stage"
)

// options are what the flags and the environment say.
type options struct {
	root, host    string
	install, keep bool
	environ       []string
}

const (
	upWithin   = 3 * time.Minute
	downWithin = 2 * time.Minute
	natsImage  = "toolcrib/nats:dev"
	// toolcrib is where the binary with the examples is in the containers that have it.
	toolcrib = "/opt/toolcrib"
	// depotAt is the depot's address for the other containers, and depotKey the key that it wants there.
	depotAt  = "depot:8080"
	depotKey = "key-of-the-demo"
)

func run(ctx context.Context, o options) (err error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "toolcrib-compose-")
	if err != nil {
		return err
	}
	if o.keep {
		fmt.Println("Everything is written to", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	d, err := openDocker(ctx, o, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.images(ctx, root); err != nil {
		return err
	}
	tenant, ledger := players()
	p, err := prepare(d, root, dir, tenant, ledger)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			p.explain()
		}
		err = errors.Join(err, p.down())
	}()
	if err := p.up(ctx); err != nil {
		return err
	}
	if err := p.show(ctx); err != nil {
		return err
	}
	if err := stage.Play(ctx, tenant, p.url, "", os.Stdout); err != nil {
		return fmt.Errorf("the demo failed: %w", err)
	}
	return nil
}

// players returns a tenant with the sources of the demo: workshops as processes in the executor's container, the depot and
// the ledger in containers of their own.
func players() (*stage.Tenant, keys.Plugin) {
	t := stage.NewTenant("demo")
	for name, server := range demo.Servers(toolcrib, os.DevNull, "/tmp") {
		t.Servers[name] = server
	}
	t.Plugins = demo.Plugins("http://"+depotAt+"/openapi.yaml", depotKey, "")
	return t, keys.Plugin{Tenant: "demo", ID: demo.LedgerName}
}

// neighbours returns what the demo adds to the compose file. The image is that of a service, for which everything is in one binary here.
func neighbours(root, dir, key string) map[string]any {
	binary := filepath.Join(root, "bin", "toolcrib") + ":" + toolcrib + ":ro"
	neighbour := func(args ...string) map[string]any {
		return map[string]any{
			"image": "toolcrib/executor:dev", "entrypoint": []string{toolcrib}, "command": args, "healthcheck": map[string]any{"disable": true},
			"read_only": true, "cap_drop": []string{"ALL"}, "networks": []string{"bus"}, "volumes": []string{binary}, "tmpfs": []string{"/tmp:mode=1777"},
		}
	}
	ledger := neighbour("ledger", "--nats", "nats://nats:4222", "--creds", "/run/toolcrib/key.nk", "--tenant", "demo", "--journal", "/tmp/ledger.jsonl")
	ledger["volumes"] = []string{binary, key + ":/run/toolcrib/key.nk:ro"}
	return map[string]any{
		"executor": map[string]any{"volumes": []string{binary}},
		"nats":     map[string]any{"volumes": []string{filepath.Join(dir, "nats.conf") + ":/etc/nats/nats.conf:ro"}},
		"depot":    neighbour("depot", "--http", "0.0.0.0:8080", "--key", depotKey),
		"ledger":   ledger,
	}
}

// admit writes the server's configuration with the user of the ledger.
func admit(root, dir, keyDir string, ledger keys.Plugin) error {
	user, err := ledger.User(keyDir)
	if err != nil {
		return err
	}
	conf, err := os.ReadFile(filepath.Join(root, "deploy", "nats", "nats.conf"))
	if err != nil {
		return err
	}
	text, err := keys.WithUsers(string(conf), user)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "nats.conf"), []byte(text), 0o644)
}

// images makes the images out of the binaries.
func (d *docker) images(ctx context.Context, root string) error {
	begun := time.Now()
	build := func(file, tag string, args ...string) error {
		_, err := d.do(ctx, d.client, append([]string{"build", "-q", "-f", filepath.Join(root, file), "-t", tag, root}, args...)...)
		return err
	}
	if err := build("deploy/nats/Dockerfile", natsImage); err != nil {
		return err
	}
	for _, s := range keys.Services() {
		if err := build("deploy/Dockerfile", "toolcrib/"+s+":dev", "--build-arg", "SERVICE="+s); err != nil {
			return err
		}
	}
	list, err := d.do(ctx, d.client, "images", "--format", "{{.Repository}}:{{.Tag}} {{.Size}}", "--filter", "reference=toolcrib/*")
	if err != nil {
		return err
	}
	fmt.Printf("images    made in %v: %s\n", time.Since(begun).Round(time.Millisecond), strings.Join(strings.Split(list, "\n"), ", "))
	return nil
}

// A project is the compose file with what it needs.
type project struct {
	*docker
	files []string // arguments that name the files
	url   string
}

// prepare writes keys, configuration and what the demo adds to the compose file.
func prepare(d *docker, root, dir string, tenant *stage.Tenant, ledger keys.Plugin) (*project, error) {
	keyDir := filepath.Join(dir, "keys")
	if _, err := keys.Make(keyDir); err != nil {
		return nil, err
	}
	if err := admit(root, dir, keyDir, ledger); err != nil {
		return nil, err
	}
	if err := keys.ForContainers(keyDir); err != nil {
		return nil, err
	}
	file := stage.File(tenant)
	file["listen"] = "0.0.0.0:7420"
	file["nats"] = map[string]any{"url": "nats://nats:4222", "creds": "${env:TOOLCRIB_NATS_CREDS}"}
	config := filepath.Join(dir, "toolcrib.json")
	more := filepath.Join(dir, "more.json")
	for path, data := range map[string]any{config: file, more: map[string]any{"services": neighbours(root, dir, ledger.File(keyDir))}} {
		b, err := json.Marshal(data)
		if err == nil {
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			return nil, err
		}
	}
	addresses, err := fleet.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	d.environ = append(d.environ, "TOOLCRIB_CONFIG="+config, "TOOLCRIB_KEYS="+keyDir, "TOOLCRIB_LISTEN="+addresses[0], "TOOLCRIB_NATS_IMAGE="+natsImage)
	return &project{docker: d, url: "http://" + addresses[0], files: []string{"-f", filepath.Join(root, "deploy", "compose.yaml"), "-f", more}}, nil
}

func (p *project) run(ctx context.Context, args ...string) (string, error) {
	return p.do(ctx, p.compose, append(p.files, args...)...)
}

// up starts all, two of those who do the work, and waits until each container is healthy, or runs where it has no check.
func (p *project) up(ctx context.Context) error {
	begun := time.Now()
	if _, err := p.run(ctx, "up", "-d", "--scale", "executor=2", "--scale", "sandbox=2", "--scale", "indexer=2"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	for {
		list, err := p.states(ctx)
		if err != nil {
			return err
		}
		waits := 0
		for _, state := range list {
			if !strings.HasSuffix(state, " healthy") && !strings.HasSuffix(state, " running") { // which one without a health check says
				waits++
			}
		}
		if waits == 0 && len(list) > 0 {
			fmt.Printf("up        all containers are healthy %v after up\n  %s\n", time.Since(begun).Round(time.Millisecond), strings.Join(list, "\n  "))
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d containers are not healthy after %v:\n%s", waits, upWithin, strings.Join(list, "\n"))
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// states returns name, user, and health of each container of the project.
func (p *project) states(ctx context.Context) ([]string, error) {
	ids, err := p.run(ctx, "ps", "-q")
	if err != nil {
		return nil, err
	}
	if ids == "" {
		return nil, errors.New("there are no containers")
	}
	const format = `{{.Name}} user={{.Config.User}} read-only={{.HostConfig.ReadonlyRootfs}} {{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}`
	list, err := p.do(ctx, p.client, append([]string{"inspect", "-f", format}, strings.Fields(ids)...)...)
	return strings.Split(list, "\n"), err
}

// show prints what the gateway says of itself and of the sandboxes.
func (p *project) show(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	fmt.Printf("gateway   %s says %s", p.url, body)
	return nil
}

// explain prints the logs.
func (p *project) explain() {
	ctx, cancel := context.WithTimeout(context.Background(), downWithin)
	defer cancel()
	if logs, err := p.run(ctx, "logs", "--no-color", "--tail", "15"); err == nil {
		fmt.Fprintln(os.Stderr, logs)
	}
}

func (p *project) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), downWithin)
	defer cancel()
	begun := time.Now()
	if _, err := p.run(ctx, "down", "-v"); err != nil {
		return err
	}
	fmt.Printf("down      in %v\n", time.Since(begun).Round(time.Millisecond))
	return nil
}
