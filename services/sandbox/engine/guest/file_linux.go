package guest

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NewFile makes a file in memory that holds a snapshot's memory and can no longer be changed. Pages of zeros take no room.
func NewFile(name string, s *Snapshot, memory []byte) (*os.File, error) {
	if uint64(len(memory)) != uint64(s.Pages)*pageSize {
		return nil, fmt.Errorf("the memory has %d bytes, its snapshot %d pages of 64 KiB", len(memory), s.Pages)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := fill(f, memory); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("fill the file in memory: %w", err)
	}
	return f, nil
}

func fill(f *os.File, memory []byte) error {
	if err := f.Truncate(int64(len(memory))); err != nil {
		return err
	}
	const block = 4096
	for at := 0; at < len(memory); at += block {
		b := memory[at:min(at+block, len(memory))]
		if allZero(b) {
			continue
		}
		if _, err := f.WriteAt(b, int64(at)); err != nil {
			return err
		}
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	return err
}
