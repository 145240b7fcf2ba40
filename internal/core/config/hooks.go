package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/toolcrib/toolcrib/internal/core/policy"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Hook is one that is asked before calls of tools or told after them: either a webhook (url) or a responder on the NATS server (bus).
type Hook struct {
	URL        Secret            `json:"url,omitzero" hint:"webhook,endpoint" doc:"http or https URL that requests are posted to. Either url or bus is needed."`
	SigningKey Secret            `json:"signingKey,omitzero" hint:"secret,key,signingSecret" doc:"Key that requests are signed with, a reference: whsec_ and 24 to 64 bytes in base64, or several of these separated by spaces while one takes the place of another. Needed with url."`
	Headers    map[string]Secret `json:"headers,omitempty" doc:"HTTP headers of every request."`
	Bus        string            `json:"bus,omitempty" hint:"plugin,nats,subject" doc:"Name of the plugin on the NATS server that answers, 1 to 64 characters of a-z, 0-9, _ and -. It needs no tools."`
	Password   Secret            `json:"password,omitzero" hint:"token" doc:"Password of at least 16 characters, a reference, with which the responder connects at nats.listen, as the user TENANT.BUS. Default: that of the plugin of this name, or none."`

	Events   []string `json:"events,omitempty" hint:"on,event" enum:"before_tool_call,after_tool_call" doc:"When it is asked or told. Default: before_tool_call."`
	Tools    []string `json:"tools,omitempty" hint:"allow,include" doc:"Globs over the ids of the tools whose calls it is for. Default: every tool."`
	Priority int      `json:"priority,omitempty" hint:"order" min:"-1000" max:"1000" doc:"Hooks with a lower one are asked earlier, those with the same one by name. Default 0."`
	Timeout  int      `json:"timeout,omitempty" hint:"timeoutMs" min:"100" max:"10000" doc:"Time limit of an answer, in milliseconds. Default 2000."`
	Advisory bool     `json:"advisory,omitempty" hint:"optional" doc:"Whether the hook is asked without consequence: it cannot block, rewrite or ask for an approval, and a call goes on where it fails. Default false: a call is blocked where the hook fails or is late."`
	Disabled bool     `json:"disabled,omitempty" hint:"enabled" doc:"Whether the hook is left out. Default false."`
}

const (
	// mostHooks is how many hooks a tenant can have.
	mostHooks = 32
	// defaultHookTimeout is in milliseconds.
	defaultHookTimeout = 2000
)

// A HookSource is a configured hook of a tenant.
type HookSource struct {
	Name  string
	Hook  // with its defaults: Events and Timeout are set
	Proxy Secret
}

// On reports whether the hook is asked or told at event e.
func (h HookSource) On(e contracts.HookEvent) bool { return slices.Contains(h.Events, string(e)) }

// HooksOf returns the hooks of tenant t that are not disabled in the order in which they are asked; none for an unknown tenant.
func (c *Config) HooksOf(t contracts.TenantID) []HookSource {
	tenant, _ := c.Tenant(t)
	var out []HookSource
	for name, h := range tenant.Hooks {
		if h.Disabled {
			continue
		}
		h.Timeout = cmp.Or(h.Timeout, defaultHookTimeout)
		if len(h.Events) == 0 {
			h.Events = []string{string(contracts.HookBefore)}
		}
		out = append(out, HookSource{name, h, c.Network.Proxy})
	}
	slices.SortFunc(out, func(a, b HookSource) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(a.Name, b.Name))
	})
	return out
}

// A HookTarget is how to reach a webhook, references resolved. It holds secrets: it prints and encodes as nothing.
type HookTarget struct {
	URL     string              `json:"-"`
	Proxy   string              `json:"-"` // "" for none
	Keys    []contracts.HookKey `json:"-"`
	Headers map[string]string   `json:"-"`
}

// Format writes a placeholder for every verb.
func (t HookTarget) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(target)") }

// Resolve returns how to reach the hook, the zero value for one on the bus. The error names each reference that stands for nothing or for what will not do, with its key and without any value.
func (h HookSource) Resolve(r Resolver) (HookTarget, error) {
	if h.URL.IsZero() {
		return HookTarget{}, nil
	}
	var errs []error
	resolve := func(key string, v Secret, isURL bool) string {
		text, err := v.Resolve(r)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		case isURL && !v.IsZero() && !isHTTP(text):
			errs = append(errs, fmt.Errorf("%s: is not an http or https URL", key))
		}
		return text
	}
	t := HookTarget{URL: resolve("url", h.URL, true), Proxy: resolve("network.proxy", h.Proxy, true), Headers: make(map[string]string, len(h.Headers))}
	for _, k := range slices.Sorted(maps.Keys(h.Headers)) {
		t.Headers[k] = resolve(join("headers", k), h.Headers[k], false)
	}
	before := len(errs)
	for _, s := range strings.Fields(resolve("signingKey", h.SigningKey, false)) {
		key, err := contracts.ParseHookKey(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("signingKey: %w", err))
		}
		t.Keys = append(t.Keys, key)
	}
	if len(t.Keys) == 0 && len(errs) == before {
		errs = append(errs, errors.New("signingKey: is empty"))
	}
	if err := errors.Join(errs...); err != nil {
		return HookTarget{}, err
	}
	return t, nil
}

// validateHooks checks the hooks at path.
func validateHooks(r *report, path string, hooks map[string]Hook) {
	enabled := 0
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		at := join(path, name)
		if !isWord(name) || len(name) > 64 {
			r.add(at, "is no name of a hook; want 1 to 64 letters, digits, '_' and '-'")
		}
		if !hooks[name].Disabled {
			enabled++
		}
		hooks[name].validate(r, at)
	}
	if enabled > mostHooks {
		r.add(path, "has %d hooks; want at most %d", enabled, mostHooks)
	}
}

func (h Hook) validate(r *report, path string) {
	misplaced := func(key string, present bool, other string) {
		if present {
			r.add(join(path, key), "needs a %s", other)
		}
	}
	switch {
	case h.URL.IsZero() && h.Bus == "":
		r.add(path, "needs a url or a bus: who is asked")
	case !h.URL.IsZero() && h.Bus != "":
		r.add(join(path, "bus"), "cannot stand beside url")
	case h.Bus != "":
		misplaced("signingKey", !h.SigningKey.IsZero(), "url")
		misplaced("headers", len(h.Headers) > 0, "url")
		if _, err := contracts.ParsePluginID(h.Bus); err != nil {
			r.add(join(path, "bus"), "is %q; want 1 to 64 characters of a-z, 0-9, '_' and '-'", clip(h.Bus))
		}
	default:
		misplaced("password", !h.Password.IsZero(), "bus")
		if h.SigningKey.IsZero() {
			r.add(join(path, "signingKey"), "is missing; want a reference to the key that requests are signed with")
		}
	}
	validateURL(r, join(path, "url"), h.URL)
	validateReference(r, join(path, "signingKey"), h.SigningKey)
	validateReference(r, join(path, "password"), h.Password)
	validateHookHeaders(r, join(path, "headers"), h.Headers)
	if h.Events != nil && len(h.Events) == 0 {
		r.add(join(path, "events"), "is empty; leave it out for before_tool_call, or set disabled")
	}
	if h.Tools != nil && len(h.Tools) == 0 {
		r.add(join(path, "tools"), "is empty; leave it out for every tool, or set disabled")
	}
	for i, g := range h.Tools {
		if err := policy.CheckGlob(g); err != nil {
			r.add(index(join(path, "tools"), i), "is no glob over tool ids: %v", err)
		}
	}
}

// validateReference checks that nothing of a secret stands in the file itself.
func validateReference(r *report, path string, v Secret) {
	if text, literal := v.literal(); literal && text != "" {
		r.add(path, "stands in the file; want a reference to it, ${env:NAME} or ${file:PATH}")
	}
}

// hookHeaders are what requests to webhooks set by themselves.
func hookHeaders() []string {
	return []string{
		contracts.HookIDHeader, contracts.HookTimeHeader, contracts.HookSignatureHeader, contracts.HookTimeoutHeader,
		"Content-Type", "Content-Length", "Host", "Traceparent", "Tracestate", "Idempotency-Key", "X-Idempotency-Key", "Transfer-Encoding", "Connection",
	}
}

func validateHookHeaders(r *report, path string, headers map[string]Secret) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if slices.Contains(hookHeaders(), http.CanonicalHeaderKey(name)) {
			r.add(join(path, name), "is set by Toolcrib itself")
		} else if !isHeader(name) {
			r.add(join(path, name), "is no name of a header; want letters, digits and any of !#$%%&'*+-.^_`|~")
		}
	}
}

// isHeader reports whether s is a token of HTTP.
func isHeader(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !isWord(string(c)) && !strings.ContainsRune("!#$%&'*+.^`|~", c)
	})
}
