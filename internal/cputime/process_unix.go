//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// Process is the time that this process has had a processor.
func Process() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other errors than wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
