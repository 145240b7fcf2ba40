package worker

import "golang.org/x/sys/unix"

// auditArch is how filters name the processor. Calls of the 32-bit kind come with another name.
const auditArch = unix.AUDIT_ARCH_AARCH64
