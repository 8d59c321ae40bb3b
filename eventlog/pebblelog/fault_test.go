package pebblelog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// breakage fails operations of the files of the store while it is on.
type breakage struct {
	on    atomic.Bool
	hits  atomic.Int32
	err   error
	fails func(kind errorfs.OpKind, file string) bool
}

func (b *breakage) String() string { return "breakage" }

func (b *breakage) MaybeError(op errorfs.Op) error {
	if b.on.Load() && b.fails(op.Kind, filepath.Base(op.Path)) {
		b.hits.Add(1)
		return b.err
	}
	return nil
}

// The ways in which a disk refuses to be written to.
func fullDisk(kind errorfs.OpKind, _ string) bool {
	return kind == errorfs.OpCreate || kind == errorfs.OpReuseForWrite || kind == errorfs.OpFileWrite || kind == errorfs.OpFilePreallocate
}

func readOnlyDisk(kind errorfs.OpKind, _ string) bool {
	return kind.ReadOrWrite() == errorfs.OpIsWrite && kind != errorfs.OpFileClose
}

func noSyncs(kind errorfs.OpKind, _ string) bool {
	return kind == errorfs.OpFileSync || kind == errorfs.OpFileSyncData || kind == errorfs.OpFileSyncTo
}

func logWrites(kind errorfs.OpKind, file string) bool {
	return kind == errorfs.OpFileWrite && strings.HasSuffix(file, ".log")
}

// bench is a log on a file system that can break, whose waits the test ends.
type bench struct {
	t        *testing.T
	mem      *vfs.MemFS
	fault    *breakage
	opts     pebblelog.Options
	ticks    chan time.Time
	failed   chan error
	reopened chan uint64
	log      *pebblelog.Log
}

func newBench(t *testing.T, fault *breakage) *bench {
	b := &bench{
		t: t, mem: vfs.NewCrashableMem(), fault: fault, ticks: make(chan time.Time),
		failed: make(chan error, 100), reopened: make(chan uint64, 100),
	}
	b.opts = pebblelog.Options{FS: errorfs.Wrap(b.mem, fault)}.WithTicks(b.ticks)
	b.opts.Listener.WriteFailed = func(err error) { b.failed <- err }
	b.opts.Listener.Reopened = func(position uint64, _ time.Duration) { b.reopened <- position }
	return b
}

func (b *bench) open() *pebblelog.Log {
	b.t.Helper()
	l, err := pebblelog.Open("d", b.opts)
	if err != nil {
		b.t.Fatalf("open: %v", err)
	}
	b.log = l
	return l
}

func (b *bench) close() {
	b.t.Helper()
	if err := b.log.Close(); err != nil {
		b.t.Errorf("close: %v", err)
	}
}

// lift ends the fault, and waits until the log has come back.
func (b *bench) lift() uint64 {
	b.t.Helper()
	b.fault.on.Store(false)
	for {
		select {
		case position := <-b.reopened:
			return position
		case b.ticks <- time.Time{}:
		}
	}
}

func (b *bench) sound() {
	b.t.Helper()
	for _, fault := range logtest.Check(b.t.Context(), b.log) {
		b.t.Errorf("unsound: %v", fault)
	}
}

func threadKey(id string) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: id} }

func numbered(n int) []byte { return fmt.Appendf(nil, `{"type":"CUSTOM","name":"x","value":%d}`, n) }

func startOf(run string) eventlog.RunStart {
	return eventlog.RunStart{Started: fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":%q}`, run)}
}

// A write that fails is seen by nobody and answered as unknown, later writes are
// refused with the cause and with what to do, reads go on, and the process
// lives. Once the disk is well the same log writes again: what was acknowledged
// is there, what was unknown is there or not, and numbers are dense
// (library-facts, L27).
func TestWriteErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		fails func(errorfs.OpKind, string) bool
		err   error
		want  error
		hint  string
	}{
		{"DiskFull", fullDisk, syscall.ENOSPC, eventlog.ErrNoSpace, "make space"},
		{"Quota", fullDisk, syscall.EDQUOT, eventlog.ErrNoSpace, "make space"},
		{"ReadOnlyDisk", readOnlyDisk, syscall.EROFS, eventlog.ErrUnavailable, "mount it for writing"},
		{"SyncFails", noSyncs, syscall.EIO, eventlog.ErrUnavailable, "check the disk"},
		{"WriteFails", fullDisk, syscall.EIO, eventlog.ErrUnavailable, "check the disk"},
		{"NotPermitted", readOnlyDisk, syscall.EACCES, eventlog.ErrUnavailable, "the right to"},
	} {
		t.Run(test.name, func(t *testing.T) {
			testWriteError(t, newBench(t, &breakage{fails: test.fails, err: test.err}), test.want, test.hint)
		})
	}
}

func testWriteError(t *testing.T, b *bench, want error, hint string) {
	ctx := t.Context()
	l := b.open()
	k, other := threadKey("t"), threadKey("never")
	w, err := l.BeginRun(ctx, k, startOf("r"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(ctx, numbered(1)); err != nil {
		t.Fatal(err)
	}
	mark := l.Watermark()
	refused := func(what string, err error) {
		t.Helper()
		var e *eventlog.Error
		if !errors.Is(err, want) || !errors.Is(err, eventlog.ErrUnavailable) || !errors.Is(err, b.fault.err) || !errors.As(err, &e) {
			t.Fatalf("%s: %v", what, err)
		}
		if !strings.Contains(e.Hint, hint) {
			t.Errorf("%s: the hint is %q, without %q", what, e.Hint, hint)
		}
	}

	b.fault.on.Store(true)
	_, err = w.Append(ctx, numbered(2))
	refused("the append that failed", err)
	_, err = l.Append(ctx, other, eventlog.Batch{Events: [][]byte{numbered(3)}})
	refused("a later append", err)
	refused("a later enqueue", w.Enqueue(ctx, numbered(4)))
	b.ticks <- time.Time{} // it tries, in vain
	_, err = l.BeginRun(ctx, other, startOf("r"))
	refused("a later start", err)
	b.ticks <- time.Time{}
	if err := <-b.failed; !errors.Is(err, b.fault.err) || !strings.Contains(err.Error(), ".log") {
		t.Errorf("the listener heard %v", err)
	}
	if n := len(b.failed); n != 0 {
		t.Errorf("the listener heard of %d more failures", n)
	}
	stillReads(t, l, k, other, mark)
	b.sound()

	position := b.lift()
	if position != l.Watermark() || position < mark {
		t.Errorf("reopened at %d, the watermark is %d, it was %d", position, l.Watermark(), mark)
	}
	last := goesOn(t, l, w, other)
	b.sound()
	b.close()
	b.open()
	if th, err := b.log.Thread(ctx, k); err != nil || th.LastSeq != last {
		t.Errorf("opened again: %+v, %v; want seq %d", th, err, last)
	}
	b.sound()
	b.close()
}

// stillReads checks that a thread of two records is read, and nothing else.
func stillReads(t *testing.T, l *pebblelog.Log, k, other eventlog.ThreadKey, mark uint64) {
	t.Helper()
	ctx := t.Context()
	seen := 0
	for r, err := range l.Read(ctx, k, eventlog.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; r.Seq > 2 {
			t.Errorf("seq %d can be read", r.Seq)
		}
	}
	th, err := l.Thread(ctx, k)
	if err != nil || th.LastSeq != 2 || seen != 2 || l.Watermark() != mark {
		t.Errorf("%d records, watermark %d, %+v, %v", seen, l.Watermark(), th, err)
	}
	if _, err := l.Thread(ctx, other); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("a thread that was never created: %v", err)
	}
	for th, err := range l.Threads(ctx, "s", "") {
		if err != nil || th.Key != k || th.LastSeq != 2 {
			t.Errorf("listed %+v, %v", th, err)
		}
	}
}

// goesOn writes with the writer of the failure, and elsewhere, and gives the
// last seq of the writer's thread.
func goesOn(t *testing.T, l *pebblelog.Log, w eventlog.Writer, other eventlog.ThreadKey) uint64 {
	t.Helper()
	ctx := t.Context()
	if _, err := w.Append(ctx, numbered(5)); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("a writer that was not told of its gap writes on: %v", err)
	}
	last, err := w.Sync(ctx)
	if !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("sync tells of %v", err)
	}
	if th, err := l.Thread(ctx, w.Lease().Thread); err != nil || th.LastSeq != last || last < 2 || last > 3 {
		t.Errorf("sync tells of seq %d: %+v, %v", last, th, err)
	}
	if again, err := w.Sync(ctx); err != nil || again != last {
		t.Errorf("sync once more: %d, %v", again, err)
	}
	done, err := w.Append(ctx, numbered(6))
	if err != nil || done.First != last+1 {
		t.Errorf("the writer goes on with %+v, %v", done, err)
	}
	if err := w.End(ctx, "STOP", "that is all"); err != nil {
		t.Errorf("end: %v", err)
	}
	if done, err := l.Append(ctx, other, eventlog.Batch{Events: [][]byte{numbered(7)}}); err != nil || done.First != 1 {
		t.Errorf("another thread: %+v, %v", done, err)
	}
	return done.Last + 1 // its RUN_ERROR
}

// Many writers meet the error together, again and again: each is told, and what
// was acknowledged is there, in the log that lives on and after a power cut.
func TestWriteErrorUnderLoad(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		fault := &breakage{fails: noSyncs, err: syscall.EIO}
		if round%2 == 0 {
			fault.fails = logWrites
		}
		underLoad(t, newBench(t, fault))
	}
}

func underLoad(t *testing.T, b *bench) {
	ctx := t.Context()
	l := b.open()
	var wg sync.WaitGroup
	var total, failures atomic.Int32
	acked := make([]uint64, 16)
	for g := range acked {
		wg.Go(func() {
			k := threadKey(fmt.Sprint(g))
			for total.Load() < 600 {
				done, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{numbered(g)}})
				if err != nil {
					failures.Add(1)
					if !errors.Is(err, eventlog.ErrUnavailable) {
						t.Errorf("append: %v", err)
						return
					}
					b.fault.on.Store(false)
					select {
					case b.ticks <- time.Time{}:
					default:
					}
					continue
				}
				if done.First <= acked[g] {
					t.Errorf("seq %d after %d", done.First, acked[g])
				}
				acked[g] = done.First
				if n := total.Add(1); n%150 == 0 {
					b.fault.on.Store(true)
				}
			}
		})
	}
	wg.Wait()
	if failures.Load() == 0 {
		t.Error("nothing failed")
	}
	b.fault.on.Store(false)
	for {
		_, err := l.Append(ctx, threadKey("last"), eventlog.Batch{Events: [][]byte{numbered(0)}})
		if err == nil {
			break
		}
		select {
		case b.ticks <- time.Time{}:
		default:
		}
	}
	b.sound()
	left := b.mem.CrashClone(vfs.CrashCloneCfg{})
	b.close()
	after, err := pebblelog.Open("d", pebblelog.Options{FS: left})
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	for g, want := range acked {
		for _, log := range []*pebblelog.Log{after} {
			th, err := log.Thread(ctx, threadKey(fmt.Sprint(g)))
			if want > 0 && (err != nil || th.LastSeq < want) {
				t.Errorf("thread %d: acknowledged %d, found %+v, %v", g, want, th, err)
			}
		}
	}
}

// An idempotency key settles an append of unknown outcome across a reopening:
// repeated with it, the events are there once, whether the failed write was
// found or not.
func TestKeySettlesUnknownOutcome(t *testing.T) {
	for _, test := range []struct {
		name  string
		fails func(errorfs.OpKind, string) bool
		found bool
	}{
		{"Found", noSyncs, true},
		{"Lost", fullDisk, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, &breakage{fails: test.fails, err: syscall.EIO})
			l := b.open()
			k := threadKey("t")
			batch := eventlog.Batch{Events: [][]byte{numbered(1), numbered(2)}, Key: "once"}
			b.fault.on.Store(true)
			if _, err := l.Append(t.Context(), k, batch); !errors.Is(err, eventlog.ErrUnavailable) {
				t.Fatal(err)
			}
			waited := make(chan uint64, 1)
			go func() {
				position, _ := l.Wait(t.Context(), 1)
				waited <- position
			}()
			position := b.lift()
			if found := position == 1; found != test.found {
				t.Fatalf("reopened at %d", position)
			}
			if test.found {
				if position := <-waited; position != 1 {
					t.Errorf("a waiter was told of position %d", position)
				}
			}
			for n := range 2 {
				done, err := l.Append(t.Context(), k, batch)
				want := eventlog.Appended{First: 1, Last: 2, Position: 1, Duplicate: test.found || n == 1}
				if err != nil || done != want {
					t.Errorf("repeated: %+v, %v; want %+v", done, err, want)
				}
			}
			if th, err := l.Thread(t.Context(), k); err != nil || th.LastSeq != 2 {
				t.Errorf("%+v, %v", th, err)
			}
			b.sound()
			b.close()
			if !test.found {
				<-waited
			}
		})
	}
}

// A lease that its owner gave back while the log took no writes ends when the
// log comes back; a start that failed leaves nobody holding a run.
func TestLeasesAcrossReopening(t *testing.T) {
	for _, fails := range []func(errorfs.OpKind, string) bool{noSyncs, fullDisk} {
		b := newBench(t, &breakage{fails: fails, err: syscall.EIO})
		l := b.open()
		ctx := t.Context()
		given, kept := threadKey("given back"), threadKey("kept")
		w, err := l.BeginRun(ctx, given, startOf("r"))
		if err != nil {
			t.Fatal(err)
		}
		keeper, err := l.BeginRun(ctx, kept, startOf("r"))
		if err != nil {
			t.Fatal(err)
		}
		b.fault.on.Store(true)
		if _, err := l.BeginRun(ctx, threadKey("started"), startOf("r")); !errors.Is(err, eventlog.ErrUnavailable) {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.End(ctx, "STOP", "it is enough"); !errors.Is(err, eventlog.ErrUnavailable) {
				t.Errorf("end: %v", err)
			}
		}
		b.lift()
		if _, err := keeper.Append(ctx, numbered(1)); err != nil {
			t.Errorf("a writer that has not failed: %v", err)
		}
		for _, k := range []eventlog.ThreadKey{given, threadKey("started")} {
			runs, err := l.Runs(ctx, k)
			if errors.Is(err, eventlog.ErrThreadNotFound) {
				continue // the start is not there
			}
			if err != nil || len(runs) != 1 || runs[0].Held || runs[0].Running() {
				t.Errorf("%s: %+v, %v", k.Thread, runs, err)
			}
		}
		if err := w.End(ctx, "STOP", "it is enough"); err != nil {
			t.Errorf("end again: %v", err)
		}
		if _, err := l.BeginRun(ctx, given, startOf("next")); err != nil {
			t.Errorf("the next run: %v", err)
		}
		if _, err := w.Append(ctx, numbered(1)); err == nil {
			t.Error("a writer that has ended writes")
		}
		if err := keeper.End(ctx, "STOP", ""); err != nil {
			t.Error(err)
		}
		b.sound()
		b.close()
	}
}

// An engine that fails while nobody writes, where it moves what it has in memory
// to tables, is one that fails: writers are refused and do not wait, reads go
// on, and the log comes back.
func TestFlushFails(t *testing.T) {
	for name, fails := range map[string]func(errorfs.OpKind, string) bool{
		"Table":    func(_ errorfs.OpKind, file string) bool { return strings.HasSuffix(file, ".sst") },
		"Manifest": func(_ errorfs.OpKind, file string) bool { return strings.HasPrefix(file, "MANIFEST") },
		"NewLog": func(kind errorfs.OpKind, file string) bool {
			return strings.HasSuffix(file, ".log") && (kind == errorfs.OpCreate || kind == errorfs.OpReuseForWrite)
		},
		"Directory": func(kind errorfs.OpKind, file string) bool { return file == "d" && kind == errorfs.OpFileSync },
		"All":       readOnlyDisk,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &breakage{fails: func(kind errorfs.OpKind, file string) bool {
				return kind.ReadOrWrite() == errorfs.OpIsWrite && fails(kind, file)
			}, err: syscall.ENOSPC})
			l := b.open()
			ctx := t.Context()
			for n := range 20 {
				if _, err := l.Append(ctx, threadKey("t"), eventlog.Batch{Events: [][]byte{numbered(n)}}); err != nil {
					t.Fatal(err)
				}
			}
			b.fault.on.Store(true)
			if err := l.Flush(); !errors.Is(err, eventlog.ErrNoSpace) {
				t.Errorf("flush: %v", err)
			}
			<-b.failed
			if n := b.fault.hits.Load(); n == 0 {
				t.Error("the fault was not met")
			}
			if th, err := l.Thread(ctx, threadKey("t")); err != nil || th.LastSeq != 20 {
				t.Errorf("%+v, %v", th, err)
			}
			b.lift()
			done, err := l.Append(ctx, threadKey("t"), eventlog.Batch{Events: [][]byte{numbered(20)}})
			if err != nil || done.First != 21 {
				t.Errorf("%+v, %v", done, err)
			}
			if err := l.Flush(); err != nil {
				t.Errorf("flush again: %v", err)
			}
			b.sound()
			left := b.mem.CrashClone(vfs.CrashCloneCfg{})
			b.close()
			after, err := pebblelog.Open("d", pebblelog.Options{FS: left})
			if err != nil {
				t.Fatal(err)
			}
			defer after.Close()
			if th, err := after.Thread(ctx, threadKey("t")); err != nil || th.LastSeq != 21 {
				t.Errorf("%+v, %v", th, err)
			}
		})
	}
}

// A log that is closed while it waits for its disk closes.
func TestCloseWhileFailed(t *testing.T) {
	b := newBench(t, &breakage{fails: readOnlyDisk, err: syscall.EIO})
	l := b.open()
	b.fault.on.Store(true)
	if _, err := l.Append(t.Context(), threadKey("t"), eventlog.Batch{Events: [][]byte{numbered(1)}}); err == nil {
		t.Error("appended")
	}
	b.ticks <- time.Time{}
	b.close()
	if _, err := l.Append(context.Background(), threadKey("t"), eventlog.Batch{}); !errors.Is(err, eventlog.ErrClosed) {
		t.Error(err)
	}
}

// A compaction of a log whose disk fails ends with the cause, and keeps nobody
// from reading.
func TestCompactFails(t *testing.T) {
	b := newBench(t, &breakage{err: syscall.ENOSPC, fails: func(kind errorfs.OpKind, file string) bool {
		return kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasSuffix(file, ".sst")
	}})
	l := b.open()
	ctx := t.Context()
	if _, err := l.Append(ctx, threadKey("t"), eventlog.Batch{Events: [][]byte{numbered(1)}}); err != nil {
		t.Fatal(err)
	}
	b.fault.on.Store(true)
	if err := l.Compact(ctx); !errors.Is(err, eventlog.ErrNoSpace) {
		t.Errorf("compact: %v", err)
	}
	if th, err := l.Thread(ctx, threadKey("t")); err != nil || th.LastSeq != 1 {
		t.Errorf("%+v, %v", th, err)
	}
	b.lift()
	if err := l.Compact(ctx); err != nil {
		t.Errorf("compact again: %v", err)
	}
	b.sound()
	b.close()
}
