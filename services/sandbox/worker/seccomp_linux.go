//go:build amd64 || arm64

package worker

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed are the system calls that a locked worker needs, the frequent ones first. None of them opens, sends or starts anything.
var allowed = []uint32{
	unix.SYS_FUTEX, unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_EPOLL_PWAIT, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
	unix.SYS_MADVISE, unix.SYS_MUNMAP, unix.SYS_SCHED_YIELD, unix.SYS_GETPID, unix.SYS_GETTID,
	unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGACTION, unix.SYS_SIGALTSTACK,
	unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETRES, unix.SYS_RESTART_SYSCALL, unix.SYS_GETRANDOM, unix.SYS_GETRUSAGE,
	unix.SYS_EPOLL_CTL, unix.SYS_CLOSE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	unix.SYS_BRK, unix.SYS_MREMAP, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, // of the C library
}

// What clone may and must ask for: a thread, as the Go runtime and the C library make it.
const (
	threadNeeds = unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_THREAD
	threadMay   = threadNeeds | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS |
		unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID | unix.CLONE_CHILD_SETTID
)

// Offsets in the record that a filter looks at. Both kinds of processor are little-endian: the low half of an argument comes first.
const (
	atCall = 0
	atArch = 4
	atArgs = 16
)

// A program is a filter being written.
type program []unix.SockFilter

func (p *program) op(code uint16, jumpTrue, jumpFalse uint8, k uint32) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: jumpTrue, Jf: jumpFalse, K: k})
}

func (p *program) load(at uint32) { p.op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, at) }

func (p *program) result(r uint32) { p.op(unix.BPF_RET|unix.BPF_K, 0, 0, r) }

// unless goes on with the next instruction if what was loaded equals k, and skips n otherwise.
func (p *program) unless(k uint32, n uint8) { p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, n, k) }

// on gives r for the call.
func (p *program) on(call, r uint32) {
	p.unless(call, 1)
	p.result(r)
}

// when allows the call if the bits of mask of its argument are exactly want, and ends the process otherwise.
func (p *program) when(call uint32, arg int, mask, want uint32) {
	p.unless(call, 5)
	p.load(atArgs + 8*uint32(arg))
	p.op(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, mask)
	p.unless(want, 1)
	p.result(unix.SECCOMP_RET_ALLOW)
	p.result(unix.SECCOMP_RET_KILL_PROCESS)
}

// filter is the program for a worker with the process id pid. What it does not know ends the process.
func filter(pid int) program {
	var p program
	p.load(atArch)
	p.op(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, 0, auditArch)
	p.result(unix.SECCOMP_RET_KILL_PROCESS)
	p.load(atCall)
	for _, call := range allowed {
		p.on(call, unix.SECCOMP_RET_ALLOW)
	}
	p.when(unix.SYS_MMAP, 2, unix.PROT_EXEC, 0)
	p.when(unix.SYS_MPROTECT, 2, unix.PROT_EXEC, 0)
	p.when(unix.SYS_TGKILL, 0, 0xffffffff, uint32(pid))
	p.when(unix.SYS_CLONE, 0, ^uint32(threadMay)|threadNeeds, threadNeeds)
	p.on(unix.SYS_CLONE3, unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)) // the C library falls back to clone
	// Packages that an executable with the whole product brings along, such as the embedded server's, look at files of /proc again and again.
	p.on(unix.SYS_OPENAT, unix.SECCOMP_RET_ERRNO|uint32(unix.EACCES))
	p.on(unix.SYS_PRCTL, unix.SECCOMP_RET_ERRNO|uint32(unix.EINVAL)) // the runtime names memory where it can
	p.result(unix.SECCOMP_RET_KILL_PROCESS)
	return p
}

// readImpliesExec is a bit of the personality that makes memory executable without being asked.
const readImpliesExec = 0x0400000

// filterCalls lets all threads of the process make no system calls but those of the filter, for good.
func filterCalls() error {
	if now, _, errno := unix.Syscall(unix.SYS_PERSONALITY, 0xffffffff, 0, 0); errno != 0 || now&readImpliesExec != 0 {
		return fmt.Errorf("personality %#x: memory that can be read can be executed", now)
	}
	p := filter(os.Getpid())
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	if thread != 0 {
		return fmt.Errorf("thread %d cannot be filtered", thread)
	}
	return nil
}
