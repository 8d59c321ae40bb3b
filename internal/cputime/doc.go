// Package cputime measures the processor time that work takes, for tests of what
// something costs and for benchmarks: what else the machine has to do does not
// count. It may still slow the work down, so that the least of several tries says
// the most.
//
//	took := cputime.Of(func() { fold(events) })
//
// [Of] counts the thread that the work runs on, [Process] the whole process, its
// garbage collection included. Where the operating system does not tell, both
// are the time of the clock.
package cputime
