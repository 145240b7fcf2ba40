//go:build unix && !linux

package mcp

import "syscall"

// groupAttributes put a child into a group of its own.
func groupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
