package pebblelog_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/logtest"
	"github.com/agstore/agstore/eventlog/pebblelog"
)

// atSyncs copies the disk at every sync, as a power cut would leave it.
type atSyncs struct {
	fs *vfs.MemFS

	mu   sync.Mutex
	rng  *rand.Rand
	step int // what was acknowledged so far
	cuts []syncCut
	done bool
}

type syncCut struct {
	fs   *vfs.MemFS
	step int
}

func (c *atSyncs) String() string { return "atSyncs" }

// MaybeError implements [errorfs.Injector].
func (c *atSyncs) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, percent := range []int{0, 50, 100} {
			if !c.done {
				c.cuts = append(c.cuts, syncCut{c.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.rng}), c.step})
			}
		}
	}
	return nil
}

func (c *atSyncs) acknowledged(step int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step = step
}

func (c *atSyncs) stop() []syncCut {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	return c.cuts
}

// handTime is a clock for logs whose timers never fire.
type handTime struct {
	mu sync.Mutex
	at time.Time
}

func (c *handTime) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *handTime) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func never(time.Duration) (<-chan time.Time, func() bool) { return nil, func() bool { return true } }

// stateOf is all that can be seen of a thread, in words.
func stateOf(t *testing.T, l *pebblelog.Log, k eventlog.ThreadKey) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	if _, err := l.Thread(ctx, k); err != nil {
		return "none"
	}
	for r, err := range l.Read(ctx, k, eventlog.ReadOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %s %v %s\n", r.Seq, r.Run, r.Origin, r.Event)
	}
	for e, err := range l.Companion(ctx, k, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %s %s\n", e.Seq, e.Kind, e.Body)
	}
	runs, err := l.Runs(ctx, k)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		fmt.Fprintf(&b, "run %s %v held %v by %s epoch %d\n", r.Key, r.Status, r.Held, r.Owner, r.Epoch)
	}
	return b.String()
}

// Leases and companion entries at every sync point: what is found after a power
// cut is what was acknowledged, or that and the one step that was under way; and
// no lease ends before the time that its holder was told.
func TestLeasesAtEverySync(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewCrashableMem()
	const ttl = 30 * time.Second
	clock := &handTime{at: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	cutter := &atSyncs{fs: fs, rng: rand.New(rand.NewPCG(1, 2)), step: -1}
	l, err := pebblelog.Open("d", pebblelog.Options{FS: errorfs.Wrap(fs, cutter), Now: clock.now, After: never})
	if err != nil {
		t.Fatal(err)
	}
	k := eventlog.ThreadKey{Scope: "s", Thread: "t"}
	var w eventlog.Writer
	begin := func(run string, over bool) (err error) {
		w, err = l.BeginRun(ctx, k, eventlog.RunStart{
			Started: fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":%q}`, run), TakeOver: over,
			Holder: eventlog.Holder{Owner: "for " + run, TTL: ttl},
		})
		return err
	}
	write := func(event string) error {
		lease := w.Lease()
		_, err := l.Append(ctx, k, eventlog.Batch{Events: [][]byte{[]byte(event)}, Key: event, Lease: &lease})
		if err == nil {
			w, err = l.Attach(ctx, lease)
		}
		return err
	}
	keep := func(body string) error {
		_, err := l.AppendCompanion(ctx, k, eventlog.CompanionBatch{Entries: []eventlog.Entry{{Kind: "a", Body: []byte(body)}, {Kind: "b"}}, Key: body})
		return err
	}
	renew := func() error {
		clock.set(clock.now().Add(20 * time.Second))
		_, err := w.Renew(ctx)
		return err
	}
	take := func() (err error) {
		w, err = l.TakeRun(ctx, k, w.Lease().Run, eventlog.Holder{Owner: "another", TTL: ttl})
		return err
	}
	states := []string{"none"}    // after each step; the first: before them
	told := []time.Time{clock.at} // up to when nothing has expired
	for i, step := range []func() error{
		func() error { return keep("first") },
		func() error { return begin("a", false) },
		func() error { return write(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`) },
		renew,
		func() error { return keep("second") },
		renew,
		take,
		func() error { return write(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`) },
		renew,
		func() error { return begin("b", true) },
		func() error { return w.End(ctx, "STOP", "") },
		func() error { return begin("c", false) },
		renew,
		func() error {
			clock.set(clock.now().Add(ttl))
			_, err := l.Append(ctx, k, eventlog.Batch{}) // finds that the lease has expired, and writes nothing else
			return err
		},
		func() error { return keep("third") },
		func() error { return begin("d", false) },
		take,
	} {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		states = append(states, stateOf(t, l, k))
		until := clock.now()
		if strings.Contains(states[i+1], "held true") {
			until = w.Lease().Expires.Add(-time.Microsecond)
		}
		told = append(told, until)
		cutter.acknowledged(i)
	}
	cuts := cutter.stop()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if len(cuts) < 3*len(states) {
		t.Fatalf("%d cuts", len(cuts))
	}
	seen := make(map[int]bool)
	for n, cut := range cuts {
		at := &handTime{at: told[cut.step+1]}
		l, err := pebblelog.Open("d", pebblelog.Options{FS: cut.fs, Now: at.now, After: never})
		if err != nil {
			t.Fatalf("cut %d: %v", n, err)
		}
		for _, fault := range logtest.Check(ctx, l) {
			t.Errorf("cut %d: %v", n, fault)
		}
		got := stateOf(t, l, k)
		allowed := states[cut.step+1 : min(cut.step+3, len(states))]
		if !slices.Contains(allowed, got) {
			t.Errorf("cut %d after step %d:\n%s\nacknowledged was\n%s", n, cut.step, got, states[cut.step+1])
		}
		seen[slices.Index(states, got)] = true
		// A second life: every lease runs out, once.
		at.set(at.now().Add(2 * ttl))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var after string
		for range 2 {
			if l, err = pebblelog.Open("d", pebblelog.Options{FS: cut.fs, Now: at.now, After: never}); err != nil {
				t.Fatal(err)
			}
			again := stateOf(t, l, k)
			if strings.Contains(again, "held true") || strings.Contains(again, "running") || after != "" && again != after {
				t.Errorf("cut %d: in the life after:\n%s", n, again)
			}
			after = again
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(seen) < len(states)/2 {
		t.Errorf("the cuts lie in %d of %d states", len(seen), len(states))
	}
}

// Recovery that is cut at any sync point is finished by the next one: each run
// gets each end once, in one commit of its thread.
func TestRecoveryAtEverySync(t *testing.T) {
	ctx, fs := context.Background(), vfs.NewCrashableMem()
	const ttl = 30 * time.Second
	clock := &handTime{at: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	open := func(fs vfs.FS) *pebblelog.Log {
		t.Helper()
		l, err := pebblelog.Open("d", pebblelog.Options{FS: fs, Now: clock.now, After: never})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open(fs)
	key := func(i int) eventlog.ThreadKey { return eventlog.ThreadKey{Scope: "s", Thread: fmt.Sprint(i)} }
	const threads = 6
	root := agui.RunKey{}
	for i := range threads {
		// Two runs at once in each thread; of the odd ones, one is of elsewhere.
		for n, id := range []string{"a", "b"} {
			start := eventlog.RunStart{Started: fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":%q}`, id), Parent: &root}
			if i%2 == 1 && n == 1 {
				start.Holder.TTL = ttl
			}
			w, err := l.BeginRun(ctx, key(i), start)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range []string{
				`{"type":"SUBAGENT_STARTED","subagentRunId":"sub"}`, `{"type":"STEP_STARTED","stepName":"s"}`,
				`{"type":"REASONING_START","messageId":"r"}`, `{"type":"REASONING_MESSAGE_START","messageId":"rm"}`,
				`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`,
			} {
				if _, err := w.Append(ctx, []byte(e)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	left := fs.CrashClone(vfs.CrashCloneCfg{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	clock.set(clock.now().Add(2 * ttl))
	check := func(what string, l *pebblelog.Log) {
		t.Helper()
		for _, fault := range logtest.Check(ctx, l) {
			t.Errorf("%s: %v", what, fault)
		}
		for i := range threads {
			ends := make(map[string]map[agui.Type]int)
			positions := make(map[string]map[uint64]bool)
			for r, err := range l.Read(ctx, key(i), eventlog.ReadOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if r.Origin != eventlog.OriginStore || r.Type == agui.TypeRunStarted {
					continue
				}
				if ends[r.Run.ID] == nil {
					ends[r.Run.ID], positions[r.Run.ID] = make(map[agui.Type]int), make(map[uint64]bool)
				}
				ends[r.Run.ID][r.Type]++
				positions[r.Run.ID][r.Position] = true
			}
			for _, id := range []string{"a", "b"} {
				want := map[agui.Type]int{
					agui.TypeTextMessageEnd: 1, agui.TypeReasoningMessageEnd: 1, agui.TypeReasoningEnd: 1, agui.TypeToolCallEnd: 1,
					agui.TypeStepFinished: 1, agui.TypeSubagentError: 1, agui.TypeRunError: 1,
				}
				if got := ends[id]; fmt.Sprint(got) != fmt.Sprint(want) || len(positions[id]) != 1 {
					t.Errorf("%s: thread %d run %s: ends %v by %d commits", what, i, id, got, len(positions[id]))
				}
			}
		}
	}
	cutter := &atSyncs{fs: left, rng: rand.New(rand.NewPCG(3, 4))}
	l = open(errorfs.Wrap(left, cutter))
	cuts := cutter.stop()
	check("whole", l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if len(cuts) < 6 {
		t.Fatalf("%d cuts", len(cuts))
	}
	for n, cut := range cuts {
		l := open(cut.fs)
		check(fmt.Sprint("cut ", n), l)
		mark := l.Watermark()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(cut.fs)
		if l.Watermark() != mark {
			t.Errorf("cut %d: closed again", n)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
