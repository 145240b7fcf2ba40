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
	pagemap *os.File
	entries []byte // room for what pagemap tells
	written []bool // what touched found out of each page of the file's part
	reserve func(int64) bool
}

// newMapping maps the first size bytes of f. pagemap is what [NewRuntime] describes.
func newMapping(f *os.File, size int, pagemap *os.File, reserve func(int64) bool) (*mapping, error) {
	all, err := unix.Mmap(-1, 0, MaxMemory, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes: %w", MaxMemory, err)
	}
	pages := size / os.Getpagesize()
	m := &mapping{all: all, size: size, file: size, pagemap: pagemap, entries: make([]byte, pages*pagemapEntry), written: make([]bool, pages), reserve: reserve}
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

// What an entry of /proc/self/pagemap has: https://docs.kernel.org/admin-guide/mm/pagemap.html.
const (
	pagemapEntry   = 8 // bytes
	pagemapPresent = 1 << 63
	pagemapSwapped = 1 << 62
	pagemapOfFile  = 1 << 61
)

// touched finds out of each page of the file's part whether it was written to since it was mapped or forgotten, and reports whether
// the system tells it.
func (m *mapping) touched() bool {
	if m.pagemap == nil {
		return false
	}
	at := int64(uintptr(unsafe.Pointer(&m.all[0]))) / int64(os.Getpagesize()) * pagemapEntry
	if n, err := m.pagemap.ReadAt(m.entries, at); err != nil || n != len(m.entries) {
		return false
	}
	for i := range m.written {
		e := binary.LittleEndian.Uint64(m.entries[i*pagemapEntry:])
		m.written[i] = e&(pagemapPresent|pagemapSwapped) != 0 && e&pagemapOfFile == 0
	}
	return true
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
