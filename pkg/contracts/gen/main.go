// Command gen writes the documentation that follows from the contracts:
// events.md, asyncapi.yaml and errors.md. It knows nothing by itself: types and
// tables come from the package by reflection, words from its source comments.
//
//	go run ./gen . ../../docs
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run reads the package's source in args[0] and writes the files into args[1].
func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("got %d arguments, want two: the folder of the contracts' source and the folder to write", len(args))
	}
	files, err := generate(args[0])
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(args[1], name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the files by name. source is the folder of the contracts' source.
func generate(source string) (map[string]string, error) {
	w, err := readWords(source)
	if err != nil {
		return nil, fmt.Errorf("read the contracts: %w", err)
	}
	m := newModel(w)
	return map[string]string{
		"events.md":     eventsPage(m),
		"asyncapi.yaml": asyncAPI(m),
		"errors.md":     errorsPage(),
	}, nil
}
