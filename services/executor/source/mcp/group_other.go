//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

// Without process groups only the server itself can be ended.

func groupAttributes() *syscall.SysProcAttr { return nil }

func signalGroup(p *os.Process, _ bool) { p.Kill() }

func groupAlive(*os.Process) bool { return false }
