package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

func logRows() []row {
	return []row{
		{id: "P-L1", run: oneWriter},
		{id: "P-L2", run: manyWriters},
		{id: "P-L3", run: oneRun},
		{id: "P-L4", run: coldRead},
	}
}

// payload is the event that the rows of the log write.
var payload = []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_01JB7Q00000000000000000001","delta":"as a model gives them, a few words "}`)

// openLog opens a log of its own in a new directory.
func (b *bench) openLog() (l *pebblelog.Log, dir string, err error) {
	if dir, err = os.MkdirTemp(b.data, "log-"); err != nil {
		return nil, "", err
	}
	l, err = pebblelog.Open(dir, pebblelog.Options{})
	return l, dir, err
}

func threadKey(i int) eventlog.ThreadKey {
	return eventlog.ThreadKey{Scope: "bench", Thread: fmt.Sprintf("thread-%d", i)}
}

// oneWriter is P-L1: what one append costs beside the sync that it needs. A
// file that grows by the same bytes is the limit; they take turns.
func oneWriter(ctx context.Context, b *bench) (_ []Result, err error) {
	l, _, err := b.openLog()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	f, err := os.Create(filepath.Join(b.data, "bare"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	calls := b.n(300)
	var bare, own []time.Duration
	for range b.rounds(10) {
		for range calls {
			began := time.Now()
			if _, err := f.Write(payload); err != nil {
				return nil, err
			}
			if err := f.Sync(); err != nil {
				return nil, err
			}
			bare = append(bare, time.Since(began))
		}
		for range calls {
			began := time.Now()
			if _, err := l.Append(ctx, threadKey(0), eventlog.Batch{Events: [][]byte{payload}}); err != nil {
				return nil, err
			}
			own = append(own, time.Since(began))
		}
	}
	p50, limit := median(own), median(bare)
	ratio := float64(p50) / float64(limit)
	return []Result{
		result("durable append, 1 writer, 1 event per commit, p50; limit: write + fsync", "≤ 1.3×").
			got(took(p50)).against(took(limit), ratio).atMost(ratio, 1.3),
	}, nil
}

// manyWriters is P-L2: writers of threads of their own, one event a call, and
// as many that commit one key each to a bare Pebble.
func manyWriters(ctx context.Context, b *bench) ([]Result, error) {
	var out []Result
	for _, c := range []struct {
		writers, calls int
		goal           float64
	}{{16, 1250, 1}, {256, 200, 2}} {
		var waits []time.Duration
		calls := b.n(c.calls)
		rates, err := takeTurns(b.rounds(5),
			func() (float64, error) { return b.barePebble(c.writers, calls) },
			func() (float64, error) {
				rate, took, err := b.appends(ctx, c.writers, calls)
				waits = append(waits, took...)
				return rate, err
			})
		if err != nil {
			return nil, err
		}
		ratio, p99 := rates[1]/rates[0], percentile(waits, 99)
		out = append(out,
			result(fmt.Sprintf("durable append, %d writers, one event a call; limit: bare Pebble", c.writers), fmt.Sprintf("≥ %g×", c.goal)).
				got(perSecond(rates[1], "events")).against(perSecond(rates[0], "commits"), ratio).atLeast(ratio, c.goal),
			result(fmt.Sprintf("p99 of it, %d writers", c.writers), "≤ 5 ms").
				got(took(p99)).atMost(float64(p99), float64(5*time.Millisecond)))
	}
	return out, nil
}

// together runs work for each of n workers at the same time, and returns how
// long all took.
func together(n int, work func(worker int) error) (time.Duration, error) {
	var wg sync.WaitGroup
	failed := make([]error, n)
	began := time.Now()
	for i := range n {
		wg.Go(func() { failed[i] = work(i) })
	}
	wg.Wait()
	return time.Since(began), errors.Join(failed...)
}

// barePebble is the rate of synced commits of one key each.
func (b *bench) barePebble(writers, calls int) (rate float64, err error) {
	dir, err := os.MkdirTemp(b.data, "pebble-")
	if err != nil {
		return 0, err
	}
	db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}, MemTableSize: 16 << 20})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close(), os.RemoveAll(dir)) }()
	write := func(worker, i int) error {
		return db.Set(fmt.Appendf(nil, "%08d/%08d", worker, i), payload, pebble.Sync)
	}
	if _, err := together(writers, func(worker int) error { return write(worker, 0) }); err != nil {
		return 0, err
	}
	took, err := together(writers, func(worker int) error {
		for i := range calls {
			if err := write(worker, i+1); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(writers*calls) / took.Seconds(), err
}

// silent is a logger of Pebble that says nothing.
type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

// appends is the rate of appends of one event each, and how long each took.
func (b *bench) appends(ctx context.Context, writers, calls int) (rate float64, waits []time.Duration, err error) {
	l, dir, err := b.openLog()
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, l.Close(), os.RemoveAll(dir)) }()
	write := func(worker int) error {
		_, err := l.Append(ctx, threadKey(worker), eventlog.Batch{Events: [][]byte{payload}})
		return err
	}
	// The first append of a thread creates it.
	if _, err := together(writers, write); err != nil {
		return 0, nil, err
	}
	each := make([][]time.Duration, writers)
	whole, err := together(writers, func(worker int) error {
		for range calls {
			began := time.Now()
			if err := write(worker); err != nil {
				return err
			}
			each[worker] = append(each[worker], time.Since(began))
		}
		return nil
	})
	for _, took := range each {
		waits = append(waits, took...)
	}
	return float64(writers*calls) / whole.Seconds(), waits, err
}

// oneRun is P-L3: a run that is written without waiting for the disk, as fast
// as it goes and at a given pace.
func oneRun(ctx context.Context, b *bench) ([]Result, error) {
	events := b.n(300_000)
	rates, err := takeTurns(b.rounds(5), func() (rate float64, err error) {
		err = b.withRun(ctx, func(w eventlog.Writer) error {
			began := time.Now()
			for range events {
				if err := w.Enqueue(ctx, payload); err != nil {
					return err
				}
			}
			_, err := w.Sync(ctx)
			rate = float64(events) / time.Since(began).Seconds()
			return err
		})
		return rate, err
	})
	if err != nil {
		return nil, err
	}
	var waits []time.Duration
	err = b.withRun(ctx, func(w eventlog.Writer) error {
		waits, err = paced(ctx, w, b.n(3000))
		return err
	})
	if err != nil {
		return nil, err
	}
	p99 := percentile(waits, 99)
	return []Result{
		result("one streaming run, pipelined, the log alone", "≥ 300,000 events/s").
			got(perSecond(rates[0], "events")).atLeast(rates[0], 300_000),
		result("p99 from append to acknowledged at 50,000 events/s", "≤ 10 ms").
			got(took(p99)).atMost(float64(p99), float64(10*time.Millisecond)),
	}, nil
}

// withRun gives a writer of a new run in a new log.
func (b *bench) withRun(ctx context.Context, use func(eventlog.Writer) error) (err error) {
	l, dir, err := b.openLog()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(), os.RemoveAll(dir)) }()
	w, err := l.BeginRun(ctx, threadKey(0), eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","threadId":"thread-0","runId":"run-1"}`)})
	if err != nil {
		return err
	}
	if err := use(w); err != nil {
		return err
	}
	return w.End(ctx, "BENCH", "that is all")
}

// paced enqueues 50 events in each of so many milliseconds and returns how long
// each lot took from its enqueueing to its acknowledgement. What was enqueued
// behind a lot before that is waited for too: the true figure is not larger.
func paced(ctx context.Context, w eventlog.Writer, lots int) ([]time.Duration, error) {
	waits, failed := make([]time.Duration, lots), make([]error, lots)
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range lots {
		<-tick.C
		began := time.Now()
		for range 50 {
			if err := w.Enqueue(ctx, payload); err != nil {
				return nil, err
			}
		}
		wg.Go(func() {
			_, failed[i] = w.Sync(ctx)
			waits[i] = time.Since(began)
		})
	}
	wg.Wait()
	return waits, errors.Join(failed...)
}

// coldRead is P-L4: a thread of 10,000 events from a log that has just been
// opened. The blocks may be in the file cache of the system, not in the log's.
func coldRead(ctx context.Context, b *bench) ([]Result, error) {
	const events = 10_000
	l, dir, err := b.openLog()
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(seed, 7))
	for range events / 100 {
		var batch eventlog.Batch
		for range 100 {
			batch.Events = append(batch.Events, fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%q}`, messageID(1), text(r)))
		}
		if _, err := l.Append(ctx, threadKey(0), batch); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	rates, err := takeTurns(b.rounds(9), func() (float64, error) {
		l, err := pebblelog.Open(dir, pebblelog.Options{})
		if err != nil {
			return 0, err
		}
		began, n := time.Now(), 0
		for _, err := range l.Read(ctx, threadKey(0), eventlog.ReadOptions{}) {
			if err != nil {
				return 0, errors.Join(err, l.Close())
			}
			n++
		}
		took := time.Since(began)
		if n != events {
			return 0, fmt.Errorf("read %d records of %d", n, events)
		}
		return float64(n) / took.Seconds(), l.Close()
	})
	if err != nil {
		return nil, err
	}
	return []Result{
		result("read a thread of 10,000 events, cold block cache", "≥ 1,000,000 records/s").
			got(perSecond(rates[0], "records")).atLeast(rates[0], 1e6),
	}, nil
}
