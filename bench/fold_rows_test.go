package main

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/agstore/agstore/fold"
)

// BenchmarkRawDeltas is the work of P-F1, to be profiled.
func BenchmarkRawDeltas(b *testing.B) {
	s := oneMessage(10_000)
	b.ReportAllocs()
	for b.Loop() {
		f := fold.New(fold.Options{})
		s.into(f)
		f.View()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.events)), "ns/event")
}

// BenchmarkRandomDeltas is the work of the second part of P-F2.
func BenchmarkRandomDeltas(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(grouped(int64(n)), func(b *testing.B) {
			opened := openMessages(n)
			s, r := opened.behind(), rand.New(rand.NewPCG(seed, 6))
			for range 100_000 {
				s.delta(messageID(r.IntN(n)), text(r))
			}
			for b.Loop() {
				b.StopTimer()
				f := fold.New(fold.Options{})
				opened.into(f)
				runtime.GC()
				b.StartTimer()
				s.into(f)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.events)), "ns/event")
		})
	}
}

// BenchmarkStateDeltas is the work of P-F4.
func BenchmarkStateDeltas(b *testing.B) {
	for name, size := range map[string]int{"1KB": 1 << 10, "100KB": 100 << 10, "1MB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			opened, tasks := stateOf(size)
			s := opened.behind()
			s.progress(1000, tasks)
			f := fold.New(fold.Options{})
			opened.into(f)
			b.ReportAllocs()
			for b.Loop() {
				readNowAndThen(f, s, 100)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.events)), "ns/event")
		})
	}
}
