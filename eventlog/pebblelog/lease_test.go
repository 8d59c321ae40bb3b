package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// stopped is a clock that tests move, with timers that never fire.
type stopped struct{ micros atomic.Int64 }

func newStopped() *stopped {
	c := new(stopped)
	c.micros.Store(1_896_000_000_000_000)
	return c
}

func (c *stopped) options(o Options) Options {
	o.Now = func() time.Time { return moment(c.micros.Load()) }
	o.After = func(time.Duration) (<-chan time.Time, func() bool) { return nil, func() bool { return true } }
	return o
}

func (c *stopped) add(d time.Duration) { c.micros.Add(d.Microseconds()) }

func begin(t *testing.T, l *Log, k eventlog.ThreadKey, run string, ttl time.Duration) eventlog.Writer {
	t.Helper()
	w, err := l.BeginRun(context.Background(), k, eventlog.RunStart{
		Started: fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":%q}`, run), Holder: eventlog.Holder{TTL: ttl},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A heartbeat reaches the disk once in half a time to live, whatever its rate,
// and what is stored is never before what was promised.
func TestHeartbeatsAreCheap(t *testing.T) {
	clock := newStopped()
	l, err := Open("d", clock.options(Options{InMemory: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const ttl = 30 * time.Second
	w := begin(t, l, eventlog.ThreadKey{Scope: "s", Thread: "t"}, "r", ttl)
	mark, stored, d := l.Watermark(), make(map[int64]bool), newDecoder()
	for range 600 {
		clock.add(time.Second)
		lease, err := w.Renew(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		value, _, err := l.get(leaseKey(1, 1))
		if err != nil {
			t.Fatal(err)
		}
		row, err := d.lease(value)
		if err != nil || row.ttl != ttl.Microseconds() || row.expires < lease.Expires.UnixMicro() || row.expires > lease.Expires.UnixMicro()+row.ttl/2 {
			t.Fatalf("stored %+v, promised %d, %v", row, lease.Expires.UnixMicro(), err)
		}
		stored[row.expires] = true
	}
	if n := len(stored); n > 600/15+1 {
		t.Errorf("600 heartbeats were written %d times", n)
	}
	if l.Watermark() != mark {
		t.Error("heartbeats took positions")
	}
}

// Leases leave nothing in memory once they have ended, in whatever way: no pin on
// the thread, no deadline.
func TestLeasesLeaveNothing(t *testing.T) {
	ctx, clock, fs := context.Background(), newStopped(), vfs.NewMem()
	l, err := Open("d", clock.options(Options{FS: fs}))
	if err != nil {
		t.Fatal(err)
	}
	const ttl = 30 * time.Second
	key := func(i int) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(i)} }
	var leases []eventlog.Lease
	for i := range 12 {
		leases = append(leases, begin(t, l, key(i), "r", ttl).Lease())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = Open("d", clock.options(Options{FS: fs})); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, lease := range leases {
		k := key(i)
		if i%2 == 0 {
			for range 3 { // the second and the third find the thread pinned
				if _, err := l.Attach(ctx, lease); err != nil {
					t.Fatal(err)
				}
			}
		}
		switch i % 6 {
		case 0, 1: // expires, below
		case 2, 3:
			if _, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"RUN_FINISHED"}`)}, Lease: &lease}); err != nil {
				t.Fatal(err)
			}
		case 4, 5:
			w, err := l.TakeRun(ctx, k, lease.Run, eventlog.Holder{})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.End(ctx, "STOP", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.add(2 * ttl)
	for i := range leases {
		if _, err := l.AppendCompanion(ctx, key(i), eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k"}}}); err != nil {
			t.Fatal(err)
		}
		runs, err := l.Runs(ctx, key(i))
		if err != nil || runs[0].Running() || runs[0].Held {
			t.Errorf("thread %d: %+v, %v", i, runs, err)
		}
	}
	if at, ok := l.due.next(); ok || len(l.due.byID) != 0 {
		t.Errorf("%d deadlines are left, one at %d", len(l.due.byID), at)
	}
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	for k, th := range l.cache.byKey {
		if th.pins != 0 || th.applied.held != 0 || th.applied.expiring != 0 {
			t.Errorf("thread %s: %d pins, %d held, %d expiring", k.Thread, th.pins, th.applied.held, th.applied.expiring)
		}
	}
}

// Recovery has a bounded number of threads in memory that are not closed durably
// yet, and writes one commit for each, however many runs it had.
func TestRecoveryIsBounded(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewCrashableMem()
	l, err := Open("d", Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	const threads = 2*recoverThreads + 100
	root := agui.RunKey{}
	for i := range threads {
		k := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(i)}
		for run := range 1 + i%2 {
			if _, err := l.BeginRun(ctx, k, eventlog.RunStart{Started: fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":"r%d"}`, run), Parent: &root}); err != nil {
				t.Fatal(err)
			}
		}
	}
	base := l.Watermark()
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var durable atomic.Uint64
	durable.Store(base)
	begun, most := make(map[string]bool), uint64(0)
	opts := Options{FS: left, CacheRuns: 100}
	opts.Listener.RunRecovered = func(k eventlog.ThreadKey, _ agui.RunKey) {
		begun[k.Thread] = true
		most = max(most, base+uint64(len(begun))-durable.Load())
	}
	opts.Listener.CommitDurable = func(position uint64, _ time.Duration) { durable.Store(position) }
	if l, err = Open("d", opts); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Watermark() - base; got != threads || len(begun) != threads {
		t.Errorf("%d threads were recovered by %d commits", len(begun), got)
	}
	if most > recoverThreads {
		t.Errorf("%d threads at once", most)
	}
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	if l.cache.weight > 100 {
		t.Errorf("a weight of %d stays in memory", l.cache.weight)
	}
}

// A lease row that belongs to no held run is damage, and told.
func TestDamagedLease(t *testing.T) {
	l, err := Open("d", Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	w := begin(t, l, k, "r", time.Hour)
	other := eventlog.ThreadKey{Scope: "s", Thread: "u"}
	if _, err := l.Append(context.Background(), other, eventlog.Batch{Events: [][]byte{custom(1)}}); err != nil {
		t.Fatal(err)
	}
	th := &thread{key: k}
	for what, spoil := range map[string]func() error{
		"a lease of no run": func() error { return l.db.Set(leaseKey(1, 2), l.enc.lease(leaseRow{}), nil) },
		"no lease at all":   func() error { return l.db.Set(leaseKey(1, 1), []byte{9}, nil) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if err := th.load(l); err == nil {
			t.Errorf("%s: loaded", what)
		}
		if err := errors.Join(l.db.Delete(leaseKey(1, 2), nil), l.db.Set(leaseKey(1, 1), l.enc.lease(leaseRow{}), nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(context.Background(), "STOP", ""); err != nil {
		t.Fatal(err)
	}
}

// Any entry is read as it was written.
func TestCompanionFormat(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := entryHeader{position: rapid.Uint64().Draw(rt, "position"), time: rapid.Int64().Draw(rt, "time"), kind: rapid.String().Draw(rt, "kind")}
		body := rapid.SliceOf(rapid.Byte()).Draw(rt, "body")
		value := bytes.Clone(newEncoder().entry(&h, body))
		d := newDecoder()
		if got, b, err := d.entry(value); err != nil || got != h || !bytes.Equal(b, body) {
			rt.Fatalf("%+v %q, %v; want %+v %q", got, b, err, h, body)
		}
		at := rapid.IntRange(0, len(value)-1).Draw(rt, "at")
		value[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		if _, _, err := d.entry(value); err == nil {
			rt.Fatalf("a flipped bit in byte %d was not seen", at)
		}
		if _, _, err := d.entry(value[:at]); err == nil {
			rt.Fatalf("cut off at %d", at)
		}
	})
}

// Damage of the companion stream is told with thread and seq, and what lies
// before it is read.
func TestDamagedCompanion(t *testing.T) {
	ctx := context.Background()
	for what, spoil := range map[string]func(l *Log) error{
		"a missing entry": func(l *Log) error { return l.db.Delete(companionKey(1, 5), nil) },
		"a missing end":   func(l *Log) error { return l.db.DeleteRange(companionKey(1, 5), companionKey(1, 100), nil) },
		"a flipped byte":  func(l *Log) error { return l.db.Set(companionKey(1, 5), []byte{1, 0, 0, 0, 0, 0x93}, nil) },
	} {
		l, err := Open("d", Options{InMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
		for range 10 {
			if _, err := l.AppendCompanion(ctx, k, eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k", Body: []byte("v")}}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := spoil(l); err != nil {
			t.Fatal(err)
		}
		last, fault := uint64(0), error(nil)
		for e, err := range l.Companion(ctx, k, 0, 0) {
			if err != nil {
				fault = err
				break
			}
			last = e.Seq
		}
		var e *eventlog.Error
		if !errors.Is(fault, eventlog.ErrCorrupt) || !errors.As(fault, &e) || e.Key != k || e.Seq != 5 || last != 4 {
			t.Errorf("%s: read %d, then %v", what, last, fault)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
