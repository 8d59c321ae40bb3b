package pebblelog_test

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// Faults that cut off a removal and nothing else: no table is removed, or the
// directory is not listed.
func noRemoval(kind errorfs.OpKind, file string) bool {
	return kind == errorfs.OpRemove && strings.HasSuffix(file, ".sst")
}

func noList(kind errorfs.OpKind, _ string) bool { return kind == errorfs.OpList }

// unremoved erases a thread while the disk removes nothing.
func unremoved(t *testing.T, b *bench) *pebblelog.Log {
	t.Helper()
	l := b.open()
	if err := errors.Join(mark(t.Context(), l), l.Flush()); err != nil {
		t.Fatal(err)
	}
	b.fault.on.Store(true)
	receipt, err := l.Erase(t.Context(), threadKey("marked"), eventlog.RemoveOptions{})
	if err == nil || !errors.Is(err, syscall.EIO) || !receipt.Gone.IsZero() || receipt.Number != 1 {
		t.Fatalf("erase: %+v, %v", receipt, err)
	}
	return l
}

// A removal that a passing fault has cut off, one that fails nothing else, is
// finished by itself: after a while, and again after longer, until it is.
func TestRemovalIsTriedAgain(t *testing.T) {
	for name, fails := range map[string]func(errorfs.OpKind, string) bool{"Remove": noRemoval, "List": noList} {
		t.Run(name, func(t *testing.T) { triedAgain(t, newBench(t, &breakage{err: syscall.EIO, fails: fails})) })
	}
}

func triedAgain(t *testing.T, b *bench) {
	waits := make(chan time.Duration, 100)
	b.opts.After = func(d time.Duration) (<-chan time.Time, func() bool) {
		waits <- d
		return b.ticks, func() bool { return false }
	}
	told := make(chan error, 100)
	b.opts.Listener.EngineError = func(err error) { told <- err }
	l := unremoved(t, b)
	var before time.Duration
	for range 8 {
		wait := <-waits
		for len(waits) > 0 { // it was woken
			wait = <-waits
		}
		if wait < before || wait > time.Minute {
			t.Errorf("it waits for %v, after %v", wait, before)
		}
		before = wait
		b.ticks <- time.Time{}
	}
	if before != time.Minute {
		t.Errorf("at last it waits for %v", before)
	}
	<-waits // the attempt has failed
	var e *eventlog.Error
	if err := <-told; !errors.As(err, &e) || e.Key != threadKey("marked") || e.Hint == "" {
		t.Errorf("told: %v", err)
	}
	if _, err := l.Append(t.Context(), threadKey("t"), eventlog.Batch{Events: [][]byte{numbered(1)}}); err != nil {
		t.Errorf("it fails nothing else: %v", err)
	}
	b.fault.on.Store(false)
	b.ticks <- time.Time{}
	for gone := false; !gone; runtime.Gosched() {
		for r, err := range l.Receipts(t.Context(), "s", "marked") {
			if err != nil {
				t.Fatal(err)
			}
			gone = !r.Gone.IsZero()
		}
	}
	if found := holding(t, b.mem, "d"); len(found) > 0 {
		t.Errorf("the content is in %q", found)
	}
	b.sound()
	b.close()
}

// Closing ends the wait; the next open goes on at once.
func TestRemovalWaitIsClosed(t *testing.T) {
	b := newBench(t, &breakage{err: syscall.EIO, fails: noRemoval})
	unremoved(t, b)
	b.close()
	b.fault.on.Store(false)
	l := b.open()
	defer b.close()
	l.FinishRemovals()
	for r, err := range l.Receipts(t.Context(), "s", "marked") {
		if err != nil || r.Gone.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// A write-ahead log that could not be created was never there: the log comes back
// without it, here and at the next open.
func TestLogThatWasNotCreated(t *testing.T) {
	b := newBench(t, &breakage{err: syscall.EIO, fails: func(kind errorfs.OpKind, file string) bool {
		return (kind == errorfs.OpCreate || kind == errorfs.OpReuseForWrite) && (strings.HasSuffix(file, ".log") || file == "probe")
	}})
	l := b.open()
	b.fault.on.Store(true)
	if err := errors.Join(mark(t.Context(), l), l.Flush()); err == nil {
		t.Fatal("no log was created, and nothing is said")
	}
	if _, err := l.Append(t.Context(), threadKey("t"), eventlog.Batch{Events: [][]byte{numbered(1)}}); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("append: %v", err)
	}
	b.lift()
	if _, err := l.Append(t.Context(), threadKey("t"), eventlog.Batch{Events: [][]byte{numbered(1)}}); err != nil {
		t.Errorf("append: %v", err)
	}
	b.close()
	b.open()
	b.sound()
	b.close()
}
