package executor

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/source/mcp"
)

// mcpSource is the source of an MCP server.
func mcpSource(c config.Source, cfg Config) *source {
	s := &source{
		id: c.ID, settings: settingsOf(c), alwaysLoad: c.AlwaysLoad, trusted: c.TrustAnnotations,
		bare: c.Expose == "bare", perSession: c.Connection == "session", loading: c.Loading, connectTime: connectTimeout,
	}
	if c.Timeout > 0 {
		s.callTime = time.Duration(c.Timeout) * time.Millisecond
		s.connectTime = s.callTime
	}
	if s.alwaysLoad && s.loading == "" {
		s.loading = contracts.LoadingDirect
	}
	resolver := cfg.resolver()
	s.dial = func(ctx context.Context, changed func()) (connection, error) {
		target, err := c.Resolve(resolver)
		if err != nil {
			return nil, contracts.Errorf(contracts.CodeSourceUnavailable, "%w", err)
		}
		network, err := cfg.Network.Guard(resolver)
		if err != nil {
			return nil, contracts.Errorf(contracts.CodeSourceUnavailable, "network.proxy: %w", err)
		}
		conn, err := mcp.Dial(ctx, mcp.Config{
			Command: target.Command, Args: target.Args, Env: target.Env, Environ: cfg.Environ, Dir: target.Cwd,
			URL: target.URL, SSE: c.Type == "sse", Headers: target.Headers, Secrets: secretsOf(c, target), Network: network,
		}, changed)
		if err != nil {
			return nil, err
		}
		return byName{conn}, nil
	}
	return s
}

// secretsOf returns the texts of the target that come from references outside of its environment and headers.
func secretsOf(c config.Source, t config.Target) []string {
	var out []string
	add := func(s config.Secret, value string) {
		if strings.Contains(s.String(), "${") {
			out = append(out, value)
			if _, v, ok := strings.Cut(value, "="); ok { // --token=…
				out = append(out, v)
			}
		}
	}
	for i, a := range c.Args {
		if i < len(t.Args) {
			add(a, t.Args[i])
		}
	}
	add(c.Command, t.Command)
	return out
}

// settingsOf returns the fingerprint of what decides which tools a source has and how they are listed.
// References count as they are written, not with what they stand for.
func settingsOf(c config.Source) contracts.Hash {
	written := []string{c.ID.String(), c.Type, c.Command.Written(), c.Cwd.Written(), c.URL.Written(), c.Expose, string(c.Loading)}
	if c.TrustAnnotations {
		written = append(written, "trust")
	}
	if c.AlwaysLoad {
		written = append(written, "always")
	}
	for _, a := range c.Args {
		written = append(written, "arg", a.Written())
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		written = append(written, "env", k, c.Env[k].Written())
	}
	for _, k := range slices.Sorted(maps.Keys(c.Headers)) {
		written = append(written, "header", k, c.Headers[k].Written())
	}
	b, _ := json.Marshal(written)
	return contracts.HashOf(b)
}
