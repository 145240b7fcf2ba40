package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/toolcrib/toolcrib/services/sandbox/engine/guest"
	"github.com/toolcrib/toolcrib/services/sandbox/engine/prelude"
	"github.com/toolcrib/toolcrib/services/sandbox/engine/rewrite"
)

const manifest = "manifest.json"

// build makes all files of built, by name.
func build(ctx context.Context, npm string) (map[string][]byte, error) {
	wasm, err := quickjs(npm)
	if err != nil {
		return nil, err
	}
	sucrase, err := bundleScript(npm, `export { transform } from "sucrase";`, "__sucrase")
	if err != nil {
		return nil, fmt.Errorf("sucrase: %w", err)
	}
	polyfills, err := bundleScript(npm, prelude.Polyfills(), "")
	if err != nil {
		return nil, fmt.Errorf("polyfills: %w", err)
	}
	packages := slices.Concat([]string{"quickjs-wasi"}, polyfills.packages, sucrase.packages)
	slices.Sort(packages)
	licences, err := licences(npm, slices.Compact(packages))
	if err != nil {
		return nil, err
	}
	o := rewrite.Options{MinPages: 18, MaxPages: guest.MaxPages, Fuel: 10_000, Bulk: 64 << 10, Hook: "host_interrupt"}
	full, _, err := rewrite.Module(wasm, o)
	if err != nil {
		return nil, fmt.Errorf("rewrite the module: %w", err)
	}
	o.DropData = true
	clone, counts, err := rewrite.Module(wasm, o)
	if err != nil {
		return nil, fmt.Errorf("rewrite the module: %w", err)
	}
	files := map[string][]byte{"engine.wasm": clone, "LICENCES.txt": licences}
	m := guest.Manifest{Counts: counts, Inputs: map[string]string{
		"quickjs.wasm":        wasmSum,
		"sucrase":             sum([]byte(sucrase.script)),
		"polyfills":           sum([]byte(polyfills.script)),
		guest.InputPrelude:    sum([]byte(prelude.Polyfills() + prelude.Body())),
		guest.InputTypeScript: sum([]byte(prelude.TypeScript(""))),
	}}
	scripts := [2]string{polyfills.script + prelude.Body(), prelude.TypeScript(sucrase.script)}
	if err := snapshots(ctx, full, scripts, &m, files); err != nil {
		return nil, err
	}
	m.Files = map[string]string{}
	for name, content := range files {
		m.Files[name] = sum(content)
	}
	if files[manifest], err = json.MarshalIndent(m, "", "  "); err != nil {
		return nil, err
	}
	return files, nil
}

// snapshots boots the module with each of the scripts, for bodies and for types, and adds the snapshots to m and their memories to files.
func snapshots(ctx context.Context, full []byte, scripts [2]string, m *guest.Manifest, files map[string][]byte) error {
	rt, err := guest.NewRuntime(ctx, full, "", nil, guest.Compiled)
	if err != nil {
		return err
	}
	defer func() { _ = rt.Close(ctx) }()
	for _, s := range []struct {
		name, script string
		hidden       []string
		into         *guest.Snapshot
	}{
		{"body.img", scripts[0], []string{guest.FuncStart, guest.FuncSettle, guest.FuncFail, guest.FuncRejected}, &m.Body},
		{"typescript.img", scripts[1], []string{guest.FuncStrip}, &m.TypeScript},
	} {
		snap, memory, err := rt.Boot(s.script, s.hidden...)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		if err != nil {
			return err
		}
		*s.into, files[s.name+".zst"] = *snap, enc.EncodeAll(memory, nil)
	}
	return nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// write writes files to dir, the manifest last, and removes what else is there, apart from what belongs to the project.
func write(dir string, files map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look into %s: %w", dir, err)
	}
	for _, e := range entries {
		if e.Name() == "README.md" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove what is old: %w", err)
		}
	}
	for name, content := range files {
		if name == manifest {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write what was made: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, manifest), files[manifest], 0o644); err != nil {
		return fmt.Errorf("write what was made: %w", err)
	}
	return nil
}
