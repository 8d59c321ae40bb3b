package pebblelog

import (
	"errors"
	"sort"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

const groupBytes = 8 << 20 // after which a batch takes no more

// group is what one Pebble batch writes, and who waits for it. Refusals are
// answered in the same order as the rest: a writer counts its answers.
type group struct {
	gate    *gate         // of the engine
	batch   *pebble.Batch // nil: nothing is written
	fault   error         // the batch could not be applied
	drained chan struct{} // not nil: the group is only to tell that all before are settled
	bytes   int
	charge  int // of the log's budget, of its calls
	commits int
	last    uint64 // the watermark once it is durable; 0: unchanged
	rows    bool   // it writes rows that belong to no commit
	applied time.Time
	calls   []*call
	changes []change
	touched []rowChange       // of the changes
	held    []*thread         // pinned until the group is settled
	commit  entries           // rows of commits, which go behind everything else
	renewed []*thread         // whose leases were moved on disk
	keys    map[string]keyRow // idempotency keys this group writes
}

// change is what becomes visible of one thread when a group is durable.
type change struct {
	thread    *thread // pinned
	ord       uint64
	created   int64
	updated   int64
	lastSeq   uint64
	companion uint64
	head      int // index of the run; -1: none
	rows      []rowChange
	unpin     int // further pins to give back: those of ended leases
	removed   *removed
}

type rowChange struct {
	index int
	run   eventlog.Run
}

// commitLoop is the committer: the one place where anything is written.
func (l *Log) commitLoop() {
	defer close(l.inFlight)
	for {
		items, ticked, open := l.queue.pop(groupItems, l.comeback.tick)
		if !open {
			return
		}
		if len(items) > 0 {
			l.commit(items)
		}
		l.revive(ticked)
	}
}

// commit makes one or more groups of items.
func (l *Log) commit(items []work) {
	g := l.newGroup()
	for _, item := range items {
		if item.call != nil {
			l.one(g, item.call)
		} else {
			l.written(g, item.writer)
		}
		if g.bytes >= groupBytes {
			l.send(g)
			g = l.newGroup()
		}
	}
	l.send(g)
}

// newGroup is a group for the engine that there is.
func (l *Log) newGroup() *group {
	g := l.groups.Get().(*group)
	g.gate = l.gate
	return g
}

// drop gives a settled group back, to be used again.
func (l *Log) drop(g *group) {
	clear(g.calls)
	clear(g.changes)
	clear(g.touched)
	clear(g.held)
	*g = group{
		calls: g.calls[:0], changes: g.changes[:0], touched: g.touched[:0], held: g.held[:0], commit: g.commit.empty(),
	}
	l.groups.Put(g)
}

// send applies a group and hands it to the one who waits for its sync.
func (l *Log) send(g *group) {
	l.prune(g)
	if g.last == 0 && !g.rows {
		g.batch = nil // only refusals and answers known before
	}
	if g.batch != nil {
		g.commit.into(g.batch)
		l.pace()
		g.applied = time.Now()
		if g.fault = l.apply(g.batch); g.fault == nil && g.last != 0 {
			l.opts.Listener.CommitApplied(g.last, g.commits, g.bytes)
		}
	}
	l.queue.sent()
	l.inFlight <- g
}

// apply hands a batch to the engine. What the engine has seen of one that fails
// is not known, and nobody may wait for its sync.
func (l *Log) apply(b *pebble.Batch) error {
	err := l.failure.get()
	if err == nil {
		if err = l.db.ApplyNoSyncWait(b, pebble.Sync); err != nil {
			l.poison(err)
		} else if err = l.traffic.fatal(); err == nil {
			return nil // the engine says of a failed commit only that it is fatal
		}
		err = l.failure.get()
	}
	return err
}

// syncLoop waits for the groups in the order in which they were applied,
// publishes and answers them.
func (l *Log) syncLoop() {
	defer close(l.synced)
	for g := range l.inFlight {
		if g.drained != nil {
			close(g.drained)
			continue
		}
		l.settle(g)
		l.notice()
		l.drop(g)
		l.queue.settled()
	}
}

// await waits until a batch that was applied is durable.
func (l *Log) await(g *gate, b *pebble.Batch) error {
	if err := b.SyncWait(); err != nil {
		l.poison(err)
		return l.failure.get()
	}
	_ = b.Close() // gives memory back; it cannot fail once synced
	return g.lost()
}

func (l *Log) settle(g *group) {
	err := g.fault
	if err == nil && g.batch != nil {
		err = l.await(g.gate, g.batch)
	} else if err == nil {
		err = g.gate.lost() // an answer may be from a group that is lost
	}
	l.budget.release(g.charge)
	if err != nil {
		l.refuse(g, err)
		return
	}
	for i := range g.changes {
		l.publish(g, &g.changes[i])
	}
	l.cache.release(g.held...)
	if g.last != 0 {
		l.opts.Listener.CommitDurable(g.last, time.Since(g.applied))
		l.mark.advance(g.last)
	}
	for _, c := range g.calls {
		l.answer(c)
	}
}

// refuse answers the calls of a group that is not known to be durable. The
// threads that it changed stay pinned until the engine was opened anew: in this
// one they can be seen as the group left them.
func (l *Log) refuse(g *group, cause error) {
	l.cache.release(g.held...)
	for _, ch := range g.changes {
		ch.rows = nil // the group's
		l.debts.changes = append(l.debts.changes, ch)
	}
	l.debts.renewed = append(l.debts.renewed, g.renewed...)
	if !errors.Is(cause, eventlog.ErrUnavailable) {
		cause = unavailable(cause)
	}
	for _, c := range g.calls {
		if c.err == nil {
			c.res = eventlog.Appended{}
			c.err = &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: cause, Hint: hintUnknown + "; " + l.advice(cause)}
		}
		l.answer(c)
	}
}

// answer must not look at the call once it is answered: it may be in use again.
func (l *Log) answer(c *call) {
	l.owe(c)
	if c.writer != nil {
		c.writer.answered(c)
	}
	c.done <- struct{}{}
}

func (l *Log) publish(g *group, ch *change) {
	t := ch.thread
	t.mu.Lock()
	p := &t.published
	p.exists, p.ord, p.created, p.updated, p.lastSeq = true, ch.ord, ch.created, ch.updated, ch.lastSeq
	p.companion = ch.companion
	p.remove(ch.removed)
	for _, r := range ch.rows {
		if r.index == len(p.runs) {
			p.runs = append(p.runs, r.run)
			p.keys = append(p.keys, r.run.Key)
		} else {
			p.runs[r.index] = r.run
		}
	}
	if ch.head >= 0 {
		p.head = p.keys[ch.head]
	}
	t.mu.Unlock()
	for range ch.unpin + 1 {
		g.held = append(g.held, t)
	}
}

// one takes a call that did not come through a writer.
func (l *Log) one(g *group, c *call) {
	g.charge += c.charge
	if !c.take() {
		return // its caller has gone, and knows that nothing was written
	}
	g.calls = append(g.calls, c)
	if c.err = l.refusal(c); c.err != nil {
		return
	}
	if c.kind == callRows {
		if err := l.putRows(g, c); err != nil {
			c.err = c.fail(err)
		}
		return
	}
	t, err := l.cache.acquire(c.key)
	g.held = append(g.held, t)
	if err != nil {
		c.err = c.fail(damage(err))
		return
	}
	if erased := t.applied.erased; erased != nil && c.kind != callDo && c.kind != callExpire {
		c.err = c.fail(erased)
		return
	}
	l.expire(g, t)
	switch c.kind {
	case callDo:
		err = c.do(g, t)
	case callAppend:
		err = l.append(g, t, c)
	case callLeased:
		err = l.appendLeased(g, t, c)
	case callBegin:
		err = l.begin(g, t, c)
	case callTake:
		err = l.take(g, t, c)
	case callAttach:
		err = l.attach(t, c)
	case callCompanion:
		err = l.appendCompanion(g, t, c)
	case callExpire:
		l.watchLeases(t)
	case callRecover:
		err = l.recoverThread(g, t)
	}
	if err != nil {
		c.err = c.fail(err)
	}
}

// putRows writes rows that belong to no commit. What its function puts before it
// fails is written all the same, so it looks first.
func (l *Log) putRows(g *group, c *call) error {
	if g.batch == nil {
		g.batch = l.db.NewBatch()
	}
	return c.rows(func(key, value []byte) {
		g.rows = true
		g.bytes += len(key) + len(value)
		if value == nil {
			_ = g.batch.Delete(key, nil)
		} else {
			_ = g.batch.Set(key, value, nil)
		}
	})
}

// refusal is why nothing can be written at all.
func (l *Log) refusal(c *call) error {
	if l.life.closing() {
		return c.fail(eventlog.ErrClosed)
	}
	if l.opts.readOnly {
		return &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: eventlog.ErrReadOnly, Hint: hintReadOnly}
	}
	if err := l.failure.get(); err != nil {
		return &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: err, Hint: hintPoisoned + l.advice(err)}
	}
	return nil
}

// written takes what a writer has waiting, as one commit.
func (l *Log) written(g *group, w *writer) {
	var b *builder
	for _, c := range w.drain(l.opts.Limits) {
		g.calls = append(g.calls, c)
		g.charge += c.charge
		if c.err = l.refusal(c); c.err == nil {
			c.err = w.stopped(c)
		}
		if c.err == nil && w.thread.err != nil {
			c.err = c.fail(damage(w.thread.err)) // it could not be read anew
		}
		if c.err != nil {
			continue
		}
		if b == nil {
			l.expireFor(g, w)
			b = l.build(g, w.thread)
		}
		var err error
		switch c.kind {
		case callEnd:
			err = b.end(c)
		case callRenew:
			err = b.heartbeat(c)
		default:
			err = b.write(c)
		}
		if err != nil {
			c.err = c.fail(err)
		}
	}
	if b != nil {
		b.finish()
	}
	if w.more() {
		l.queue.again(w)
	}
}

// poison ends all writing to this engine (docs/format.md, "After a write
// error"), and has the committer look for another one. The engine calls it from
// where it meets the error, with locks held.
func (l *Log) poison(cause error) {
	if l.failure.set(unavailable(cause)) {
		l.opts.Listener.WriteFailed(cause)
		l.queue.rouse()
	}
}

func (l *Log) append(g *group, t *thread, c *call) error {
	a := &t.applied
	if c.idem != "" {
		known, err := l.knownKey(g, t, c)
		if known || err != nil {
			return err
		}
	}
	if err := expected(a, c); err != nil {
		return err
	}
	if !c.run.IsZero() {
		if _, ok := a.index[c.run]; !ok {
			return eventlog.ErrRunNotFound
		}
	}
	if err := l.endedParent(a, c.parent); err != nil {
		return err
	}
	if len(c.events) == 0 && a.exists {
		c.res = eventlog.Appended{Last: a.lastSeq, Position: l.position}
		return nil
	}
	if err := l.mayAppend(a, c); err != nil {
		return err
	}
	b := l.build(g, t)
	parent := c.parent
	for i := range c.events {
		ev := &c.events[i]
		claim := claimOf(c, ev, &parent)
		seq := b.add(ev, claim, c.origin)
		if i == 0 {
			c.res.First = seq
		}
	}
	c.res.Last, c.res.Position = b.seq(), b.position
	if c.idem != "" {
		b.key(c)
	}
	b.needed = true
	b.finish()
	return nil
}

// knownKey answers a call whose key was used before.
func (l *Log) knownKey(g *group, t *thread, c *call) (bool, error) {
	if !t.applied.exists {
		return false, nil
	}
	k := idempotencyKey(t.applied.ord, keyName(t.applied.ord, c.idem))
	row, ok := g.keys[string(k)]
	if !ok {
		value, found, err := l.get(k)
		if err == nil && !found && l.plainKeys {
			value, found, err = l.get(idempotencyKey(t.applied.ord, c.idem))
		}
		if err != nil {
			return false, damage(err)
		}
		if !found {
			return false, nil
		}
		if row, err = l.dec.key(value); err != nil {
			return false, damage(err)
		}
	}
	if row.time+l.opts.KeyAge.Microseconds() < l.clock() {
		return false, nil
	}
	if gone, err := l.keyGone(&t.applied, &row); err != nil {
		return false, damage(err)
	} else if gone {
		return true, &eventlog.KeyErasedError{Key: c.idem, First: row.first, Last: row.last}
	}
	if row.digest != c.digest {
		return true, &eventlog.KeyConflictError{Key: c.idem, First: row.first, Last: row.last}
	}
	c.res = eventlog.Appended{First: row.first, Last: row.last, Position: row.position, Duplicate: true}
	return true, nil
}

func expected(a *applied, c *call) error {
	if want, ok := c.expect.Seq(); ok && want != a.lastSeq {
		return a.conflict(want)
	}
	return nil
}

// conflict says that the thread is not at a seq, and who has been faster.
func (a *applied) conflict(want uint64) error {
	e := &eventlog.ConflictError{Expected: want, Actual: a.lastSeq}
	i := sort.Search(a.tracker.Len(), func(i int) bool { return a.tracker.At(i).FirstSeq > want })
	if i < a.tracker.Len() {
		e.Run, e.Owner = a.tracker.At(i).Key, a.info[i].owner
	}
	return e
}
