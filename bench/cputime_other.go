//go:build !unix

package main

import "time"

var began = time.Now()

// cpuTime is the time of the clock where there is nothing better.
func cpuTime() time.Duration { return time.Since(began) }
