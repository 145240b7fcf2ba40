package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// DefaultListen is where the API listens unless the file says otherwise.
const DefaultListen = "127.0.0.1:7420"

// A Config is a configuration file. [Parse] makes one; of an empty file it is the default configuration.
//
// mcpServers, plugins, hooks, admission, limits and profiles at the top are those of the tenant local, which
// exists only where tenants is empty. [Config.Tenant] and the other methods hide this difference.
// Safe for concurrent reading.
type Config struct {
	Listen     string                        `json:"listen,omitempty" doc:"Address of the API, MCP and the console, host:port. Default 127.0.0.1:7420. Any address but a loopback one needs tenants with keys or oidc."`
	PublicURL  string                        `json:"publicUrl,omitempty" hint:"baseUrl,externalUrl" doc:"The URL by which clients reach listen, without a path, such as https://crib.example. Default: http and the address of listen."`
	Data       string                        `json:"data,omitempty" doc:"Directory of everything that is kept. Default: .toolcrib in the user's data directory."`
	NATS       NATS                          `json:"nats,omitzero" doc:"The bus. Default: an embedded one that opens no port."`
	Index      Index                         `json:"index,omitzero" doc:"Where tools are searched."`
	ToolSearch ToolSearch                    `json:"toolSearch,omitzero" doc:"What the model sees where neither the run nor its profile or tenant says it. Default: the surface code."`
	Policies   []PolicyLayer                 `json:"policies,omitempty" doc:"Policy layers for all tenants. Default: everything is allowed."`
	OTel       OTel                          `json:"otel,omitzero" doc:"Where traces and metrics are sent."`
	Network    Network                       `json:"network,omitzero" doc:"Addresses, besides public ones, that may be reached for what a document or another server names. Default: none."`
	Tenants    map[contracts.TenantID]Tenant `json:"tenants,omitempty" doc:"The tenants of a hosted deployment by id, 1 to 63 characters of a-z, 0-9 and -. Default: one tenant, local, that needs no key on loopback."`

	MCPServers map[string]MCPServer `json:"mcpServers,omitempty" hint:"servers,sources" doc:"MCP servers of tenant local by name, in the form that desktop clients use. Not together with tenants."`
	Plugins    Plugins              `json:"plugins,omitzero" doc:"Other sources of tenant local. Not together with tenants."`
	Hooks      map[string]Hook      `json:"hooks,omitempty" doc:"Hooks of tenant local by name: who is asked before calls of tools, or told after them. Not together with tenants."`
	Admission  string               `json:"admission,omitempty" enum:"off,warn,quarantine" doc:"What becomes of tools that their source changed: off takes the change, warn takes and notes it, quarantine holds the tool back until an operator admits it. Default warn. For tenant local; not together with tenants."`
	Limits     Limits               `json:"limits,omitzero" doc:"Limits of tenant local. Not together with tenants."`
	Profiles   map[string]Profile   `json:"profiles,omitempty" doc:"Profiles of tenant local by name. Not together with tenants."`

	origin report            // the file, for the lines of problems found later
	added  map[string]string // names of MCPServers from other files, with the file
}

// NATS says where the bus is.
type NATS struct {
	URL        Secret `json:"url,omitzero" doc:"URLs of the NATS servers, separated by commas. Default: an embedded server."`
	Creds      Secret `json:"creds,omitzero" doc:"Path of a NATS credentials file. Needs url. Default: none."`
	Replicas   int    `json:"replicas,omitempty" min:"1" max:"5" doc:"Copies of each stream and bucket. More than 1 needs url. Default 1."`
	Durability string `json:"durability,omitempty" enum:",strict" doc:"strict syncs every write to disk before it counts. Default: within seconds, so that a killed process loses nothing but a lost machine may."`
	Listen     string `json:"listen,omitempty" doc:"Address of this machine alone, such as 127.0.0.1:4222, at which the embedded server lets in the plugins that have a password. Not together with url. Default: it opens no port."`
}

// Index says where tools are searched.
type Index struct {
	Backend   string    `json:"backend,omitempty" enum:"embedded,typesense" doc:"Default embedded."`
	Typesense Typesense `json:"typesense,omitzero" doc:"Needed by backend typesense."`
}

// Typesense says where a Typesense server is.
type Typesense struct {
	URL    Secret `json:"url,omitzero" doc:"Its http or https URL."`
	APIKey Secret `json:"apiKey,omitzero" doc:"A key that may create collections."`
}

// OTel says where OpenTelemetry data goes.
type OTel struct {
	Endpoint string `json:"endpoint,omitempty" doc:"OTLP/HTTP endpoint, an http or https URL. Default: nothing is sent."`
}

// A Tenant is what the file says of one tenant.
type Tenant struct {
	Keys              []Key                `json:"keys,omitempty" doc:"API keys of the tenant. Without keys and oidc, nobody can use it."`
	OIDC              *OIDC                `json:"oidc,omitempty" doc:"The issuer whose tokens the tenant takes beside keys."`
	ToolSearch        ToolSearch           `json:"toolSearch,omitzero" doc:"What the model sees where neither the run nor its profile says it."`
	ToolSearchManaged bool                 `json:"toolSearchManaged,omitempty" doc:"Whether the tenant's toolSearch beats those of runs, environment and profiles. Default false."`
	Sources           map[string]MCPServer `json:"sources,omitempty" hint:"mcpServers,servers" doc:"MCP servers by name, in the form that desktop clients use."`
	Plugins           Plugins              `json:"plugins,omitzero" doc:"Other sources of the tenant."`
	Policies          []PolicyLayer        `json:"policies,omitempty" doc:"Policy layers of the tenant."`
	Hooks             map[string]Hook      `json:"hooks,omitempty" doc:"Hooks of the tenant by name: who is asked before calls of tools, or told after them."`
	Admission         string               `json:"admission,omitempty" enum:"off,warn,quarantine" doc:"What becomes of tools that their source changed: off takes the change, warn takes and notes it, quarantine holds the tool back until an operator admits it. Default warn."`
	Limits            Limits               `json:"limits,omitzero" doc:"Limits of the tenant."`
	Profiles          map[string]Profile   `json:"profiles,omitempty" doc:"Profiles by name: what runs with that profile get."`
}

// A PolicyLayer is a [contracts.PolicyLayer] of the file.
type PolicyLayer struct {
	Level string       `json:"level,omitempty" enum:"global,tenant,profile,agent,sandbox,session" doc:"Where the layer stands. Default: global at the top, tenant in a tenant."`
	Name  string       `json:"name,omitempty" doc:"The profile, agent, sandbox or session that the layer is for. Needed by these levels, and only by them."`
	Allow []string     `json:"allow,omitempty" doc:"Globs over tool ids such as mcp:github:*. Where there are any, only matching tools are let through."`
	Deny  []string     `json:"deny,omitempty" doc:"Globs over tool ids. Matching tools do not exist for the run, whatever any layer allows."`
	Rules []PolicyRule `json:"rules,omitempty" doc:"Rules over single tools and calls. Those with the effect allow belong to the allow list."`
}

// A PolicyRule is a [contracts.PolicyRule] of the file.
type PolicyRule struct {
	Name     string         `json:"name" doc:"Names the rule in its layer, for operators: 1 to 64 letters, digits, _ and -."`
	Effect   string         `json:"effect" enum:"allow,deny,approve" doc:"What the rule does where it fires. A denial always wins, and approve beats allow."`
	Tools    []string       `json:"tools,omitempty" doc:"Globs over tool ids that the rule is for. Default: every tool."`
	When     string         `json:"when,omitempty" doc:"A condition in CEL over tool, run and args. Default: it always holds. One that cannot be evaluated denies."`
	Approval *ApprovalTerms `json:"approval,omitempty" doc:"What is asked of whom. Only with the effect approve."`
}

// ApprovalTerms are [contracts.ApprovalTerms] of the file.
type ApprovalTerms struct {
	Title       string   `json:"title,omitempty" doc:"One line, at most 80 characters. Default: one that names the tool."`
	Description string   `json:"description,omitempty" doc:"At most 512 characters."`
	Severity    string   `json:"severity,omitempty" enum:"info,warning,critical" doc:"How much is at stake. Default warning."`
	Deciders    []string `json:"deciders,omitempty" doc:"Principals who may decide. Default: everybody with the scope approve."`
	ExpiresIn   int      `json:"expiresIn,omitempty" min:"1" max:"604800" doc:"Time limit in seconds, up to 7 days. Default 120."`
}

// Limits are the limits of one tenant. 0 means the default; those of [Config.Tenant] are never 0.
type Limits struct {
	MaxTools      int `json:"maxTools,omitempty" min:"1" max:"1000000" doc:"Tools that a run can hold. Default 20000."`
	MaxRuns       int `json:"maxRuns,omitempty" min:"1" max:"1000000" doc:"Runs that can be open at a time. Default 10000."`
	CallTimeoutMs int `json:"callTimeoutMs,omitempty" min:"100" max:"3600000" doc:"Time limit of a call of a tool, in milliseconds, where its source sets none. Default 60000."`
}

// A Profile is what the runs get that are opened with it.
type Profile struct {
	ToolSearch ToolSearch `json:"toolSearch,omitzero" doc:"What the model sees where the run does not say it."`
	Allow      []string   `json:"allow,omitempty" doc:"As in a policy layer of level profile."`
	Deny       []string   `json:"deny,omitempty" doc:"As in a policy layer of level profile."`
}

// Load reads the file at path and parses it. The error is [Problems] unless the file cannot be read.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(data, path)
}

// Parse returns the configuration that data, YAML or JSON, holds. The error is
// [Problems] and has all of them. name is the path of the file, for these and for
// relative paths of references; it is not opened.
func Parse(data []byte, name string) (*Config, error) {
	d := newDecoder(name, filepath.Dir(name))
	root, err := parseFile(data)
	if err != nil {
		return nil, d.fatal(err)
	}
	c := &Config{}
	if root != nil {
		d.decode(d.liftTools(root), "", reflect.ValueOf(c).Elem(), "")
	}
	c.Listen = cmp.Or(c.Listen, DefaultListen)
	c.Index.Backend = cmp.Or(c.Index.Backend, "embedded")
	c.NATS.Replicas = cmp.Or(c.NATS.Replicas, 1)
	d.readDone()
	c.validate(&d.report)
	c.origin = report{file: name, lines: d.lines}
	if err := d.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// fatal returns an error of parseFile as Problems.
func (d *decoder) fatal(err error) error {
	p, ok := errors.AsType[Problem](err)
	if !ok {
		p = Problem{Message: err.Error()}
	}
	p.File = d.file
	return Problems{p}
}

// liftTools returns root with tools.toolSearch, another name of toolSearch, in its place.
func (d *decoder) liftTools(root *node) *node {
	out := *root
	out.fields = nil
	lift := func(n *node) {
		if root.field("toolSearch") != nil || out.field("toolSearch") != nil {
			d.lines["tools.toolSearch"] = n.line
			d.add("tools.toolSearch", "is another name of toolSearch, which is there as well")
			return
		}
		out.fields = append(out.fields, field{"toolSearch", n})
	}
	for _, f := range root.fields {
		switch {
		case f.key == "tools.toolSearch":
			lift(f.value)
		case f.key == "tools" && f.value.kind == kindObject:
			for _, inner := range f.value.fields {
				if inner.key == "toolSearch" {
					lift(inner.value)
					continue
				}
				at := join("tools", inner.key)
				d.lines[at] = inner.value.line
				d.add(at, "unknown key; known here is toolSearch")
			}
		default:
			out.fields = append(out.fields, f)
		}
	}
	return &out
}
