// Package keys makes the keys by which the services of a hosted Toolcrib, and plugins, are known to the NATS
// server of nats/nats.conf. The secret part of each stays in a file of its own; the server is told the public parts. It grants
// nothing: what the owner of a key may do stands in that file.
package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"
)

// Services returns the names of the services, each of which has a key.
func Services() []string {
	return []string{"planner", "indexer", "executor", "sandbox", "telemetry", "gateway"}
}

// File returns the path of a service's key in a directory.
func File(dir, service string) string { return filepath.Join(dir, service+".nk") }

// EnvFile returns the path of the file in a directory with the variables that the server's configuration refers to.
func EnvFile(dir string) string { return filepath.Join(dir, "nats.env") }

// Make makes the keys that are missing in a directory, which it makes as well, and writes the file of variables. It
// returns these variables, each NAME=value; they hold no secret.
func Make(dir string) (environ []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of keys: %w", err)
	}
	for _, s := range Services() {
		public, err := key(File(dir, s))
		if err != nil {
			return nil, fmt.Errorf("the key of %s: %w", s, err)
		}
		environ = append(environ, "TOOLCRIB_NKEY_"+strings.ToUpper(s)+"="+public)
	}
	if err := os.WriteFile(EnvFile(dir), []byte(strings.Join(environ, "\n")+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("write the variables of the server: %w", err)
	}
	return environ, nil
}

// ForContainers lets any user read the keys, so that one of a container can, where each is mounted. The directory itself
// is its owner's alone, which keeps the other users of this machine out.
func ForContainers(dir string) error {
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	all, err := filepath.Glob(File(dir, "*"))
	for _, path := range all {
		err = errors.Join(err, os.Chmod(path, 0o644))
	}
	return err
}

// key returns the public part of the key in a file, which it makes where it is missing.
func key(path string) (string, error) {
	seed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		seed, err = create(path)
	}
	if err != nil {
		return "", err
	}
	defer clear(seed)
	pair, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}

func create(path string) ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	seed, err := pair.Seed()
	if err != nil {
		return nil, err
	}
	seed = append(seed, '\n')
	return seed, os.WriteFile(path, seed, 0o600)
}
