//go:build linux && (amd64 || arm64)

package guest

import (
	"encoding/binary"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A mapping is a guest's memory: the whole of what it may ever have is reserved, what it has is readable and writable,
// and starts as a private copy, made page by page on the first write, of a file.
type mapping struct {
	all     []byte
	size    int // readable and writable from the start on
	file    int // bytes of the file
	reserve func(int64) bool
}

func newMapping(f *os.File, size int, reserve func(int64) bool) (*mapping, error) {
	all, err := unix.Mmap(-1, 0, MaxMemory, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", MaxMemory, err)
	}
	m := &mapping{all: all, size: size, file: size, reserve: reserve}
	if size > len(all) {
		m.Free()
		return nil, fmt.Errorf("it has %d bytes, more than a guest may have", size)
	}
	if _, err := unix.MmapPtr(int(f.Fd()), 0, unsafe.Pointer(&all[0]), uintptr(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED); err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

// Reallocate implements wazero's LinearMemory. Asked for less than there is, it gives that; the memory never moves.
func (m *mapping) Reallocate(bytes uint64) []byte {
	if bytes > uint64(len(m.all)) {
		return nil
	}
	size := int(bytes)
	if size > m.size {
		more := size - m.size
		if !m.reserve(int64(more)) {
			return nil
		}
		if err := unix.Mprotect(m.all[m.size:size], unix.PROT_READ|unix.PROT_WRITE); err != nil {
			m.reserve(-int64(more))
			return nil
		}
		m.size = size
	}
	return m.all[:size:size]
}

// forget drops the private pages of a part, so that the file's show again.
func (m *mapping) forget(from, to int) error { return unix.Madvise(m.all[from:to], unix.MADV_DONTNEED) }

// touched tells of each page of the file's part whether it was written to, nil where the system does not tell.
func (m *mapping) touched() []bool {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	page := os.Getpagesize()
	const entry = 8 // bytes
	b := make([]byte, m.file/page*entry)
	if _, err := f.ReadAt(b, int64(uintptr(unsafe.Pointer(&m.all[0])))/int64(page)*entry); err != nil {
		return nil
	}
	const present, swapped, ofFile = 1 << 63, 1 << 62, 1 << 61
	touched := make([]bool, m.file/page)
	for i := range touched {
		e := binary.LittleEndian.Uint64(b[i*entry:])
		touched[i] = e&(present|swapped) != 0 && e&ofFile == 0
	}
	return touched
}

// Free implements wazero's LinearMemory. Called again it does nothing.
func (m *mapping) Free() {
	if m.all != nil {
		m.reserve(int64(m.file) - int64(m.size))
		_ = unix.Munmap(m.all)
		m.all = nil
	}
}

// mapFile maps a file for reading.
func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
}

func unmap(b []byte) error { return unix.Munmap(b) }
