//go:build !linux

package fold

import "time"

// CPUTime is the time that f takes.
func CPUTime(f func()) time.Duration {
	began := time.Now()
	f()
	return time.Since(began)
}
