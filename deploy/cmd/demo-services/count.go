package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/deploy/fleet"
	"github.com/toolcrib/toolcrib/deploy/stage"
)

// A counting is a tenant with two servers whose tool increment_counter writes a line for each time that it really
// happens: one that each session has as a process of its own, at an executor, and one that all share, at an address.
type counting struct {
	tenant *stage.Tenant
	file   string
	server *exec.Cmd // the shared one
}

const (
	ownTool    = "mcp:own:increment_counter"
	sharedTool = "mcp:shared:increment_counter"
)

func startCounting(ctx context.Context, dir, toolcrib string) (*counting, error) {
	addresses, err := fleet.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	c := &counting{tenant: stage.NewTenant("count"), file: filepath.Join(dir, "counted")}
	args := []string{"workshop", "--areas", "ops", "--counter-file", c.file, "--name"}
	c.server = exec.CommandContext(ctx, toolcrib, append(args, "shared", "--http", addresses[0])...)
	c.server.Cancel = func() error { return c.server.Process.Signal(os.Interrupt) }
	if err := c.server.Start(); err != nil {
		return nil, fmt.Errorf("start the shared workshop: %w", err)
	}
	c.tenant.Servers["own"] = map[string]any{"command": toolcrib, "args": append(slices.Clone(args), "own")}
	c.tenant.Servers["shared"] = map[string]any{"url": "http://" + addresses[0] + "/mcp"}
	return c, waitFor(ctx, addresses[0])
}

// waitFor waits until something listens at the address.
func waitFor(ctx context.Context, address string) error {
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *counting) stop() {
	c.server.Process.Signal(os.Interrupt)
	c.server.Wait()
}

// A happening is one line of the file: an increment that really happened.
type happening struct {
	Note string
	PID  int
}

// read returns what happened, by note.
func (c *counting) read() (map[string][]happening, error) {
	f, err := os.Open(c.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][]happening{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var h happening
		if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
			return nil, fmt.Errorf("the counter file: %w", err)
		}
		out[h.Note] = append(out[h.Note], h)
	}
	return out, lines.Err()
}

// histogram returns a text of counts by name, the most frequent first.
func histogram(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return counts[b] - counts[a] })
	text := ""
	for _, n := range names {
		text += fmt.Sprintf("%s%d %s", sep(text), counts[n], n)
	}
	return text
}

func sep(text string) string {
	if text == "" {
		return ""
	}
	return ", "
}
