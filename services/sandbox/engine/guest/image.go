package guest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

// An Image is a snapshot with its memory, of which guests are clones.
type Image struct {
	snap   Snapshot
	file   *os.File
	memory []byte // the file's, for reading only
	page   int    // unit in which memory is copied and given back
	hot    []bool // the pages that [Guest.Learn] learned
}

// NewImage makes an image of a snapshot and of the file that [NewFile] made of its memory, which it needs until it is closed.
func NewImage(s Snapshot, f *os.File) (*Image, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at the snapshot: %w", err)
	}
	if info.Size() != int64(s.Pages)*pageSize || s.Stack < deep || s.Stack > s.Pages*pageSize {
		return nil, fmt.Errorf("the snapshot's file has %d bytes, not %d pages of 64 KiB", info.Size(), s.Pages)
	}
	img := &Image{snap: s, file: f, page: os.Getpagesize()}
	if img.memory, err = mapFile(f, int(s.Pages)*pageSize); err != nil {
		return nil, fmt.Errorf("map the snapshot: %w", err)
	}
	img.hot = make([]bool, len(img.memory)/img.page)
	return img, nil
}

// Close frees the image. All its guests must be closed before. The file is not closed.
func (img *Image) Close() error { return unmap(img.memory) }

// Clone makes a guest that is what the image's guest was. reserve is asked before the memory grows by bytes and may refuse;
// it is told of bytes that are given back as a negative number.
func (r *Runtime) Clone(img *Image, reserve func(bytes int64) bool) (*Guest, error) {
	m, err := newMapping(img.file, len(img.memory), r.pagemap, reserve)
	if err != nil {
		return nil, fmt.Errorf("map the snapshot: %w", err)
	}
	g, err := r.instantiate(m)
	if err != nil {
		m.Free()
		return nil, err
	}
	if have := g.mem.Size() / pageSize; have < img.snap.Pages {
		if _, ok := g.mem.Grow(img.snap.Pages - have); !ok {
			return nil, errors.Join(errors.New("the snapshot does not fit into a guest's memory"), g.Close())
		}
	}
	g.image, g.scratch = img, img.snap.Scratch
	if got := uint32(g.stack.Get()); got != img.snap.Stack {
		return nil, errors.Join(fmt.Errorf("the snapshot's stack pointer is %d, the module's %d", img.snap.Stack, got), g.Close())
	}
	return g, nil
}

// Function gives a function that the prelude left.
func (g *Guest) Function(name string) Value { return g.image.snap.Functions[name] }

// grown reports whether the memory grew beyond the snapshot's.
func (g *Guest) grown() bool { return int(g.mem.Size()) != len(g.image.memory) }

// Memory gives the guest's memory, which stays the guest's: it is for reading only, until the guest is used or closed.
func (g *Guest) Memory() []byte {
	b, _ := g.mem.Read(0, g.mem.Size())
	return b
}

// Full reports whether the memory is all but used up.
func (g *Guest) Full() bool { return g.mem.Size() > MaxMemory-4<<20 }

// deep is how much stack a guest may have used to be good for another run: the host's part of a stack, some forty times
// as large, never shrinks.
const deep = 64 << 10

// tidemark is the page that a guest writes to only if its stack got deep.
func (img *Image) tidemark() int { return int(img.snap.Stack-deep) &^ (img.page - 1) }

// Reset makes a guest again what the image's guest was, byte for byte, if that can be done.
func (g *Guest) Reset() bool {
	if g.err != nil || g.grown() || uint32(g.stack.Get()) != g.image.snap.Stack {
		return false
	}
	if b, ok := g.mem.Read(uint32(g.image.tidemark()), uint32(g.image.page)); !ok || !allZero(b) {
		return false
	}
	g.host, g.rejections = nil, nil
	memory, page := g.image.memory, g.image.page
	touched := g.touched()
	for i := 0; i < len(touched); {
		if !touched[i] {
			i++
			continue
		}
		// Copying back what nearly every run changes is many times cheaper than a page fault for each page of it.
		if g.image.hot[i] {
			copy(g.lm.all[i*page:(i+1)*page], memory[i*page:])
			i++
			continue
		}
		first := i
		for i < len(touched) && touched[i] && !g.image.hot[i] {
			i++
		}
		if g.lm.forget(first*page, i*page) != nil {
			return false
		}
	}
	return true
}

// Learn has all guests of the image that are reset from now on expect that a run touches what the run of g has touched so
// far. It must not be called while another guest of the image is in use.
func (g *Guest) Learn() { copy(g.image.hot, g.touched()) }

// touched tells of each page of the image whether the guest may have changed it, until it is called again. Where the system does not
// tell, which is a matter of microseconds, all memory is compared.
func (g *Guest) touched() []bool {
	if g.lm.touched() {
		return g.lm.written
	}
	now, page := g.Memory(), g.image.page
	for i := range g.lm.written {
		g.lm.written[i] = !bytes.Equal(now[i*page:(i+1)*page], g.image.memory[i*page:(i+1)*page])
	}
	return g.lm.written
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
