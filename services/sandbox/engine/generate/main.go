// Generate makes the engine that package engine builds in: it takes QuickJS from npm, rewrites it, runs the prelude in
// it and writes the snapshots, with the licences of all that went in, to engine/built. Run it in services/sandbox:
//
//	go run ./engine/generate
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("engine", "engine", "the folder of package engine")
	flag.Parse()
	if err := run(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	npm := filepath.Join(dir, "npm")
	if _, err := os.Stat(filepath.Join(npm, "package-lock.json")); err != nil {
		return errors.New("there is no engine/npm/package-lock.json here: run it in services/sandbox")
	}
	if err := install(ctx, npm); err != nil {
		return err
	}
	made, err := build(ctx, npm)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, "built"), made)
}
