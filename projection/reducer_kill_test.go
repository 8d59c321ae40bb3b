package projection_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/projection"
)

// killed is a log of which nothing more is heard from some write of derived rows
// on, which is done or not: for who writes them the process ends there.
type killed struct {
	*pebblelog.Log
	mu    sync.Mutex
	left  int // writes until then
	late  bool
	dead  chan struct{}
	ended bool
}

func (k *killed) write(do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return eventlog.ErrClosed
	}
	if k.left--; k.left > 0 {
		return do()
	}
	if k.late {
		_ = do()
	}
	k.ended = true
	close(k.dead)
	return eventlog.ErrClosed
}

func (k *killed) DerivedWrite(ctx context.Context, s eventlog.Space, b eventlog.DerivedBatch) error {
	return k.write(func() error { return k.Log.DerivedWrite(ctx, s, b) })
}

func (k *killed) DerivedDrop(ctx context.Context, s eventlog.Space) error {
	return k.write(func() error { return k.Log.DerivedDrop(ctx, s) })
}

func (k *killed) DerivedForget(ctx context.Context, owner string) error {
	return k.write(func() error { return k.Log.DerivedForget(ctx, owner) })
}

// Must hold 3: a projection that is killed before or behind any of its writes, be
// it at work, at a removal, or being made anew, has each record once when it is
// kept again.
func TestReducersAreKilled(t *testing.T) {
	for i, reducer := range all() {
		t.Run(reducer.Name, func(t *testing.T) {
			k := &kit{t: t, fs: vfs.NewMem()}
			k.open()
			defer func() { k.close() }()
			version, kills, quiet := 1, 0, 0
			for n := 1; quiet < 6; n++ {
				log := &killed{Log: k.log, left: 1 + n%5, late: n%2 == 0, dead: make(chan struct{})}
				k.say("a", "t1", fmt.Sprint(n))
				k.say("a", "t2", fmt.Sprint(n))
				k.say("b", "t1", fmt.Sprint(n))
				r := all()[i]
				if r.Version = version; n%7 == 6 {
					version++
					r.Version = version
				}
				k.reducers.Close()
				var err error
				if k.reducers, err = projection.Keep(log, []projection.Reducer{r}, projection.ReducersOptions{}); err != nil {
					t.Fatal(err)
				}
				if n%3 == 0 {
					if _, err := k.log.Clear(k.ctx, key("a", "t2"), eventlog.RemoveOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				k.say("a", "t1", "while it is at work")
				caughtUp, cancel := context.WithCancel(k.ctx)
				go func() {
					defer cancel()
					_ = k.projection(r.Name).WaitFor(k.ctx, k.log.Watermark())
				}()
				select {
				case <-log.dead:
					kills++
				case <-caughtUp.Done():
					quiet++ // there was less to write
				}
				k.reducers.Close()
				<-caughtUp.Done()
				k.keep(r)
				k.check("a", "b")
				if t.Failed() {
					t.Fatalf("killed at write %d, done: %v", 1+n%5, log.late)
				}
				if n == 60 {
					break
				}
			}
			if kills < 20 {
				t.Errorf("it was killed only %d times", kills)
			}
		})
	}
}

// Rows that are lost while their projection is not looking, as by a repair, are
// made anew when there is something to add to them; those of a thread also when
// somebody asks.
func TestLostRowsAreMadeAnew(t *testing.T) {
	k := newKit(t, all()...)
	for i := range 3 {
		k.say("a", "t1", fmt.Sprint(i))
		k.say("a", "t2", fmt.Sprint(i))
	}
	k.catchUp()
	for _, lost := range []eventlog.Space{
		{Scope: "a", Thread: "t1", Owner: "p:list#1"}, {Scope: "a", Owner: "p:totals#1"}, {Scope: "a", Owner: "p:told#1"},
	} {
		if err := k.log.DerivedDrop(k.ctx, lost); err != nil {
			t.Fatal(err)
		}
	}
	want := ""
	for _, r := range k.records(key("a", "t1")) {
		want += line(r)
	}
	if s, err := k.projection("list").State(k.ctx, "a", "t1"); err != nil || string(s.Value) != want {
		t.Errorf("asked for: %q, %v", s.Value, err)
	}
	k.say("a", "t2", "next")
	k.check("a")
}

// A new version takes over where all is in it that was there when it began, and
// not before.
func TestNewVersionOfManyCommits(t *testing.T) {
	k := newKit(t, listing(1))
	const commits = 2500
	for range commits {
		k.append("a", "t", `{"type":"CUSTOM","name":"x"}`)
	}
	k.catchUp()
	k.reducers.Close()
	second := listing(2)
	reduce, reached, gate := second.Reduce, make(chan uint64, commits), make(chan struct{})
	second.Reduce = func(state []byte, in projection.Input) ([]byte, error) {
		if in.Seq%1100 == 0 {
			reached <- in.Seq
			<-gate
		}
		return reduce(state, in)
	}
	k.keep(second)
	for range 2 {
		<-reached
		s, err := k.projection("list").State(k.ctx, "a", "t")
		if err != nil || s.Version != 1 || s.Position < commits {
			t.Errorf("version %d at %d, %v", s.Version, s.Position, err)
		}
		if st := k.projection("list").Status(); !st.Building || st.Position >= st.Target || st.Target != commits {
			t.Errorf("status %+v", st)
		}
		gate <- struct{}{}
	}
	k.check("a")
	if s, err := k.projection("list").State(k.ctx, "a", "t"); err != nil || s.Version != 2 {
		t.Errorf("version %d, %v", s.Version, err)
	}
}

// A process that ends between the writes by which a state is made anew leaves
// nothing of before for who waits.
func TestKilledBeforeAStateIsMadeAnew(t *testing.T) {
	k := &kit{t: t, fs: vfs.NewMem()}
	k.open(totals())
	k.say("a", "t1", "stays")
	k.say("a", "t2", "goes")
	k.catchUp()
	k.reducers.Close()
	if _, err := k.log.Clear(k.ctx, key("a", "t2"), eventlog.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	for writes := 1; writes <= 4; writes++ {
		log := &killed{Log: k.log, left: writes, late: true, dead: make(chan struct{})}
		var err error
		if k.reducers, err = projection.Keep(log, []projection.Reducer{totals()}, projection.ReducersOptions{}); err != nil {
			t.Fatal(err)
		}
		if writes < 4 {
			<-log.dead
		}
		k.reducers.Close()
		// Whoever opens it next and waits sees nothing of before.
		k.keep(totals())
		if err := k.projection("totals").WaitFor(k.ctx, k.log.Watermark()); err != nil {
			t.Fatal(err)
		}
		for _, fault := range k.faults("a") {
			t.Error(fault)
		}
		k.reducers.Close()
		if _, err := k.log.Clear(k.ctx, key("a", "t2"), eventlog.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	k.keep()
	k.close()
}
