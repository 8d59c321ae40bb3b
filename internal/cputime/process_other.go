//go:build !unix

package cputime

import "time"

var began = time.Now()

// Process is the time that this process has run.
func Process() time.Duration { return time.Since(began) }
