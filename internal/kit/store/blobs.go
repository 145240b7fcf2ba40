package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/internal/kit/bus"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// Blobs is a store of immutable content, named by tenant and hash: nothing is shared between tenants. Safe for concurrent use.
type Blobs struct {
	os    jetstream.ObjectStore
	name  string
	known *lru.Cache[string, struct{}] // names that are stored for certain
}

// OpenBlobs opens the object store, and makes it where it is missing.
func OpenBlobs(ctx context.Context, b *bus.Bus, name string) (*Blobs, error) {
	cfg := jetstream.ObjectStoreConfig{Bucket: name, Storage: jetstream.FileStorage, Replicas: b.Replicas(), Compression: true}
	if name == contracts.StorePayloads {
		cfg.TTL = keptCalls
	}
	var os jetstream.ObjectStore
	err := open(ctx, b, name, opening[jetstream.ObjectStore]{
		open:   func(ctx context.Context) (jetstream.ObjectStore, error) { return b.JS.ObjectStore(ctx, name) },
		create: func(ctx context.Context) (jetstream.ObjectStore, error) { return b.JS.CreateObjectStore(ctx, cfg) },
		update: func(ctx context.Context) (jetstream.ObjectStore, error) {
			return b.JS.CreateOrUpdateObjectStore(ctx, cfg)
		},
		stream: func(ctx context.Context, os jetstream.ObjectStore) *jetstream.StreamInfo {
			status, _ := os.Status(ctx)
			if s, ok := status.(*jetstream.ObjectBucketStatus); ok {
				return s.StreamInfo()
			}
			return nil
		},
		age: cfg.TTL, replicas: cfg.Replicas,
	}, &os)
	if err != nil {
		return nil, err
	}
	known, _ := lru.New[string, struct{}](10_000)
	return &Blobs{os, name, known}, nil
}

func blobName(t contracts.TenantID, h contracts.Hash) string { return string(t) + "/" + string(h) }

// Put stores data for tenant t and returns its hash. Content that is there already is not written again.
func (s *Blobs) Put(ctx context.Context, t contracts.TenantID, data []byte) (contracts.Hash, error) {
	h := contracts.HashOf(data)
	name := blobName(t, h)
	if s.known.Contains(name) {
		return h, nil
	}
	if _, err := s.os.GetInfo(ctx, name); err == nil && s.name != contracts.StorePayloads {
		s.known.Add(name, struct{}{})
		return h, nil
	}
	if _, err := s.os.Put(ctx, jetstream.ObjectMeta{Name: name}, bytes.NewReader(data)); err != nil {
		return "", fmt.Errorf("store %s %s: %w", s.name, name, err)
	}
	if s.name != contracts.StorePayloads { // whose content goes away by age
		s.known.Add(name, struct{}{})
	}
	return h, nil
}

// PutNamed stores data for tenant t under a name of the caller's, in place of what was there.
func (s *Blobs) PutNamed(ctx context.Context, t contracts.TenantID, name string, data []byte) error {
	if _, err := s.os.Put(ctx, jetstream.ObjectMeta{Name: string(t) + "/" + name}, bytes.NewReader(data)); err != nil {
		return fmt.Errorf("store %s %s: %w", s.name, name, err)
	}
	return nil
}

// GetNamed returns what was stored under the name, or an error with [contracts.CodeNotFound].
func (s *Blobs) GetNamed(ctx context.Context, t contracts.TenantID, name string) ([]byte, error) {
	data, err := s.read(ctx, string(t)+"/"+name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, contracts.Errorf(contracts.CodeNotFound, "there is no %s of that name", s.name)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", s.name, name, err)
	}
	return data, nil
}

// read is GetBytes of the object store, but takes the memory that it needs at once.
func (s *Blobs) read(ctx context.Context, name string) ([]byte, error) {
	r, err := s.os.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	info, err := r.Info()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(int(min(info.Size, largePart)) + bytes.MinRead)
	_, err = b.ReadFrom(r)
	return b.Bytes(), err
}

// Get returns the content of hash h of tenant t, or an error with [contracts.CodeNotFound].
func (s *Blobs) Get(ctx context.Context, t contracts.TenantID, h contracts.Hash) ([]byte, error) {
	data, err := s.GetNamed(ctx, t, string(h))
	if err != nil {
		return nil, err
	}
	if contracts.HashOf(data) != h {
		return nil, contracts.Errorf(contracts.CodeInternal, "content of %s is damaged", s.name)
	}
	return data, nil
}
