//go:build amd64 || arm64

package worker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// Main is what a worker process does, args being those after the command word. It returns the exit code. It is of use to a
// [Pool] only, which starts it with the descriptors that it needs.
func Main(args []string) int {
	return mainWith(args, openEngine)
}

// isolates is how many of them a worker keeps for use: as many bodies as are there at once on a busy day.
const isolates = 64

// An opener makes the runner of a worker, cache being the folder of compiled code.
type opener func(cache string, budget int64) (runner, error)

func openEngine(cache string, budget int64) (runner, error) {
	images := &engine.Images{Body: os.NewFile(fdImages, "body"), TypeScript: os.NewFile(fdImages+1, "typescript")}
	e, err := engine.Open(context.Background(), engine.Config{Images: images, Cache: cache, Budget: budget, Idle: isolates, Pagemap: os.NewFile(fdPagemap, "pagemap")})
	if err != nil {
		return nil, err
	}
	return e, nil
}

func mainWith(args []string, open opener) int {
	code, err := exitUsage, errors.New("it is started by the sandbox service, not by hand")
	if len(args) == 1 {
		switch args[0] {
		case argServe:
			code, err = work(open)
		case argWarm:
			code, err = exitOK, nil
			if _, e := open(cachePath(), 0); e != nil {
				code, err = exitNoEngine, e
			}
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sandbox worker: %v\n", err)
	}
	return code
}

// cachePath names the folder of compiled code by its descriptor, since its path may be out of reach.
func cachePath() string { return fmt.Sprintf("/proc/self/fd/%d", fdCache) }

// work is the life of a worker.
func work(open opener) (code int, err error) {
	if _, err := unix.Getsockname(fdConn); err != nil {
		return exitUsage, errors.New("it is started by the sandbox service, not by hand")
	}
	conn := os.NewFile(fdConn, "service")
	_ = os.WriteFile("/proc/self/comm", []byte("sandbox-worker"), 0) // for whoever looks at a list of processes
	h, err := greeting(conn)
	if err != nil {
		return exitProtocol, err
	}
	openPagemap()
	run, err := open(cachePath(), h.Budget)
	if err != nil {
		return exitNoEngine, err
	}
	if err := closeOthers(0, 1, 2, fdConn, fdImages, fdImages+1, fdPagemap); err != nil {
		return exitUnlocked, fmt.Errorf("close what is not the worker's: %w", err)
	}
	active, err := lockdown(h)
	if err != nil {
		return exitUnlocked, err
	}
	out, err := encode(kindReady, 0, ready{Protocol: protocol, Layers: active})
	if err != nil {
		return exitProtocol, err
	}
	s := newServer(run, conn, h.Bodies)
	s.send(out)
	if err := s.serve(conn); err != nil {
		return exitProtocol, err
	}
	return exitOK, nil
}

// openPagemap opens the descriptor fdPagemap, before /proc is out of reach. Where there is no such file bodies are slower.
func openPagemap() {
	fd, err := unix.Open("/proc/self/pagemap", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil || fd == fdPagemap {
		return
	}
	_ = unix.Dup3(fd, fdPagemap, unix.O_CLOEXEC)
	_ = unix.Close(fd)
}

// greeting reads what the worker is to be.
func greeting(conn *os.File) (hello, error) {
	f, err := readFrame(conn)
	if err != nil {
		return hello{}, fmt.Errorf("read the service's greeting: %w", err)
	}
	if f.kind != kindHello {
		return hello{}, fmt.Errorf("%w: kind %d in place of a greeting", errFrame, f.kind)
	}
	h, err := decode[hello](f)
	if err != nil {
		return h, err
	}
	if h.Protocol != protocol {
		out, err := encode(kindReady, 0, ready{Protocol: protocol})
		if err == nil {
			_, err = conn.Write(out)
		}
		return h, errors.Join(fmt.Errorf("%w: the service speaks version %d, this worker %d", errVersion, h.Protocol, protocol), err)
	}
	return h, nil
}
