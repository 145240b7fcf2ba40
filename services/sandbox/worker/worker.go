// Package worker keeps bodies in processes of their own: the worker process, which gives up all rights and then runs the bodies
// of one tenant, and the pool, which starts, watches, kills and replaces workers.
//
// The pool takes every worker for hostile: a body that got out of its isolate has only a process that may read and write one
// socket and ask for memory. It says nothing about what a body may do with its tools; that is the business of its door.
//
// Linux on amd64 and arm64 only. Elsewhere the package compiles, and [Open] says so.
package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ErrNoEngine is wrapped by the error of [Open] where bodies cannot be run at all: the engine was not built in, or the system is none
// that the sandbox supports. Trying again does not help.
var ErrNoEngine = errors.New("bodies cannot be run")

// The exit codes of [Main].
const (
	exitOK       = 0
	exitUsage    = 2 // not started by a pool
	exitUnlocked = 3 // a required layer of protection cannot be had
	exitProtocol = 4 // the pool is of another build, or said what it must not say
	exitNoEngine = 5 // bodies cannot be run
)

// Layers of protection, as [Pool.Layers] and [Config].Require name them.
const (
	layerProcess     = "process"         // a process of its own, in a process group of its own, with an empty environment
	layerUserNS      = "user_namespace"  // no rights outside
	layerNetNS       = "net_namespace"   // no network
	layerPidNS       = "pid_namespace"   // no other process to be seen
	layerMountNS     = "mount_namespace" // mounts of its own
	layerIpcNS       = "ipc_namespace"   // no shared memory of others
	layerUtsNS       = "uts_namespace"   // a host name of its own
	layerEmptyRoot   = "empty_root"      // an empty, read-only file system
	layerNobody      = "nobody"          // the user and group 65534 with no capabilities, where the service runs as root
	layerRlimits     = "rlimits"         // no new descriptors, no files, no core, bounded memory
	layerNice        = "nice"            // after the service when both want the processor, and before it when memory is short
	layerUndumpable  = "undumpable"      // no debugger, and nothing of it in /proc for its own user
	layerParentDeath = "parent_death"    // it ends when the service does, however that ends
	layerNoNewPrivs  = "no_new_privs"    // no program can give it more rights
	layerSeccomp     = "seccomp"         // few system calls; any other one ends it
)

var layers = []string{
	layerProcess, layerUserNS, layerNetNS, layerPidNS, layerMountNS, layerIpcNS, layerUtsNS, layerEmptyRoot, layerNobody,
	layerRlimits, layerNice, layerUndumpable, layerParentDeath, layerNoNewPrivs, layerSeccomp,
}

// Config says what a [Pool] is made of. The zero Config is useful.
type Config struct {
	// Command is the command line that runs [Main] with the arguments that follow it; nil means this executable with the
	// argument "sandbox-worker".
	Command []string
	// CacheDir is the folder of compiled code, which is trusted: it must belong to this process's user and be writable by nobody
	// else. It is made where it does not exist. "" means a temporary folder, which costs some seconds at each start.
	CacheDir string
	// Workers is the most workers that are alive at once. 0 means twice the number of processors, at least 4.
	Workers int
	// PerTenant is the most workers that take bodies of one tenant. 0 means half the number of processors, at least 1.
	PerTenant int
	// Spare is how many workers are kept ready that belong to nobody yet. 0 means 1.
	Spare int
	// Budget is how many bytes the isolates of one worker may hold together. 0 means 384 MiB.
	Budget int64
	// MaxBodies is the most bodies at once in one worker. 0 means 100.
	MaxBodies int
	// Recycle is how many bodies a worker runs before it is replaced. 0 means 10,000.
	Recycle int
	// RecycleAge is how long a worker takes bodies before it is replaced. 0 means 15 minutes.
	RecycleAge time.Duration
	// Require names the layers without which a worker must not run bodies. nil means seccomp, rlimits and no_new_privs.
	Require []string
	// Grace is how long after its limit a body may stay unanswered before its worker is killed; its caller has been
	// answered by then. 0 means 3 seconds: a worker that gets little time of its machine is no broken one.
	Grace time.Duration
	// Idle is how long a worker without bodies is kept for its tenant when there is no spare worker and no room for one.
	// A tenant that waits for a worker does not wait for that. 0 means 5 seconds.
	Idle time.Duration
}

// withDefaults fills in what is zero, or says what cannot be.
func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name  string
		value int
		set   *int
		zero  int
	}{
		{"Workers", c.Workers, &c.Workers, max(4, 2*runtime.NumCPU())},
		{"PerTenant", c.PerTenant, &c.PerTenant, max(1, runtime.NumCPU()/2)},
		{"Spare", c.Spare, &c.Spare, 1},
		{"MaxBodies", c.MaxBodies, &c.MaxBodies, 100},
		{"Recycle", c.Recycle, &c.Recycle, 10_000},
	} {
		switch {
		case f.value < 0:
			return c, fmt.Errorf("worker: %s is %d, it must not be negative", f.name, f.value)
		case f.value == 0:
			*f.set = f.zero
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
		set   *time.Duration
		zero  time.Duration
	}{
		{"RecycleAge", c.RecycleAge, &c.RecycleAge, 15 * time.Minute},
		{"Grace", c.Grace, &c.Grace, 3 * time.Second},
		{"Idle", c.Idle, &c.Idle, 5 * time.Second},
	} {
		switch {
		case f.value < 0:
			return c, fmt.Errorf("worker: %s is %v, it must not be negative", f.name, f.value)
		case f.value == 0:
			*f.set = f.zero
		}
	}
	switch {
	case c.Budget < 0:
		return c, fmt.Errorf("worker: Budget is %d, it must not be negative", c.Budget)
	case c.Budget == 0:
		c.Budget = 384 << 20
	}
	if c.Require == nil {
		c.Require = []string{layerSeccomp, layerRlimits, layerNoNewPrivs}
	}
	for _, l := range c.Require {
		if !slices.Contains(layers, l) {
			return c, fmt.Errorf("worker: Require names %q, there are only %s", l, strings.Join(layers, ", "))
		}
	}
	return c, nil
}

// missing are the layers of require that are not in active.
func missing(require, active []string) []string {
	return slices.DeleteFunc(slices.Clone(require), func(l string) bool { return slices.Contains(active, l) })
}

// Stats are the numbers of a [Pool]: gauges, then counters since it was opened.
type Stats struct {
	Workers int // that are alive
	Spare   int // of those, that belong to nobody yet
	Idle    int // of those, that belong to a tenant and run nothing
	Bodies  int // in workers
	Waiting int // for a worker

	Started  uint64 // workers that became ready
	Failed   uint64 // workers that did not
	Recycled uint64 // workers ended because of their age or for another tenant
	Killed   uint64 // workers ended because of what they, or bodies in them, did
	Died     uint64 // workers that ended by themselves
}

// logger gives log, or one that is silent.
func logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
