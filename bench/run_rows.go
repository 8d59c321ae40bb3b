package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
)

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
	}, func() (float64, error) { return b.followedRun(ctx, events) })
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
		result("the same with a view every 10,000 events and a follower", "≥ 150,000 events/s").
			got(perSecond(rates[1], "events")).atLeast(rates[1], 150_000),
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
	w, err := l.BeginRun(ctx, threadKey(0), eventlog.RunStart{Started: runStarted})
	if err != nil {
		return err
	}
	if err := use(w); err != nil {
		return err
	}
	return w.End(ctx, "BENCH", "that is all")
}

// followedRun is the rate of one run in a store. Its thread has a follower in this
// process, which gets every record, and its view is looked at now and then.
func (b *bench) followedRun(ctx context.Context, events int) (rate float64, err error) {
	err = b.withStore(func(s *agstore.Scope) error {
		const thread = "thread-0"
		w, err := s.Store().Log().BeginRun(ctx, threadKey(0), eventlog.RunStart{Started: runStarted})
		if err != nil {
			return err
		}
		wait := follow(ctx, s, thread, events+1)
		began := time.Now()
		for i := range events {
			if err := w.Enqueue(ctx, payload); err != nil {
				return errors.Join(err, wait())
			}
			if i%10_000 == 9_999 {
				if _, err := s.View(ctx, thread); err != nil {
					return errors.Join(err, wait())
				}
			}
		}
		_, err = w.Sync(ctx)
		err = errors.Join(err, wait())
		rate = float64(events) / time.Since(began).Seconds()
		return errors.Join(err, w.End(ctx, "BENCH", "that is all"))
	})
	return rate, err
}

var runStarted = []byte(`{"type":"RUN_STARTED","threadId":"thread-0","runId":"run-1"}`)

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
