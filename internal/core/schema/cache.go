package schema

import (
	"encoding/json"
	"hash/maphash"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// A Cache keeps the validators that were used last. It is safe for concurrent use.
type Cache struct {
	seed maphash.Seed
	mu   sync.Mutex // so that one schema is compiled once
	kept *lru.Cache[cacheKey, func() (*Validator, error)]
}

// A cacheKey holds a checksum of the schema beside the hash, so that the input
// and output schema of one tool may come with the tool's hash.
type cacheKey struct {
	hash contracts.Hash
	sum  uint64
}

// NewCache returns a cache of at most n validators, at least one. A usual validator takes some 20 KB.
func NewCache(n int) *Cache {
	kept, err := lru.New[cacheKey, func() (*Validator, error)](max(n, 1))
	if err != nil {
		panic(err) // only a size below 1 is refused
	}
	return &Cache{seed: maphash.MakeSeed(), kept: kept}
}

// For returns the validator of raw, compiled at the first call, or the error of
// [Compile], which is kept too. The hash is one that goes with raw: its own, or
// that of the tool it belongs to.
func (c *Cache) For(hash contracts.Hash, raw json.RawMessage) (*Validator, error) {
	key := cacheKey{hash, maphash.Bytes(c.seed, raw)}
	c.mu.Lock()
	get, ok := c.kept.Get(key)
	if !ok {
		get = sync.OnceValues(func() (*Validator, error) { return Compile(raw) })
		c.kept.Add(key, get)
	}
	c.mu.Unlock()
	return get()
}
