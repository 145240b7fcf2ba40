//go:build amd64 || arm64

package worker

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// killed is what becomes of a worker that makes a call which it must not make.
const killed = "killed"

// An attack is what somebody tries who runs his own machine code in a worker. It tells how far he got.
type attack struct {
	do   func() string
	want string // killed, or the error
}

// call makes a system call and tells its error.
func call(nr uintptr, args ...uintptr) func() string {
	return func() string {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		return outcome(errno)
	}
}

func outcome(errno syscall.Errno) string {
	if errno == 0 {
		return "done"
	}
	return errno.Error()
}

func text(s string) uintptr { return uintptr(unsafe.Pointer(&append([]byte(s), 0)[0])) }

var page = make([]byte, 1<<16)

func room() uintptr { return uintptr(unsafe.Pointer(&page[0])) }

// attacks by name. The ones for all processors are here, the others in their own files. parent is the process of the pool.
func attacks(parent uintptr) map[string]attack {
	here := unix.AT_FDCWD
	self := uintptr(os.Getpid())
	all := map[string]attack{
		"open a file":         {func() string { _, err := os.ReadFile("/etc/passwd"); return fmt.Sprint(err) }, "open /etc/passwd: permission denied"},
		"open for writing":    {call(unix.SYS_OPENAT, uintptr(here), text("/tmp/toolcrib-no-such-file"), unix.O_CREAT|unix.O_WRONLY, 0o600), "permission denied"},
		"openat2":             {call(unix.SYS_OPENAT2, uintptr(here), text("/"), room(), 24), killed},
		"read a folder":       {func() string { _, err := os.ReadDir("/"); return fmt.Sprint(err) }, "open /: permission denied"},
		"read proc":           {func() string { _, err := os.ReadFile("/proc/self/environ"); return fmt.Sprint(err) }, "open /proc/self/environ: permission denied"},
		"list a descriptor":   {call(unix.SYS_GETDENTS64, fdCache, room(), 1<<15), killed},
		"compiled code":       {call(unix.SYS_READ, fdCache, room(), 10), "bad file descriptor"},
		"write an image":      {call(unix.SYS_WRITE, fdImages, room(), 1), "file too large"},
		"map an image":        {call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED, fdImages, 0), "operation not permitted"},
		"stat":                {call(unix.SYS_STATX, uintptr(here), text("/"), 0, 0, room()), killed},
		"readlink":            {call(unix.SYS_READLINKAT, uintptr(here), text("/proc/self/exe"), room(), 100), killed},
		"unlink":              {call(unix.SYS_UNLINKAT, uintptr(here), text("/tmp/toolcrib-no-such-file"), 0), killed},
		"chdir":               {call(unix.SYS_CHDIR, text("/")), killed},
		"chroot":              {call(unix.SYS_CHROOT, text("/")), killed},
		"mount":               {call(unix.SYS_MOUNT, text("none"), text("/"), text("tmpfs"), 0, 0), killed},
		"socket":              {call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0), killed},
		"unix socket":         {call(unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0), killed},
		"connect":             {call(unix.SYS_CONNECT, fdConn, room(), 16), killed},
		"send a descriptor":   {call(unix.SYS_SENDMSG, fdConn, room(), 0), killed},
		"receive one":         {call(unix.SYS_RECVMSG, fdConn, room(), 0), killed},
		"dup":                 {call(unix.SYS_DUP, fdConn), killed},
		"fcntl":               {call(unix.SYS_FCNTL, fdConn, unix.F_SETOWN, 1), killed},
		"ioctl":               {call(unix.SYS_IOCTL, 2, unix.TIOCSTI, room()), killed},
		"pipe":                {call(unix.SYS_PIPE2, room(), 0), killed},
		"memfd":               {call(unix.SYS_MEMFD_CREATE, text("x"), 0), killed},
		"exec":                {call(unix.SYS_EXECVE, text("/bin/sh"), 0, 0), killed},
		"execveat":            {call(unix.SYS_EXECVEAT, fdImages, text(""), 0, 0, unix.AT_EMPTY_PATH), killed},
		"fork":                {call(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0), killed},
		"new namespaces":      {call(unix.SYS_CLONE, unix.CLONE_VM|unix.CLONE_SIGHAND|unix.CLONE_THREAD|unix.CLONE_NEWUSER, 0), killed},
		"clone3":              {call(unix.SYS_CLONE3, room(), 88), "function not implemented"},
		"unshare":             {call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER), killed},
		"setns":               {call(unix.SYS_SETNS, fdConn, 0), killed},
		"executable memory":   {call(unix.SYS_MMAP, 0, 4096, 7, unix.MAP_ANON|unix.MAP_PRIVATE, ^uintptr(0), 0), killed},
		"readable code":       {call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE, fdImages, 0), killed},
		"make it executable":  {call(unix.SYS_MPROTECT, room()&^4095, 4096, unix.PROT_READ|unix.PROT_EXEC), killed},
		"with a key":          {call(unix.SYS_PKEY_MPROTECT, room()&^4095, 4096, 7, 0), killed},
		"personality":         {call(unix.SYS_PERSONALITY, readImpliesExec), killed},
		"shared memory":       {call(unix.SYS_SHMGET, 1, 4096, 0o666|unix.IPC_CREAT), killed},
		"kill the parent":     {call(unix.SYS_KILL, parent, 9), killed},
		"kill all":            {call(unix.SYS_KILL, ^uintptr(0), 9), killed},
		"signal another":      {call(unix.SYS_TGKILL, self+1, self+1, 9), killed},
		"pidfd":               {call(unix.SYS_PIDFD_OPEN, self, 0), killed},
		"ptrace":              {call(unix.SYS_PTRACE, unix.PTRACE_ATTACH, parent, 0, 0), killed},
		"read a process":      {call(unix.SYS_PROCESS_VM_READV, parent, room(), 1, room(), 1, 0), killed},
		"uring":               {call(unix.SYS_IO_URING_SETUP, 8, room()), killed},
		"userfaultfd":         {call(unix.SYS_USERFAULTFD, 0), killed},
		"bpf":                 {call(unix.SYS_BPF, 0, room(), 48), killed},
		"perf":                {call(unix.SYS_PERF_EVENT_OPEN, room(), 0, ^uintptr(0), ^uintptr(0), 0), killed},
		"keys":                {call(unix.SYS_KEYCTL, 0, 0), killed},
		"setuid":              {call(unix.SYS_SETUID, 0), killed},
		"capabilities":        {call(unix.SYS_CAPSET, room(), room()), killed},
		"dumpable again":      {call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1), "invalid argument"},
		"another filter":      {call(unix.SYS_SECCOMP, 1, 0, 0), killed},
		"larger limits":       {call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, room(), 0), killed},
		"the time":            {call(unix.SYS_CLOCK_SETTIME, 0, room()), killed},
		"priority":            {call(unix.SYS_SETPRIORITY, 0, 0, 0), killed},
		"all processors":      {call(unix.SYS_SCHED_SETAFFINITY, 0, 8, room()), killed},
		"a number beyond all": {call(5000), killed},
	}
	for name, a := range ownAttacks() {
		all[name] = a
	}
	return all
}

// The attacks would work, were there no lockdown: a test of them that always passes is worth nothing.
func TestAttacksWorkOnTheUnprotected(t *testing.T) {
	for _, name := range []string{"open a file", "read a folder", "read proc", "stat", "readlink", "unix socket", "dup", "pipe", "memfd", "executable memory", "unlink"} {
		a := attacks(0)[name]
		switch got := a.do(); got {
		case "done", "<nil>", "no such file or directory": // the last one of unlink
		default:
			t.Errorf("%s: %s", name, got)
		}
	}
}
