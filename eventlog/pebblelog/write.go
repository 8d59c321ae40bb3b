package pebblelog

import (
	"context"
	"errors"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Append implements [eventlog.Log].
func (l *Log) Append(ctx context.Context, key eventlog.ThreadKey, batch eventlog.Batch) (eventlog.Appended, error) {
	const op = "append"
	if err := l.checkKey(op, key); err != nil {
		return eventlog.Appended{}, err
	}
	refuse := func(err error, hint string) (eventlog.Appended, error) {
		return eventlog.Appended{}, &eventlog.Error{Op: op, Key: key, Run: batch.Run, Err: err, Hint: hint}
	}
	if batch.Lease != nil {
		return l.appendUnder(ctx, key, batch)
	}
	if batch.Origin != eventlog.OriginAppend && batch.Origin != eventlog.OriginImport {
		return refuse(&eventlog.InvalidError{Reason: "the origin of a batch is append or import"}, "")
	}
	if n, limit := len(batch.Key), l.opts.Limits.KeyBytes; n > limit {
		return refuse(&eventlog.TooLargeError{What: "idempotency key", Size: n, Limit: limit}, "")
	}
	c := l.borrow(callAppend, op, key)
	events, size, err := l.checkInto(ctx, &c.room, op, key, batch.Events)
	if err != nil {
		l.giveBack(c)
		return eventlog.Appended{}, err
	}
	c.events, c.bytes, c.charge, c.origin = events, size, charge(size, len(events)), batch.Origin
	c.run, c.expect, c.idem = batch.Run, batch.Expect, batch.Key
	if batch.Parent != nil {
		parent := *batch.Parent
		c.parent = &parent
	}
	if c.idem != "" {
		c.digest = digestOf(events)
	}
	return l.submit(ctx, c)
}

// submit hands a call to the committer and waits for its answer.
func (l *Log) submit(ctx context.Context, c *call) (eventlog.Appended, error) {
	refuse := func(err error) (eventlog.Appended, error) {
		l.budget.release(c.charge)
		return eventlog.Appended{}, &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: err, Hint: "nothing was written"}
	}
	if err := ctx.Err(); err != nil {
		return refuse(err)
	}
	if !l.queue.push(work{call: c}) {
		return refuse(eventlog.ErrClosed)
	}
	done, err := c.wait(ctx)
	if c.answered {
		l.giveBack(c)
	}
	return done, err
}

// BeginRun implements [eventlog.Log]. Once the start is on its way to the disk
// the context no longer ends the call: nobody would hold the run.
func (l *Log) BeginRun(ctx context.Context, key eventlog.ThreadKey, start eventlog.RunStart) (eventlog.Writer, error) {
	const op = "begin run"
	if err := l.checkKey(op, key); err != nil {
		return nil, err
	}
	events, size, err := l.check(ctx, op, key, [][]byte{start.Started})
	if err != nil {
		return nil, err
	}
	c := newCall(callBegin, op, key)
	c.charge = charge(size, len(events))
	head := &events[0].head
	if head.Type != agui.TypeRunStarted || head.RunID == nil {
		l.budget.release(c.charge)
		return nil, &eventlog.Error{Op: op, Key: key, Err: &eventlog.InvalidError{Reason: "a run begins with a RUN_STARTED that has a runId"}}
	}
	c.events, c.bytes, c.origin = events, size, eventlog.OriginStore
	c.expect, c.digest, c.takeOver = start.Expect, start.InputDigest, start.TakeOver
	if c.holder, err = l.holder(op, key, start.Holder); err != nil {
		l.budget.release(c.charge)
		return nil, err
	}
	if start.Parent != nil {
		parent := *start.Parent
		c.parent = &parent
	}
	return l.submitLease(ctx, c)
}

// endedParent checks a parent that a caller names.
func (l *Log) endedParent(a *applied, parent *agui.RunKey) error {
	if parent == nil || parent.IsZero() {
		return nil
	}
	i, ok := a.index[*parent]
	if !ok {
		return eventlog.ErrRunNotFound
	}
	if a.tracker.At(i).Running() {
		return a.active(*parent)
	}
	return nil
}

func (a *applied) active(k agui.RunKey) error {
	return &eventlog.RunActiveError{Run: k, Owner: a.info[a.index[k]].owner}
}

// claimOf is the claim of a raw event. The parent is that of the first start of
// the batch, and used up by it.
func claimOf(c *call, ev *event, parent **agui.RunKey) agui.Claim {
	claim := agui.Claim{Run: c.run}
	if ev.head.Type == agui.TypeRunStarted {
		claim.Parent, *parent = *parent, nil
	}
	return claim
}

// mayAppend refuses a raw batch that would write into a run that a writer holds,
// begin a run behind it, or open too many runs. Where that can be seen from what
// is there it costs nothing; else it tries the batch on a copy.
func (l *Log) mayAppend(a *applied, c *call) error {
	open, starts := a.tracker.OpenCount(), 0
	for i := range c.events {
		if c.events[i].head.Type == agui.TypeRunStarted {
			starts++
		}
	}
	limit := l.opts.Limits.OpenRuns
	if a.held == 0 && (starts == 0 || open+starts <= limit) {
		return nil
	}
	held := func(k agui.RunKey) bool {
		i, ok := a.index[k]
		return ok && a.info[i].held
	}
	if starts == 0 {
		if run, sure := peek(a.tracker, c, held); sure && held(run) {
			return a.active(run)
		} else if sure {
			return nil
		}
	}
	trial := a.tracker.Clone()
	parent := c.parent
	for i := range c.events {
		ev := &c.events[i]
		claim := claimOf(c, ev, &parent)
		names := ev.head.Type == agui.TypeRunStarted && trial.Names(&ev.head, claim)
		got := trial.Assign(&ev.head, a.lastSeq+1+uint64(i), claim)
		if held(got.Run) {
			return a.active(got.Run)
		}
		if !got.Started {
			continue
		}
		if r, _ := trial.Run(got.Run); !names && held(r.Parent) {
			return a.active(r.Parent)
		}
		if n := trial.OpenCount(); n > limit {
			return &eventlog.TooLargeError{What: "open runs", Size: n, Limit: limit}
		}
	}
	return nil
}

// peek looks for the first event of a batch without starts that would go to a
// held run; the zero key: there is none. It is sure if nothing that an earlier
// event of the batch starts or ends can change that: what goes to runs that
// nobody holds can only draw more to them, but for an end, after which others
// follow what it has closed, and a call or a step that counts but once.
func peek(t *agui.Tracker, c *call, held func(agui.RunKey) bool) (run agui.RunKey, sure bool) {
	claim := agui.Claim{Run: c.run}
	if !c.run.IsZero() {
		return c.run, true
	}
	var ended, called, stepped bool
	for i := range c.events {
		h := &c.events[i].head
		if ended || called && h.Type == agui.TypeToolCallStart || stepped && h.Type == agui.TypeStepFinished {
			return run, false
		}
		if run = t.Peek(h, claim); held(run) {
			return run, i == 0
		}
		ended = h.Type.Terminal()
		called = called || h.Type == agui.TypeToolCallStart || h.Type == agui.TypeToolCallChunk
		stepped = stepped || h.Type == agui.TypeStepFinished
	}
	return agui.RunKey{}, true
}

// begin starts a run under a lease.
func (l *Log) begin(g *group, t *thread, c *call) error {
	a := &t.applied
	ev := &c.events[0]
	// A start that comes again must learn so before anything else is compared.
	if r, ok := a.tracker.Latest(string(ev.head.RunID)); ok {
		return &eventlog.RunExistsError{Run: r.Key, Status: r.Status, InputDigest: a.info[a.index[r.Key]].digest}
	}
	claim := agui.Claim{Parent: c.parent}
	var abandoned []agui.RunKey
	if c.parent == nil {
		// Also before the seq is compared: while a run is written, the seq never
		// stays what a caller has seen.
		var err error
		if abandoned, err = l.takeOver(a, c.takeOver); err != nil {
			return err
		}
		head := a.tracker.Head()
		claim.Parent = &head
	}
	if err := expected(a, c); err != nil {
		return err
	}
	if err := l.endedParent(a, c.parent); err != nil {
		if !c.takeOver || !errors.Is(err, eventlog.ErrRunActive) {
			return err
		}
		abandoned = a.tracker.Running(*c.parent)
	}
	if n := a.tracker.OpenCount() - len(abandoned) + 1; n > l.opts.Limits.OpenRuns {
		return &eventlog.TooLargeError{What: "open runs", Size: n, Limit: l.opts.Limits.OpenRuns}
	}
	b := l.build(g, t)
	for _, k := range abandoned {
		b.abandon(k, c)
	}
	seq := b.add(ev, claim, eventlog.OriginStore)
	i := len(a.info) - 1
	a.info[i].digest = c.digest
	b.hold(i, c.holder)
	b.finish()
	c.run = a.tracker.At(i).Key
	c.res = eventlog.Appended{First: seq, Last: seq, Position: b.position}
	c.writer = l.writerOf(t, i)
	return nil
}

// takeOver lists the running runs of the head's lineage, to be closed; it
// refuses if one of them is somebody's, unless that is not to count.
func (l *Log) takeOver(a *applied, anyway bool) ([]agui.RunKey, error) {
	out := a.tracker.Running(a.tracker.Head())
	now := l.clock()
	for _, k := range out {
		if !anyway && a.owned(k, now, l.opts.ImplicitLease) {
			return nil, a.active(k)
		}
	}
	return out, nil
}

// write adds the events of one call of a writer.
func (b *builder) write(c *call) error {
	w := c.writer
	a := &b.thread.applied
	if err := w.fenced(a); err != nil {
		return err
	}
	for i := range c.events[:len(c.events)-1] {
		if h := &c.events[i].head; h.Type.Terminal() {
			return w.ended(agui.EndStatus(h))
		}
	}
	b.addLeased(c, w.index)
	return nil
}

// end gives a lease back.
func (b *builder) end(c *call) error {
	w := c.writer
	a := &b.thread.applied
	if err := w.fenced(a); err != nil {
		if w.present(a) && a.info[w.index].epoch == w.lease.Epoch {
			return nil // the run has ended by itself
		}
		return err
	}
	first := a.lastSeq + 1
	b.close(w.lease.Run, c.code, c.message)
	c.res = eventlog.Appended{First: first, Last: b.seq(), Position: b.position}
	return nil
}
