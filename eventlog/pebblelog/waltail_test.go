package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// tailVariable is how many bytes lie between the places at which TestWALTail cuts
// beside the ends of records; 1 is every byte of the last 64 KB.
const tailVariable = "AGSTORE_WAL_TAIL"

// written is one acknowledged append, and the length of the newest WAL file when
// it had been.
type written struct {
	thread eventlog.ThreadKey
	done   eventlog.Appended
	events [][]byte
	size   int64
}

// wal is a store as a kill leaves it, all of it in one WAL file.
type wal struct {
	fs   *vfs.MemFS
	name string
	text []byte
	acks []written
}

// newWAL writes so many appends, of several threads and sizes.
func newWAL(t *testing.T, appends int) *wal {
	t.Helper()
	ctx := context.Background()
	w := &wal{fs: vfs.NewCrashableMem()}
	l, err := pebblelog.Open("d", pebblelog.Options{FS: w.fs})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.name = newest(t, w.fs)
	for n := range appends {
		a := written{thread: eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint("t", n%3)}}
		for i := range 1 + n%3 {
			size := 1
			if n%10 == 7 {
				size = 9_000 // over a block of the file, now and then
			}
			a.events = append(a.events, fmt.Appendf(nil, `{"type":"CUSTOM","name":"%0*d","value":%d}`, size, n, i))
		}
		if a.done, err = l.Append(ctx, a.thread, eventlog.Batch{Events: a.events}); err != nil {
			t.Fatal(err)
		}
		info, err := w.fs.Stat(w.name)
		if err != nil {
			t.Fatal(err)
		}
		a.size = info.Size()
		w.acks = append(w.acks, a)
	}
	w.fs = w.fs.CrashClone(vfs.CrashCloneCfg{})
	w.text = slurp(t, w.fs, w.name)
	if last := w.acks[len(w.acks)-1].size; int64(len(w.text)) < last {
		t.Fatalf("%d bytes of the %d that were synced", len(w.text), last)
	}
	return w
}

// newest is the name of the newest WAL file.
func newest(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List("d")
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, name := range names {
		if strings.HasSuffix(name, ".log") && name > found {
			found = name
		}
	}
	return fs.PathJoin("d", found)
}

func slurp(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// with is the store with another text in its WAL file.
func (w *wal) with(text []byte) (*vfs.MemFS, error) {
	fs := w.fs.CrashClone(vfs.CrashCloneCfg{})
	f, err := fs.Create(w.name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	dir, err := fs.OpenDir("d")
	if err != nil {
		return nil, err
	}
	// A copy: with -race a file system in memory spoils what it was given.
	_, err = f.Write(bytes.Clone(text))
	return fs, errors.Join(err, f.Sync(), f.Close(), dir.Sync(), dir.Close())
}

// prefix wants a log to hold the first of the acknowledged appends, whole and
// nothing else, and gives how many.
func (w *wal) prefix(ctx context.Context, l *pebblelog.Log) (int, error) {
	n := 0
	for c, err := range l.Commits(ctx, 0) {
		if err != nil {
			return n, err
		}
		if n == len(w.acks) {
			return n, fmt.Errorf("commit %d was never acknowledged", c.Position)
		}
		a := &w.acks[n]
		if c.Position != a.done.Position || c.Thread != a.thread || c.First != a.done.First || c.Count != len(a.events) {
			return n, fmt.Errorf("commit %+v where %+v was acknowledged", c, a.done)
		}
		i := 0
		for r, err := range l.Read(ctx, c.Thread, eventlog.ReadOptions{From: c.First, To: c.First + uint64(c.Count) - 1}) {
			if err != nil {
				return n, err
			}
			if string(r.Event) != string(a.events[i]) {
				return n, fmt.Errorf("seq %d of %s is %.80s", r.Seq, c.Thread.Thread, r.Event)
			}
			i++
		}
		if i != len(a.events) {
			return n, fmt.Errorf("%d records of commit %+v", i, c)
		}
		n++
	}
	return n, errors.Join(logtest.Check(ctx, l)...)
}

// whole is how many of the appends lie wholly before an offset of the file.
func (w *wal) whole(offset int64) int {
	n := 0
	for n < len(w.acks) && w.acks[n].size <= offset {
		n++
	}
	return n
}

// torn cuts the WAL at an offset and goes on from there: what lies whole before it
// is there, the next append continues it, and a second crash keeps that.
func (w *wal) torn(ctx context.Context, offset int64) error {
	fs, err := w.with(w.text[:offset])
	if err != nil {
		return err
	}
	l, err := pebblelog.Open("d", pebblelog.Options{FS: fs})
	if err != nil {
		return err
	}
	defer func() { l.Close() }()
	n, err := w.prefix(ctx, l)
	if err != nil {
		return err
	}
	if want := w.whole(offset); n != want {
		return fmt.Errorf("%d appends are there, %d lie whole before the cut", n, want)
	}
	k := eventlog.ThreadKey{Scope: "s", Thread: "t0"}
	last := uint64(0)
	if th, err := l.Thread(ctx, k); err == nil {
		last = th.LastSeq
	}
	event := []byte(`{"type":"CUSTOM","name":"next"}`)
	done, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{event}})
	if err != nil || done.First != last+1 || done.Position != uint64(n+1) {
		return fmt.Errorf("the next append is %+v behind seq %d of %d commits: %w", done, last, n, err)
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		return err
	}
	if l, err = pebblelog.Open("d", pebblelog.Options{FS: left}); err != nil {
		return fmt.Errorf("after the second crash: %w", err)
	}
	again := *w
	again.acks = append(append([]written(nil), w.acks[:n]...), written{thread: k, done: done, events: [][]byte{event}})
	if got, err := again.prefix(ctx, l); err != nil || got != n+1 {
		return fmt.Errorf("after the second crash: %d commits of %d: %w", got, n+1, err)
	}
	return nil
}

// Must hold 3, L28: a WAL that ends anywhere opens with all that lies whole before
// its end, and goes on from there.
func TestWALTail(t *testing.T) {
	ctx := context.Background()
	every := int64(number(t, tailVariable, 2048))
	appends := 20
	if every == 1 {
		appends = 60
	}
	w := newWAL(t, appends)
	size := int64(len(w.text))
	offsets := make(map[int64]bool)
	for _, a := range w.acks {
		for _, at := range []int64{a.size - 1, a.size, min(size, a.size+1)} {
			offsets[at] = true
		}
	}
	from := int64(0)
	if every == 1 {
		from = max(0, size-64<<10)
	}
	for at := from; at <= size; at += every {
		offsets[at] = true
	}
	for at := range offsets {
		if err := w.torn(ctx, at); err != nil {
			t.Fatalf("cut at byte %d of %d: %v", at, size, err)
		}
	}
	t.Logf("cut at %d places of %d bytes", len(offsets), size)
}

// Damage in the middle of the WAL is told, by what the blocks behind it say of the
// one that is damaged. In the last block, of 32 KB, nothing tells it from an end
// that a power cut has torn: what opens is a prefix. Never is something of the
// middle missing.
func TestWALDamage(t *testing.T) {
	ctx := context.Background()
	w := newWAL(t, 30)
	step := 2003
	if number(t, tailVariable, 2048) < 2048 {
		step = 131
	}
	lastBlock := (len(w.text) - 1) &^ (32<<10 - 1)
	told, shorter := 0, 0
	for at := 0; at < len(w.text); at += step {
		text := append([]byte(nil), w.text...)
		text[at] ^= 0x40
		fs, err := w.with(text)
		if err != nil {
			t.Fatal(err)
		}
		l, err := pebblelog.Open("d", pebblelog.Options{FS: fs})
		if errors.Is(err, eventlog.ErrCorrupt) {
			told++
			continue
		}
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		n, err := w.prefix(ctx, l)
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		if before := w.whole(int64(at)); n < before {
			t.Fatalf("byte %d: %d appends are there, %d lie whole before it", at, n, before)
		}
		if n < len(w.acks) {
			shorter++
			if at < lastBlock {
				t.Errorf("byte %d: %d of %d appends are there, and nothing was told", at, n, len(w.acks))
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bytes, a block is 32 KB; of %d flipped bytes %d were told as damage and %d ended the log early", len(w.text), (len(w.text)+step-1)/step, told, shorter)
	if told == 0 {
		t.Error("no damage in the middle was told")
	}
}
