package pebblelog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
)

func viewOf(thread string) eventlog.Space {
	return eventlog.Space{Scope: "s", Thread: thread, Owner: "view"}
}

// derivedThread appends to a thread and derives from it: rows whose number is
// that of the records.
func derivedThread(t *testing.T, l *Log, s eventlog.Space, appends int) {
	t.Helper()
	ctx := context.Background()
	for range appends {
		done := fixtureAppend(t, l, s.Scope, s.Thread, eventlog.Batch{}, `{"type":"CUSTOM","name":"x"}`)
		deriveCount(t, l, ctx, s, done.Last)
	}
}

func deriveCount(t *testing.T, l *Log, ctx context.Context, s eventlog.Space, n uint64) {
	t.Helper()
	from, err := l.DerivedAt(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	info, err := l.Thread(ctx, eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread})
	if err != nil {
		t.Fatal(err)
	}
	err = l.DerivedWrite(ctx, s, eventlog.DerivedBatch{From: from, To: eventlog.At{Position: l.Watermark(), Removals: info.Removals}, Changes: []eventlog.DerivedChange{
		{Key: []byte("count"), Value: fmt.Append(nil, n)}, {Key: []byte("same"), Value: fmt.Append(nil, n)},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// derivedFaults judges what a crash has left: rows of a space are of one write,
// and that is not ahead of the log nor of what was removed.
func derivedFaults(ctx context.Context, l *Log, s eventlog.Space) error {
	at, err := l.DerivedAt(ctx, s)
	if errors.Is(err, eventlog.ErrNotFound) || errors.Is(err, eventlog.ErrErased) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := l.Thread(ctx, eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread})
	if err != nil {
		return err
	}
	if at.Position > l.Watermark() {
		return fmt.Errorf("the rows are at %d, the log at %d", at.Position, l.Watermark())
	}
	var values []string
	for row, err := range l.DerivedScan(ctx, s, eventlog.ScanOptions{}) {
		if err != nil {
			return err
		}
		values = append(values, string(row.Value))
		if row.At != at || at.Removals != info.Removals {
			return fmt.Errorf("a row of %+v, the space is at %+v, %d removals", row.At, at, info.Removals)
		}
	}
	if at == (eventlog.At{}) {
		if len(values) > 0 {
			return fmt.Errorf("rows without a head: %q", values)
		}
		return nil
	}
	if len(values) != 2 || values[0] != values[1] {
		return fmt.Errorf("half a write: %q", values)
	}
	last := uint64(0)
	for r, err := range l.Read(ctx, eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}, eventlog.ReadOptions{}) {
		if err != nil {
			return err
		}
		if r.Position <= at.Position {
			last = r.Seq
		}
	}
	if last == 0 {
		last = info.LastSeq // all of it was cleared
	}
	if fmt.Sprint(last) != values[0] {
		return fmt.Errorf("derived of %s records, at a position with %d", values[0], last)
	}
	return nil
}

// diskCuts copies the disk before every write, sync and removal of a file, as a power cut
// would leave it.
type diskCuts struct {
	fs   *vfs.MemFS
	mu   sync.Mutex
	rng  *rand.Rand
	on   bool
	cuts []*vfs.MemFS
	at   []string
}

func (c *diskCuts) String() string { return "cuts" }

func (c *diskCuts) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFileWrite, errorfs.OpRemove:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.on {
		return nil
	}
	for _, percent := range []int{0, 1 + c.rng.IntN(99), 100} {
		c.cuts = append(c.cuts, c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng}))
		c.at = append(c.at, fmt.Sprintf("cut %d at %s, %d %%", len(c.cuts), filepath.Base(op.Path), percent))
	}
	return nil
}

func (c *diskCuts) turn(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = on
}

// Wherever the power is cut, a derived row is there only with the records that it
// was derived from, with all of its write, and never after a removal.
func TestDerivedRowsAreCut(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewCrashableMem()
	seed := rand.Uint64()
	t.Log("seed", seed)
	cuts := &diskCuts{fs: mem, rng: rand.New(rand.NewPCG(seed, 0))}
	l, err := Open("d", Options{FS: errorfs.Wrap(mem, cuts)})
	if err != nil {
		t.Fatal(err)
	}
	spaces := []eventlog.Space{viewOf("erased"), viewOf("cleared"), viewOf("stays")}
	for _, s := range spaces {
		derivedThread(t, l, s, 3)
	}
	cuts.turn(true)
	for range 4 {
		for _, s := range spaces {
			derivedThread(t, l, s, 1)
		}
	}
	if err := l.flushNow(); err != nil {
		t.Fatal(err)
	}
	derivedThread(t, l, spaces[2], 2)
	_, err1 := l.Erase(ctx, eventlog.ThreadKey{Scope: "s", Thread: "erased"}, eventlog.RemoveOptions{})
	_, err2 := l.Clear(ctx, eventlog.ThreadKey{Scope: "s", Thread: "cleared"}, eventlog.RemoveOptions{})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	derivedThread(t, l, spaces[1], 2)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cuts.turn(false)
	step := max(1, len(cuts.cuts)/150)
	if testing.Short() {
		step = max(1, len(cuts.cuts)/20)
	}
	judged, with := 0, 0
	for i := int(seed % uint64(step)); i < len(cuts.cuts); i += step {
		l, err := Open("d", Options{FS: cuts.cuts[i]})
		if err != nil {
			t.Fatalf("%s: %v", cuts.at[i], err)
		}
		judged++
		for range 2 { // before and after removals that go on
			for _, s := range spaces {
				if err := derivedFaults(ctx, l, s); err != nil {
					t.Errorf("%s: %s: %v", cuts.at[i], s.Thread, err)
				}
				if at, err := l.DerivedAt(ctx, s); err == nil && at.Position > 0 {
					with++
				}
			}
			l.FinishRemovals()
		}
		for fault, err := range l.Verify(ctx, eventlog.VerifyOptions{}) {
			t.Errorf("%s: verify: %v, %v", cuts.at[i], fault, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d cuts of %d, with rows %d times", judged, len(cuts.cuts), with)
	if with == 0 {
		t.Error("no cut has left any row: the test tests nothing")
	}
}

// A disk that fails takes rows with it that nobody has synced; a writer that goes
// on from them is told, and appends never hear of it.
func TestDerivedRowsAfterAFailure(t *testing.T) {
	ctx := context.Background()
	mem := vfs.NewCrashableMem()
	disk := &brokenDisk{}
	back := make(chan struct{}, 16)
	opts := Options{FS: errorfs.Wrap(mem, disk)}
	opts.Listener.Reopened = func(uint64, time.Duration) { back <- struct{}{} }
	l, err := Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := viewOf("t")
	derivedThread(t, l, s, 2)
	before, err := l.DerivedAt(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	disk.set(true)
	to := eventlog.At{Position: l.Watermark()}
	// The engine takes it, and its log keeps nothing of it any more.
	_ = l.DerivedWrite(ctx, s, eventlog.DerivedBatch{From: before, To: to, Changes: []eventlog.DerivedChange{{Key: []byte("count"), Value: []byte("lost")}}})
	if _, err := l.Append(ctx, eventlog.ThreadKey{Scope: "s", Thread: "t"}, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM","name":"x"}`)}}); err == nil {
		t.Fatal("an append to a broken disk")
	}
	if err := l.DerivedWrite(ctx, s, eventlog.DerivedBatch{From: to, To: to}); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Errorf("a write to a broken disk: %v", err)
	}
	disk.set(false)
	<-back
	if err := derivedFaults(ctx, l, s); err != nil {
		t.Log("what was written last is there or not:", err)
	}
	at, err := l.DerivedAt(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	wrong := eventlog.At{Position: at.Position + 1}
	if err := l.DerivedWrite(ctx, s, eventlog.DerivedBatch{From: wrong, To: wrong}); !errors.Is(err, eventlog.ErrStale) && !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("a write that goes on from what is not there: %v", err)
	}
	done := fixtureAppend(t, l, "s", "t", eventlog.Batch{}, `{"type":"CUSTOM","name":"x"}`)
	if err := l.DerivedDrop(ctx, s); err != nil {
		t.Fatal(err)
	}
	deriveCount(t, l, ctx, s, done.Last)
	if err := derivedFaults(ctx, l, s); err != nil {
		t.Error(err)
	}
}

// brokenDisk refuses every change while it is told to.
type brokenDisk struct {
	mu     sync.Mutex
	broken bool
}

func (d *brokenDisk) set(broken bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

func (d *brokenDisk) String() string { return "broken disk" }

func (d *brokenDisk) MaybeError(op errorfs.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return errorfs.ErrInjected
	}
	return nil
}

// A backup has derived rows no newer than its log, and a restored store, which is
// another incarnation, goes on from them.
func TestDerivedRowsInABackup(t *testing.T) {
	ctx := context.Background()
	fs := vfs.NewMem()
	opts := Options{FS: fs}
	l, err := Open("d", opts)
	if err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	s := viewOf("t")
	derivedThread(t, l, s, 3)
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				derivedThread(t, l, s, 1)
			}
		}
	}()
	for i := range 3 {
		if _, err := l.Backup(ctx, fmt.Sprint("b", i)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-ended
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		dir := fmt.Sprint("r", i)
		if _, err := Restore(ctx, fmt.Sprint("b", i), dir, eventlog.RestoreOptions{}, opts); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		if err := derivedFaults(ctx, r, s); err != nil {
			t.Error(err)
		}
		if at, err := r.DerivedAt(ctx, s); err != nil || at.Position == 0 {
			t.Errorf("backup %d has no rows: %+v, %v", i, at, err)
		}
		derivedThread(t, r, s, 1)
		if err := derivedFaults(ctx, r, s); err != nil {
			t.Error(err)
		}
		clean(t, r)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What is wrong with derived rows is found, hides them from readers, and is
// repaired by removing the space and no other.
func TestVerifyDerivedRows(t *testing.T) {
	ctx := context.Background()
	thread := func(ord uint64, key string) []byte { return append(appendOwner(threadSpaces(ord), "view"), key...) }
	scope := func(key string) []byte { return append(appendOwner(scopeSpaces("s"), "view"), key...) }
	e := newEncoder()
	for name, test := range map[string]struct {
		damage func(l *Log) error
		want   string
		hidden string // the space without rows then; empty: none need be
	}{
		"Flipped":     {func(l *Log) error { return flipValue(l, thread(1, "count")) }, "view_mismatch", ""},
		"FlippedHead": {func(l *Log) error { return flipValue(l, thread(1, "")) }, "view_mismatch", "t"},
		"NoHead":      {func(l *Log) error { return l.db.Delete(thread(1, ""), pebble.Sync) }, "view_mismatch", "t"},
		"Ahead": {func(l *Log) error {
			return l.db.Set(thread(1, "x"), e.derived(eventlog.At{Position: 99}, nil), pebble.Sync)
		}, "view_mismatch", ""},
		"OtherTime": {func(l *Log) error {
			return l.db.Set(thread(1, "x"), e.derived(eventlog.At{Position: 1, Removals: 1}, nil), pebble.Sync)
		}, "view_mismatch", ""},
		"FlippedScope": {func(l *Log) error { return flipValue(l, scope("k")) }, "view_mismatch", ""},
		"NoHeadScope":  {func(l *Log) error { return l.db.Delete(scope(""), pebble.Sync) }, "view_mismatch", "-"},
		"NoThread": {func(l *Log) error {
			return l.db.Set(thread(7, ""), e.derived(eventlog.At{Position: 1}, nil), pebble.Sync)
		}, "thread_row", ""},
		"NoOwner": {func(l *Log) error {
			return l.db.Set(append(threadSpaces(1), 0), e.derived(eventlog.At{Position: 1}, nil), pebble.Sync)
		}, "unknown_key", ""},
		"NoScope": {func(l *Log) error { return l.db.Set([]byte{prefixOfScope, 0, 9, 's'}, nil, pebble.Sync) }, "unknown_key", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			l := fixtureOpen(t, Options{FS: fs})
			derivedThread(t, l, viewOf("t"), 1)
			derivedThread(t, l, viewOf("other"), 1)
			all := eventlog.Space{Scope: "s", Owner: "view"}
			if err := l.DerivedWrite(ctx, all, eventlog.DerivedBatch{To: eventlog.At{Position: 1}, Changes: []eventlog.DerivedChange{{Key: []byte("k"), Value: []byte("v")}}}); err != nil {
				t.Fatal(err)
			}
			clean(t, l)
			if err := test.damage(l); err != nil {
				t.Fatal(err)
			}
			if got := kindsOf(faultsOf(t, l, eventlog.VerifyOptions{})); got != test.want {
				t.Errorf("found %q, want %q", got, test.want)
			}
			s := viewOf(test.hidden)
			if test.hidden == "-" {
				s = all
			}
			if test.hidden != "" {
				if at, err := l.DerivedAt(ctx, s); err != nil || at != (eventlog.At{}) {
					t.Errorf("the damaged space is at %+v, %v", at, err)
				}
				for row, err := range l.DerivedScan(ctx, s, eventlog.ScanOptions{}) {
					t.Errorf("the damaged space has %+v, %v", row, err)
				}
			}
			if name == "Flipped" {
				if row, err := l.DerivedGet(ctx, viewOf("t"), []byte("count")); !errors.Is(err, eventlog.ErrCorrupt) {
					t.Errorf("the damaged row reads as %+v, %v", row, err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			mended := 0
			for m, err := range Repair(ctx, "store", Options{FS: fs}, eventlog.VerifyOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if m.Action != "" {
					mended++
				}
			}
			l = fixtureOpen(t, Options{FS: fs})
			defer l.Close()
			if test.want == "view_mismatch" {
				if mended == 0 {
					t.Error("nothing was repaired")
				}
				clean(t, l)
			}
			if err := derivedFaults(ctx, l, viewOf("other")); err != nil {
				t.Error(err)
			}
			if at, err := l.DerivedAt(ctx, viewOf("other")); err != nil || at.Position == 0 {
				t.Errorf("the repair has removed another space: %+v, %v", at, err)
			}
		})
	}
}

func flipValue(l *Log, key []byte) error {
	value, ok, err := l.get(key)
	if err != nil || !ok {
		return fmt.Errorf("there is no row %x: %w", key, err)
	}
	value[len(value)-1] ^= 1
	return l.db.Set(key, value, pebble.Sync)
}
