package pebblelog_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

var delta = []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg-0123456789","delta":"some words of a streamed answer, as a model gives them"}`)

// BenchmarkFsync is the bare cost of making the same bytes durable.
func BenchmarkFsync(b *testing.B) {
	f, err := os.Create(b.TempDir() + "/bare")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if _, err := f.Write(delta); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("Writers%d", writers), func(b *testing.B) {
			l := open(b)
			ctx := context.Background()
			var wg sync.WaitGroup
			b.ResetTimer()
			for g := range writers {
				wg.Go(func() {
					k := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(g)}
					for range (b.N + writers - 1) / writers {
						if _, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{delta}}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkEnqueue(b *testing.B) {
	l := open(b)
	ctx := context.Background()
	w, err := l.BeginRun(ctx, eventlog.ThreadKey{Scope: "s", Thread: "t"}, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"r"}`)})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := w.Enqueue(ctx, delta); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Sync(ctx); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkRead(b *testing.B) {
	l := open(b)
	ctx := context.Background()
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	const n = 10_000
	for range n / 100 {
		batch := eventlog.Batch{}
		for range 100 {
			batch.Events = append(batch.Events, delta)
		}
		if _, err := l.Append(ctx, k, batch); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for _, err := range l.Read(ctx, k, eventlog.ReadOptions{}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "records/s")
}

func open(b *testing.B) *pebblelog.Log {
	b.Helper()
	l, err := pebblelog.Open(b.TempDir(), pebblelog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := l.Close(); err != nil {
			b.Error(err)
		}
	})
	return l
}
