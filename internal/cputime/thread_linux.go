package cputime

import (
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// Of is the processor time that f takes on its own thread.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	f()
	return threadTime() - began
}

func threadTime() time.Duration {
	const threadClock = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno) // it has no argument that could be wrong
	}
	return time.Duration(ts.Nano())
}
