package pebblelog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// everyChange copies the disk before every operation that changes a directory or
// syncs something, as it is with some of what was not synced.
type everyChange struct {
	fs   *vfs.MemFS
	mu   sync.Mutex
	rng  *rand.Rand
	done bool
	left map[string]*vfs.MemFS
}

func (e *everyChange) String() string { return "every change" }

func (e *everyChange) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpRemove, errorfs.OpRemoveAll, errorfs.OpRename, errorfs.OpReuseForWrite,
		errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for range 3 {
		if e.done {
			break
		}
		percent := 20 + e.rng.IntN(60)
		name := fmt.Sprintf("%d: before operation %d on %s, with %d %%", len(e.left), op.Kind, filepath.Base(op.Path), percent)
		e.left[name] = e.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: e.rng})
	}
	return nil
}

// A store that is cut while it is opened is there afterwards, whatever changes of
// its directory the disk has kept.
func TestDirectoryChangesInAnyOrder(t *testing.T) {
	ctx := context.Background()
	seed := rand.Uint64()
	fs := vfs.NewCrashableMem()
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	want := uint64(0)
	for life := range 3 {
		e := &everyChange{fs: fs, rng: rand.New(rand.NewPCG(seed, uint64(life))), left: make(map[string]*vfs.MemFS)}
		l, err := pebblelog.Open("d", pebblelog.Options{FS: errorfs.Wrap(fs, e)})
		if err != nil {
			t.Fatal(err)
		}
		e.mu.Lock()
		e.done = true
		e.mu.Unlock()
		for name, left := range e.left {
			if err := holds(ctx, left, k, want); err != nil {
				t.Fatalf("life %d of seed %d, cut %s: %v", life, seed, name, err)
			}
		}
		done, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM"}`)}})
		if err != nil {
			t.Fatal(err)
		}
		want = done.Last
		next := fs.CrashClone(vfs.CrashCloneCfg{})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		fs = next
	}
}

// holds opens a store and looks for a thread's last seq; 0: there is no thread.
func holds(ctx context.Context, fs *vfs.MemFS, k eventlog.ThreadKey, last uint64) error {
	l, err := pebblelog.Open("d", pebblelog.Options{FS: fs})
	if err != nil {
		return err
	}
	defer l.Close()
	if th, err := l.Thread(ctx, k); last > 0 && (err != nil || th.LastSeq != last) {
		return fmt.Errorf("last seq %d, want %d: %w", th.LastSeq, last, err)
	}
	return nil
}
