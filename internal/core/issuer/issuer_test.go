package issuer

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolcrib/toolcrib/internal/core/guard"
	"github.com/toolcrib/toolcrib/internal/core/issuer/issuertest"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const crib = "https://crib.example/mcp"

// trust returns an issuer that trusts the double, reached by the guarded client.
func trust(t *testing.T, d *issuertest.Double, change ...func(*Config)) *Issuer {
	t.Helper()
	u, err := url.Parse(d.URL)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{URL: d.URL, Client: guard.New(guard.Config{Named: []*url.URL{u}})}
	for _, c := range change {
		c(&cfg)
	}
	return New(cfg)
}

// verify checks a token and sees that no error shows any of it.
func verify(t *testing.T, i *Issuer, text string) (Claims, error) {
	t.Helper()
	parsed, err := Parse(text)
	var c Claims
	if err == nil {
		c, err = i.Verify(t.Context(), parsed)
	}
	if err != nil {
		for part := range strings.SplitSeq(text, ".") {
			if len(part) > 8 && strings.Contains(err.Error(), part) {
				t.Errorf("the error shows the token: %v", err)
			}
		}
	}
	return c, err
}

func code(err error) contracts.Code {
	if err == nil {
		return "ok"
	}
	return contracts.CodeOf(err)
}

func TestVerify(t *testing.T) {
	d := issuertest.Start(t)
	other := issuertest.Start(t)
	i := trust(t, d)
	now := time.Now()
	at := func(after time.Duration) int64 { return now.Add(after).Unix() }
	key, set := d.Key()
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(set.Keys[0].Key)
	if err != nil {
		t.Fatal(err)
	}
	whole := issuertest.Claims{"iss": d.URL, "sub": "ann", "aud": crib, "exp": at(time.Hour)}
	raw := base64.RawURLEncoding
	head, rest, _ := strings.Cut(d.Token(t, "ann", crib, nil), ".")
	body, signature, _ := strings.Cut(rest, ".")
	forged := raw.EncodeToString([]byte(fmt.Sprintf(`{"iss":%q,"sub":"root","aud":%q,"exp":%d}`, d.URL, crib, at(time.Hour))))
	unsigned := raw.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`))
	for name, tt := range map[string]struct {
		token string
		want  string // of the error, "" for a token that holds
	}{
		"good":                         {d.Token(t, "ann", crib, nil), ""},
		"two audiences":                {d.Token(t, "ann", crib, issuertest.Claims{"aud": []string{"x", crib}}), ""},
		"expired within the skew":      {d.Token(t, "ann", crib, issuertest.Claims{"exp": at(-10 * time.Second)}), ""},
		"from the future, in the skew": {d.Token(t, "ann", crib, issuertest.Claims{"nbf": at(10 * time.Second), "iat": at(10 * time.Second)}), ""},
		"no iat and nbf":               {d.Token(t, "ann", crib, issuertest.Claims{"nbf": nil, "iat": nil}), ""},
		"expired":                      {d.Token(t, "ann", crib, issuertest.Claims{"exp": at(-40 * time.Second)}), "the token has expired"},
		"no exp":                       {d.Token(t, "ann", crib, issuertest.Claims{"exp": nil}), "never expires"},
		"exp is a text":                {d.Token(t, "ann", crib, issuertest.Claims{"exp": "never"}), "malformed claims"},
		"nbf in the future":            {d.Token(t, "ann", crib, issuertest.Claims{"nbf": at(time.Minute)}), "does not hold yet"},
		"iat in the future":            {d.Token(t, "ann", crib, issuertest.Claims{"iat": at(time.Minute)}), "from the future"},
		"another issuer":               {other.Token(t, "ann", crib, nil), "of another issuer"},
		"another issuer that lies":     {other.Token(t, "ann", crib, issuertest.Claims{"iss": d.URL}), "signature does not hold"},
		"no issuer":                    {d.Token(t, "ann", crib, issuertest.Claims{"iss": nil}), "of another issuer"},
		"issuer with a slash":          {d.Token(t, "ann", crib, issuertest.Claims{"iss": d.URL + "/"}), "of another issuer"},
		"a made-up key of the same id": {issuertest.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: strange, KeyID: "key-1"}}, whole), "signature does not hold"},
		"a key of no such id":          {issuertest.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: strange, KeyID: "key-9"}}, whole), "does not publish"},
		"another algorithm of the key": {issuertest.Sign(t, jose.SigningKey{Algorithm: jose.RS512, Key: key.Key}, whole), "does not publish"},
		"no key id":                    {issuertest.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: key.Key.(jose.JSONWebKey).Key}, whole), ""},
		"HMAC with the public key":     {issuertest.Sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: "key-1"}}, whole), "malformed, or not signed"},
		"none":                         {unsigned + "." + body + ".", "malformed, or not signed"},
		"none with a signature":        {unsigned + "." + body + "." + signature, "malformed, or not signed"},
		"other claims":                 {head + "." + forged + "." + signature, "signature does not hold"},
		"no signature":                 {head + "." + body + ".", "signature does not hold"},
		"a cut signature":              {head + "." + body + "." + signature[:len(signature)-4], "signature does not hold"},
		"no token":                     {"a.b.c", "malformed, or not signed"},
		"encrypted":                    {"a.b.c.d.e", "malformed, or not signed"},
		"empty":                        {"", "malformed, or not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := verify(t, i, tt.token)
			if tt.want == "" {
				if err != nil || c.Text("sub") != "ann" || !strings.Contains(strings.Join(c.Audience, " "), crib) || c.Expires.Before(now) {
					t.Errorf("Verify() = %+v, %v; want it to hold", c, err)
				}
				return
			}
			if code(err) != contracts.CodeUnauthenticated || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Verify() = %v, want unauthenticated with %q", err, tt.want)
			}
		})
	}
}

// A key that a token brings along counts for nothing.
func TestKeyInTheToken(t *testing.T) {
	d := issuertest.Start(t)
	i := trust(t, d)
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: own, KeyID: "key-1"}}, &jose.SignerOptions{
		EmbedJWK: true, ExtraHeaders: map[jose.HeaderKey]any{"jku": "https://evil.example/keys"},
	})
	if err != nil {
		t.Fatal(err)
	}
	payload, _ := json.Marshal(map[string]any{"iss": d.URL, "sub": "root", "aud": crib, "exp": time.Now().Add(time.Hour).Unix()})
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, i, text); code(err) != contracts.CodeUnauthenticated {
		t.Errorf("Verify() of a token with a key of its own = %v, want it refused", err)
	}
}

func TestAllowedAlgorithms(t *testing.T) {
	d := issuertest.Start(t)
	i := trust(t, d, func(c *Config) { c.Algorithms = []string{"ES256"} })
	if _, err := verify(t, i, d.Token(t, "ann", crib, nil)); code(err) != contracts.CodeUnauthenticated || !strings.Contains(err.Error(), "ES256") {
		t.Errorf("Verify() of RS256 = %v, want the allowed algorithm named", err)
	}
	d.Rotate(t, jose.ES256)
	if _, err := verify(t, i, d.Token(t, "ann", crib, nil)); err != nil {
		t.Errorf("Verify() of ES256 = %v", err)
	}
}

func TestRotation(t *testing.T) {
	d := issuertest.Start(t)
	i := trust(t, d)
	old := d.Token(t, "ann", crib, nil)
	for range 3 {
		if _, err := verify(t, i, old); err != nil {
			t.Fatal(err)
		}
	}
	if n := d.Asked(); n != 1 {
		t.Errorf("the keys were asked for %d times for 3 tokens, want 1", n)
	}
	d.Rotate(t, jose.ES256)
	fresh := d.Token(t, "ann", crib, nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := verify(t, i, fresh); err != nil {
				t.Errorf("Verify() after a rotation = %v", err)
			}
		})
	}
	all.Wait()
	if n := d.Asked(); n < 2 || n > 3 {
		t.Errorf("the keys were asked for %d times, want once more for the new key", n)
	}
	if _, err := verify(t, i, old); code(err) != contracts.CodeUnauthenticated {
		t.Errorf("Verify() with a withdrawn key = %v, want it refused", err)
	}
	strange, _ := rsa.GenerateKey(rand.Reader, 2048)
	for n := range 50 {
		key := jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: strange, KeyID: fmt.Sprint("made-up-", n)}}
		if _, err := verify(t, i, issuertest.Sign(t, key, issuertest.Claims{"iss": d.URL, "exp": time.Now().Add(time.Hour).Unix()})); code(err) != contracts.CodeUnauthenticated {
			t.Fatalf("Verify() with a made-up key = %v", err)
		}
	}
	if n := d.Asked(); n > askAtOnce {
		t.Errorf("50 made-up keys had the issuer asked %d times, want at most %d", n, askAtOnce)
	}
	if _, err := verify(t, i, fresh); err != nil {
		t.Errorf("Verify() after a flood of made-up keys = %v", err)
	}
}

func TestIssuerThatIsAway(t *testing.T) {
	d := issuertest.Start(t)
	d.Away(true)
	i := trust(t, d)
	token := d.Token(t, "ann", crib, nil)
	for range 5 { // the last of them without a request
		_, err := verify(t, i, token)
		if e := contracts.AsError(err); e == nil || e.Code != contracts.CodeUnavailable || e.RetryAfter == 0 {
			t.Fatalf("Verify() with no keys = %v, want unavailable with a time to try again", err)
		}
	}
	if n := d.Asked(); n != 0 {
		t.Errorf("the keys were asked for %d times without a discovery document", n)
	}
	d.Away(false)
	i = trust(t, d)
	if _, err := verify(t, i, token); err != nil {
		t.Fatal(err)
	}
	clock := time.Now()
	i.keys.now = func() time.Time { return clock }
	d.Away(true)
	clock = clock.Add(23 * time.Hour)
	if _, err := verify(t, i, token); err != nil {
		t.Errorf("Verify() with keys that are held = %v, want it to go on", err)
	}
	d2 := d.Token(t, "ann", crib, nil)
	clock = clock.Add(2 * time.Hour)
	if _, err := verify(t, i, d2); code(err) != contracts.CodeUnavailable {
		t.Errorf("Verify() a day after the keys were had = %v, want unavailable", err)
	}
}

// Keys that are old are had anew while they are used, so that one that the issuer withdrew ends.
func TestOldKeysAreHadAnew(t *testing.T) {
	d := issuertest.Start(t)
	i := trust(t, d)
	old := d.Token(t, "ann", crib, nil)
	if _, err := verify(t, i, old); err != nil {
		t.Fatal(err)
	}
	d.Rotate(t, jose.RS256)
	clock := time.Now().Add(freshFor + time.Second)
	i.keys.now = func() time.Time { return clock }
	if _, err := verify(t, i, old); err != nil {
		t.Fatalf("Verify() with old keys = %v, want them used meanwhile", err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := verify(t, i, old)
		if code(err) == contracts.CodeUnauthenticated {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a withdrawn key is still used: %v", err)
		}
	}
}

// What the issuer answers is not believed blindly.
func TestAnswersOfTheIssuer(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	d := issuertest.Start(t)
	token := d.Token(t, "ann", crib, nil)
	_, set := d.Key()
	good, _ := json.Marshal(set)
	keys := func(k ...jose.JSONWebKey) string {
		b, _ := json.Marshal(jose.JSONWebKeySet{Keys: k})
		return string(b)
	}
	doc := func(issuer, keys string) string {
		return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, keys)
	}
	key := set.Keys[0]
	for name, tt := range map[string]struct {
		document, keys string
		ok             bool
	}{
		"a key of an unknown kind beside":    {"", strings.Replace(string(good), `"keys":[`, `"keys":[{"kty":"NEW","kid":"x"},{"kty":"oct","k":"AAAA","kid":"key-1"},17,`, 1), true},
		"a document of another issuer":       {doc("https://other.example", d.URL+"/keys"), "", false},
		"a document without keys":            {doc(d.URL, ""), "", false},
		"keys at no URL":                     {doc(d.URL, "file:///etc/passwd"), "", false},
		"keys at the metadata of a cloud":    {doc(d.URL, "http://169.254.169.254/keys"), "", false},
		"keys at another port here":          {doc(d.URL, "http://127.0.0.1:1/keys"), "", false},
		"no JSON":                            {"<html>", "", false},
		"no keys":                            {"", `{"keys":[]}`, false},
		"a key to encrypt":                   {"", keys(jose.JSONWebKey{Key: key.Key, KeyID: key.KeyID, Use: "enc"}), false},
		"a short key":                        {"", keys(jose.JSONWebKey{Key: small.Public(), KeyID: key.KeyID}), false},
		"a shared secret":                    {"", keys(jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: key.KeyID}), false},
		"a thousand keys":                    {"", `{"keys":[` + strings.Repeat(`{},`, 999) + `{}]}`, false},
		"more than can be read":              {"", `{"keys":["` + strings.Repeat("x", mostAnswer) + `"]}`, false},
		"the private half, which is no good": {"", keys(jose.JSONWebKey{Key: small, KeyID: key.KeyID}), false},
	} {
		t.Run(name, func(t *testing.T) {
			d.Answer(func(path string) (string, bool) {
				if path == "/keys" {
					return tt.keys, tt.keys != ""
				}
				return tt.document, tt.document != ""
			})
			_, err := verify(t, trust(t, d), token)
			if want := map[bool]contracts.Code{true: "ok", false: contracts.CodeUnavailable}[tt.ok]; code(err) != want {
				t.Errorf("Verify() = %v, want %s", err, want)
			}
		})
	}
	d.Answer(func(path string) (string, bool) { return "", path != "/keys" })
	if _, err := verify(t, trust(t, d, func(c *Config) { c.KeysURL = d.URL + "/keys" }), token); err != nil {
		t.Errorf("Verify() with keysURL and no document = %v", err)
	}
	if _, err := verify(t, trust(t, d, func(c *Config) { c.KeysURL, c.Client = d.URL+"/keys", guard.New(guard.Config{}) }), token); code(err) != contracts.CodeUnavailable {
		t.Errorf("Verify() with keys at a private address that nobody named = %v, want unavailable", err)
	}
}

func TestClaims(t *testing.T) {
	d := issuertest.Start(t)
	c, err := verify(t, trust(t, d), d.Token(t, "ann", crib, issuertest.Claims{
		"scope": "runs  read", "scp": []any{"runs", 7, "admin"}, "https://a.b/roles": []string{"x"}, "realm_access": map[string]any{"roles": []string{"ops"}}, "n": 5,
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"scope": "[runs read]", "scp": "[runs admin]", "https://a.b/roles": "[x]", "realm_access.roles": "[ops]", "realm_access": "[]", "n": "[]", "none": "[]", "n.m": "[]", "": "[]",
	} {
		if got := fmt.Sprint(c.Words(name)); got != want {
			t.Errorf("Words(%q) = %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{"sub": "ann", "n": "", "none": "", "realm_access": ""} {
		if got := c.Text(name); got != want {
			t.Errorf("Text(%q) = %q, want %q", name, got, want)
		}
	}
}

func BenchmarkRefused(b *testing.B) {
	d := issuertest.Start(b)
	token := d.Token(b, "ann", crib, issuertest.Claims{"exp": 1})
	i := New(Config{URL: d.URL, Client: http.DefaultClient})
	for b.Loop() {
		p, err := Parse(token)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := i.Verify(b.Context(), p); err == nil {
			b.Fatal("an expired token holds")
		}
	}
}
