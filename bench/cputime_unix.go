//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is the time that this process had a processor.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other errors than wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
