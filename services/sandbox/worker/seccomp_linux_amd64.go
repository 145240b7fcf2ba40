package worker

import "golang.org/x/sys/unix"

// auditArch is how filters name the processor. Calls of the 32-bit kinds come with another name or, as x32, with numbers that are
// in no list.
const auditArch = unix.AUDIT_ARCH_X86_64
