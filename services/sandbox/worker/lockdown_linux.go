//go:build amd64 || arm64

package worker

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounds of a locked worker.
const (
	hostMemory  = 1 << 30 // bytes beyond the isolates' budget, for the program itself
	hostThreads = 64      // threads beyond one for each body
	niceness    = 5       // more of it starves workers where other programs keep the processors busy
	oomScore    = "900"
)

// A step gives up something for good.
type step struct {
	layer string
	do    func() error
}

// lockdown gives up all that a worker does not need to run bodies, and tells which layers are active then, those around the
// process included. A step that fails leaves its layer out; it is an error if that layer is required.
func lockdown(h hello) ([]string, error) {
	runtime.LockOSThread() // filter and no_new_privs are of a thread first, then the filter spreads both to the others
	defer runtime.UnlockOSThread()
	active := slices.Clone(h.Layers)
	var failed []error
	for _, s := range steps(h) {
		if err := s.do(); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", s.layer, err))
			continue
		}
		active = append(active, s.layer)
	}
	if gone := missing(h.Require, active); len(gone) > 0 {
		return nil, fmt.Errorf("%w: %s: %w", errUnlocked, strings.Join(gone, ", "), errors.Join(failed...))
	}
	return active, nil
}

// closeOthers closes all descriptors but the worker's own: those that it was given, and those of the runtime's poller, which are the
// only ones of their kind that were not inherited.
func closeOthers(own ...int) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || slices.Contains(own, fd) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			continue // that of ReadDir, which is closed
		}
		link, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && flags&unix.FD_CLOEXEC != 0 && strings.HasPrefix(link, "anon_inode:[event") {
			continue
		}
		if err := unix.Close(fd); err != nil {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// steps are in the order in which each still can be done.
func steps(h hello) []step {
	return []step{
		{layerNice, beNice},
		{layerEmptyRoot, func() error { return emptyRoot(slices.Contains(h.Layers, layerMountNS)) }},
		{layerNobody, becomeNobody},
		{layerUndumpable, func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }},
		{layerParentDeath, func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }}, // becoming nobody undid it
		{layerRlimits, func() error { return limitResources(h) }},
		{layerNoNewPrivs, func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{layerSeccomp, filterCalls},
	}
}

// emptyRoot makes the root an empty file system that cannot be written to. It must be called in a mount namespace of its own.
func emptyRoot(own bool) error {
	if !own {
		return errors.New("there is no mount namespace")
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const place = "/proc" // any folder that is surely there
	for _, s := range []struct {
		what string
		do   func() error
	}{
		{"cut off mounts", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount", func() error { return unix.Mount("none", place, "tmpfs", flags, "size=4096,nr_inodes=1,mode=0555") }},
		{"enter", func() error { return unix.Chdir(place) }},
		{"change the root", func() error { return unix.PivotRoot(".", ".") }},
		{"leave the old root", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"enter the new root", func() error { return unix.Chdir("/") }},
		{"forbid writing", func() error {
			return unix.Mount("none", "/", "", flags|unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		}},
	} {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// beNice lets others go first, in time and, when there is too little of it, in memory.
func beNice() error {
	if unix.Getpgrp() != unix.Getpid() {
		return errors.New("the process leads no group")
	}
	if err := unix.Setpriority(unix.PRIO_PGRP, 0, niceness); err != nil { // of all threads
		return err
	}
	return os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0)
}

// becomeNobody gives up root, in all threads.
func becomeNobody() error {
	if unix.Geteuid() != 0 {
		return errors.New("the process does not run as root")
	}
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("leave all groups: %w", err)
	}
	if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
		return fmt.Errorf("change the group: %w", err)
	}
	if err := syscall.Setresuid(nobody, nobody, nobody); err != nil {
		return fmt.Errorf("change the user: %w", err)
	}
	return nil
}

// limitResources bounds what the process may have. Descriptors that are open stay so.
func limitResources(h hello) error {
	type limit struct {
		name  string
		what  int
		value uint64
	}
	limits := []limit{
		{"descriptors", unix.RLIMIT_NOFILE, 0},
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"core", unix.RLIMIT_CORE, 0},
		{"locked memory", unix.RLIMIT_MEMLOCK, 0},
		{"message queues", unix.RLIMIT_MSGQUEUE, 0},
		{"data", unix.RLIMIT_DATA, uint64(h.Budget) + hostMemory},
	}
	if slices.Contains(h.Layers, layerUserNS) { // elsewhere the user's other processes count too
		limits = append(limits, limit{"threads", unix.RLIMIT_NPROC, uint64(h.Bodies) + hostThreads})
	}
	for _, l := range limits {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	return nil
}
