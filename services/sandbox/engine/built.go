package engine

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
	"github.com/toolcrib/toolcrib/services/sandbox/engine/prelude"
)

// built is what the generator made, or nothing but a README.
//
//go:embed all:built
var built embed.FS

// errNotBuilt says what to do.
var errNotBuilt = errors.New("code mode is not available: run `make engine` and build again")

// Built reports whether bodies can be run: nil, or an error that says what to do because the engine was not built in, or
// was made from another prelude than this program has.
func Built() error {
	m, err := readManifest()
	if err != nil {
		return err
	}
	for name, script := range map[string]string{guest.InputPrelude: prelude.Polyfills() + prelude.Body(), guest.InputTypeScript: prelude.TypeScript("")} {
		if m.Inputs[name] != digest([]byte(script)) {
			return fmt.Errorf("%w (the %s has changed since)", errNotBuilt, name)
		}
	}
	return nil
}

func readManifest() (*guest.Manifest, error) {
	text, err := built.ReadFile("built/manifest.json")
	if err != nil {
		return nil, errNotBuilt
	}
	m := &guest.Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%w (its manifest cannot be read: %w)", errNotBuilt, err)
	}
	return m, nil
}

// readBuilt reads a file and checks that it is the one of the manifest.
func readBuilt(m *guest.Manifest, name string) ([]byte, error) {
	b, err := built.ReadFile("built/" + name)
	if err != nil {
		return nil, errNotBuilt
	}
	if digest(b) != m.Files[name] {
		return nil, fmt.Errorf("%w (%s is not the one that belongs to the others)", errNotBuilt, name)
	}
	return b, nil
}

func digest(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Images are the memories of the snapshots, in sealed memory files, which several processes of one program can share:
// NewImages makes them once, and the files' descriptors may be handed to other processes, which make an Images of them again.
type Images struct {
	Body       *os.File
	TypeScript *os.File
}

// NewImages makes the images of what is built in. Whoever calls it closes them, after all engines that use them.
func NewImages() (*Images, error) {
	m, err := readManifest()
	if err != nil {
		return nil, err
	}
	i := &Images{}
	for _, f := range []struct {
		name string
		snap *guest.Snapshot
		into **os.File
	}{{"body.img", &m.Body, &i.Body}, {"typescript.img", &m.TypeScript, &i.TypeScript}} {
		if *f.into, err = image(m, f.name, f.snap); err != nil {
			_ = i.Close()
			return nil, fmt.Errorf("make the image %s: %w", f.name, err)
		}
	}
	return i, nil
}

func image(m *guest.Manifest, name string, s *guest.Snapshot) (*os.File, error) {
	packed, err := readBuilt(m, name+".zst")
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(guest.MaxMemory))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	memory, err := dec.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	return guest.NewFile(name, s, memory)
}

// Close closes the files. Engines that are open cannot make new isolates from then on.
func (i *Images) Close() error {
	var errs []error
	for _, f := range []*os.File{i.Body, i.TypeScript} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
