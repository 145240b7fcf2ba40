package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// An MCPServer is one MCP server, in the form that desktop clients use. It is either a
// process (command) or an address (url).
type MCPServer struct {
	Type    string            `json:"type,omitempty" hint:"transport" enum:"stdio,http,streamable-http,streamableHttp,sse" doc:"How to reach the server. Default: stdio with command, http (Streamable HTTP) with url."`
	Command Secret            `json:"command,omitzero" doc:"Program to start."`
	Args    []Secret          `json:"args,omitempty" doc:"Its arguments."`
	Env     map[string]Secret `json:"env,omitempty" doc:"Environment variables added for it."`
	Cwd     Secret            `json:"cwd,omitzero" doc:"Directory to start it in. Default: that of the process."`
	URL     Secret            `json:"url,omitzero" hint:"serverUrl,httpUrl" doc:"http or https URL of the server."`
	Headers map[string]Secret `json:"headers,omitempty" doc:"HTTP headers of every request."`

	AlwaysLoad       bool              `json:"alwaysLoad,omitempty" doc:"Whether its tools are always shown to the model, and planning waits for it. Default false."`
	Disabled         bool              `json:"disabled,omitempty" hint:"enabled" doc:"Whether the server is left out. Default false."`
	Timeout          int               `json:"timeout,omitempty" min:"100" max:"3600000" doc:"Time limit of a call, in milliseconds. Default: callTimeoutMs of the limits."`
	TrustAnnotations bool              `json:"trustAnnotations,omitempty" hint:"trust" doc:"Whether its annotations are believed, for retries and policy. Default false."`
	Connection       string            `json:"connection,omitempty" enum:"shared,session" doc:"Whether all runs of the tenant share a connection or each session has its own. Default: session with stdio, else shared."`
	Expose           string            `json:"expose,omitempty" enum:"bare,prefixed" doc:"Whether names shown to a model carry the name of the server. Default prefixed."`
	Loading          contracts.Loading `json:"loading,omitempty" enum:"direct,auto,deferred" doc:"Whether its tools are shown to the model at once. Default: what a farther level says; direct with alwaysLoad."`
}

// A Target is how to reach an MCP server, references resolved. It holds secrets: it prints and encodes as nothing.
type Target struct {
	Command string            `json:"-"` // "" for a server with a URL
	Args    []string          `json:"-"`
	Env     map[string]string `json:"-"`
	Cwd     string            `json:"-"`
	URL     string            `json:"-"`
	Headers map[string]string `json:"-"`
}

// Format writes a placeholder for every verb.
func (t Target) Format(f fmt.State, _ rune) { io.WriteString(f, "(target)") }

// Resolve returns how to reach the server. The error names each reference that stands
// for nothing, with its key and without any value, so that it can be the reason that the source failed.
func (s MCPServer) Resolve(r Resolver) (Target, error) {
	var errs []error
	resolve := func(key string, v Secret) string {
		text, err := v.Resolve(r)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return text
	}
	resolveAll := func(key string, values map[string]Secret) map[string]string {
		out := make(map[string]string, len(values))
		for _, k := range slices.Sorted(maps.Keys(values)) {
			out[k] = resolve(join(key, k), values[k])
		}
		return out
	}
	t := Target{
		Command: resolve("command", s.Command),
		Env:     resolveAll("env", s.Env),
		Cwd:     resolve("cwd", s.Cwd),
		URL:     resolve("url", s.URL),
		Headers: resolveAll("headers", s.Headers),
	}
	for i, a := range s.Args {
		t.Args = append(t.Args, resolve(fmt.Sprintf("args[%d]", i), a))
	}
	if len(errs) == 0 && !s.URL.IsZero() && !isHTTP(t.URL) {
		errs = append(errs, errors.New("url: is not an http or https URL"))
	}
	if len(errs) == 0 && s.URL.IsZero() && t.Command == "" {
		errs = append(errs, errors.New("command: is empty"))
	}
	if err := errors.Join(errs...); err != nil {
		return Target{}, err
	}
	return t, nil
}

// isHTTP reports whether s is an absolute http or https URL.
func isHTTP(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// withDefaults returns s with every default that depends on nothing but s.
func (s MCPServer) withDefaults() MCPServer {
	switch {
	case s.Type == "" && s.URL.IsZero():
		s.Type = "stdio"
	case s.Type == "", s.Type == "streamable-http", s.Type == "streamableHttp":
		s.Type = "http"
	}
	if s.Type == "stdio" {
		s.Connection = cmp.Or(s.Connection, "session")
	}
	s.Connection = cmp.Or(s.Connection, "shared")
	s.Expose = cmp.Or(s.Expose, "prefixed")
	if s.AlwaysLoad {
		s.Loading = cmp.Or(s.Loading, contracts.LoadingDirect)
	}
	return s
}

// validateServers checks the servers at path, and that no two have the same owner.
func validateServers(r *report, path string, servers map[string]MCPServer) {
	all := slices.Sorted(maps.Keys(servers))
	validateOwners(r, path, "server", all)
	for _, name := range all {
		servers[name].validate(r, join(path, name))
	}
}

func (s MCPServer) validate(r *report, path string) {
	kind := s.withDefaults().Type
	stdio, http := "with type stdio or a command", "with type "+kind+" or a url"
	if s.Command.IsZero() && s.URL.IsZero() {
		r.add(path, "needs a command or a url")
	}
	misplaced := func(key string, present bool, with string) {
		if present {
			r.add(join(path, key), "cannot stand %s", with)
		}
	}
	if kind == "stdio" {
		misplaced("url", !s.URL.IsZero(), stdio)
		misplaced("headers", len(s.Headers) > 0, stdio)
	} else {
		misplaced("command", !s.Command.IsZero(), http)
		misplaced("args", len(s.Args) > 0, http)
		misplaced("env", len(s.Env) > 0, http)
		misplaced("cwd", !s.Cwd.IsZero(), http)
	}
	if s.AlwaysLoad && s.Loading != "" && s.Loading != contracts.LoadingDirect {
		r.add(join(path, "loading"), "is %s, but alwaysLoad means direct", s.Loading)
	}
	validateURL(r, join(path, "url"), s.URL)
}

// LoadMCP reads a server file of a desktop client: .mcp.json, claude_desktop_config.json,
// or mcp.json of VS Code. Only its key mcpServers or servers is read, and checked as mcpServers
// of [Config] is, but that keys of a client's own are passed over unless they look like a slip. In its strings ${NAME} and ${NAME:-default} are environment variables,
// ${env:NAME} and ${file:PATH} are what they are in [Config], and a server with any
// other ${…} cannot be resolved. The error is [Problems] unless the file cannot be read.
func LoadMCP(path string) (map[string]MCPServer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read MCP servers: %w", err)
	}
	return parseMCP(data, path)
}

func parseMCP(data []byte, name string) (map[string]MCPServer, error) {
	d := newDecoder(name, filepath.Dir(name))
	d.client = true
	root, err := parseFile(data)
	if err != nil {
		return nil, d.fatal(err)
	}
	if root == nil {
		root = &node{kind: kindNull}
	}
	key, servers := "mcpServers", root.field("mcpServers")
	other := root.field("servers")
	switch {
	case root.kind != kindObject || servers == nil && other == nil:
		d.add("", "holds neither mcpServers nor servers")
		return nil, d.err()
	case servers != nil && other != nil:
		d.add("", "holds both mcpServers and servers; want one of them")
		return nil, d.err()
	case servers == nil:
		key, servers = "servers", other
	}
	var out map[string]MCPServer
	d.decode(servers, key, reflect.ValueOf(&out).Elem(), "")
	d.readDone()
	validateServers(&d.report, key, out)
	if err := d.err(); err != nil {
		return nil, err
	}
	return out, nil
}

// AddMCP adds servers, which [LoadMCP] read from file, to those of the tenant local. It
// adds all or none: none where tenants are configured, or where a name, or the owner made
// of it, is taken. The error is [Problems]. Not to be called while c is in use.
func (c *Config) AddMCP(servers map[string]MCPServer, file string) error {
	r := report{file: file}
	if len(c.Tenants) > 0 {
		r.add("", "MCP servers belong to tenant local, but tenants are configured; put them in the sources of a tenant")
		return r.err()
	}
	taken := map[string]string{}
	for name := range c.MCPServers {
		taken[contracts.OwnerName(name)] = name
	}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if old, ok := taken[contracts.OwnerName(name)]; ok {
			r.add(join("mcpServers", name), "is taken by %q of %s; rename one", clip(old), cmp.Or(c.added[old], c.origin.file, "the configuration"))
		}
	}
	if err := r.err(); err != nil {
		return err
	}
	if c.MCPServers == nil {
		c.MCPServers = map[string]MCPServer{}
	}
	if c.added == nil {
		c.added = map[string]string{}
	}
	for name, s := range servers {
		c.MCPServers[name] = s
		c.added[name] = file
	}
	return nil
}
