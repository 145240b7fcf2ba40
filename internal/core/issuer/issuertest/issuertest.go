// Package issuertest is a faithful double of an OpenID Connect provider: a real HTTP server with a discovery
// document and a set of keys, and real signatures. It signs whatever claims it is given, rotates its keys, and can be away.
// It is for tests alone: it knows no users, and asks nobody for a password.
package issuertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// A Double is such a provider. Safe for concurrent use.
type Double struct {
	// URL is the issuer of its tokens, on this machine.
	URL string

	mu      sync.Mutex
	made    int
	signing jose.SigningKey
	set     jose.JSONWebKeySet
	away    bool
	asked   int
	answer  func(path string) (body string, ok bool)
}

// Start starts a provider with one key, RSA; it ends with t.
func Start(t testing.TB) *Double {
	t.Helper()
	d := &Double{}
	s := httptest.NewServer(d)
	t.Cleanup(s.Close)
	d.URL = s.URL
	d.Rotate(t, jose.RS256)
	return d
}

// Rotate makes a key for the algorithm, RS256 or ES256, that tokens are signed with from now on. The keys before it are withdrawn.
func (d *Double) Rotate(t testing.TB, a jose.SignatureAlgorithm) {
	t.Helper()
	var private crypto.Signer
	var err error
	if a == jose.ES256 {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made++
	id := "key-" + strconv.Itoa(d.made)
	d.signing = jose.SigningKey{Algorithm: a, Key: jose.JSONWebKey{Key: private, KeyID: id}}
	d.set.Keys = []jose.JSONWebKey{{Key: private.Public(), KeyID: id, Algorithm: string(a), Use: "sig"}}
}

// Claims are the claims of a token.
type Claims map[string]any

// Token returns a token of the provider for subject and audience that holds for an hour, with more claims; one that is nil is left out.
func (d *Double) Token(t testing.TB, subject, audience string, more Claims) string {
	t.Helper()
	d.mu.Lock()
	key := d.signing
	d.mu.Unlock()
	now := time.Now()
	c := Claims{"iss": d.URL, "sub": subject, "aud": audience, "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(c, more)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return Sign(t, key, c)
}

// Sign returns a token with the claims, signed with the key, whatever that is.
func Sign(t testing.TB, key jose.SigningKey, c Claims) string {
	t.Helper()
	s, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(map[string]any(c)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Key returns the key that tokens are signed with, and the set that the provider publishes.
func (d *Double) Key() (jose.SigningKey, jose.JSONWebKeySet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.signing, d.set
}

// Away has the provider answer 503 to everything, or not.
func (d *Double) Away(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// Answer has f say what is answered; where ok is false, it is what it was. Nil takes it back.
func (d *Double) Answer(f func(path string) (body string, ok bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = f
}

// Asked returns how often the keys were asked for.
func (d *Double) Asked() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// ServeHTTP answers for the provider.
func (d *Double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.URL.Path == "/keys" {
		d.asked++
	}
	if d.away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if d.answer != nil {
		if body, ok := d.answer(r.URL.Path); ok {
			w.Write([]byte(body))
			return
		}
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": d.URL, "jwks_uri": d.URL + "/keys"})
	case "/keys":
		json.NewEncoder(w).Encode(d.set)
	default:
		http.NotFound(w, r)
	}
}
