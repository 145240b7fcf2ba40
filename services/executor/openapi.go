package executor

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
	"github.com/toolcrib/toolcrib/services/executor/source/openapi"
)

// openAPISource is the source of a service that an OpenAPI document describes. It comes from the operator's file, so the addresses
// in its configuration may be private; those that the document names may not, unless that is configured.
func openAPISource(c config.OpenAPISource, cfg Config) *source {
	s := &source{
		id: c.ID, settings: openAPISettings(c), alwaysLoad: c.AlwaysLoad, trusted: c.TrustAnnotations,
		bare: c.Expose == "bare", loading: c.Loading, connectTime: connectTimeout,
	}
	if c.Timeout > 0 {
		s.callTime = time.Duration(c.Timeout) * time.Millisecond
	}
	resolver := cfg.resolver()
	resolve := func() (openapi.Target, error) {
		t, err := c.Resolve(resolver)
		return openapi.Target{URL: t.URL, Server: t.Server, Headers: t.Headers, Auth: t.Auth, Secrets: t.Secrets}, err
	}
	s.dial = func(context.Context, func()) (connection, error) {
		network, err := c.Network.Guard(resolver)
		if err != nil {
			return nil, contracts.Errorf(contracts.CodeSourceUnavailable, "network.proxy: %w", err)
		}
		conn, err := openapi.Dial(openapi.Config{
			File: string(c.File), Variables: c.Variables, Include: c.Include, Exclude: c.Exclude, Rename: c.Rename,
			Deprecated: c.Deprecated, LooseOutputs: c.LooseOutputs, Network: network, OwnAddresses: true, Resolve: resolve,
		})
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
	return s
}

// openAPISettings returns the fingerprint of what decides which tools the service has, how they are listed and how they are called.
// References count as they are written, not with what they stand for.
func openAPISettings(c config.OpenAPISource) contracts.Hash {
	written := func(values map[string]config.Secret) map[string]string {
		out := map[string]string{}
		for k, v := range values {
			out[k] = v.Written()
		}
		return out
	}
	o := c.OpenAPI
	b, _ := json.Marshal([]any{
		c.ID, o.URL.Written(), o.File, o.Server.Written(), o.Variables, written(o.Headers), written(o.Auth), o.Include, o.Exclude, o.Rename,
		o.Deprecated, o.LooseOutputs, o.Network.Private, slices.Sorted(slices.Values(o.Network.Allow)), o.AlwaysLoad, o.TrustAnnotations, o.Expose, o.Loading,
	})
	return contracts.HashOf(b)
}
