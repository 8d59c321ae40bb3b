package agstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/eventlog"
)

// clock is a time that only the test moves, and its timers.
type clock struct {
	now   atomic.Int64
	fired chan time.Time
	asked chan time.Duration
}

func newClock() *clock {
	c := &clock{fired: make(chan time.Time), asked: make(chan time.Duration)}
	c.now.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) time() time.Time         { return time.UnixMicro(c.now.Load()) }
func (c *clock) advance(d time.Duration) { c.now.Add(d.Microseconds()) }

const day = 24 * time.Hour

// The threads that are idle for long go, at the times that were said; one that
// is held or young stays, and so does every other scope.
func TestRetention(t *testing.T) {
	ctx := t.Context()
	c := newClock()
	var retained []string
	store, err := agstore.Open("", agstore.Options{
		InMemory: true, Now: c.time,
		Retention:      []agstore.Policy{{IdleFor: 30 * day, Action: eventlog.RemovalErase}},
		RetentionEvery: time.Hour,
		Retained: func(r eventlog.Receipt, err error) {
			retained = append(retained, fmt.Sprint(r.Thread.Thread, " ", r.Removal, " ", err))
		},
		After: func(d time.Duration) (<-chan time.Time, func() bool) {
			if d != time.Hour {
				return nil, func() bool { return true }
			}
			select {
			case c.asked <- d:
			case <-ctx.Done():
			}
			return c.fired, func() bool { return true }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	<-c.asked // the first pass is over
	scope, other := store.Scope(agstore.DefaultScope), store.Scope("other")
	event := []byte(`{"type":"CUSTOM","name":"x","value":1}`)
	for _, s := range []*agstore.Scope{scope, other} {
		if _, err := s.Append(ctx, "old", event); err != nil {
			t.Fatal(err)
		}
	}
	run, err := scope.BeginRun(ctx, "held", agstore.RunInput{})
	if err != nil {
		t.Fatal(err)
	}
	c.advance(20 * day)
	if _, err := scope.Append(ctx, "young", event); err != nil {
		t.Fatal(err)
	}
	c.advance(15 * day)
	c.fired <- c.time()
	<-c.asked
	if fmt.Sprint(retained) != "[old erase <nil>]" {
		t.Errorf("retained %q", retained)
	}
	if _, err := scope.Thread(ctx, "old"); !errors.Is(err, eventlog.ErrErased) {
		t.Errorf("the old thread: %v", err)
	}
	for _, there := range []error{second(scope.Thread(ctx, "young")), second(scope.Thread(ctx, "held")), second(other.Thread(ctx, "old"))} {
		if there != nil {
			t.Error(there)
		}
	}
	if err := run.End(ctx, "STOP", "end"); err != nil {
		t.Error(err)
	}
	c.advance(31 * day)
	c.fired <- c.time()
	<-c.asked
	if len(retained) != 3 {
		t.Errorf("retained %q", retained)
	}
}

func second[T any](_ T, err error) error { return err }

// L44: what the dry run says comes back to the disk. Tolerance: a third less, or
// half more: what the engine estimates goes by blocks, and the tables that are
// rewritten are compressed anew.
func TestRetentionGivesBackTheBytes(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	c := newClock()
	open := func() *agstore.Store {
		store, err := agstore.Open(dir, agstore.Options{Now: c.time})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		var events [][]byte
		for range 200 {
			text := make([]byte, 400)
			for j := range text {
				text[j] = 'a' + byte(rng.IntN(26))
			}
			events = append(events, fmt.Appendf(nil, `{"type":"CUSTOM","name":"x","value":"%s"}`, text))
		}
		if _, err := store.Scope("s").Append(ctx, fmt.Sprint("t", i), events...); err != nil {
			t.Fatal(err)
		}
		if i == 9 {
			c.advance(60 * day)
		}
	}
	policy := agstore.Policy{Scope: "s", IdleFor: 30 * day, Action: eventlog.RemovalClear}
	retain := func(dryRun bool) (n int, bytes int64) {
		for r, err := range store.Retain(ctx, policy, dryRun) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			bytes += int64(r.DiskBytes)
		}
		return n, bytes
	}
	if err := store.AwaitViews(ctx); err != nil { // which are among what goes
		t.Fatal(err)
	}
	n, promised := retain(true)
	if n != 10 || promised == 0 {
		t.Fatalf("the dry run: %d threads, %d bytes", n, promised)
	}
	before := tables(t, dir)
	if n, _ := retain(false); n != 10 {
		t.Errorf("%d threads were cleared", n)
	}
	after := tables(t, dir)
	if got := before - after; got < promised*2/3 || got > promised*3/2 {
		t.Errorf("%d bytes came back (%d to %d), the dry run said %d", got, before, after, promised)
	}
	if n, _ := retain(true); n != 0 {
		t.Errorf("again: %d threads", n)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// tables is how many bytes the tables of a store take.
func tables(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sst" {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		total += info.Size()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

func TestPolicyIsChecked(t *testing.T) {
	for _, p := range []agstore.Policy{{Action: eventlog.RemovalClear}, {IdleFor: day}, {IdleFor: day, Action: eventlog.RemovalRedact}} {
		if store, err := agstore.Open("", agstore.Options{InMemory: true, Retention: []agstore.Policy{p}}); !errors.Is(err, eventlog.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
			store.Close()
		}
	}
}
