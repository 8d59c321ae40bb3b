package main

import (
	"errors"
	"slices"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		figures []float64
		want    float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 100}, 3}} {
		before := slices.Clone(c.figures)
		if got := median(c.figures); got != c.want {
			t.Errorf("median of %v is %v", c.figures, got)
		}
		if !slices.Equal(before, c.figures) {
			t.Errorf("%v became %v", before, c.figures)
		}
	}
}

func TestPercentile(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i))
	}
	for p, want := range map[int]time.Duration{0: 1, 1: 2, 50: 100, 99: 198, 100: 200} {
		if got := percentile(all, p); got != want {
			t.Errorf("p%d is %d, want %d", p, got, want)
		}
	}
	if percentile(nil, 99) != 0 || percentile(all[:1], 99) != 200 {
		t.Error("the percentiles of none and of one")
	}
}

func TestTakeTurns(t *testing.T) {
	var order []int
	n := 0.0
	contestant := func(i int) func() (float64, error) {
		return func() (float64, error) {
			order = append(order, i)
			n++
			return n, nil
		}
	}
	got, err := takeTurns(3, contestant(1), contestant(2))
	if err != nil || !slices.Equal(order, []int{1, 2, 1, 2, 1, 2}) || !slices.Equal(got, []float64{3, 4}) {
		t.Errorf("order %v, medians %v, %v", order, got, err)
	}
	failure := errors.New("no")
	if _, err := takeTurns(1, func() (float64, error) { return 0, failure }); !errors.Is(err, failure) {
		t.Errorf("a failure became %v", err)
	}
}

// kept keeps the compiler from leaving allocations out.
type kept struct{ bytes []byte }

func TestOneCoreCountsAllocations(t *testing.T) {
	var k kept
	c := oneCore(func() {
		for range 10_000 {
			k.bytes = make([]byte, 100)
		}
	})
	if c.allocs < 10_000 || c.allocs > 11_000 || len(k.bytes) != 100 {
		t.Errorf("%v allocations of 10,000", c.allocs)
	}
	if c.time <= 0 || c.per(10_000) > c.time {
		t.Errorf("took %v, %v each", c.time, c.per(10_000))
	}
}

func TestPeakHeap(t *testing.T) {
	var k kept
	peak := peakHeap(func(look func()) {
		k.bytes = make([]byte, 32<<20)
		look()
		k.bytes = nil
	})
	if peak < 32<<20 || peak > 40<<20 {
		t.Errorf("a peak of %d bytes with 32 MiB", peak)
	}
}
