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

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// breakage fails writes or syncs of the engine's log files while it is on.
type breakage struct {
	on   atomic.Bool
	kind errorfs.OpKind
	err  error
}

func (b *breakage) String() string { return "breakage" }

func (b *breakage) MaybeError(op errorfs.Op) error {
	if b.on.Load() && op.Kind == b.kind && strings.HasSuffix(filepath.Base(op.Path), ".log") {
		return b.err
	}
	return nil
}

// A write that fails is seen by nobody, later writes are refused with the
// cause, reads go on, the process lives, and all that was acknowledged is there
// when the log is opened again (library-facts, L27).
func TestWriteErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		kind errorfs.OpKind
		err  error
		want error
	}{
		{"SyncFails", errorfs.OpFileSyncData, syscall.EIO, eventlog.ErrUnavailable},
		{"WriteFails", errorfs.OpFileWrite, syscall.EIO, eventlog.ErrUnavailable},
		{"DiskFull", errorfs.OpFileWrite, syscall.ENOSPC, eventlog.ErrNoSpace},
		{"ReadOnlyDisk", errorfs.OpFileWrite, syscall.EROFS, eventlog.ErrUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) { testWriteError(t, &breakage{kind: test.kind, err: test.err}, test.want) })
	}
}

func testWriteError(t *testing.T, fault *breakage, want error) {
	ctx := context.Background()
	mem := vfs.NewCrashableMem()
	var failed atomic.Int32
	opts := pebblelog.Options{FS: errorfs.Wrap(mem, fault)}
	opts.Listener.WriteFailed = func(error) { failed.Add(1) }
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	event := func(n int) []byte { return fmt.Appendf(nil, `{"type":"CUSTOM","name":"x","value":%d}`, n) }
	w, err := l.BeginRun(ctx, k, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"r"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(ctx, event(1)); err != nil {
		t.Fatal(err)
	}
	mark := l.Watermark()

	fault.on.Store(true)
	_, err = w.Append(ctx, event(2))
	if !errors.Is(err, want) || !errors.Is(err, eventlog.ErrUnavailable) || !errors.Is(err, fault.err) {
		t.Fatalf("the append that failed: %v", err)
	}
	other := eventlog.ThreadKey{Scope: "s", Thread: "never"}
	_, err = l.Append(ctx, other, eventlog.Batch{Events: [][]byte{event(3)}})
	if !errors.Is(err, eventlog.ErrUnavailable) || !errors.Is(err, fault.err) {
		t.Errorf("a later append: %v", err)
	}
	if err := w.Enqueue(ctx, event(4)); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("a later enqueue: %v", err)
	}
	fault.on.Store(false)
	if _, err = l.BeginRun(ctx, other, eventlog.RunStart{Started: []byte(`{"type":"RUN_STARTED","runId":"r"}`)}); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("a later start: %v", err)
	}
	if failed.Load() != 1 {
		t.Errorf("the listener heard of %d failures", failed.Load())
	}

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
	for _, fault := range logtest.Check(ctx, l) {
		t.Error(fault)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}

	l, err = pebblelog.Open("d", opts)
	if err != nil {
		t.Fatalf("open again: %v", err)
	}
	defer l.Close()
	th, err = l.Thread(ctx, k)
	if err != nil || th.LastSeq < 3 { // the two, perhaps the one that failed, the close of the run
		t.Errorf("%+v, %v", th, err)
	}
	if done, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{event(5)}}); err != nil || done.First != th.LastSeq+1 {
		t.Errorf("goes on with %+v, %v", done, err)
	}
	for _, fault := range logtest.Check(ctx, l) {
		t.Error(fault)
	}
}

// Many writers meet the error together: each is told, none is acknowledged
// behind it, and what was acknowledged before is there afterwards.
func TestWriteErrorUnderLoad(t *testing.T) {
	for round := range 20 {
		fault := &breakage{kind: errorfs.OpFileSyncData, err: syscall.EIO}
		if round%2 == 0 {
			fault.kind = errorfs.OpFileWrite
		}
		underLoad(t, fault)
	}
}

func underLoad(t *testing.T, fault *breakage) {
	ctx := context.Background()
	mem := vfs.NewCrashableMem()
	l, err := pebblelog.Open("d", pebblelog.Options{FS: errorfs.Wrap(mem, fault)})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var total atomic.Int32
	acked := make([]uint64, 16)
	for g := range acked {
		wg.Go(func() {
			k := eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(g)}
			for {
				done, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM"}`)}})
				if err != nil {
					if !errors.Is(err, eventlog.ErrUnavailable) {
						t.Errorf("append: %v", err)
					}
					return
				}
				acked[g] = done.Last
				if total.Add(1) == 200 {
					fault.on.Store(true)
				}
			}
		})
	}
	wg.Wait()
	for _, fault := range logtest.Check(ctx, l) {
		t.Error(fault)
	}
	left := mem.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	l, err = pebblelog.Open("d", pebblelog.Options{FS: left})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for g, want := range acked {
		th, err := l.Thread(ctx, eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(g)})
		if want > 0 && (err != nil || th.LastSeq < want) {
			t.Errorf("thread %d: acknowledged %d, found %+v, %v", g, want, th, err)
		}
	}
}
