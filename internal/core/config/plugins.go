package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Plugins are the sources of a tenant that are no MCP servers.
type Plugins struct {
	OpenAPI map[string]OpenAPI   `json:"openapi,omitempty" hint:"openApi,openapis" doc:"HTTP services that an OpenAPI 3.0 or 3.1 document describes, by name. Each operation is a tool."`
	Bus     map[string]BusPlugin `json:"bus,omitempty" hint:"nats" doc:"Plugins on the NATS server, by name: processes that tell of their tools there and run them. One that is not named here is not heard."`
}

// An OpenAPI is one service that a document describes.
type OpenAPI struct {
	URL       Secret            `json:"url,omitzero" hint:"document,spec,specUrl" doc:"http or https URL of the document, JSON or YAML. Either url or file is needed."`
	File      Path              `json:"file,omitempty" hint:"path" doc:"The document as a file, relative to the folder of this file."`
	Server    Secret            `json:"server,omitzero" hint:"baseUrl,servers" doc:"http or https URL that takes the place of all servers of the document. Needed for credentials to be sent elsewhere than to the origin of url. Default: the first server of each operation."`
	Variables map[string]string `json:"variables,omitempty" hint:"serverVariables" doc:"Values of the variables in the servers of the document. Default: those of the document."`
	Headers   map[string]Secret `json:"headers,omitempty" doc:"HTTP headers of every request, to the document's own origin too."`
	Auth      map[string]Secret `json:"auth,omitempty" hint:"security,credentials" doc:"Credentials by the name of their security scheme in the document: a key, a bearer token, or user:password for HTTP basic."`

	Include      []string          `json:"include,omitempty" hint:"operations" doc:"Which operations to take: globs over operation ids, over METHOD /path, or over tags as tag:name. Default: all."`
	Exclude      []string          `json:"exclude,omitempty" doc:"Which of these to leave out, by such globs."`
	Rename       map[string]string `json:"rename,omitempty" doc:"Names of tools by operation id or METHOD /path. Default: the operation id, or a name made of method and path."`
	Deprecated   bool              `json:"deprecated,omitempty" doc:"Whether deprecated operations are taken. Default false."`
	LooseOutputs bool              `json:"looseOutputs,omitempty" doc:"Whether answers may differ from what the document says: tools then promise no output schema. Default false."`
	Network      Network           `json:"network,omitzero" doc:"Addresses that requests may go to besides those of network at the top. The hosts of url and server may be private as they are."`

	AlwaysLoad       bool              `json:"alwaysLoad,omitempty" doc:"Whether its tools are always shown to the model, and planning waits for it. Default false."`
	Disabled         bool              `json:"disabled,omitempty" hint:"enabled" doc:"Whether the service is left out. Default false."`
	Timeout          int               `json:"timeout,omitempty" min:"100" max:"3600000" doc:"Time limit of a call, in milliseconds. Default: callTimeoutMs of the limits."`
	TrustAnnotations bool              `json:"trustAnnotations,omitempty" hint:"trust" doc:"Whether what the HTTP methods promise is believed, for retries and policy: GET and HEAD change nothing, PUT and DELETE can be repeated. Default false."`
	Expose           string            `json:"expose,omitempty" enum:"bare,prefixed" doc:"Whether names shown to a model carry the name of the service. Default prefixed."`
	Loading          contracts.Loading `json:"loading,omitempty" enum:"direct,auto,deferred" doc:"Whether its tools are shown to the model at once. Default: what a farther level says; direct with alwaysLoad."`
}

// Network says which addresses, besides public ones, requests may go to whose target is not the operator's own word: what a document or another server says.
type Network struct {
	Private bool     `json:"private,omitempty" doc:"Whether this machine and private networks are allowed. Addresses of cloud metadata are not. Default false."`
	Allow   []string `json:"allow,omitempty" hint:"cidr,cidrs,addresses" doc:"Networks that are allowed besides, such as 10.1.0.0/16."`
	Proxy   Secret   `json:"proxy,omitzero" doc:"URL of an HTTP proxy for these requests. Default: none, whatever the environment says."`
}

// Networks returns Allow; what cannot be read is left out, which validation has refused.
func (n Network) Networks() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range n.Allow {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// Guard returns what the guarded client is told of n; the error, about the proxy, shows nothing of it.
func (n Network) Guard(r Resolver) (guard.Config, error) {
	out := guard.Config{Private: n.Private, Allow: n.Networks()}
	proxy, err := n.Proxy.Resolve(r)
	if err != nil || proxy == "" {
		return out, err
	}
	if out.Proxy, err = url.Parse(proxy); err != nil || out.Proxy.Host == "" {
		return out, errors.New("is not an http or https URL") // the error of parsing quotes it
	}
	return out, nil
}

func (n Network) validate(r *report, path string) {
	for i, s := range n.Allow {
		if _, err := netip.ParsePrefix(s); err != nil {
			r.add(index(join(path, "allow"), i), "is %q; want a network such as 10.1.0.0/16", clip(s))
		}
	}
	validateURL(r, join(path, "proxy"), n.Proxy)
}

// A Path is the path of a file: one that is relative starts from the folder of the configuration file, which is before it once it has been read.
type Path string

func (p *Path) decodeNode(d *decoder, n *node, path string) {
	if !d.want(n, path, kindString, string(kindString)) {
		return
	}
	if strings.Contains(n.text, "${") {
		d.add(path, "cannot hold a reference; %s can", mayRefer)
		return
	}
	*p = Path(n.text)
	if n.text != "" && !filepath.IsAbs(n.text) {
		*p = Path(filepath.Join(d.dir, n.text))
	}
}

// An APITarget is how to reach a service, references resolved. It holds secrets: it prints and encodes as nothing.
type APITarget struct {
	URL     string            `json:"-"` // "" for a document in a file
	Server  string            `json:"-"` // "" for those of the document
	Proxy   string            `json:"-"` // "" for none of its own
	Headers map[string]string `json:"-"`
	Auth    map[string]string `json:"-"`
	// Secrets are the texts of these that hold what a reference stands for.
	Secrets []string `json:"-"`
}

// Format writes a placeholder for every verb.
func (t APITarget) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(target)") }

// Resolve returns how to reach the service. The error names each reference that stands for nothing, with its key and without any value.
func (o OpenAPI) Resolve(r Resolver) (APITarget, error) {
	var errs []error
	var secrets []string
	resolve := func(key string, v Secret, isURL bool) string {
		text, err := v.Resolve(r)
		if _, literal := v.literal(); !literal {
			secrets = append(secrets, text)
		}
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		case isURL && !v.IsZero() && !isHTTP(text):
			errs = append(errs, fmt.Errorf("%s: is not an http or https URL", key))
		}
		return text
	}
	resolveAll := func(key string, values map[string]Secret) map[string]string {
		out := make(map[string]string, len(values))
		for _, k := range slices.Sorted(maps.Keys(values)) {
			if out[k] = resolve(join(key, k), values[k], false); out[k] == "" && len(errs) == 0 {
				errs = append(errs, fmt.Errorf("%s: is empty", join(key, k)))
			}
		}
		return out
	}
	t := APITarget{
		URL: resolve("url", o.URL, true), Server: resolve("server", o.Server, true), Proxy: resolve("network.proxy", o.Network.Proxy, true),
		Headers: resolveAll("headers", o.Headers), Auth: resolveAll("auth", o.Auth),
	}
	if err := errors.Join(errs...); err != nil {
		return APITarget{}, err
	}
	t.Secrets = secrets
	return t, nil
}

// An OpenAPISource is a configured service of a tenant.
type OpenAPISource struct {
	ID      contracts.SourceID
	Name    string // as the file has it
	OpenAPI        // with its defaults: Expose is set, Loading with AlwaysLoad, and Network has what holds for all
}

// OpenAPIs returns the services of tenant t that are not disabled, sorted by id; none for an unknown tenant.
func (c *Config) OpenAPIs(t contracts.TenantID) []OpenAPISource {
	tenant, _ := c.Tenant(t)
	var out []OpenAPISource
	for name, o := range tenant.Plugins.OpenAPI {
		if o.Disabled {
			continue
		}
		o.Expose = cmp.Or(o.Expose, "prefixed")
		if o.AlwaysLoad {
			o.Loading = cmp.Or(o.Loading, contracts.LoadingDirect)
		}
		o.Network.Private = o.Network.Private || c.Network.Private
		o.Network.Allow = slices.Concat(c.Network.Allow, o.Network.Allow)
		if o.Network.Proxy.IsZero() {
			o.Network.Proxy = c.Network.Proxy
		}
		out = append(out, OpenAPISource{contracts.SourceID{Kind: contracts.SourcePlugin, Owner: contracts.OwnerName(name)}, name, o})
	}
	slices.SortFunc(out, func(a, b OpenAPISource) int { return strings.Compare(a.ID.Owner, b.ID.Owner) })
	return out
}

// longestTool is the most characters of a name that a tool is given.
const longestTool = 64

func (p Plugins) validate(r *report, path string) {
	at := join(path, "openapi")
	validateOwners(r, at, "service", slices.Sorted(maps.Keys(p.OpenAPI)))
	for _, name := range slices.Sorted(maps.Keys(p.OpenAPI)) {
		p.OpenAPI[name].validate(r, join(at, name))
	}
	p.validateBus(r, path)
}

func (o OpenAPI) validate(r *report, path string) {
	switch {
	case o.URL.IsZero() && o.File == "":
		r.add(path, "needs a url or a file: where the OpenAPI document is")
	case !o.URL.IsZero() && o.File != "":
		r.add(join(path, "file"), "cannot stand beside url")
	}
	validateURL(r, join(path, "url"), o.URL)
	validateURL(r, join(path, "server"), o.Server)
	o.Network.validate(r, join(path, "network"))
	if o.AlwaysLoad && o.Loading != "" && o.Loading != contracts.LoadingDirect {
		r.add(join(path, "loading"), "is %s, but alwaysLoad means direct", o.Loading)
	}
	for key, globs := range map[string][]string{"include": o.Include, "exclude": o.Exclude} {
		if key == "include" && globs != nil && len(globs) == 0 {
			r.add(join(path, key), "is empty; leave it out to take all operations")
		}
		for i, g := range globs {
			if strings.TrimSpace(g) == "" {
				r.add(index(join(path, key), i), "is empty; want a glob such as list*, GET /v1/* or tag:billing")
			}
		}
	}
	taken := map[string]string{}
	for _, from := range slices.Sorted(maps.Keys(o.Rename)) {
		to := o.Rename[from]
		if !isWord(to) || len(to) > longestTool {
			r.add(join(join(path, "rename"), from), "is %q; want 1 to %d letters, digits, '_' and '-'", clip(to), longestTool)
		} else if other, ok := taken[to]; ok {
			r.add(join(join(path, "rename"), from), "is %q, as that of %q", to, clip(other))
		}
		taken[to] = from
	}
}

// validateURL checks the URL v at path, as far as that can be told without resolving it.
func validateURL(r *report, path string, v Secret) {
	if u, ok := v.literal(); ok && u != "" && !isHTTP(u) {
		r.add(path, "is not an http or https URL")
	}
}

// validateOwners checks that names, of what at path, make owners, and different ones.
func validateOwners(r *report, path, what string, names []string) {
	owners := map[string]string{}
	for _, name := range names {
		owner := contracts.OwnerName(name)
		if owner == "" {
			r.add(join(path, name), "the name of a %s needs a letter a-z, a digit or _", what)
		} else if other, taken := owners[owner]; taken {
			r.add(join(path, name), "%ss %q and %q would both be called %s; rename one", what, clip(other), clip(name), owner)
		}
		owners[owner] = name
	}
}
