//go:build !linux

package guest

import "os"

// NewFile needs Linux.
func NewFile(string, *Snapshot, []byte) (*os.File, error) { return nil, errNotHere }
