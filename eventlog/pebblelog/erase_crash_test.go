package pebblelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

type removeFunc = func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error)

// removals are the three ways, each of the thread "marked".
var removals = map[string]removeFunc{
	"Erase": func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
		return l.Erase(ctx, tkey("marked"), eventlog.RemoveOptions{Reason: "why"})
	},
	"Clear": func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
		return l.Clear(ctx, tkey("marked"), eventlog.RemoveOptions{Reason: "why"})
	},
	"Redact": func(ctx context.Context, l *pebblelog.Log) (eventlog.Receipt, error) {
		return l.Redact(ctx, tkey("marked"), eventlog.Redaction{Message: "m"}, eventlog.RemoveOptions{Reason: "why"})
	},
}

// syncCuts copies the disk at every sync, as a power cut would leave it there.
type syncCuts struct {
	fs *vfs.MemFS

	mu   sync.Mutex
	rng  *rand.Rand
	on   bool
	cuts []*vfs.MemFS
	at   []string
}

func (c *syncCuts) String() string { return "cuts" }

func (c *syncCuts) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpRemove:
	default:
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.on {
		for _, percent := range []int{0, 1 + c.rng.IntN(99), 100} {
			c.cuts = append(c.cuts, c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng}))
			c.at = append(c.at, fmt.Sprintf("cut %d at %s, %d %%", len(c.cuts), filepath.Base(op.Path), percent))
		}
	}
	return nil
}

// A removal that is cut anywhere is, after the next open, either not begun or
// finished: no reader sees a part, the others have what they had, and once the
// open log is through with it the files hold nothing any more.
func TestRemovalIsCut(t *testing.T) {
	for name, remove := range removals {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			mem := vfs.NewCrashableMem()
			seed := rand.Uint64()
			t.Log("seed", seed)
			cuts := &syncCuts{fs: mem, rng: rand.New(rand.NewPCG(seed, 0))}
			l := mustOpen(t, small(errorfs.Wrap(mem, cuts)))
			fill(t, l, 3)
			before, other := records(t, l, tkey("marked")), fmt.Sprint(records(t, l, tkey("aaa")))
			cuts.mu.Lock()
			cuts.on = true
			cuts.mu.Unlock()
			if _, err := remove(ctx, l); err != nil {
				t.Fatal(err)
			}
			cuts.mu.Lock()
			cuts.on = false
			cuts.mu.Unlock()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			step := 1
			if testing.Short() {
				step = max(1, len(cuts.cuts)/8)
			}
			states := map[bool]int{}
			for i := 0; i < len(cuts.cuts); i += step {
				states[afterCut(t, cuts.cuts[i], remove, before, other)]++
				if t.Failed() {
					t.Fatal(cuts.at[i])
				}
			}
			t.Logf("%d cuts: %d before, %d after the commit", len(cuts.cuts), states[false], states[true])
		})
	}
}

// afterCut judges what a cut has left, and reports whether the removal was
// committed.
func afterCut(t *testing.T, fs *vfs.MemFS, remove removeFunc, before []eventlog.Record, other string) bool {
	t.Helper()
	ctx := context.Background()
	l := mustOpen(t, small(fs))
	var seen []eventlog.Record
	var failed error
	for r, err := range l.Read(ctx, tkey("marked"), eventlog.ReadOptions{}) {
		if err != nil {
			failed = err
			break
		}
		seen = append(seen, r)
	}
	marked := 0
	for _, r := range seen {
		if bytes.Contains(r.Event, []byte(marker)) {
			marked++
		}
	}
	untouched := failed == nil && fmt.Sprint(seen) == fmt.Sprint(before)
	finished := marked == 0 && (failed == nil || errors.Is(failed, eventlog.ErrErased))
	if untouched == finished {
		t.Errorf("%d of %d records with the content, %v", marked, len(seen), failed)
	}
	l.FinishRemovals()
	if untouched {
		if _, err := remove(ctx, l); err != nil {
			t.Errorf("once more: %v", err)
		}
	}
	if found := holding(t, fs, "d"); len(found) > 0 {
		t.Errorf("the content is in %q", found)
	}
	if got := fmt.Sprint(records(t, l, tkey("aaa"))); got != other {
		t.Error("another thread has changed")
	}
	receipts := 0
	for r, err := range l.Receipts(ctx, "s", "marked") {
		if receipts++; err != nil || !r.Removed || r.Gone.IsZero() || len(r.Places) == 0 {
			t.Errorf("receipt %+v, %v", r, err)
		}
	}
	if receipts != 1 {
		t.Errorf("%d receipts", receipts)
	}
	for _, fault := range logtest.Check(ctx, l) {
		t.Error(fault)
	}
	for fault, err := range l.Verify(ctx, eventlog.VerifyOptions{}) {
		t.Errorf("verify: %v, %v", fault, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return !untouched
}
