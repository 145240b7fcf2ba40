package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A docker is an engine and its clients.
type docker struct {
	client, compose string // binaries
	environ         []string
	engine          *exec.Cmd // nil where it was there before
	ended           chan struct{}
}

const (
	engineWithin  = time.Minute
	installWithin = 5 * time.Minute
)

// openDocker returns an engine that answers: the one that there is, or one of its own in dir.
func openDocker(ctx context.Context, o options, dir string) (*docker, error) {
	d := &docker{environ: append(slices.Clone(o.environ), "DOCKER_BUILDKIT=1", "COMPOSE_PROJECT_NAME=toolcrib-demo")}
	if err := d.find(ctx, o.install); err != nil {
		return nil, err
	}
	if err := d.command(ctx, d.client, "info").Run(); err == nil {
		fmt.Println("docker    an engine is there already")
		return d, nil
	}
	if o.host != "" {
		return nil, fmt.Errorf("the engine at DOCKER_HOST=%s does not answer", o.host)
	}
	return d, d.start(ctx, dir)
}

// find finds the clients. Debian's own client has BuildKit, which one of another version need not have.
func (d *docker) find(ctx context.Context, install bool) error {
	look := func() error {
		var err error
		if d.client, err = exec.LookPath("/usr/bin/docker"); err != nil {
			if d.client, err = exec.LookPath("docker"); err != nil {
				return err
			}
		}
		if d.compose, err = exec.LookPath("docker-compose"); err != nil {
			return err
		}
		return nil
	}
	err := look()
	_, noEngine := exec.LookPath("dockerd")
	if err == nil && noEngine == nil || !install {
		return err
	}
	fmt.Println("docker    is installed: docker.io and docker-compose")
	ctx, cancel := context.WithTimeout(ctx, installWithin)
	defer cancel()
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", "docker.io", "docker-compose"}} {
		cmd := d.command(ctx, "apt-get", args...)
		cmd.Env = append(cmd.Env, "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out)
		}
	}
	return look()
}

// start starts an engine in dir.
func (d *docker) start(ctx context.Context, dir string) error {
	at := filepath.Join(dir, "docker")
	if err := os.MkdirAll(at, 0o700); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(at, "dockerd.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	host := "unix://" + filepath.Join(at, "docker.sock")
	d.engine = exec.Command("dockerd", "--data-root", filepath.Join(at, "data"), "--exec-root", filepath.Join(at, "exec"),
		"--pidfile", filepath.Join(at, "dockerd.pid"), "-H", host)
	d.engine.Stdout, d.engine.Stderr, d.engine.Env = log, log, d.environ
	if err := d.engine.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	d.ended = make(chan struct{})
	go func() {
		d.engine.Wait()
		close(d.ended)
	}()
	d.environ = append(d.environ, "DOCKER_HOST="+host)
	begun := time.Now()
	for d.command(ctx, d.client, "info").Run() != nil {
		select {
		case <-d.ended:
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
			if time.Since(begun) < engineWithin {
				continue
			}
		}
		said, _ := os.ReadFile(log.Name())
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		d.close()
		return fmt.Errorf("the engine is not ready after %v; it said:\n%s", time.Since(begun).Round(time.Second), strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	fmt.Printf("docker    an engine of its own is ready after %v, in %s\n", time.Since(begun).Round(time.Millisecond), at)
	return nil
}

// close ends the engine where it is one of its own.
func (d *docker) close() error {
	if d.engine == nil {
		return nil
	}
	d.engine.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
		return nil
	case <-time.After(engineWithin):
		d.engine.Process.Kill()
		<-d.ended
		return errors.New("the engine did not stop by itself")
	}
}

func (d *docker) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = slices.Clone(d.environ)
	return cmd
}

// do runs a command and returns what it said; the error has it too.
func (d *docker) do(ctx context.Context, name string, args ...string) (string, error) {
	cmd := d.command(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, &out)
	}
	return strings.TrimSpace(out.String()), nil
}
