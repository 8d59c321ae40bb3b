package logtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// RunModel does random things to a log and to a model of it in memory, and wants
// the same answers, errors with what they say included, and the same log in the
// end, whatever crashed or was opened again on the way.
func RunModel(t *testing.T, factory func(t *testing.T) Factory) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := newClock()
		c := &modelCheck{
			t: t, rt: rt, ctx: context.Background(), clock: clock,
			place: &place{factory: factory(t), t: t, config: Config{Now: clock.now, After: neverFires}},
			model: &model{now: clock.now},
		}
		c.place.open()
		defer func() {
			if c.place.log != nil {
				c.place.log.Close()
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"append": c.append, "import": c.append, "append more": c.append, "begin": c.begin, "begin more": c.begin,
			"write": c.write, "write more": c.write, "end": c.end, "take": c.take, "note": c.note, "read": c.read,
			"attach": c.attach, "append under a lease": c.appendLeased, "renew": c.renew,
			"clear": c.clear, "erase": c.erase, "redact": c.redact, "plan": c.plan,
			"advance": c.advance, "reopen": c.reopen, "crash": c.crash, "": c.same,
		})
		for _, fault := range Check(c.ctx, c.place.log) {
			rt.Error(fault)
		}
	})
}

// neverFires is a timer for logs that are told when to look at the time.
func neverFires(time.Duration) (<-chan time.Time, func() bool) {
	return nil, func() bool { return true }
}

// modelCheck is one random walk.
type modelCheck struct {
	t       *testing.T
	rt      *rapid.T
	ctx     context.Context
	clock   *clock
	place   *place
	model   *model
	writers []heldModel
	leases  []modelWriter // all that were ever given
	n       int
	changed bool // something has happened since the whole was compared
}

// heldModel is a writer with its model.
type heldModel struct {
	writer eventlog.Writer
	model  modelWriter
	over   bool // it has ended its run, or was refused
}

var (
	modelKeys = []eventlog.ThreadKey{
		{Scope: "a", Thread: "t"}, {Scope: "a", Thread: "u"}, {Scope: "b", Thread: "t"}, {Scope: "a", Thread: "tt"},
	}
	modelIDs = []string{"p", "q", "r", "s"}
)

func draw[T any](rt *rapid.T, what string, from []T) T { return rapid.SampledFrom(from).Draw(rt, what) }

func maybe(rt *rapid.T, what string, of int) bool { return rapid.IntRange(1, of).Draw(rt, what) == 1 }

// event draws an event: for a raw append also the starts of runs.
func (c *modelCheck) event(rt *rapid.T) modelEvent {
	c.n++
	e := modelEvent{n: c.n, typ: draw(rt, "type", []agui.Type{
		agui.TypeCustom, agui.TypeRunStarted, agui.TypeRunFinished, agui.TypeRunError,
		agui.TypeTextMessageStart, agui.TypeTextMessageContent, agui.TypeTextMessageEnd,
	})}
	id := draw(rt, "run id", modelIDs)
	switch e.typ {
	case agui.TypeRunStarted:
		e.run = &id
		if maybe(rt, "names its parent", 3) {
			parent := draw(rt, "parent id", append(modelIDs, agui.RootParent, "nobody"))
			e.parent = &parent
		}
	case agui.TypeRunFinished, agui.TypeRunError, agui.TypeCustom:
		if maybe(rt, "names its run", 2) {
			e.run = &id
		}
	default:
		e.message = draw(rt, "message", []string{"m", "n"})
	}
	return e
}

func (c *modelCheck) events(rt *rapid.T, least int) (out []modelEvent, bytes [][]byte) {
	for range rapid.IntRange(least, 4).Draw(rt, "events") {
		e := c.event(rt)
		out, bytes = append(out, e), append(bytes, e.raw())
	}
	return out, bytes
}

// expect draws a condition, which holds more often than not.
func (c *modelCheck) expect(rt *rapid.T, last uint64) (*uint64, eventlog.Expect) {
	if !maybe(rt, "conditional", 4) {
		return nil, eventlog.Expect{}
	}
	if maybe(rt, "wrong", 3) {
		last += 1
	}
	return &last, eventlog.LastSeq(last)
}

// runOf draws the key of a run, known or not.
func (c *modelCheck) runOf(rt *rapid.T, k eventlog.ThreadKey) agui.RunKey {
	if t := c.model.find(k); t != nil && len(t.runs) > 0 && !maybe(rt, "unknown run", 6) {
		return draw(rt, "run", t.runs).Key
	}
	return agui.RunKey{ID: "nobody", Attempt: 1}
}

func (c *modelCheck) parent(rt *rapid.T, k eventlog.ThreadKey) *agui.RunKey {
	if !maybe(rt, "explicit parent", 3) {
		return nil
	}
	var parent agui.RunKey
	if !maybe(rt, "root", 4) {
		parent = c.runOf(rt, k)
	}
	return &parent
}

// answers wants the same answer and the same error of both.
func (c *modelCheck) answers(rt *rapid.T, what string, got, want any, err, wantErr error) {
	rt.Helper()
	c.changed = true
	if !sameError(err, wantErr) {
		rt.Fatalf("%s: error %v, want %v", what, err, wantErr)
	}
	if wantErr == nil && got != want {
		rt.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

// sameError compares kinds and, of the typed ones, what the model knows.
func sameError(got, want error) bool {
	if want == nil || got == nil {
		return got == nil && want == nil
	}
	switch want := want.(type) {
	case *eventlog.ConflictError:
		var e *eventlog.ConflictError
		return errors.As(got, &e) && *e == *want
	case *eventlog.KeyConflictError:
		var e *eventlog.KeyConflictError
		return errors.As(got, &e) && *e == *want
	case *eventlog.KeyErasedError:
		var e *eventlog.KeyErasedError
		return errors.Is(got, eventlog.ErrErased) && errors.As(got, &e) && *e == *want
	case *eventlog.ErasedError:
		var e *eventlog.ErasedError
		return errors.Is(got, eventlog.ErrErased) && errors.As(got, &e) && *e == *want
	case *eventlog.GapError:
		var e *eventlog.GapError
		return errors.Is(got, eventlog.ErrGap) && errors.As(got, &e) && *e == *want
	case *eventlog.RunActiveError:
		var e *eventlog.RunActiveError
		return errors.As(got, &e) && e.Run == want.Run
	case *eventlog.RunExistsError:
		var e *eventlog.RunExistsError
		return errors.As(got, &e) && e.Run == want.Run && e.Status == want.Status
	case *eventlog.FencedError:
		var e *eventlog.FencedError
		// A writer may answer with what first fenced it.
		return errors.Is(got, eventlog.ErrFenced) && errors.As(got, &e) && e.Run == want.Run && e.Epoch == want.Epoch && (e.Current > e.Epoch) == (want.Current > want.Epoch)
	}
	return errors.Is(got, want)
}

func (c *modelCheck) append(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	b := modelBatch{origin: draw(rt, "origin", []eventlog.Origin{eventlog.OriginAppend, eventlog.OriginImport})}
	var events [][]byte
	b.events, events = c.events(rt, 0)
	if maybe(rt, "explicit run", 4) {
		b.run = c.runOf(rt, k)
	}
	b.parent = c.parent(rt, k)
	var expect eventlog.Expect
	b.expect, expect = c.expect(rt, c.model.find(k).lastSeq())
	if maybe(rt, "with a key", 3) {
		b.key = draw(rt, "key", []string{"k", "l"})
	}
	for again := true; again; again = b.key != "" && maybe(rt, "again", 2) {
		want, wantErr := c.model.append(k, b)
		got, err := c.place.log.Append(c.ctx, k, eventlog.Batch{Events: events, Origin: b.origin, Run: b.run, Parent: b.parent, Expect: expect, Key: b.key})
		c.answers(rt, fmt.Sprintf("append %q", events), got, want, err, wantErr)
	}
}

func (c *modelCheck) begin(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	c.n++
	id := draw(rt, "run id", append([]string{fmt.Sprint("w", c.n), fmt.Sprint("w", c.n)}, modelIDs...))
	e := modelEvent{typ: agui.TypeRunStarted, run: &id, n: c.n}
	if maybe(rt, "names its parent", 4) {
		parent := draw(rt, "parent id", modelIDs)
		e.parent = &parent
	}
	parent, over, holder := c.parent(rt, k), maybe(rt, "take over", 4), c.holder(rt)
	limit, expect := c.expect(rt, c.model.find(k).lastSeq())
	run, first, epoch, wantErr := c.model.begin(k, e, parent, limit, over, holder)
	w, err := c.place.log.BeginRun(c.ctx, k, eventlog.RunStart{Started: e.raw(), Parent: parent, Expect: expect, TakeOver: over, Holder: holder})
	c.answers(rt, "begin", nil, nil, err, wantErr)
	if err != nil {
		return
	}
	if l := w.Lease(); l.Run != run || l.Epoch != epoch || w.First() != first {
		rt.Fatalf("begin: %+v from %d, want %v under %d from %d", l, w.First(), run, epoch, first)
	}
	c.given(w, modelWriter{key: k, run: run, epoch: epoch})
}

// write writes through one of the leases that were given, at once or piped.
func (c *modelCheck) write(rt *rapid.T) {
	if len(c.writers) == 0 {
		return
	}
	w := &c.writers[rapid.IntRange(0, len(c.writers)-1).Draw(rt, "writer")]
	events, bytes := c.events(rt, 1)
	want, wantErr := c.model.writeLeased(w.model, events)
	if wantErr == nil && maybe(rt, "piped", 3) {
		err := w.writer.Enqueue(c.ctx, bytes...)
		if err == nil {
			var last uint64
			if last, err = w.writer.Sync(c.ctx); last != want.Last {
				rt.Fatalf("sync: %d, want %d", last, want.Last)
			}
		}
		c.answers(rt, "enqueue", nil, nil, err, nil)
		w.over = w.over || events[len(events)-1].typ.Terminal()
		return
	}
	got, err := w.writer.Append(c.ctx, bytes...)
	c.answers(rt, fmt.Sprintf("write %q", bytes), got, want, err, w.told(err, wantErr))
	w.over = w.over || err == nil && events[len(events)-1].typ.Terminal()
}

func (c *modelCheck) end(rt *rapid.T) {
	if len(c.writers) == 0 {
		return
	}
	w := &c.writers[rapid.IntRange(0, len(c.writers)-1).Draw(rt, "writer")]
	code := draw(rt, "code", []string{"STOP", agui.CodeAbandoned})
	wantErr := c.model.end(w.model, code)
	c.answers(rt, "end", nil, nil, w.writer.End(c.ctx, code, "the end"), wantErr)
	w.over = true
}

func (c *modelCheck) take(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	run := c.runOf(rt, k)
	holder := c.holder(rt)
	epoch, wantErr := c.model.take(k, run, holder)
	w, err := c.place.log.TakeRun(c.ctx, k, run, holder)
	c.answers(rt, "take", nil, nil, err, wantErr)
	if err == nil && w.Lease().Epoch != epoch {
		rt.Fatalf("take: %+v, want epoch %d", w.Lease(), epoch)
	}
	if err == nil {
		c.given(w, modelWriter{key: k, run: run, epoch: epoch})
	}
}

// note writes to the companion stream.
func (c *modelCheck) note(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	var entries []eventlog.Entry
	var bodies []string
	for range rapid.IntRange(1, 3).Draw(rt, "entries") {
		c.n++
		bodies = append(bodies, fmt.Sprint("body ", c.n))
		entries = append(entries, eventlog.Entry{Kind: "note", Body: []byte(bodies[len(bodies)-1])})
	}
	last := uint64(0)
	if t := c.model.find(k); t != nil {
		last = uint64(len(t.companion))
	}
	limit, expect := c.expect(rt, last)
	key := ""
	if maybe(rt, "with a key", 3) {
		key = draw(rt, "key", []string{"k", "l"})
	}
	for again := true; again; again = key != "" && maybe(rt, "again", 2) {
		want, wantErr := c.model.note(k, bodies, limit, key)
		got, err := c.place.log.AppendCompanion(c.ctx, k, eventlog.CompanionBatch{Entries: entries, Expect: expect, Key: key})
		c.answers(rt, "note", got, want, err, wantErr)
	}
}

func (c *modelCheck) read(rt *rapid.T) {
	k := draw(rt, "thread", modelKeys)
	t := c.model.find(k)
	if t == nil {
		for _, err := range c.place.log.Read(c.ctx, k, eventlog.ReadOptions{}) {
			if !errors.Is(err, eventlog.ErrThreadNotFound) {
				rt.Fatalf("read of no thread: %v", err)
			}
		}
		return
	}
	var o eventlog.ReadOptions
	if maybe(rt, "from", 2) {
		o.From = rapid.Uint64Range(0, t.lastSeq()+2).Draw(rt, "from")
	}
	if maybe(rt, "to", 3) {
		o.To = rapid.Uint64Range(1, t.lastSeq()+2).Draw(rt, "to")
	}
	if maybe(rt, "lineage", 2) {
		run := c.runOf(rt, k)
		o.Lineage = &run
	}
	want, wantErr := t.reads(o)
	got, err := c.records(rt, k, o)
	if !sameError(err, wantErr) {
		rt.Fatalf("read %+v: %v, want %v", o, err, wantErr)
	}
	sameRecords(rt, got, want)
}

// records reads on behind a gap, which is told before any record.
func (c *modelCheck) records(rt *rapid.T, k eventlog.ThreadKey, o eventlog.ReadOptions) (out []eventlog.Record, gap error) {
	for r, err := range c.place.log.Read(c.ctx, k, o) {
		switch {
		case errors.Is(err, eventlog.ErrGap) && gap == nil && len(out) == 0:
			gap = err
		case err != nil && gap != nil:
			rt.Fatalf("read %+v: %v behind %v", o, err, gap)
		case err != nil:
			return out, err
		default:
			out = append(out, r)
		}
	}
	return out, gap
}

// sameRecords compares all but the bytes of what the store wrote itself.
func sameRecords(rt *rapid.T, got, want []eventlog.Record) {
	rt.Helper()
	if len(got) != len(want) {
		rt.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if w.Event == nil {
			g.Event = nil
		}
		w.Time = utc(w.Time)
		if !reflect.DeepEqual(g, w) {
			rt.Fatalf("record %+v %s\nwant   %+v %s", got[i], got[i].Event, w, w.Event)
		}
	}
}

func (c *modelCheck) advance(rt *rapid.T) {
	c.pass(draw(rt, "time", []time.Duration{time.Microsecond, 20 * time.Second, time.Minute, 9 * time.Minute, 11 * time.Minute, 3 * 24 * time.Hour, 8 * 24 * time.Hour}))
	c.expire(rt)
}

// pass lets time pass, at least so much, until it is known which leases have
// expired.
func (c *modelCheck) pass(d time.Duration) {
	now := c.clock.now()
	c.clock.add(c.model.sure(now.Add(d)).Sub(now))
}

// expire has the log close what has expired, which it may have begun to do by
// itself, in any order of the threads.
func (c *modelCheck) expire(rt *rapid.T) {
	left := make(map[eventlog.ThreadKey]bool)
	for _, t := range c.model.threads {
		if len(c.model.expired(t)) == 0 {
			continue
		}
		left[t.key] = true
		if _, err := c.place.log.Append(c.ctx, t.key, eventlog.Batch{}); err != nil {
			rt.Fatalf("look at thread %v: %v", t.key, err)
		}
	}
	for commit, err := range c.place.log.Commits(c.ctx, c.model.position()+1) {
		if err != nil || !left[commit.Thread] {
			rt.Fatalf("commit %+v, %v; what has expired is of %v", commit, err, left)
		}
		delete(left, commit.Thread)
		t := c.model.find(commit.Thread)
		c.model.abandon(t, c.model.expired(t))
		c.changed = true
	}
	if len(left) > 0 {
		rt.Fatalf("expired, and not closed: %v", left)
	}
}

func (c *modelCheck) reopen(rt *rapid.T) { c.again(c.place.reopen) }

func (c *modelCheck) crash(rt *rapid.T) { c.again(c.place.crash) }

func (c *modelCheck) again(open func() eventlog.Log) {
	c.model.closing()
	c.pass(0)
	open()
	c.model.reopened()
	c.writers, c.changed = nil, true
}

// same compares the whole log with the whole model.
func (c *modelCheck) same(rt *rapid.T) {
	if !c.changed {
		return
	}
	c.changed = false
	log := c.place.log
	if mark := log.Watermark(); mark != c.model.position() {
		rt.Fatalf("watermark %d, want %d", mark, c.model.position())
	}
	n := 0
	for got, err := range log.Commits(c.ctx, 0) {
		want := c.model.commits[n]
		want.Time = utc(want.Time)
		if err != nil || got != want {
			rt.Fatalf("commit %+v, %v; want %+v", got, err, want)
		}
		n++
	}
	if n != len(c.model.commits) {
		rt.Fatalf("%d commits, want %d", n, len(c.model.commits))
	}
	for _, k := range modelKeys {
		c.sameThread(rt, log, k)
	}
	for _, scope := range []string{"a", "b", "c"} {
		c.sameList(rt, log, scope)
	}
}

func (c *modelCheck) sameThread(rt *rapid.T, log eventlog.Log, k eventlog.ThreadKey) {
	t := c.model.find(k)
	got, err := log.Thread(c.ctx, k)
	if t == nil {
		if !errors.Is(err, eventlog.ErrThreadNotFound) {
			rt.Fatalf("thread %v: %+v, %v, want none", k, got, err)
		}
		return
	}
	c.sameReceipts(rt, t)
	if t.erased != nil {
		c.sameErased(rt, t)
		return
	}
	if err != nil || got != t.about() {
		rt.Fatalf("thread %+v, %v\nwant   %+v", got, err, t.about())
	}
	records, err := c.records(rt, k, eventlog.ReadOptions{})
	if err != nil {
		rt.Fatal(err)
	}
	sameRecords(rt, records, t.records[t.first-1:])
	runs, err := log.Runs(c.ctx, k)
	if err != nil || len(runs) != len(t.runs) {
		rt.Fatalf("%d runs, %v, want %d", len(runs), err, len(t.runs))
	}
	for i, r := range runs {
		w := t.runs[i]
		if r.Run != w.Run || r.Held != w.held || r.Epoch != w.epoch || r.Owner != w.owner || r.Origin != w.origin {
			rt.Fatalf("run %+v\nwant %+v held %v by %q epoch %d origin %v", r, w.Run, w.held, w.owner, w.epoch, w.origin)
		}
	}
	n := 0
	for e, err := range log.Companion(c.ctx, k, 0, 0) {
		if err != nil || n == len(t.companion) {
			rt.Fatalf("companion entry %+v, %v of %d", e, err, len(t.companion))
		}
		want := t.companion[n]
		if want.Time = utc(want.Time); !reflect.DeepEqual(e, want) {
			rt.Fatalf("companion entry %+v, want %+v", e, want)
		}
		n++
	}
	if n != len(t.companion) {
		rt.Fatalf("%d companion entries, want %d", n, len(t.companion))
	}
}

func (c *modelCheck) sameList(rt *rapid.T, log eventlog.Log, scope string) {
	after := ""
	n := 0
	for {
		var page []eventlog.Thread
		for th, err := range log.Threads(c.ctx, scope, after) {
			if err != nil {
				rt.Fatal(err)
			}
			page = append(page, th)
			break // pages of one
		}
		if len(page) == 0 {
			break
		}
		if t := c.model.find(page[0].Key); t == nil || t.erased != nil || page[0] != t.about() {
			rt.Fatalf("listed %+v, want %+v", page[0], t)
		}
		after = page[0].Key.Thread
		n++
	}
	for _, t := range c.model.threads {
		if t.key.Scope == scope && t.erased == nil {
			n--
		}
	}
	if n != 0 {
		rt.Fatalf("%d threads too many in scope %q", n, scope)
	}
}
