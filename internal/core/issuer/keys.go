package issuer

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

const (
	freshFor    = 15 * time.Minute // keys are asked for again behind the back of whoever uses them
	usableFor   = 24 * time.Hour   // keys go on while the issuer is away
	askEvery    = 10 * time.Second // between requests to the issuer, whoever wants them
	askAtOnce   = 3                // requests before that counts
	askWithin   = 10 * time.Second
	mostAnswer  = 1 << 20 // bytes
	mostKeys    = 100
	leastRSA    = 2048 // bits
	wellKnown   = "/.well-known/openid-configuration"
	useToSign   = "sig"
	tooOldAfter = askEvery // keys younger than that are what the issuer has: one that is not among them does not exist
)

// A keySet holds the keys of an issuer. They are asked for when a token is to be checked, again when they are old or one is missing, and
// not more often than is decent: a token with a made-up key must not make a flood of requests. Safe for concurrent use.
type keySet struct {
	issuer, url string
	client      Doer
	log         *slog.Logger
	limit       *rate.Limiter
	asking      singleflight.Group
	now         func() time.Time

	mu   sync.Mutex
	keys []jose.JSONWebKey
	at   time.Time // when they were had; zero for never
}

func newKeySet(cfg Config) *keySet {
	return &keySet{
		issuer: cfg.URL, url: cfg.KeysURL, client: cfg.Client, log: cfg.Log,
		limit: rate.NewLimiter(rate.Every(askEvery), askAtOnce), now: time.Now,
	}
}

// find returns the keys that a token with this key id and algorithm can be signed with, at least one.
func (s *keySet) find(ctx context.Context, id, algorithm string) ([]any, error) {
	keys, age := s.held()
	if fit := fitting(keys, id, algorithm); len(fit) > 0 {
		if age > freshFor {
			s.askAside()
		}
		return fit, nil
	}
	err := s.ask(ctx)
	keys, age = s.held()
	if fit := fitting(keys, id, algorithm); len(fit) > 0 {
		return fit, nil
	}
	if err != nil && (keys == nil || age > tooOldAfter) {
		return nil, contracts.Errorf(contracts.CodeUnavailable, "the token cannot be checked now: the keys of its issuer cannot be had: %w", err).After(askEvery)
	}
	return nil, refuse("the token is signed with a key that its issuer does not publish")
}

// held returns the keys and how old they are; none that are too old.
func (s *keySet) held() ([]jose.JSONWebKey, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := s.now().Sub(s.at)
	if age > usableFor {
		return nil, age
	}
	return s.keys, age
}

// fitting returns the keys with the id for the algorithm. A token that names no key can be signed with the only one there is.
func fitting(keys []jose.JSONWebKey, id, algorithm string) []any {
	var out []any
	for _, k := range keys {
		if (k.KeyID == id || id == "" && len(keys) == 1) && (k.Algorithm == "" || k.Algorithm == algorithm) {
			out = append(out, k.Key)
		}
	}
	return out
}

var errTooOften = errors.New("they were asked for a moment ago")

// ask gets the keys anew, once for all who want it at the same time.
func (s *keySet) ask(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := s.asking.DoChan("", func() (any, error) {
		if !s.limit.Allow() {
			return nil, errTooOften
		}
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		keys, err := s.fetch(own)
		if err != nil {
			s.log.Warn("the keys of an issuer cannot be had", "issuer", s.issuer, "err", err)
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keys, s.at = keys, s.now()
		return nil, nil
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// askAside gets the keys anew while the old ones are used.
func (s *keySet) askAside() {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	go func() {
		defer cancel()
		s.ask(ctx)
	}()
}

// fetch asks the issuer for its keys.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	at := s.url
	if at == "" {
		var err error
		if at, err = s.discover(ctx); err != nil {
			return nil, err
		}
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.get(ctx, at, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > mostKeys {
		return nil, fmt.Errorf("%s has %d keys; want at most %d", at, len(set.Keys), mostKeys)
	}
	var out []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) == nil && usable(k) { // one that is of no use takes no other down
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no key that tokens can be checked with", at)
	}
	return out, nil
}

// usable reports whether k is the public half of a pair to sign with, and strong enough.
func usable(k jose.JSONWebKey) bool {
	if !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != useToSign {
		return false
	}
	r, ok := k.Key.(*rsa.PublicKey)
	return !ok || r.N.BitLen() >= leastRSA
}

// discover returns where the issuer says that its keys are.
func (s *keySet) discover(ctx context.Context) (string, error) {
	var doc struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	at := strings.TrimSuffix(s.issuer, "/") + wellKnown
	if err := s.get(ctx, at, &doc); err != nil {
		return "", err
	}
	if doc.Issuer != s.issuer {
		return "", fmt.Errorf("%s is of issuer %.200q; want %q", at, doc.Issuer, s.issuer)
	}
	u, err := url.Parse(doc.Keys)
	if err != nil || u.Host == "" || u.Scheme != "https" && !(u.Scheme == "http" && strings.HasPrefix(s.issuer, "http:")) {
		return "", fmt.Errorf("%s: jwks_uri %.200q is no https URL", at, doc.Keys)
	}
	return doc.Keys, nil
}

func (s *keySet) get(ctx context.Context, at string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return fmt.Errorf("ask %s: %w", at, err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", at, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("ask %s: %s", at, res.Status)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, mostAnswer+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", at, err)
	}
	if len(data) > mostAnswer {
		return fmt.Errorf("read %s: it is larger than %d bytes", at, mostAnswer)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read %s: %w", at, err)
	}
	return nil
}
