//go:build unix

package mcp

import (
	"errors"
	"os"
	"syscall"
)

// signalGroup asks the group that p leads to end or, with kill, ends it.
func signalGroup(p *os.Process, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	syscall.Kill(-p.Pid, sig)
}

// groupAlive reports whether the group has members. A leader that was not waited for counts.
func groupAlive(p *os.Process) bool {
	return !errors.Is(syscall.Kill(-p.Pid, 0), syscall.ESRCH)
}
