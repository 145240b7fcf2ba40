package worker

import "golang.org/x/sys/unix"

func ownAttacks() map[string]attack {
	const x32 = 0x40000000
	return map[string]attack{
		"old open":         {call(unix.SYS_OPEN, text("/etc/passwd"), 0), killed},
		"old fork":         {call(unix.SYS_FORK), killed},
		"vfork":            {call(unix.SYS_VFORK), killed},
		"x32 write":        {call(x32|unix.SYS_WRITE, 2, room(), 0), killed},
		"x32 execve":       {call(x32|520, text("/bin/sh"), 0, 0), killed},
		"segment":          {call(unix.SYS_ARCH_PRCTL, 0x1002, 0), killed},
		"descriptor table": {call(unix.SYS_MODIFY_LDT, 0, room(), 16), killed},
	}
}
