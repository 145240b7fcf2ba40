package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Secret is a string of the configuration that may be, or refer to, a secret:
// ${env:NAME} stands for an environment variable, ${file:PATH} for the content of a
// file (relative to the folder of the configuration file; line ends at its end are
// dropped), and $${ for a plain ${.
//
// However it is printed or encoded, it shows its references and hides everything
// else. It never holds what a reference stands for; [Secret.Resolve] returns that.
// The zero Secret is the empty string. Safe for concurrent use.
type Secret struct {
	template func() *template // nil for the empty string; a function, so that printing a struct around it shows an address at most
}

type template struct {
	written string
	parts   []part
}

// A part of a template is literal text, or a reference.
type part struct {
	kind     string // "" for literal text, or env, file, foreign
	text     string // the text, the variable, the path, or what a foreign reference looks like
	fallback *string
}

// A Resolver looks up what references stand for. A nil function finds nothing.
type Resolver struct {
	Lookup   func(name string) (string, bool)  // an environment variable, as os.LookupEnv
	ReadFile func(path string) ([]byte, error) // as os.ReadFile
}

// Environ returns a resolver of the variables in environ, which is as [os.Environ] gives it, and of files.
func Environ(environ []string) Resolver {
	env := map[string]string{}
	for _, kv := range environ {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	return Resolver{
		Lookup:   func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		ReadFile: os.ReadFile,
	}
}

// parseSecret returns text as a Secret whose relative paths start from folder dir. The
// error, for a malformed reference, shows what stands in its braces and nothing else. Only for
// text of the operator: whoever writes references can read the process's environment and files.
//
// It parses the form of toolcrib.yaml or, with client, that of desktop clients:
// ${NAME} and ${NAME:-default} are variables there, and a form that only the client itself
// knows cannot be resolved.
func parseSecret(text, dir string, client bool) (Secret, error) {
	if text == "" {
		return Secret{}, nil
	}
	t := &template{written: text}
	literal := func(s string) {
		if s != "" {
			t.parts = append(t.parts, part{text: s})
		}
	}
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "${")
		if !found {
			literal(rest)
			break
		}
		if !client && strings.HasSuffix(before, "$") {
			literal(before + "{")
			rest = after
			continue
		}
		literal(before)
		inner, tail, closed := strings.Cut(after, "}")
		if !closed {
			return Secret{}, errors.New("holds ${ without a } after it; write $${ for a plain ${")
		}
		ref, err := parseReference(inner, dir, client)
		if err != nil {
			return Secret{}, err
		}
		t.parts = append(t.parts, ref)
		rest = tail
	}
	return Secret{func() *template { return t }}, nil
}

func parseReference(inner, dir string, client bool) (part, error) {
	form, rest, _ := strings.Cut(inner, ":")
	switch {
	case form == "env" && isVariable(rest):
		return part{kind: "env", text: rest}, nil
	case form == "file" && rest != "":
		if !filepath.IsAbs(rest) {
			rest = filepath.Join(dir, rest)
		}
		return part{kind: "file", text: rest}, nil
	case client && isVariable(inner):
		return part{kind: "env", text: inner}, nil
	case client && isVariable(form) && strings.HasPrefix(rest, "-"):
		fallback := rest[1:]
		return part{kind: "env", text: form, fallback: &fallback}, nil
	case client:
		return part{kind: "foreign", text: "${" + inner + "}"}, nil
	case isVariable(inner):
		return part{}, fmt.Errorf("holds ${%s}; write ${env:%[1]s} for the environment variable, or $${%[1]s} for the plain text", clip(inner))
	}
	return part{}, fmt.Errorf("holds ${%s}; want ${env:NAME} or ${file:PATH}, or $${ for a plain ${", clip(inner))
}

func isVariable(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// IsZero reports whether s is the empty string.
func (s Secret) IsZero() bool { return s.template == nil }

// Written returns s as the file has it, literal text included. For text that is known to
// be no secret, such as a command to show.
func (s Secret) Written() string {
	if s.template == nil {
		return ""
	}
	return s.template().written
}

// String returns the references of s, with *** for each piece of literal text.
func (s Secret) String() string {
	if s.template == nil {
		return ""
	}
	var b strings.Builder
	for _, p := range s.template().parts {
		switch p.kind {
		case "":
			b.WriteString("***")
		case "foreign":
			b.WriteString(p.text)
		default:
			b.WriteString("${" + p.kind + ":" + p.text + "}")
		}
	}
	return b.String()
}

// Format writes [Secret.String] for every verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText returns [Secret.String]: encoding a Secret loses its literal text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// literal returns the text of s if it holds no reference.
func (s Secret) literal() (string, bool) {
	if s.template == nil {
		return "", true
	}
	if parts := s.template().parts; len(parts) == 1 && parts[0].kind == "" {
		return parts[0].text, true
	}
	return "", false
}

// Resolve returns the text with what its references stand for. The result is to be treated as a secret.
// Errors name each reference that has nothing, and no value.
func (s Secret) Resolve(r Resolver) (string, error) {
	if s.template == nil {
		return "", nil
	}
	var b strings.Builder
	var errs []error
	for _, p := range s.template().parts {
		text, err := p.resolve(r)
		b.WriteString(text)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	return b.String(), nil
}

func (p part) resolve(r Resolver) (string, error) {
	switch p.kind {
	case "":
		return p.text, nil
	case "env":
		if r.Lookup != nil {
			if v, ok := r.Lookup(p.text); ok {
				return v, nil
			}
		}
		if p.fallback != nil {
			return *p.fallback, nil
		}
		return "", fmt.Errorf("environment variable %s is not set", p.text)
	case "file":
		if r.ReadFile == nil {
			return "", fmt.Errorf("file %s cannot be read here", p.text)
		}
		b, err := r.ReadFile(p.text)
		if err != nil {
			return "", fmt.Errorf("read the file of a reference: %w", err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	return "", fmt.Errorf("%s is known only to the client that the file is for", clip(p.text))
}

func (s *Secret) decodeNode(d *decoder, n *node, path string) {
	if n.kind != kindString { // the value may be a secret
		d.add(path, "is %s; want %s", n.kind, stringFor(n))
		return
	}
	v, err := parseSecret(n.text, d.dir, d.client)
	if err != nil {
		d.add(path, "%v", err)
		return
	}
	*s = v
}
