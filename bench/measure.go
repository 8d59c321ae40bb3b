package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/agstore/agstore/internal/cputime"
)

// cost is what some work took.
type cost struct {
	time   time.Duration // of one core
	allocs float64       // of heap objects
}

// per is the cost of one of n.
func (c cost) per(n int) time.Duration { return c.time / time.Duration(n) }

// rate is how many of n there would be in a second.
func (c cost) rate(n int) float64 { return float64(n) / c.time.Seconds() }

// oneCore measures work that has one core, its garbage collection included: by
// the time this process had a processor, so that other processes of the machine
// disturb it less than they would by the clock.
func oneCore(work func()) cost {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.GC()
	before, began := heapAllocs(), cputime.Process()
	work()
	took := cputime.Process() - began
	return cost{time: max(took, 1), allocs: float64(heapAllocs() - before)}
}

// heapAllocs is how many heap objects this process has made.
func heapAllocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// peakHeap runs work and returns the most bytes of heap, garbage that has not
// been collected yet included, there were in it beyond those before it. work
// calls look as often as the answer shall be exact.
func peakHeap(work func(look func())) uint64 {
	debug.FreeOSMemory()
	before := heapBytes()
	peak := before
	work(func() { peak = max(peak, heapBytes()) })
	return peak - before
}

// heapBytes is what the heap's objects occupy, dead ones included.
func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// takeTurns lets each contestant do one round after the other, and returns the
// median of each one's figures.
func takeTurns(rounds int, contestants ...func() (float64, error)) ([]float64, error) {
	figures := make([][]float64, len(contestants))
	for range rounds {
		for i, contestant := range contestants {
			f, err := contestant()
			if err != nil {
				return nil, err
			}
			figures[i] = append(figures[i], f)
		}
	}
	medians := make([]float64, len(contestants))
	for i := range figures {
		medians[i] = median(figures[i])
	}
	return medians, nil
}

// costs is takeTurns for work of one core.
func costs(rounds int, works ...func() cost) []cost {
	times, allocs := make([][]float64, len(works)), make([][]float64, len(works))
	for range rounds {
		for i, work := range works {
			c := work()
			times[i], allocs[i] = append(times[i], float64(c.time)), append(allocs[i], c.allocs)
		}
	}
	out := make([]cost, len(works))
	for i := range works {
		out[i] = cost{time: time.Duration(median(times[i])), allocs: median(allocs[i])}
	}
	return out
}

// median is the middle of the figures, the mean of the two middle ones of an
// even number; 0 of none.
func median[T float64 | time.Duration](figures []T) T {
	if len(figures) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(figures))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// percentile is the smallest figure that p percent of them do not exceed; 0 of
// none.
func percentile(figures []time.Duration, p int) time.Duration {
	if len(figures) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(figures))
	return sorted[max((len(sorted)*p+99)/100, 1)-1]
}
