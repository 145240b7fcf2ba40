//go:build amd64 || arm64

package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolcrib/toolcrib/services/sandbox/engine"
)

// The descriptors of a worker.
const (
	fdConn    = 3 // a stream socket
	fdCache   = 4 // the folder of compiled code
	fdImages  = 5 // the snapshots: body, TypeScript
	fdPagemap = 7 // which pages of its own memory were written to; it opens that itself
)

// The argument of [Main].
const (
	argServe = "serve"
	argWarm  = "warm" // compile, so that the code is in the cache, and end
)

// environment of a worker. The runtime reads the first when it starts, and would look into files that are out of reach later;
// the second keeps the C library, where there is one, from counting processors in files.
var environment = []string{"GOMAXPROCS=1", "MALLOC_ARENA_MAX=1"}

// nobody is the user and group without rights.
const nobody = 65534

// Open starts a pool of workers and waits until the first one is ready; nil log is silent. Its error wraps [ErrNoEngine] where
// trying again does not help. ctx is for opening only.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Pool, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := engine.Built(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	}
	images, err := engine.NewImages()
	if err != nil {
		return nil, fmt.Errorf("make the snapshots of the sandbox: %w", err)
	}
	l, err := newForker(cfg, images.Body, images.TypeScript)
	if err != nil {
		return nil, errors.Join(err, images.Close())
	}
	if err := l.warm(ctx); err != nil {
		l.close()
		return nil, fmt.Errorf("compile the sandbox's engine: %w", err)
	}
	return open(ctx, cfg, logger(log), l)
}

// A forker starts worker processes, all of them from one thread, since they end when the thread does that started them.
type forker struct {
	command []string
	files   []*os.File // cache and images
	clean   func()
	level   atomic.Int32 // into confinements
	work    chan func()
}

// newForker makes a forker, which owns the images.
func newForker(cfg Config, images ...*os.File) (*forker, error) {
	dir, remove, err := cacheDir(cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	f := &forker{command: cfg.Command, clean: remove, work: make(chan func())}
	if f.command == nil {
		f.command = []string{"/proc/self/exe", "sandbox-worker"}
	}
	cache, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		err = checkOwned(cache)
	}
	if err != nil {
		_ = cache.Close()
		remove()
		return nil, fmt.Errorf("folder of compiled code: %w", err)
	}
	f.files = append([]*os.File{cache}, images...)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for do := range f.work {
			do()
		}
	}()
	return f, nil
}

// close implements [launcher].
func (f *forker) close() {
	close(f.work)
	for _, file := range f.files {
		_ = file.Close()
	}
	f.clean()
}

// start starts cmd from the thread that stays.
func (f *forker) start(cmd *exec.Cmd) error {
	done := make(chan error)
	f.work <- func() { done <- cmd.Start() }
	return <-done
}

// cmd is the command of a worker whose first descriptor is conn.
func (f *forker) cmd(arg string, conn *os.File, attr syscall.SysProcAttr) *exec.Cmd {
	cmd := exec.Command(f.command[0], append(f.command[1:len(f.command):len(f.command)], arg)...)
	cmd.Env = environment
	cmd.Dir = "/"
	cmd.ExtraFiles = append([]*os.File{conn}, f.files...)
	attr.Setpgid = true
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr
	return cmd
}

// warm has the engine compiled into the cache by a process that runs no bodies.
func (f *forker) warm(ctx context.Context) error {
	p, err := f.run(f.cmd(argWarm, nil, syscall.SysProcAttr{}))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, p.kill)
	state := p.wait()
	switch {
	case !stop():
		return context.Cause(ctx)
	case !p.cmd.ProcessState.Success():
		return errors.New(state)
	}
	return nil
}

// launch implements [launcher]. A confinement that the system refuses is given up, for this and all later workers, for the next
// weaker one; whether that is enough is for others to say.
func (f *forker) launch() (launched, error) {
	all := confinements(os.Geteuid() == 0)
	for {
		level := f.level.Load()
		l, err := f.launchAt(all[level])
		if err == nil || !refused(err) || int(level) == len(all)-1 {
			return l, err
		}
		f.level.CompareAndSwap(level, level+1)
	}
}

func (f *forker) launchAt(c confinement) (launched, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return launched{}, fmt.Errorf("make a connection for a worker: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "worker")
	defer theirs.Close()
	conn := newSocket(fds[0])
	p, err := f.run(f.cmd(argServe, theirs, c.attr))
	if err != nil {
		return launched{}, errors.Join(err, conn.Close())
	}
	return launched{proc: p, conn: conn, layers: append([]string{layerProcess}, c.layers...)}, nil
}

// refused reports whether err is how a system says that it does not do some kind of confinement.
func refused(err error) bool {
	for _, e := range []error{unix.EPERM, unix.EACCES, unix.EINVAL, unix.ENOSYS, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A confinement is what a worker is put into when it starts.
type confinement struct {
	attr   syscall.SysProcAttr
	layers []string
}

// confinements are the ways to start a worker, the strongest first. As root a worker starts as root of its own user namespace, to
// make itself an empty root and become nobody; elsewhere it is in a user namespace without any capability.
func confinements(root bool) []confinement {
	const spaces = unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	names := []string{layerNetNS, layerMountNS, layerPidNS, layerIpcNS, layerUtsNS}
	user := func(setgroups bool, uids, gids []syscall.SysProcIDMap) confinement {
		return confinement{
			attr:   syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | spaces, UidMappings: uids, GidMappings: gids, GidMappingsEnableSetgroups: setgroups},
			layers: append([]string{layerUserNS}, names...),
		}
	}
	self := user(false, []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Geteuid(), Size: 1}}, []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getegid(), Size: 1}})
	if !root {
		return []confinement{self, {}}
	}
	both := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: nobody, HostID: nobody, Size: 1}}
	return []confinement{user(true, both, both), self, {attr: syscall.SysProcAttr{Cloneflags: spaces}, layers: names}, {}}
}

// cacheDir makes the folder of compiled code, and tells how to take away what was made for this pool only.
func cacheDir(dir string) (string, func(), error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "toolcrib-compiled-")
		if err != nil {
			return "", nil, fmt.Errorf("make a folder for compiled code: %w", err)
		}
		return dir, func() { _ = os.RemoveAll(dir) }, nil
	}
	if err := os.MkdirAll(filepath.Clean(dir), 0o700); err != nil {
		return "", nil, fmt.Errorf("make the folder of compiled code: %w", err)
	}
	return dir, func() {}, nil
}

// checkOwned checks that nobody else can write to dir.
func checkOwned(dir *os.File) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, it must belong to user %d since its content is run", dir.Name(), owner, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("%s has mode %04o, only its owner must be able to write to it since its content is run", dir.Name(), mode)
	}
	return nil
}
