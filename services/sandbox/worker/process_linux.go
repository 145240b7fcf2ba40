//go:build amd64 || arm64

package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// What is read, and what is kept, of a worker's standard error.
const (
	maxStderr  = 64 << 10
	keptStderr = 2 << 10
)

// A worker's process. It implements [process].
type osProcess struct {
	cmd    *exec.Cmd
	stderr chan string // what it said, once it is gone
	state  func() string
}

// run starts cmd with a pipe for its standard error, of which a bounded part is kept.
func (f *forker) run(cmd *exec.Cmd) (*osProcess, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for a worker: %w", err)
	}
	cmd.Stderr = w
	err = f.start(cmd)
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &osProcess{cmd: cmd, stderr: make(chan string, 1)}
	go func() {
		defer r.Close() // a worker that goes on writing is ended by the closed pipe
		head, _ := io.ReadAll(io.LimitReader(r, keptStderr))
		_, _ = io.CopyN(io.Discard, r, maxStderr)
		p.stderr <- strings.TrimSpace(string(head))
	}()
	p.state = sync.OnceValue(p.reap)
	return p, nil
}

// kill implements [process].
func (p *osProcess) kill() { _ = p.cmd.Process.Kill() }

// wait implements [process].
func (p *osProcess) wait() string { return p.state() }

func (p *osProcess) reap() string {
	err := p.cmd.Wait()
	state := "exit status 0"
	if err != nil {
		state = err.Error()
	}
	if said := <-p.stderr; said != "" {
		state += ": " + said
	}
	return state
}

// A socket is the parent's end of a connection. It implements [stream].
type socket struct {
	*os.File
	raw syscall.RawConn
}

// newSocket takes over fd, which does not block.
func newSocket(fd int) *socket {
	s := &socket{File: os.NewFile(uintptr(fd), "worker")}
	s.raw, _ = s.SyscallConn() // fails for a nil file only
	return s
}

// tryWrite implements [stream].
func (s *socket) tryWrite(b []byte) (n int, err error) {
	failed := s.raw.Write(func(fd uintptr) bool {
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			n, err = unix.SendmsgN(int(fd), b, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
		return true
	})
	if errors.Is(err, unix.EAGAIN) {
		return 0, failed
	}
	return max(n, 0), errors.Join(err, failed)
}
