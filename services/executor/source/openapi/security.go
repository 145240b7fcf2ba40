package openapi

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// readSchemes reads the security schemes that the configuration has credentials for.
func (b *builder) readSchemes() error {
	b.schemes = map[string]scheme{}
	defined := b.root.child("components").child("securitySchemes")
	for _, name := range slices.Sorted(maps.Keys(b.target.Auth)) {
		if defined.object()[name] == nil {
			known := slices.Sorted(maps.Keys(defined.object()))
			if len(known) == 0 {
				return fmt.Errorf("auth.%s: the document has no security schemes; use headers", clip(name))
			}
			return fmt.Errorf("auth.%s: the document has no such security scheme; it has %s", clip(name), clip(strings.Join(known, ", ")))
		}
		p, err := b.of.follow(b.ctx, defined.child(name))
		if err != nil {
			return fmt.Errorf("auth.%s: %w", clip(name), err)
		}
		s, err := readScheme(name, p)
		if err != nil {
			return fmt.Errorf("auth.%s: %w", clip(name), err)
		}
		if s.Kind == "basic" && !strings.Contains(b.target.Auth[name], ":") {
			return fmt.Errorf("auth.%s: the scheme is HTTP basic; want user:password", clip(name))
		}
		b.schemes[name] = s
	}
	return nil
}

func readScheme(name string, p place) (scheme, error) {
	switch kind := p.text("type"); kind {
	case "apiKey":
		s := scheme{Name: name, Kind: "apiKey", In: p.text("in"), Key: p.text("name")}
		if !slices.Contains([]string{"header", "query", "cookie"}, s.In) || s.Key == "" || s.In != "query" && !isToken(s.Key) {
			return scheme{}, fmt.Errorf("the scheme has no usable name and place; want a header, query or cookie")
		}
		return s, nil
	case "http":
		word := p.text("scheme")
		switch strings.ToLower(word) {
		case "basic":
			return scheme{Name: name, Kind: "basic"}, nil
		case "bearer", "":
			return scheme{Name: name, Kind: "bearer"}, nil
		}
		if !isToken(word) {
			return scheme{}, fmt.Errorf("the scheme %q cannot be used", clip(word))
		}
		return scheme{Name: name, Kind: word}, nil
	case "oauth2", "openIdConnect":
		return scheme{Name: name, Kind: "bearer"}, nil
	default:
		return scheme{}, fmt.Errorf("schemes of type %q are not supported", clip(kind))
	}
}

// secure chooses the schemes whose credentials go along with an operation: of its first requirement that the
// configuration can meet, or all where the document says nothing of requirements.
func (b *builder) secure(o *operation, bind *binding) {
	required := o.at.child("security")
	if required.value == nil {
		required = b.root.child("security")
	}
	if required.value == nil {
		for _, name := range slices.Sorted(maps.Keys(b.schemes)) {
			bind.Auth = append(bind.Auth, b.schemes[name])
		}
		return
	}
	for i := range required.list() {
		var all []scheme
		need := required.item(i).object()
		for _, name := range slices.Sorted(maps.Keys(need)) {
			if s, ok := b.schemes[name]; ok {
				all = append(all, s)
			}
		}
		if len(all) == len(need) && len(all) > 0 {
			bind.Auth = all
			return
		}
	}
}

// given reports whether the configuration gives the parameter a value, so that a caller cannot.
func (b *builder) given(bind *binding, in, name string) bool {
	if in == "header" {
		for k := range b.target.Headers {
			if strings.EqualFold(k, name) {
				return true
			}
		}
	}
	for _, s := range bind.Auth {
		if s.Kind == "apiKey" && s.In == in && (s.Key == name || in == "header" && strings.EqualFold(s.Key, name)) {
			return true
		}
	}
	return false
}

// credentials adds what the schemes ask for to a request. It returns what is to be added to its query.
func credentials(r *http.Request, schemes []scheme, auth map[string]string) (query []string, err error) {
	for _, s := range schemes {
		v, ok := auth[s.Name]
		switch {
		case !ok:
			return nil, fmt.Errorf("auth.%s: is not configured any more", clip(s.Name))
		case s.Kind == "apiKey" && s.In == "query":
			query = append(query, escapeAll(s.Key)+"="+escapeAll(v))
		case strings.ContainsFunc(v, isControl):
			return nil, fmt.Errorf("auth.%s: holds control characters", clip(s.Name))
		case s.Kind == "apiKey" && s.In == "header":
			r.Header.Set(s.Key, v)
		case s.Kind == "apiKey":
			addCookie(r, s.Key, v)
		case s.Kind == "basic":
			user, password, _ := strings.Cut(v, ":")
			r.Header.Set("Authorization", "Basic "+basic(user, password))
		case s.Kind == "bearer":
			r.Header.Set("Authorization", "Bearer "+v)
		default:
			r.Header.Set("Authorization", s.Kind+" "+v)
		}
	}
	return query, nil
}

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// addCookie adds a cookie whose value is written as it is.
func addCookie(r *http.Request, name, value string) {
	c := name + "=" + value
	if old := r.Header.Get("Cookie"); old != "" {
		c = old + "; " + c
	}
	r.Header.Set("Cookie", c)
}

// isToken reports whether s can be the name of a header or a cookie.
func isToken(s string) bool {
	for _, r := range s {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) {
			return false
		}
	}
	return s != ""
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
