package pebblelog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

func custom(n int) []byte { return fmt.Appendf(nil, `{"type":"CUSTOM","name":"x","value":%d}`, n) }

func fill(t *testing.T, l *Log, k eventlog.ThreadKey, n int) {
	t.Helper()
	for i := range n {
		if _, err := l.Append(context.Background(), k, eventlog.Batch{Events: [][]byte{custom(i)}}); err != nil {
			t.Fatal(err)
		}
	}
}

// Damage is told with its thread and its seq, what lies before it is read, and
// no other thread suffers.
func TestDamageIsTold(t *testing.T) {
	ctx := context.Background()
	k, other := eventlog.ThreadKey{Scope: "s", Thread: "t"}, eventlog.ThreadKey{Scope: "s", Thread: "u"}
	for _, test := range []struct {
		name  string
		spoil func(l *Log, ord uint64) error
	}{
		{"a flipped byte", func(l *Log, ord uint64) error {
			value, _, err := l.get(recordKey(ord, 5))
			if err != nil {
				return err
			}
			value[len(value)-2] ^= 1
			return l.db.Set(recordKey(ord, 5), value, pebble.Sync)
		}},
		{"a missing record", func(l *Log, ord uint64) error { return l.db.Delete(recordKey(ord, 5), pebble.Sync) }},
		{"an empty value", func(l *Log, ord uint64) error { return l.db.Set(recordKey(ord, 5), nil, pebble.Sync) }},
		{"a missing end", func(l *Log, ord uint64) error {
			return l.db.DeleteRange(recordKey(ord, 5), recordKey(ord, 100), pebble.Sync)
		}},
	} {
		l, err := Open("d", Options{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		fill(t, l, k, 10)
		fill(t, l, other, 1)
		if err := test.spoil(l, 1); err != nil {
			t.Fatal(err)
		}
		read := uint64(0)
		var fault error
		for r, err := range l.Read(ctx, k, eventlog.ReadOptions{}) {
			if err != nil {
				fault = err
				break
			}
			read = r.Seq
		}
		var e *eventlog.Error
		if !errors.Is(fault, eventlog.ErrCorrupt) || !errors.As(fault, &e) || e.Key != k || e.Seq != 5 || read != 4 {
			t.Errorf("%s: read %d, then %v", test.name, read, fault)
		}
		fill(t, l, other, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A thread whose row is gone cannot be loaded; it is told on every call.
func TestDamagedThread(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewMem()
	l, err := Open("d", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	fill(t, l, k, 1)
	if err := l.db.Delete(threadRowKey(1), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open("d", Options{FS: fs}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 {
		if _, err := l.Thread(ctx, k); !errors.Is(err, eventlog.ErrCorrupt) {
			t.Errorf("thread: %v", err)
		}
		if _, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{custom(1)}}); !errors.Is(err, eventlog.ErrCorrupt) {
			t.Errorf("append: %v", err)
		}
	}
	fill(t, l, eventlog.ThreadKey{Scope: "s", Thread: "u"}, 1)
}

// Memory is bounded by what is in use, not by stored threads (invariant 10),
// and a thread that is loaded again is what it was.
func TestCacheIsBounded(t *testing.T) {
	ctx := context.Background()
	l, err := Open("d", Options{InMemory: true, CacheRuns: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held := eventlog.ThreadKey{Scope: "s", Thread: "held"}
	w, err := l.BeginRun(ctx, held, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"r"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		k := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(i)}
		events := [][]byte{[]byte(`{"type":"RUN_STARTED","runId":"a"}`), custom(1), []byte(`{"type":"RUN_STARTED","runId":"b"}`)}
		if _, err := l.Append(ctx, k, eventlog.Batch{Events: events}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		k := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(i)}
		runs, err := l.Runs(ctx, k)
		if err != nil || len(runs) != 2 || runs[0].Events != 2 || runs[1].Parent != runs[0].Key || !runs[1].Running() {
			t.Fatalf("thread %d: %+v, %v", i, runs, err)
		}
		if _, err := l.Thread(ctx, eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint("none", i)}); !errors.Is(err, eventlog.ErrThreadNotFound) {
			t.Fatal(err)
		}
	}
	l.cache.mu.Lock()
	threads, weight := len(l.cache.byKey), l.cache.weight
	_, kept := l.cache.byKey[held]
	l.cache.mu.Unlock()
	if threads > 13 || weight > 200 || !kept {
		t.Errorf("%d threads of weight %d, the written one among them: %v", threads, weight, kept)
	}
	if _, err := w.Append(ctx, custom(1)); err != nil {
		t.Error(err)
	}
	if err := w.End(ctx, "STOP", ""); err != nil {
		t.Error(err)
	}
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	if in := l.cache.byKey[held]; in != nil && in.pins != 0 {
		t.Errorf("%d pins after the end", in.pins)
	}
}

// Keys past their age leave the disk.
func TestOldKeysAreRemoved(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	l, err := Open("d", Options{InMemory: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	add := func(key string) {
		t.Helper()
		if _, err := l.Append(context.Background(), k, eventlog.Batch{Events: [][]byte{custom(1)}, Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(prefix byte) (n int) {
		t.Helper()
		if err := l.scan([]byte{prefix}, func(_, _ []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i := range 50 {
		add(fmt.Sprint("old", i))
	}
	now = now.Add(4 * 24 * time.Hour)
	add("younger")
	now = now.Add(4 * 24 * time.Hour)
	add("old7")
	if keys, times := count(prefixKey), count(prefixKeyTime); keys != 2 || times != 2 {
		t.Errorf("%d keys and %d times are left, want 2", keys, times)
	}
}

// What waits ends with the store: a full queue holds Enqueue back, the context
// ends it, and nothing of what was refused is written.
func TestEnqueueHoldsBack(t *testing.T) {
	gate := make(chan struct{})
	applied := make(chan struct{}, 100)
	blocked := false
	opts := Options{InMemory: true, QueueBytes: 4096}
	opts.Listener.CommitApplied = func(position uint64, _, _ int) {
		if position == 2 && !blocked {
			blocked = true
			applied <- struct{}{}
			<-gate
		}
	}
	l, err := Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx := context.Background()
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	w, err := l.BeginRun(ctx, k, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"r"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Enqueue(ctx, custom(0)); err != nil {
		t.Fatal(err)
	}
	<-applied
	n := 1
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		if n == 3 {
			cancel() // there is room for no more than three
		}
		if err = w.Enqueue(short, custom(n)); err != nil {
			break
		}
		n++
	}
	if !errors.Is(err, context.Canceled) || n > 3 {
		t.Errorf("after %d events: %v", n, err)
	}
	close(gate)
	if last, err := w.Sync(ctx); err != nil || last != uint64(n+1) {
		t.Errorf("sync: %d, %v; want %d", last, err, n+1)
	}
	if err := w.End(ctx, agui.CodeAbandoned, "done"); err != nil {
		t.Error(err)
	}
}
