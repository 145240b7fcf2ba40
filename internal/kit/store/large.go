package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// largePart is the bytes of a part of large content, but for the last.
const largePart = 1 << 20

// Large names large content: its parts, each stored under its own hash as by [Blobs.Put], so that any place of it is read without the rest.
type Large struct {
	Size  int64            `json:"size"`
	Parts []contracts.Hash `json:"parts"`
}

// PutLarge stores what r gives, at most most bytes of it; more is an error with [contracts.CodeTooLarge]. It holds one part at a time. A part
// that is there already, and has half of its time still before it, is not written again.
func (s *Blobs) PutLarge(ctx context.Context, t contracts.TenantID, r io.Reader, most int64) (Large, error) {
	var l Large
	buf := make([]byte, largePart)
	for {
		n, err := io.ReadFull(r, buf)
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		last := errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !last {
			return Large{}, fmt.Errorf("read what is to be stored: %w", err)
		}
		if l.Size += int64(n); l.Size > most {
			return Large{}, contracts.Errorf(contracts.CodeTooLarge, "more than %d bytes", most)
		}
		h, err := s.putOnce(ctx, t, buf[:n])
		if err != nil {
			return Large{}, err
		}
		l.Parts = append(l.Parts, h)
		if last {
			return l, nil
		}
	}
}

// putOnce is Put that leaves young content alone also where content goes away by age.
func (s *Blobs) putOnce(ctx context.Context, t contracts.TenantID, data []byte) (contracts.Hash, error) {
	h := contracts.HashOf(data)
	info, err := s.os.GetInfo(ctx, blobName(t, h))
	if err == nil && time.Since(info.ModTime) < keptCalls/2 {
		return h, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return "", fmt.Errorf("look for %s %s: %w", s.name, h, err)
	}
	return s.Put(ctx, t, data)
}

// At returns the part in which the byte at a place stands, and the place of its first byte; "" beyond the end.
func (l Large) At(at int64) (part contracts.Hash, start int64) {
	i := at / largePart
	if at < 0 || at >= l.Size || i >= int64(len(l.Parts)) {
		return "", 0
	}
	return l.Parts[i], i * largePart
}
