// Package issuer checks the tokens of an OpenID Connect or OAuth 2 issuer: JSON Web Tokens, signed with
// a key that the issuer publishes. It says who a token was made by, for whom and until when, and fails
// closed: what cannot be checked is never accepted.
//
// It knows no tenants and no scopes: what a token's claims allow is for whoever asks. It asks the issuer
// for its keys alone, never about a token.
package issuer

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Algorithms returns the signature algorithms that there are. All are of key pairs: a token signed with a shared secret, or not
// at all, is never accepted.
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// DefaultSkew is how far the clocks of issuer and service may differ unless it is said otherwise.
const DefaultSkew = 30 * time.Second

// A Doer sends requests, as [http.Client] does. Where an issuer is not to be trusted with choosing addresses, it should be the guarded client.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// A Config says what an [Issuer] is. URL and Client are needed.
type Config struct {
	// URL is the issuer as its tokens and its discovery document name it, to the letter.
	URL string
	// KeysURL is where its keys are; "" means that the discovery document at URL/.well-known/openid-configuration says it.
	KeysURL string
	// Algorithms are those that its tokens may be signed with, of [Algorithms]; none means all of these.
	Algorithms []string
	// Skew is how far its clock may differ; 0 means [DefaultSkew].
	Skew   time.Duration
	Client Doer
	// Log is told when keys could not be had; nil is silent.
	Log *slog.Logger
}

// An Issuer checks tokens. Safe for concurrent use.
type Issuer struct {
	algorithms []string
	url        string
	skew       time.Duration
	keys       *keySet
	now        func() time.Time
}

// New returns an issuer. It asks nothing of it yet: one that is away stands in nobody's way until there is a token to check.
func New(cfg Config) *Issuer {
	if cfg.Skew == 0 {
		cfg.Skew = DefaultSkew
	}
	if len(cfg.Algorithms) == 0 {
		cfg.Algorithms = Algorithms()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Issuer{algorithms: cfg.Algorithms, url: cfg.URL, skew: cfg.Skew, keys: newKeySet(cfg), now: time.Now}
}

// A Token is one that was read and not yet checked.
type Token struct {
	// Issuer is who the token says has made it: nothing to trust, but it tells whom to ask.
	Issuer string
	jwt    *jwt.JSONWebToken
}

// Parse reads a token in its compact form. The error is unauthenticated, and shows nothing of the token.
func Parse(text string) (*Token, error) {
	var all []jose.SignatureAlgorithm
	for _, a := range Algorithms() {
		all = append(all, jose.SignatureAlgorithm(a))
	}
	t, err := jwt.ParseSigned(text, all)
	if err != nil || len(t.Headers) != 1 {
		return nil, refuse("the token is malformed, or not signed with a key pair")
	}
	var c jwt.Claims
	if t.UnsafeClaimsWithoutVerification(&c) != nil {
		return nil, refuse("the token has malformed claims")
	}
	return &Token{c.Issuer, t}, nil
}

func refuse(format string, args ...any) error {
	return contracts.Errorf(contracts.CodeUnauthenticated, format, args...)
}

// Verify returns the claims of a token that the issuer has made and that holds now. The error is unauthenticated for any other, and unavailable
// where the issuer's keys cannot be had, so that it cannot be told. Neither shows anything of the token.
func (i *Issuer) Verify(ctx context.Context, t *Token) (Claims, error) {
	if t.Issuer != i.url {
		return Claims{}, refuse("the token is of another issuer")
	}
	head := t.jwt.Headers[0]
	if !slices.Contains(i.algorithms, head.Algorithm) {
		return Claims{}, refuse("the token is signed with an algorithm that is not allowed; want one of %v", i.algorithms)
	}
	keys, err := i.keys.find(ctx, head.KeyID, head.Algorithm)
	if err != nil {
		return Claims{}, err
	}
	var std jwt.Claims
	var all map[string]any
	if !slices.ContainsFunc(keys, func(k any) bool { return t.jwt.Claims(k, &std, &all) == nil }) {
		return Claims{}, refuse("the token's signature does not hold")
	}
	if err := i.hold(std); err != nil {
		return Claims{}, err
	}
	return Claims{Audience: std.Audience, Expires: std.Expiry.Time().Add(i.skew), all: all}, nil
}

// hold checks the times of a token whose signature holds.
func (i *Issuer) hold(c jwt.Claims) error {
	now := i.now()
	switch {
	case c.Expiry == nil:
		return refuse("the token never expires; want one with exp")
	case !now.Before(c.Expiry.Time().Add(i.skew)):
		return refuse("the token has expired")
	case c.NotBefore != nil && now.Add(i.skew).Before(c.NotBefore.Time()):
		return refuse("the token does not hold yet")
	case c.IssuedAt != nil && now.Add(i.skew).Before(c.IssuedAt.Time()):
		return refuse("the token is from the future")
	}
	return nil
}
