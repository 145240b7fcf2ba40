package trials

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A Meter measures the CPU time of this process and all its descendants, those that ended and were waited for included.
type Meter struct{ start time.Duration }

// NewMeter begins to measure.
func NewMeter() (*Meter, error) {
	others, err := cpuOfOthers() // first: finding them is no part of what is measured
	if err != nil {
		return nil, err
	}
	own, err := cpuOfOwn()
	return &Meter{start: others + own}, err
}

// Used gives the CPU time since the beginning.
func (m *Meter) Used() (time.Duration, error) {
	own, err := cpuOfOwn()
	if err != nil {
		return 0, err
	}
	others, err := cpuOfOthers()
	return own + others - m.start, err
}

// cpuOfOwn gives the CPU time of this process and of those that it waited for.
func cpuOfOwn() (time.Duration, error) {
	var total time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			return 0, fmt.Errorf("read the CPU time of this process: %w", err)
		}
		total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return total, nil
}

// cpuOfOthers gives the CPU time of the descendants.
func cpuOfOthers() (total time.Duration, err error) {
	pids, err := Descendants()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		cpu, err := cpuOf(pid)
		if err != nil && !gone(err) {
			return 0, err
		}
		total += cpu
	}
	return total, nil
}

// cpuOf gives the CPU time of a process, all its threads included: the clock that the kernel keeps of each process.
func cpuOf(pid int) (time.Duration, error) {
	const scheduled = 2 // the kind of clock that counts what the scheduler gave, in nanoseconds
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// Memory gives the bytes of memory that this process and all its descendants have, pages that several have being divided among them.
func Memory() (int64, error) {
	pids, err := Descendants()
	if err != nil {
		return 0, err
	}
	var total int64
	for _, pid := range append(pids, os.Getpid()) {
		n, err := memoryOf(pid)
		if err != nil && !gone(err) {
			return 0, err
		}
		total += n
	}
	return total, nil
}

func memoryOf(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if rest, ok := bytes.CutPrefix(lines.Bytes(), []byte("Pss:")); ok {
			kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, nil // a process without memory has ended
}

// Descendants gives the processes that this one started, and those that they started, which have not been waited for.
func Descendants() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		parent, err := parentOf(pid)
		if err != nil && !gone(err) {
			return nil, err
		}
		children[parent] = append(children[parent], pid)
	}
	all := slices.Clone(children[os.Getpid()])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

func parentOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // a name may hold anything
	if len(fields) < 2 {
		return 0, fmt.Errorf("process %d has no parent in %q", pid, text)
	}
	return strconv.Atoi(string(fields[1]))
}

// gone reports whether err says that a process is there no more.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

// Descriptors counts the open files of this process.
func Descriptors() (int, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	return len(entries) - 1, err // the last one is of the folder that was read
}
