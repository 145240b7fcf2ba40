package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/cmd/toolcrib/node"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

func (a *app) mcpCommand() *cobra.Command {
	var f upFlags
	var mode, profile string
	c := &cobra.Command{
		Use: "mcp", Short: "Be an MCP server on standard input and output, for a desktop client",
		Long: "Bridges an MCP client on standard input and output to a running toolcrib. Without one at --url, or\n" +
			"with --config or --mcp-config, it starts everything in this process.",
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			own := f.config != "" || len(f.mcp) > 0
			if !own && (c.Flags().Changed("url") || answers(ctx, a.url)) {
				return bridge(ctx, a.front(a.url, profile, mode), a.token, stdio(a))
			}
			cfg, err := f.load(a)
			if err != nil {
				return err
			}
			if f.listen == "" {
				cfg.File.Listen = "127.0.0.1:0"
			}
			var bridged error
			err = a.serve(ctx, cfg, f.logger(a), func(n *node.Node) {
				bridged = bridge(ctx, a.front(n.URL, profile, mode), a.token, stdio(a))
				cancel()
			})
			return errors.Join(bridged, err)
		},
	}
	f.add(c)
	c.Flags().StringVar(&mode, "mode", "", "true, false, auto, auto:N, code, tools, directory or direct")
	c.Flags().StringVar(&profile, "profile", "", "profile of the run")
	return c
}

// front returns the address of the MCP front of the server at base.
func (a *app) front(base, profile, mode string) string {
	u := base + "/mcp"
	if profile != "" {
		u += "/" + url.PathEscape(profile)
	}
	if mode != "" {
		u += "?mode=" + url.QueryEscape(mode)
	}
	return u
}

func stdio(a *app) mcp.Transport {
	return &mcp.IOTransport{Reader: io.NopCloser(a.stdin), Writer: nopCloser{a.stdout}}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// bridge carries MCP messages between a client on near and the server at url, until the client is done or ctx is.
func bridge(ctx context.Context, url, token string, near mcp.Transport) error {
	headers := &sessionHeaders{token: token}
	far := &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: headers}}
	client, err := near.Connect(ctx)
	if err != nil {
		return fmt.Errorf("open standard input and output: %w", err)
	}
	defer client.Close()
	server, err := far.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for {
			m, err := server.Read(ctx)
			if err != nil {
				return
			}
			headers.learn(m)
			if client.Write(ctx, m) != nil {
				return
			}
		}
	}()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		m, err := client.Read(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read from the client: %w", err)
		}
		send := func() {
			if err := server.Write(ctx, m); err != nil && ctx.Err() == nil {
				refuse(ctx, client, m, err)
			}
		}
		// A call may last; what comes behind it, such as its cancellation, must not wait. The beginning keeps its order.
		if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && r.Method != "initialize" {
			calls.Go(send)
		} else {
			send()
		}
	}
}

// refuse answers a request that could not be passed on.
func refuse(ctx context.Context, client mcp.Connection, m jsonrpc.Message, cause error) {
	r, ok := m.(*jsonrpc.Request)
	if !ok || !r.IsCall() {
		return
	}
	client.Write(ctx, &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{
		Code: int64(contracts.InfoOf(contracts.CodeUnavailable).MCP), Message: "toolcrib cannot be reached: " + cause.Error(),
	}})
}

// sessionHeaders adds what each request after the first must carry.
type sessionHeaders struct {
	token   string
	mu      sync.Mutex
	version string // of the protocol, once it is agreed
}

// learn takes the protocol version from the answer to initialize.
func (h *sessionHeaders) learn(m jsonrpc.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, ok := m.(*jsonrpc.Response); ok && h.version == "" {
		h.version = protocolVersion(r.Result)
	}
}

func (h *sessionHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	h.mu.Lock()
	if h.version != "" && r.Header.Get("Mcp-Protocol-Version") == "" {
		r.Header.Set("Mcp-Protocol-Version", h.version)
	}
	h.mu.Unlock()
	if h.token != "" {
		r.Header.Set("Authorization", "Bearer "+h.token)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// answers reports whether a toolcrib is at base.
func answers(ctx context.Context, base string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return get(ctx, base+"/healthz") == nil
}

// waitReady waits until the server at base answers requests.
func waitReady(ctx context.Context, base string) error {
	for {
		err := get(ctx, base+"/readyz")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, res.Status)
	}
	return nil
}
