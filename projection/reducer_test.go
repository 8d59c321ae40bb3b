package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/projection"
)

// A projection has each record once, of each thread and over all of a scope, as
// commits arrive and when it is kept again, and who has written can wait for it.
func TestReducers(t *testing.T) {
	k := newKit(t, all()...)
	for i := range 5 {
		for _, scope := range []string{"a", "b"} {
			k.say(scope, "t1", fmt.Sprint(i))
			done := k.say(scope, "t2", fmt.Sprint(i))
			p := k.projection("list")
			if err := p.WaitFor(k.ctx, done.Position); err != nil {
				t.Fatal(err)
			}
			if s, err := p.State(k.ctx, scope, "t2"); err != nil || !bytes.HasPrefix(s.Value[bytes.LastIndexByte(s.Value[:len(s.Value)-1], '\n')+1:], fmt.Appendf(nil, "%d:", done.Last)) || s.Position < done.Position || s.Version != 1 {
				t.Fatalf("one's own write is not in %q (%d), %v", s.Value, s.Position, err)
			}
		}
		k.check("a", "b")
		k.close()
		k.open(all()...)
		k.check("a", "b")
	}
	if s, err := k.projection("totals").State(k.ctx, "none", ""); err != nil || s.Value != nil {
		t.Errorf("the state of a scope without threads: %+v, %v", s, err)
	}
	if _, err := k.projection("list").State(k.ctx, "a", "none"); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("the state of no thread: %v", err)
	}
	for _, err := range []error{
		second(k.projection("list").State(k.ctx, "a", "")), second(k.projection("totals").State(k.ctx, "a", "t1")),
		second(k.projection("told").State(k.ctx, "a", "")), second(k.projection("totals").State(k.ctx, "", "")),
	} {
		if !errors.Is(err, eventlog.ErrInvalid) {
			t.Errorf("a state that cannot be: %v", err)
		}
	}
	if _, err := k.reducers.Get("none"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("no such projection: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// What was removed is in no state any more.
func TestReducersAndRemovals(t *testing.T) {
	for _, kind := range []eventlog.Removal{eventlog.RemovalErase, eventlog.RemovalClear, eventlog.RemovalRedact} {
		t.Run(kind.String(), func(t *testing.T) {
			k := newKit(t, all()...)
			for _, thread := range []string{"t1", "t2", "t3"} {
				k.say("a", thread, map[bool]string{true: "gone", false: "stays"}[thread == "t2"])
				k.say("a", thread, "more")
			}
			k.check("a")
			k.remove(kind, "a", "t2")
			for _, p := range k.reducers.All() {
				if !p.Status().Global {
					continue
				}
				for row, err := range p.Rows(k.ctx, "a", "", "") { // at once, without waiting
					if err != nil || strings.Contains(string(row.Value), "gone") {
						t.Errorf("%s has %s %s, %v", p.Status().Name, row.Key, row.Value, err)
					}
				}
			}
			k.check("a")
			if kind == eventlog.RemovalErase {
				if _, err := k.projection("list").State(k.ctx, "a", "t2"); !errors.Is(err, eventlog.ErrErased) {
					t.Errorf("the state of an erased thread: %v", err)
				}
			} else {
				k.say("a", "t2", "again")
			}
			k.say("a", "t1", "after")
			k.check("a")
			k.close()
			k.open(all()...)
			k.check("a")
		})
	}
}

// Whatever is done, states are what the log says; also while projections are
// stopped, begun anew and made of a new version.
func TestReducersModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := &kit{t: t, fs: vfs.NewMem()}
		k.open(all()...)
		defer func() { k.close() }()
		version := 1
		pick := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(rt, what) }
		thread := func() (string, string) { return pick("scope", "a", "b"), pick("thread", "t1", "t2", "t3") }
		exists := func(scope, thread string) bool {
			_, err := k.log.Thread(k.ctx, key(scope, thread))
			return err == nil
		}
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			scope, th := thread()
			switch op := rapid.IntRange(0, 19).Draw(rt, "op"); {
			case op == 0 && exists(scope, th):
				k.remove(eventlog.RemovalErase, scope, th)
			case op == 1 && exists(scope, th):
				k.remove(eventlog.RemovalClear, scope, th)
			case op == 2 && exists(scope, th):
				k.remove(eventlog.RemovalRedact, scope, th)
			case op == 3:
				k.close()
				k.open(append([]projection.Reducer{listing(version)}, all()[1:]...)...)
			case op == 4:
				version++
				k.reducers.Close()
				k.keep(append([]projection.Reducer{listing(version)}, all()[1:]...)...)
			case op == 5:
				if err := k.projection(pick("name", "list", "totals", "told")).Rebuild(k.ctx, nil); err != nil {
					rt.Fatal(err)
				}
			case op == 6:
				k.catchUp()
			default:
				_, err := k.log.Append(k.ctx, key(scope, th), eventlog.Batch{Events: [][]byte{
					[]byte(`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"user"}`), []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"secret"}`),
				}})
				if err != nil && !errors.Is(err, eventlog.ErrErased) {
					rt.Fatal(err)
				}
			}
			if rapid.IntRange(0, 3).Draw(rt, "look") == 0 {
				k.catchUp()
				if faults := append(k.faults("a"), k.faults("b")...); len(faults) > 0 {
					rt.Fatal(faults)
				}
			}
		}
		k.catchUp()
		if faults := append(k.faults("a"), k.faults("b")...); len(faults) > 0 {
			rt.Fatal(faults)
		}
	})
}

// gated is a reducer that waits, at each record, until it is let go.
func gated(version int, gate <-chan struct{}) projection.Reducer {
	r := listing(version)
	reduce := r.Reduce
	r.Reduce = func(state []byte, in projection.Input) ([]byte, error) {
		<-gate
		if len(state) == 0 {
			state = fmt.Appendf(nil, "version %d\n", version)
		}
		return reduce(state, in)
	}
	return r
}

// While a new version is built, the old answers are given; then its rows are
// gone.
func TestNewVersionInTheBackground(t *testing.T) {
	open := make(chan struct{})
	close(open)
	for name, reducer := range map[string]func(version int, gate <-chan struct{}) projection.Reducer{"PerThread": gated, "Global": func(version int, gate <-chan struct{}) projection.Reducer {
		r := gated(version, gate)
		r.Global = true
		return r
	}} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, reducer(1, open))
			k.say("a", "t", "one")
			k.catchUp()
			thread := "t"
			if name == "Global" {
				thread = ""
			}
			k.reducers.Close()
			gate := make(chan struct{})
			k.keep(reducer(2, gate))
			p := k.projection("list")
			for range 3 {
				s, err := p.State(k.ctx, "a", thread)
				if err != nil || s.Version != 1 || !strings.HasPrefix(string(s.Value), "version 1\n1:") {
					t.Fatalf("while the next version is built: %+v, %v", s, err)
				}
				if st := p.Status(); !st.Building || st.Serving != 1 || st.Version != 2 {
					t.Fatalf("status %+v", st)
				}
				gate <- struct{}{} // one record
			}
			close(gate)
			k.catchUp()
			s, err := p.State(k.ctx, "a", thread)
			if err != nil || s.Version != 2 || strings.Count(string(s.Value), "\n") != 4 || !strings.HasPrefix(string(s.Value), "version 2\n1:") {
				t.Fatalf("the new version: %+v, %v", s, err)
			}
			if st := p.Status(); st.Building || st.Serving != 2 {
				t.Errorf("status %+v", st)
			}
			var steps []projection.Status
			if err := p.Rebuild(k.ctx, func(st projection.Status) { steps = append(steps, st) }); err != nil {
				t.Fatal(err)
			}
			if len(steps) < 2 || !steps[0].Building || steps[len(steps)-1].Building {
				t.Errorf("progress %+v", steps)
			}
			k.say("a", "t", "two")
			k.catchUp()
			// Only what is answered from has rows.
			for _, at := range []eventlog.Space{{Scope: "a", Thread: "t"}, {Scope: "a"}, {}} {
				for s, err := range k.log.DerivedSpaces(k.ctx, at.Scope, at.Thread) {
					if err != nil || s.Space.Owner != "p:list#3" && s.Space.Owner != "p:list" {
						t.Errorf("left: %+v, %v", s, err)
					}
				}
			}
		})
	}
}

// A first build that is under way has no answers yet, and says so.
func TestFirstBuild(t *testing.T) {
	k := newKit(t)
	k.say("a", "t", "one")
	gate := make(chan struct{})
	k.keep(gated(1, gate))
	p := k.projection("list")
	if s, err := p.State(k.ctx, "a", "t"); !errors.Is(err, projection.ErrBuilding) {
		t.Errorf("%+v, %v", s, err)
	}
	ended, cancel := context.WithCancel(k.ctx)
	cancel()
	if err := p.WaitFor(ended, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was given up: %v", err)
	}
	close(gate)
	k.catchUp()
	if s, err := p.State(k.ctx, "a", "t"); err != nil || len(s.Value) == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A reducer that fails or panics stops its projection and no other, says where, and
// goes on at that very record once it can.
func TestReducerFails(t *testing.T) {
	cause := errors.New("no such word")
	for _, test := range []struct {
		name   string
		global bool
		fail   func()
	}{{"Error", false, nil}, {"Panic", false, func() { panic("word") }}, {"GlobalError", true, nil}, {"GlobalPanic", true, func() { panic("word") }}} {
		t.Run(test.name, func(t *testing.T) {
			k := newKit(t)
			var mu sync.Mutex
			broken := true
			bad := listing(1)
			bad.Name, bad.Global = "bad", test.global
			reduce := bad.Reduce
			bad.Reduce = func(state []byte, in projection.Input) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				if broken && bytes.Contains(in.Event, []byte("poison")) {
					if test.fail != nil {
						test.fail()
					}
					return nil, cause
				}
				return reduce(state, in)
			}
			told := make(chan error, 4)
			var err error
			if k.reducers, err = projection.Keep(k.log, []projection.Reducer{bad, listing(1)}, projection.ReducersOptions{
				Failed: func(_ string, err error) { told <- err },
			}); err != nil {
				t.Fatal(err)
			}
			k.say("a", "t", "fine")
			k.catchUp()
			done := k.say("a", "t", "poison")
			err = <-told
			waited := k.projection("bad").WaitFor(k.ctx, done.Position)
			for _, err := range []error{err, waited} {
				var why *projection.ReducerError
				if !errors.As(err, &why) || why.Projection != "bad" || why.Seq != done.First+1 || why.Thread != key("a", "t") || why.Position != done.Position {
					t.Errorf("it stopped with %v", err)
				}
				if test.fail == nil && !errors.Is(err, cause) || test.fail != nil && why.Panic != "word" {
					t.Errorf("the cause is %v", err)
				}
			}
			thread := "t"
			if test.global {
				thread = ""
			}
			s, err := k.projection("bad").State(k.ctx, "a", thread)
			if err != nil || strings.Count(string(s.Value), "\n") != 3 {
				t.Errorf("where it stopped: %q, %v", s.Value, err)
			}
			if err := k.projection("list").WaitFor(k.ctx, done.Position); err != nil {
				t.Errorf("another projection: %v", err)
			}
			k.remove(eventlog.RemovalRedact, "a", "t")
			mu.Lock()
			broken = false
			mu.Unlock()
			k.reducers.Close()
			k.keep(bad, listing(1))
			k.catchUp()
			want := ""
			for _, r := range k.records(key("a", "t")) {
				want += line(r)
			}
			if s, err := k.projection("bad").State(k.ctx, "a", thread); err != nil || string(s.Value) != want {
				t.Errorf("when it was mended: %q, %v, want %q", s.Value, err, want)
			}
		})
	}
}

// A projection that has stopped is tried again by a rebuild.
func TestRebuildOfAStopped(t *testing.T) {
	k := newKit(t)
	var mu sync.Mutex
	broken := true
	bad := listing(1)
	reduce := bad.Reduce
	bad.Reduce = func(state []byte, in projection.Input) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			return nil, errors.New("not yet")
		}
		return reduce(state, in)
	}
	k.keep(bad)
	done := k.say("a", "t", "x")
	p := k.projection("list")
	var why *projection.ReducerError
	if err := p.WaitFor(k.ctx, done.Position); !errors.As(err, &why) {
		t.Fatal(err)
	}
	if err := p.Rebuild(k.ctx, nil); !errors.As(err, &why) {
		t.Errorf("still broken: %v", err)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	if err := p.Rebuild(k.ctx, nil); err != nil {
		t.Fatal(err)
	}
	k.check("a")
}

// What cannot be kept is refused.
func TestReducersRefused(t *testing.T) {
	k := newKit(t)
	both := listing(1)
	both.Rows = told().Rows
	neither := listing(1)
	neither.Reduce = nil
	named := listing(1)
	named.Name = "a#1"
	ignoring := listing(1)
	ignoring.Removals = projection.RemovalsIgnored
	for i, bad := range [][]projection.Reducer{{both}, {neither}, {named}, {listing(0)}, {ignoring}, {listing(1), listing(2)}, {{}}} {
		if _, err := projection.Keep(k.log, bad, projection.ReducersOptions{}); !errors.Is(err, eventlog.ErrInvalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A store that is read only answers from what is stored.
func TestReducersReadOnly(t *testing.T) {
	dir := t.TempDir()
	open := func(open func(string, pebblelog.Options) (*pebblelog.Log, error)) *kit {
		log, err := open(dir, pebblelog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return &kit{t: t, ctx: context.Background(), log: log}
	}
	k := open(pebblelog.Open)
	k.keep(all()...)
	k.say("a", "t", "x")
	k.catchUp()
	k.close()
	k = open(pebblelog.OpenReadOnly)
	var err error
	if k.reducers, err = projection.Keep(k.log, all(), projection.ReducersOptions{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer k.close()
	for _, fault := range k.faults("a") {
		t.Error(fault)
	}
	p := k.projection("list")
	if err := p.WaitFor(k.ctx, 99); !errors.Is(err, eventlog.ErrReadOnly) {
		t.Errorf("wait: %v", err)
	}
	if err := p.Rebuild(k.ctx, nil); !errors.Is(err, eventlog.ErrReadOnly) {
		t.Errorf("rebuild: %v", err)
	}
}

// watched counts what is written at once.
type watched struct {
	*pebblelog.Log
	mu            sync.Mutex
	most, batches int
}

func (w *watched) DerivedWrite(ctx context.Context, s eventlog.Space, b eventlog.DerivedBatch) error {
	size := 0
	for _, c := range b.Changes {
		size += len(c.Key) + len(c.Value)
	}
	w.mu.Lock()
	w.most, w.batches = max(w.most, size), w.batches+1
	w.mu.Unlock()
	return w.Log.DerivedWrite(ctx, s, b)
}

// What is changed in memory is bounded, however long a thread is, and a thread that
// gets many commits is written once for many of them.
func TestReducersAreBounded(t *testing.T) {
	for _, global := range []bool{false, true} {
		k := newKit(t)
		const commits = 200
		for range commits {
			k.say("a", "t", "x")
		}
		w := &watched{Log: k.log}
		wide := projection.Reducer{Name: "wide", Version: 1, Global: global, Rows: func(rows *projection.Rows, in projection.Input) error {
			rows.Put(fmt.Sprint(in.Seq), make([]byte, 50_000))
			return nil
		}}
		var err error
		if k.reducers, err = projection.Keep(w, []projection.Reducer{wide, listing(1)}, projection.ReducersOptions{}); err != nil {
			t.Fatal(err)
		}
		k.catchUp()
		k.reducers.Close()
		if w.most > 5<<20 || w.batches > 30 {
			t.Errorf("%d bytes at once, %d writes for %d commits", w.most, w.batches, commits)
		}
		thread := "t"
		if global {
			thread = ""
		}
		n := 0
		for _, err := range k.projection("wide").Rows(k.ctx, "a", thread, "") {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != 3*commits {
			t.Errorf("%d rows", n)
		}
	}
}
