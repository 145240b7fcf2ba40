//go:build !linux

package trials

import (
	"errors"
	"time"
)

var errNoLinux = errors.New("what processes use is measured on Linux only")

// A Meter measures nothing.
type Meter struct{}

// NewMeter says that it needs Linux.
func NewMeter() (*Meter, error) { return nil, errNoLinux }

// Used says that it needs Linux.
func (*Meter) Used() (time.Duration, error) { return 0, errNoLinux }

// Memory says that it needs Linux.
func Memory() (int64, error) { return 0, errNoLinux }

// Descendants says that it needs Linux.
func Descendants() ([]int, error) { return nil, errNoLinux }

// Descriptors says that it needs Linux.
func Descriptors() (int, error) { return 0, errNoLinux }
