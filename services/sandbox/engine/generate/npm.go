package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// wasmSum is the SHA-256 of quickjs.wasm of the version that package.json names.
const wasmSum = "c0bd8f296e18cf074969f6401b9ecb72609a1323818ec2b9bf7a8f8d740d1363"

// install has npm install what the lock file pins, unless it is there.
func install(ctx context.Context, npm string) error {
	lock, err := os.ReadFile(filepath.Join(npm, "package-lock.json"))
	if err != nil {
		return fmt.Errorf("read the lock file: %w", err)
	}
	sum := sha256.Sum256(lock)
	stamp := filepath.Join(npm, "node_modules", ".installed")
	want := []byte(hex.EncodeToString(sum[:]) + "\n")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, want) {
		return nil
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = npm
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci in %s: %w\n%s", npm, err, out)
	}
	if err := os.WriteFile(stamp, want, 0o644); err != nil {
		return fmt.Errorf("note what is installed: %w", err)
	}
	return nil
}

// quickjs reads the module and checks that it is the one meant.
func quickjs(npm string) ([]byte, error) {
	wasm, err := os.ReadFile(filepath.Join(npm, "node_modules", "quickjs-wasi", "quickjs.wasm"))
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	if sum := sha256.Sum256(wasm); hex.EncodeToString(sum[:]) != wasmSum {
		return nil, fmt.Errorf("quickjs.wasm has the SHA-256 %x, not %s", sum, wasmSum)
	}
	return wasm, nil
}

// A bundle is one script made of packages.
type bundle struct {
	script   string
	packages []string // that something was taken from
}

// bundleScript makes one script of entry, whose imports come from the installed packages; as an expression that gives
// the exports when name is "", else as the global variable name.
func bundleScript(npm, entry, name string) (*bundle, error) {
	root, err := filepath.Abs(npm)
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		Stdin:         &api.StdinOptions{Contents: entry, ResolveDir: root, Sourcefile: "entry.js"},
		AbsWorkingDir: root,
		Bundle:        true,
		Format:        api.FormatIIFE,
		GlobalName:    name,
		Platform:      api.PlatformNeutral,
		MainFields:    []string{"module", "main"},
		Target:        api.ES2023,
		Metafile:      true,
		LegalComments: api.LegalCommentsNone, // the licences are kept beside
		Charset:       api.CharsetUTF8,
	})
	if len(result.Errors) > 0 {
		return nil, fmt.Errorf("bundle: %s", result.Errors[0].Text)
	}
	b := &bundle{script: string(result.OutputFiles[0].Contents)}
	b.packages, err = packagesOf(result.Metafile)
	return b, err
}

// packagesOf gives the packages that a bundle took something from, as folders of node_modules, sorted.
func packagesOf(metafile string) ([]string, error) {
	var meta struct {
		Inputs map[string]struct{} `json:"inputs"`
	}
	if err := json.Unmarshal([]byte(metafile), &meta); err != nil {
		return nil, fmt.Errorf("read what the bundle is made of: %w", err)
	}
	var packages []string
	for input := range meta.Inputs {
		const folder = "node_modules/"
		at := strings.LastIndex(input, folder)
		if at < 0 {
			continue
		}
		at += len(folder)
		parts := strings.SplitN(input[at:], "/", 3)
		name := parts[0]
		if strings.HasPrefix(name, "@") && len(parts) > 1 {
			name += "/" + parts[1]
		}
		packages = append(packages, strings.TrimPrefix(input[:at], folder)+name)
	}
	slices.Sort(packages)
	return slices.Compact(packages), nil
}

// licences gives the licence texts of packages, and of QuickJS itself.
func licences(npm string, packages []string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(npm, "LICENSE.quickjs-ng"))
	if err != nil {
		return nil, fmt.Errorf("read a licence: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "The engine of code mode is made of the following.\n\n== QuickJS-NG ==\n\n%s\n", text)
	for _, p := range packages {
		folder := filepath.Join(npm, "node_modules", filepath.FromSlash(p))
		found, err := licenceFile(folder)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "== %s ==\n\n%s\n", p, found)
	}
	return b.Bytes(), nil
}

func licenceFile(folder string) ([]byte, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("look for a licence: %w", err)
	}
	i := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		n := strings.ToLower(e.Name())
		return strings.HasPrefix(n, "license") || strings.HasPrefix(n, "licence") || strings.HasPrefix(n, "copying")
	})
	if i < 0 {
		return nil, fmt.Errorf("%s has no licence text", folder)
	}
	return os.ReadFile(filepath.Join(folder, entries[i].Name()))
}
