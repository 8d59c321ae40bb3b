package feed_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) eventlog.Log {
	t.Helper()
	log, err := pebblelog.Open("", pebblelog.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

func hub(t *testing.T, log feed.Source) *feed.Hub {
	t.Helper()
	h := feed.NewHub(log)
	t.Cleanup(func() { h.Close() })
	return h
}

func timed(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var thread = eventlog.ThreadKey{Scope: "s", Thread: "t"}

func event(n int) []byte { return fmt.Appendf(nil, `{"type":"CUSTOM","name":"n","value":%d}`, n) }

func write(t *testing.T, log eventlog.Log, thread eventlog.ThreadKey, events ...[]byte) {
	t.Helper()
	if _, err := log.Append(context.Background(), thread, eventlog.Batch{Events: events}); err != nil {
		t.Fatal(err)
	}
}

// Followers that join at random with random cursors, while the thread is
// written at full speed, get what is behind their cursor, each record once and
// in order (field-lessons L16).
func TestFollowHasNoGap(t *testing.T) {
	events, followers := 4000, 20
	if testing.Short() {
		events, followers = 500, 8
	}
	log := open(t)
	h, ctx := hub(t, log), timed(t)
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var wg sync.WaitGroup
	for range followers {
		after, join := uint64(random.IntN(events)), uint64(random.IntN(events))
		wg.Add(1)
		go func() {
			defer wg.Done()
			if _, err := log.Wait(ctx, join); err != nil {
				t.Error(err)
				return
			}
			next := after + 1
			for r, err := range h.Follow(ctx, thread, after) {
				if err != nil {
					t.Error(err)
					return
				}
				if r.Seq != next || string(r.Event) != string(event(int(next))) {
					t.Errorf("behind %d came seq %d: %s, want %d", after, r.Seq, r.Event, next)
					return
				}
				if next++; next > uint64(events) {
					return
				}
			}
		}()
	}
	for n := 1; n <= events; n++ {
		write(t, log, thread, event(n))
	}
	wg.Wait()
}

// A follower of one thread is not given another's records, and a thread that
// does not exist yet is waited for.
func TestFollowWaitsForItsThread(t *testing.T) {
	log := open(t)
	h, ctx := hub(t, log), timed(t)
	other := eventlog.ThreadKey{Scope: "other", Thread: "t"}
	got := make(chan eventlog.Record)
	go func() {
		for r, err := range h.Follow(ctx, thread, 0) {
			if err != nil {
				t.Error(err)
			}
			got <- r
			return
		}
	}()
	write(t, log, other, event(1))
	write(t, log, thread, event(2))
	if r := <-got; string(r.Event) != string(event(2)) {
		t.Errorf("got %s", r.Event)
	}
}

// A follower ends with the reason: its context, the hub, the log.
func TestFollowEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(cancel context.CancelFunc, h *feed.Hub, log eventlog.Log)
		want error
	}{
		"its context":    {func(cancel context.CancelFunc, _ *feed.Hub, _ eventlog.Log) { cancel() }, context.Canceled},
		"the hub closes": {func(_ context.CancelFunc, h *feed.Hub, _ eventlog.Log) { h.Close() }, eventlog.ErrClosed},
		"the log closes": {func(_ context.CancelFunc, _ *feed.Hub, log eventlog.Log) { log.Close() }, eventlog.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			log := open(t)
			h := hub(t, log)
			ctx, cancel := context.WithCancel(timed(t))
			defer cancel()
			write(t, log, thread, event(1))
			var err error
			for r, e := range h.Follow(ctx, thread, 0) {
				if e != nil {
					err = e
					break
				}
				if r.Seq == 1 {
					c.end(cancel, h, log)
				}
			}
			if !errors.Is(err, c.want) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// When the hub cannot read which threads were written to, it wakes everybody.
func TestUnreadableCommits(t *testing.T) {
	log := open(t)
	h, ctx := hub(t, blind{log}), timed(t)
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for r, err := range h.Follow(ctx, thread, 0) {
			if err != nil || r.Seq == 2 {
				done <- err
				return
			}
			close(ready)
		}
	}()
	write(t, log, thread, event(1))
	<-ready
	write(t, log, thread, event(2))
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// blind is a log whose commits cannot be read.
type blind struct{ eventlog.Log }

func (blind) Commits(context.Context, uint64) iter.Seq2[eventlog.Commit, error] {
	return func(yield func(eventlog.Commit, error) bool) {
		yield(eventlog.Commit{}, eventlog.ErrCorrupt)
	}
}
