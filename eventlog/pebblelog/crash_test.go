package pebblelog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/eventlog/history"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// cutsVariable is how many cuts TestCrashMatrix makes at least, and with _SEED
// behind it with which seed it begins.
const cutsVariable = "AGSTORE_CRASH_CUTS"

// number reads a setting.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s is a number: %v", variable, err)
	}
	return n
}

// Must hold 1: workers write to many threads on a file system that keeps what was
// synced. At every sync point, those of open, recovery and close included, the
// disk is copied as a power cut would leave it there: with none of what was not
// synced, with some of it, and with all. Each copy is opened, judged by what the
// workers had been told until then, gone on with, cut once more, and judged by
// all of it.
func TestCrashMatrix(t *testing.T) {
	least := number(t, cutsVariable, 150)
	if testing.Short() {
		least = min(least, 40)
	}
	seed := number(t, cutsVariable+"_SEED", rand.Uint64N(1<<32))
	m := &matrix{t: t, least: int64(least)}
	logtest.Keep(t, func() string { return fmt.Sprintf("%s_SEED=%d", cutsVariable, m.seed) }, m.save)
	for m.seed = seed; m.cuts.Load() < m.least; m.seed++ {
		m.rng = rand.New(rand.NewPCG(m.seed, 0))
		m.run()
		if t.Failed() {
			t.Fatalf("%s_SEED=%d (the first was %d)", cutsVariable, m.seed, seed)
		}
	}
	t.Logf("%d cuts, %d backups restored, %d not finished; %s_SEED=%d was the first",
		m.cuts.Load(), m.restored.Load(), m.unfinished.Load(), cutsVariable, seed)
}

// matrix is one store that is cut in several lives of its process.
type matrix struct {
	t     *testing.T
	least int64
	seed  uint64
	rng   *rand.Rand
	cuts  atomic.Int64

	backups []backup // of the lives until now
	// How many backups of cuts were restored, and how many were not finished.
	restored, unfinished atomic.Int64

	kept    sync.Once
	left    *vfs.MemFS // what the first cut that failed had left
	history history.History
}

// save writes what the first failure left.
func (m *matrix) save(dir string) error {
	if m.left != nil {
		if _, err := vfs.Clone(m.left, vfs.Default, "d", filepath.Join(dir, "store")); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	return m.history.Encode(f)
}

// cut is a disk as a power cut leaves it, and the moments it lies between.
type cut struct {
	where         string
	n             int
	fs            *vfs.MemFS
	before, after int64
}

// cutter takes the cuts: it is asked before every operation of the file system.
type cutter struct {
	fs    *vfs.MemFS
	rec   *history.Recorder
	where string

	mu   sync.Mutex
	rng  *rand.Rand
	cuts []*cut
	done bool

	links sync.Mutex
}

// linking is the file system of a cutter, which makes links and copies of itself
// one after the other: a link takes the lock that keeps copies out twice, and
// waits for ever if a copy comes in between.
type linking struct {
	vfs.FS
	c *cutter
}

func (l linking) Link(from, to string) error {
	l.c.links.Lock()
	defer l.c.links.Unlock()
	return l.FS.Link(from, to)
}

func (c *cutter) String() string { return "cutter" }

// MaybeError implements [errorfs.Injector].
func (c *cutter) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		c.take("before the sync of " + filepath.Base(op.Path))
	}
	return nil
}

func (c *cutter) take(point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	for _, percent := range []int{0, 1 + c.rng.IntN(99), 100} {
		one := &cut{n: len(c.cuts), before: c.rec.Mark()}
		one.where = fmt.Sprintf("%s: cut %d %s, with %d %% of what was not synced", c.where, one.n, point, percent)
		c.links.Lock()
		one.fs = c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng})
		c.links.Unlock()
		one.after = c.rec.Mark()
		c.cuts = append(c.cuts, one)
	}
}

// stop takes no more cuts, and gives those it has.
func (c *cutter) stop() []*cut {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	return c.cuts
}

// lives is how often the process of one store is started.
const lives = 3

// run has workers write in a process that is cut, in one that goes on from there
// and closes the log, and in one that opens it again.
func (m *matrix) run() {
	fs := vfs.NewCrashableMem()
	var past history.History
	from := int64(0)
	m.backups = nil
	for life := range lives {
		c := &cutter{
			fs: fs, rec: history.NewLogical(from), where: fmt.Sprint("life ", life),
			rng: rand.New(rand.NewPCG(m.seed, uint64(life))),
		}
		m.live(c, life)
		if m.t.Failed() {
			return
		}
		c.take("after close")
		cuts, h := c.stop(), append(slices.Clone(past), c.rec.History()...)
		all := m.backups
		chosen := cuts[m.rng.IntN(len(cuts))]
		if life == 1 {
			chosen = cuts[len(cuts)-1]
		}
		fs = chosen.fs.CrashClone(vfs.CrashCloneCfg{})
		past, from = h.Cut(chosen.before, chosen.after), chosen.after
		m.judgeAll(cuts, h)
		if m.t.Failed() {
			return
		}
		m.backups = atCut(all, chosen)
	}
}

// lifetime is when the lives of a process are: leases of one have expired in the
// next.
func lifetime(life int) func() time.Time {
	at := time.Date(2030, 1, 2, life, 0, 0, 0, time.UTC)
	return func() time.Time { return at }
}

// live is one life of a process: it opens the log, has workers write, and closes
// it with runs left open.
func (m *matrix) live(c *cutter, life int) {
	l, err := pebblelog.Open("d", pebblelog.Options{FS: errorfs.Wrap(linking{c.fs, c}, c), Now: lifetime(life)})
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	var all sync.WaitGroup
	all.Go(func() { m.backup(l, c.rec, fmt.Sprint("backup-", life)) })
	for g := range 4 {
		w := &logtest.Worker{
			Log: l, Recorder: c.rec, Client: fmt.Sprintf("l%dw%d", life, g), TTL: time.Minute,
			Rand: rand.New(rand.NewPCG(m.seed, uint64(100+life*10+g))),
		}
		things := 1 + m.rng.IntN(8)
		all.Go(func() { w.Work(context.Background(), things) })
	}
	all.Wait()
	if err := l.Close(); err != nil {
		m.t.Fatalf("close: %v", err)
	}
}

// judgeAll opens every cut; a few of each life, where few are asked for, and at the
// end no more than are. With one of sixteen, opening it is cut too.
func (m *matrix) judgeAll(cuts []*cut, h history.History) {
	few := max(1, int(m.least-m.cuts.Load()))
	if m.least < 1000 {
		few = int(m.least / 6)
	}
	if len(cuts) > few {
		m.rng.Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
		cuts = cuts[:few]
	}
	var all sync.WaitGroup
	next := make(chan *cut)
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for c := range next {
				if !m.t.Failed() {
					m.judge(c, h.Cut(c.before, c.after), m.backups, c.n%16 == int(m.seed%16))
				}
			}
		})
	}
	for _, c := range cuts {
		next <- c
	}
	close(next)
	all.Wait()
}

// judge opens a cut and looks for what was promised, of the backups too.
func (m *matrix) judge(c *cut, h history.History, backups []backup, deep bool) {
	m.cuts.Add(1)
	var left *vfs.MemFS
	if os.Getenv(logtest.KeepVariable) != "" {
		left = c.fs.CrashClone(vfs.CrashCloneCfg{})
	}
	faults := m.judgeBackups(c, h, backups)
	inner, more := m.look(c, h, deep)
	faults = append(faults, more...)
	for _, fault := range faults {
		m.t.Errorf("%s: %v", c.where, fault)
	}
	if len(faults) > 0 {
		m.kept.Do(func() { m.left, m.history = left, h })
	}
	for _, again := range inner {
		m.judge(again, h, nil, false) // opening does nothing to backups
	}
}

// look opens a cut, judges it, goes on with it, and judges it again after a crash
// that loses all that was not synced. If deep, it gives the cuts of the opening.
func (m *matrix) look(c *cut, h history.History, deep bool) (inner []*cut, faults []error) {
	ctx := context.Background()
	rec := history.NewLogical(c.after)
	opts := pebblelog.Options{FS: c.fs, Now: lifetime(lives)}
	var opening *cutter
	if deep {
		opening = &cutter{fs: c.fs, rec: rec, where: c.where + "; its opening", rng: rand.New(rand.NewPCG(m.seed, uint64(c.n)))}
		opts.FS = errorfs.Wrap(c.fs, opening)
	}
	l, err := pebblelog.Open("d", opts)
	if err != nil {
		return nil, []error{fmt.Errorf("open: %w", err)}
	}
	if deep {
		inner = opening.stop()
	}
	s, faults := logtest.Judge(ctx, l, h)
	if len(faults) == 0 {
		faults = append(foldFaults(h, s), logtest.GoOn(ctx, l, h, s, rec, "after")...)
	}
	left := c.fs.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return inner, faults
	}
	if l, err = pebblelog.Open("d", pebblelog.Options{FS: left, Now: lifetime(lives)}); err != nil {
		return inner, []error{fmt.Errorf("open after the second crash: %w", err)}
	}
	_, again := logtest.Judge(ctx, l, append(slices.Clone(h), rec.History()...))
	for _, fault := range again {
		faults = append(faults, fmt.Errorf("after the second crash: %w", fault))
	}
	if err := l.Close(); err != nil {
		faults = append(faults, err)
	}
	return inner, faults
}
