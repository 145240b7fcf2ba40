// Package ledger is a small double-entry ledger in a file and the tools that work on it, as an example of what a plugin serves. Amounts are in
// cents. It is no accounting software: it closes no books and knows no currency.
package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// An Entry moves an amount from one account to another.
type Entry struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	From   string    `json:"from"`
	To     string    `json:"to"`
	Amount int64     `json:"amount"`
	Note   string    `json:"note,omitempty"`
}

// A Ledger is the entries of one file, of which processes append lines and never change one. Safe for concurrent use.
type Ledger struct {
	path string
	mu   sync.Mutex
}

// New returns the ledger in the file at path, which is made with the first entry.
func New(path string) *Ledger { return &Ledger{path: path} }

// entries returns all entries, the oldest first. Of entries of one id, which two processes may have appended at the same time, the first one counts.
func (l *Ledger) entries() ([]Entry, error) {
	data, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	var out []Entry
	seen := map[string]bool{}
	for s := bufio.NewScanner(bytes.NewReader(data)); s.Scan(); {
		var e Entry
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		if !seen[e.ID] {
			seen[e.ID] = true
			out = append(out, e)
		}
	}
	return out, nil
}

// append adds an entry, unless there is one of its id: that one is returned then.
func (l *Ledger) append(e Entry) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.entries()
	if err != nil {
		return Entry{}, err
	}
	for _, other := range all {
		if other.ID == e.ID {
			return other, nil
		}
	}
	line, err := json.Marshal(e)
	if err != nil {
		return Entry{}, err
	}
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return Entry{}, fmt.Errorf("write the journal: %w", err)
	}
	_, err = f.Write(append(line, '\n')) // in one piece, so that lines of several processes stay whole
	return e, errors.Join(err, f.Close())
}
