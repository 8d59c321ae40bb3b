package pebblelog_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// stalled is a disk whose write-ahead log is not synced while it is stopped.
type stalled struct {
	mu     sync.Mutex
	goesOn chan struct{} // nil: it is not stopped
	err    error         // of every sync since
}

func (s *stalled) String() string { return "stalled" }

func (s *stalled) MaybeError(op errorfs.Op) error {
	if !noSyncs(op.Kind, op.Path) || !strings.HasSuffix(op.Path, ".log") {
		return nil
	}
	s.mu.Lock()
	goesOn := s.goesOn
	s.mu.Unlock()
	if goesOn != nil {
		<-goesOn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *stalled) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goesOn = make(chan struct{})
}

func (s *stalled) goOn(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	close(s.goesOn)
	s.goesOn = nil
}

// stalledLog is a log with a disk that can be stopped.
func stalledLog(t *testing.T, opts pebblelog.Options) (*pebblelog.Log, *stalled) {
	t.Helper()
	disk := new(stalled)
	opts.FS = errorfs.Wrap(vfs.NewMem(), disk)
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, disk
}

// backlog waits until the backlog is as it should be.
func backlog(t *testing.T, l *pebblelog.Log, is func(pebblelog.Backlog) bool) pebblelog.Backlog {
	t.Helper()
	for {
		if b := l.Backlog(); is(b) {
			return b
		}
		if t.Context().Err() != nil {
			t.Fatal("the test is over")
		}
		runtime.Gosched()
	}
}

func sized(n int) []byte {
	const front, back = `{"type":"CUSTOM","name":"x","value":"`, `"}`
	return []byte(front + strings.Repeat("v", n-len(front)-len(back)) + back)
}

// While the disk stands, what a thousand appenders have the log keep in memory
// stays within its bound, whichever way they append; once it goes on, all of it
// is there.
func TestBacklogIsBounded(t *testing.T) {
	const appenders = 1000
	size, limit := 64<<10, 1<<20
	if testing.Short() {
		size, limit = 8<<10, 256<<10
	}
	if os.Getenv(sweepVariable) != "" {
		size, limit = 1<<20, 16<<20
	}
	l, disk := stalledLog(t, pebblelog.Options{PendingBytes: limit})
	writer, err := l.BeginRun(t.Context(), threadKey("run"), startOf("r"))
	if err != nil {
		t.Fatal(err)
	}
	event := sized(size)
	disk.stop()
	var all sync.WaitGroup
	failed := make(chan error, appenders)
	for n := range appenders {
		all.Go(func() {
			var err error
			switch n % 3 {
			case 0:
				_, err = l.Append(t.Context(), threadKey("raw"), eventlog.Batch{Events: [][]byte{event}})
			case 1:
				_, err = l.AppendCompanion(t.Context(), threadKey("raw"), eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "k", Body: event}}})
			case 2:
				err = writer.Enqueue(t.Context(), event)
			}
			if err != nil {
				failed <- err
			}
		})
	}
	full := backlog(t, l, func(b pebblelog.Backlog) bool { return b.Waiting > appenders*9/10 })
	if full.Bytes > limit || full.Limit != limit {
		t.Errorf("%+v", full)
	}
	disk.goOn(nil)
	all.Wait()
	close(failed)
	for err := range failed {
		t.Error(err)
	}
	if _, err := writer.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	if b := l.Backlog(); b.Bytes != 0 || b.Waiting != 0 || b.Peak > limit || b.Peak < limit/2 {
		t.Errorf("at the end: %+v", b)
	}
	for thread, want := range map[string]uint64{"raw": 334, "run": 1 + 333} {
		if th, err := l.Thread(t.Context(), threadKey(thread)); err != nil || th.LastSeq != want {
			t.Errorf("%s: %+v, %v", thread, th, err)
		}
	}
}

// fullLog stops the disk of a log of which one append takes more than half, and
// leaves it with that append and so many that wait behind it.
func fullLog(t *testing.T, waiting int, ctx context.Context) (l *pebblelog.Log, disk *stalled, first chan error, others []chan error) {
	t.Helper()
	l, disk = stalledLog(t, pebblelog.Options{PendingBytes: 10 << 10})
	disk.stop()
	begin := func(ctx context.Context) chan error {
		out := make(chan error, 1)
		go func() {
			_, err := l.Append(ctx, threadKey("t"), eventlog.Batch{Events: [][]byte{sized(8 << 10)}})
			out <- err
		}()
		return out
	}
	first = begin(t.Context())
	backlog(t, l, func(b pebblelog.Backlog) bool { return b.Bytes > 0 })
	for n := range waiting {
		others = append(others, begin(ctx))
		backlog(t, l, func(b pebblelog.Backlog) bool { return b.Waiting == n+1 })
	}
	return l, disk, first, others
}

// Who gives up while it waits has written nothing, and is out of others' way.
func TestBacklogGivenUp(t *testing.T) {
	ctx, giveUp := context.WithCancel(t.Context())
	l, disk, first, others := fullLog(t, 3, ctx)
	giveUp()
	for _, other := range others {
		if err := <-other; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
	}
	disk.goOn(nil)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if th, err := l.Thread(t.Context(), threadKey("t")); err != nil || th.LastSeq != 1 {
		t.Errorf("one was written: %+v, %v", th, err)
	}
	if b := l.Backlog(); b.Bytes != 0 || b.Waiting != 0 {
		t.Errorf("%+v", b)
	}
}

// Closing answers those that wait before the disk goes on.
func TestBacklogClosed(t *testing.T) {
	l, disk, first, others := fullLog(t, 3, t.Context())
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	for _, other := range others {
		if err := <-other; !errors.Is(err, eventlog.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
	disk.goOn(nil)
	// It may have been taken by the committer, or not yet.
	if err := <-first; err != nil && !errors.Is(err, eventlog.ErrClosed) {
		t.Errorf("the first: %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A disk that fails refuses those that wait, and who comes later.
func TestBacklogPoisoned(t *testing.T) {
	l, disk, first, others := fullLog(t, 3, t.Context())
	disk.goOn(syscall.EIO)
	for _, one := range append(others, first) {
		if err := <-one; !errors.Is(err, eventlog.ErrUnavailable) {
			t.Errorf("the disk has failed: %v", err)
		}
	}
	if b := backlog(t, l, func(b pebblelog.Backlog) bool { return b.Bytes == 0 }); b.Waiting != 0 {
		t.Errorf("%+v", b)
	}
}

// An append larger than the bound goes when it is alone, in its turn.
func TestBacklogLargerThanAll(t *testing.T) {
	l, disk, first, others := fullLog(t, 1, t.Context())
	big, small := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), threadKey("t"), eventlog.Batch{Events: [][]byte{sized(100 << 10)}})
		big <- err
	}()
	backlog(t, l, func(b pebblelog.Backlog) bool { return b.Waiting == 2 })
	go func() {
		_, err := l.Append(t.Context(), threadKey("t"), eventlog.Batch{Events: [][]byte{sized(100)}})
		small <- err
	}()
	backlog(t, l, func(b pebblelog.Backlog) bool { return b.Waiting == 3 })
	disk.goOn(nil)
	for _, one := range []chan error{first, others[0], big, small} {
		if err := <-one; err != nil {
			t.Error(err)
		}
	}
	want := []int{8 << 10, 8 << 10, 100 << 10, 100}
	for r, err := range l.Read(t.Context(), threadKey("t"), eventlog.ReadOptions{}) {
		if err != nil || len(r.Event) != want[r.Seq-1] {
			t.Errorf("seq %d has %d bytes, %v", r.Seq, len(r.Event), err)
		}
	}
}
