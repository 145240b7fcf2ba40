package mcp

import "syscall"

// groupAttributes put a child into a group of its own and have the kernel kill it when we are killed.
func groupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
