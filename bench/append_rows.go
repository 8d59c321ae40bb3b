package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// manyWriters is P-L2: writers of threads of their own, one event a call, into
// the log alone and into a store that is followed and whose views are looked at;
// and as many that commit one key each to a bare Pebble.
func manyWriters(ctx context.Context, b *bench) ([]Result, error) {
	var out []Result
	for _, c := range []struct {
		writers, calls  int
		alone, followed float64
	}{{16, 1250, 1, 0.8}, {256, 200, 2, 1.2}} {
		var waits []time.Duration
		calls := b.n(c.calls)
		rates, err := takeTurns(b.rounds(5),
			func() (float64, error) { return b.barePebble(c.writers, calls) },
			func() (float64, error) {
				rate, took, err := b.appends(ctx, c.writers, calls, 1)
				waits = append(waits, took...)
				return rate, err
			},
			func() (float64, error) { return b.followedAppends(ctx, c.writers, calls) })
		if err != nil {
			return nil, err
		}
		limit := perSecond(rates[0], "commits")
		ratio, p99 := rates[1]/rates[0], percentile(waits, 99)
		followed := rates[2] / rates[0]
		out = append(out,
			result(fmt.Sprintf("durable append, %d writers, one event a call; limit: bare Pebble", c.writers), fmt.Sprintf("≥ %g×", c.alone)).
				got(perSecond(rates[1], "events")).against(limit, ratio).atLeast(ratio, c.alone),
			result(fmt.Sprintf("p99 of it, %d writers", c.writers), "≤ 5 ms").
				got(took(p99)).atMost(float64(p99), float64(5*time.Millisecond)),
			result(fmt.Sprintf("the same with views and a follower, %d writers", c.writers), fmt.Sprintf("≥ %g×", c.followed)).
				got(perSecond(rates[2], "events")).against(limit, followed).atLeast(followed, c.followed))
	}
	return out, nil
}

// batchSizes shows how rate and wait go with the events of a call.
func batchSizes(ctx context.Context, b *bench) ([]Result, error) {
	var out []Result
	for _, writers := range []int{1, 16, 256} {
		var single float64
		for _, size := range []int{1, 10, 100, 1000} {
			calls := max(b.n(min(400_000/(writers*size), 2000)), 2)
			var waits []time.Duration
			rates, err := takeTurns(b.rounds(3), func() (float64, error) {
				rate, took, err := b.appends(ctx, writers, calls, size)
				waits = append(waits, took...)
				return rate, err
			})
			if err != nil {
				return nil, err
			}
			p50, p99 := percentile(waits, 50), percentile(waits, 99)
			what := fmt.Sprintf("%d writers, %d events a call; a call takes p50 %s, p99 %s", writers, size, took(p50), took(p99))
			if size == 1 {
				single = rates[0]
				out = append(out, result(what, "p99 ≤ 5 ms").
					got(perSecond(rates[0], "events")).atMost(float64(p99), float64(5*time.Millisecond)))
				continue
			}
			ratio := rates[0] / single
			out = append(out, result(what, "more events/s than with 1").
				got(perSecond(rates[0], "events")).against(perSecond(single, "events"), ratio).atLeast(ratio, 1))
		}
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
	db, err := pebble.Open(dir, &pebble.Options{
		Logger: silent{}, FormatMajorVersion: pebble.FormatTableFormatV6, CacheSize: 32 << 20, MemTableSize: 16 << 20,
	})
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

// batchOf is so many events.
func batchOf(events int) eventlog.Batch {
	batch := eventlog.Batch{Events: make([][]byte, events)}
	for i := range batch.Events {
		batch.Events[i] = payload
	}
	return batch
}

// appends is the rate of events appended in calls of so many each, and how long
// each call took.
func (b *bench) appends(ctx context.Context, writers, calls, size int) (rate float64, waits []time.Duration, err error) {
	l, dir, err := b.openLog()
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, l.Close(), os.RemoveAll(dir)) }()
	rate, waits, err = appendAll(writers, calls, func(worker int) error {
		_, err := l.Append(ctx, threadKey(worker), batchOf(size))
		return err
	})
	return rate * float64(size), waits, err
}

// appendAll is the rate of calls, and how long each took.
func appendAll(writers, calls int, write func(worker int) error) (rate float64, waits []time.Duration, err error) {
	// The first append of a thread creates it.
	if _, err := together(writers, write); err != nil {
		return 0, nil, err
	}
	each := make([][]time.Duration, writers)
	whole, err := together(writers, func(worker int) error {
		each[worker] = make([]time.Duration, 0, calls)
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

// opening begins the message that the payloads continue: a view of deltas that
// belong to nothing would be a list of complaints.
var opening = [][]byte{
	[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"run"}`),
	[]byte(`{"type":"TEXT_MESSAGE_START","messageId":"msg_01JB7Q00000000000000000001","role":"assistant"}`),
}

// viewEvery is after how many of its appends a writer looks at the view of its
// thread.
const viewEvery = 100

// followedAppends is the rate of appends of one event each into a store. One
// thread has a follower in this process, and every writer looks at the view of
// its thread now and then.
func (b *bench) followedAppends(ctx context.Context, writers, calls int) (rate float64, err error) {
	err = b.withStore(func(s *agstore.Scope) error {
		wait := follow(ctx, s, threadKey(0).Thread, calls+len(opening))
		done := make([]int, writers)
		rate, _, err = appendAll(writers, calls, func(worker int) error {
			thread := threadKey(worker).Thread
			if done[worker] == 0 {
				done[worker]++
				_, err := s.Append(ctx, thread, opening...)
				return err
			}
			if _, err := s.Append(ctx, thread, payload); err != nil {
				return err
			}
			if done[worker]++; done[worker]%viewEvery == 0 {
				_, err := s.View(ctx, thread)
				return err
			}
			return nil
		})
		return errors.Join(err, wait())
	})
	return rate, err
}

// withStore gives a scope of a new store.
func (b *bench) withStore(use func(*agstore.Scope) error) (err error) {
	dir, err := os.MkdirTemp(b.data, "store-")
	if err != nil {
		return err
	}
	s, err := agstore.Open(dir, agstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(), os.RemoveAll(dir)) }()
	return use(s.Scope(threadKey(0).Scope))
}

// follow follows a thread for so many records. What it gives waits for them.
func follow(ctx context.Context, s *agstore.Scope, thread string, records int) (wait func() error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		n := 0
		for _, err := range s.Follow(ctx, thread, 0) {
			if err != nil {
				ended <- err
				return
			}
			if n++; n == records {
				break
			}
		}
		ended <- nil
	}()
	return func() error {
		defer stop()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			stop()
			<-ended
			return errors.New("the follower has not got all records")
		}
	}
}

// openLog opens a log of its own in a new directory.
func (b *bench) openLog() (l *pebblelog.Log, dir string, err error) {
	if dir, err = os.MkdirTemp(b.data, "log-"); err != nil {
		return nil, "", err
	}
	l, err = pebblelog.Open(dir, pebblelog.Options{})
	return l, dir, err
}
