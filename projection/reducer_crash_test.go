package projection_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/projection"
)

// cutter copies the disk before every change of a file, as a power cut would leave
// it there, and keeps some of the copies.
type cutter struct {
	fs   *vfs.MemFS
	mu   sync.Mutex
	rng  *rand.Rand
	on   bool
	n    int
	keep int // every which
	cuts []*vfs.MemFS
	at   []string
}

func (c *cutter) String() string { return "cutter" }

func (c *cutter) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; !c.on || c.n%c.keep != 0 {
		return nil
	}
	percent := []int{0, 1 + c.rng.IntN(99), 100}[c.n/c.keep%3]
	c.cuts = append(c.cuts, c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng}))
	c.at = append(c.at, fmt.Sprintf("cut %d at %s, %d %%", c.n, filepath.Base(op.Path), percent))
	return nil
}

func (c *cutter) turn(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on = on
}

// Must hold 3: wherever the power is cut, while projections run, are begun anew
// and made of a new version, and threads are removed, afterwards each record has
// gone into each of them exactly once.
func TestReducersAreCut(t *testing.T) {
	mem := vfs.NewCrashableMem()
	seed := rand.Uint64()
	t.Log("seed", seed)
	cuts := &cutter{fs: mem, rng: rand.New(rand.NewPCG(seed, 0)), keep: 2}
	if testing.Short() {
		cuts.keep = 11
	}
	k := &kit{t: t, fs: errorfs.Wrap(mem, cuts)}
	cuts.turn(true)
	k.open(all()...)
	for i := range 12 {
		k.say("a", "t1", fmt.Sprint(i))
		k.say("a", "t2", fmt.Sprint(i))
		k.say("b", "t1", fmt.Sprint(i))
		if i%4 == 3 {
			k.catchUp()
		}
	}
	k.close()
	k.open(all()...)
	k.remove(eventlog.RemovalClear, "a", "t2")
	k.say("a", "t2", "after")
	k.remove(eventlog.RemovalErase, "b", "t1")
	k.say("b", "t3", "after")
	k.close()
	k.open(append([]projection.Reducer{listing(2)}, all()[1:]...)...)
	k.say("a", "t1", "new version")
	k.remove(eventlog.RemovalRedact, "a", "t1")
	if err := k.projection("totals").Rebuild(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	k.check("a", "b")
	k.close()
	cuts.turn(false)
	for i, fs := range cuts.cuts {
		k := &kit{t: t, fs: fs}
		k.open(append([]projection.Reducer{listing(1 + i%2)}, all()[1:]...)...)
		k.check("a", "b")
		k.say("a", "t1", "goes on")
		k.check("a", "b")
		for fault, err := range k.log.Verify(context.Background(), eventlog.VerifyOptions{}) {
			t.Errorf("verify: %v, %v", fault, err)
		}
		k.close()
		if t.Failed() {
			t.Fatal(cuts.at[i])
		}
	}
	t.Logf("%d cuts", len(cuts.cuts))
	if len(cuts.cuts) < 10 {
		t.Error("too few cuts")
	}
}

// failing is a disk that refuses every change while it is told to.
type failing struct {
	mu sync.Mutex
	on bool
}

func (f *failing) String() string { return "failing" }

func (f *failing) turn(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

func (f *failing) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.on && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
		return errorfs.ErrInjected
	}
	return nil
}

// A disk that fails and comes back takes rows with it; what follows is exact all
// the same, in the same process.
func TestReducersAfterAFailureOfTheDisk(t *testing.T) {
	for round := range 8 {
		disk := &failing{}
		back := make(chan struct{}, 16)
		opts := pebblelog.Options{FS: errorfs.Wrap(vfs.NewCrashableMem(), disk)}
		opts.Listener.Reopened = func(uint64, time.Duration) { back <- struct{}{} }
		log, err := pebblelog.Open("store", opts)
		if err != nil {
			t.Fatal(err)
		}
		k := &kit{t: t, ctx: context.Background(), log: log}
		k.keep(all()...)
		for i := range 10 + round {
			k.say("a", "t1", fmt.Sprint(i))
		}
		disk.turn(true)
		for range 3 {
			_, _ = k.log.Append(k.ctx, key("a", "t1"), eventlog.Batch{Events: [][]byte{[]byte(`{"type":"CUSTOM","name":"x"}`)}})
		}
		disk.turn(false)
		<-back
		k.say("a", "t1", "after")
		k.say("a", "t2", "after")
		k.check("a")
		k.close()
	}
}
