//go:build !(linux && (amd64 || arm64))

package guest

import "os"

// A mapping is a guest's memory. It needs Linux.
type mapping struct {
	all     []byte
	written []bool
}

func newMapping(*os.File, int, *os.File, func(int64) bool) (*mapping, error) {
	return nil, errNotHere
}

func (*mapping) Reallocate(uint64) []byte { return nil }
func (*mapping) forget(int, int) error    { return errNotHere }
func (*mapping) touched() bool            { return false }
func (*mapping) Free()                    {}

func mapFile(*os.File, int) ([]byte, error) { return nil, errNotHere }
func unmap([]byte) error                    { return errNotHere }
