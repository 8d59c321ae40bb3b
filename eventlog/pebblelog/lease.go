package pebblelog

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// term is how long the lease of a run lasts, in microseconds.
type term struct {
	ttl     int64 // 0: it does not expire
	expires int64
	// stored is the end that is on disk. It is never before expires, and so far
	// behind it that one renewal in half a ttl must be written.
	stored int64
	// pinned: the lease keeps the thread in memory, for its writers. It does not
	// when it was given by a former process and nobody has asked for it since.
	pinned bool
}

// holder checks who is to hold a lease.
func (l *Log) holder(op string, key eventlog.ThreadKey, h eventlog.Holder) (eventlog.Holder, error) {
	refuse := func(err error) (eventlog.Holder, error) {
		return h, &eventlog.Error{Op: op, Key: key, Err: err}
	}
	if h.Owner == "" {
		h.Owner = l.opts.Owner
	}
	if n, limit := len(h.Owner), l.opts.Limits.IDBytes; n > limit {
		return refuse(&eventlog.TooLargeError{What: "owner", Size: n, Limit: limit})
	}
	if !agui.IsText(h.Owner) {
		return refuse(&eventlog.InvalidError{Reason: "the owner of a lease is not UTF-8"})
	}
	if h.TTL != 0 && (h.TTL < eventlog.MinTTL || h.TTL > eventlog.MaxTTL) {
		return refuse(&eventlog.InvalidError{Reason: fmt.Sprintf("the ttl of a lease is 0 or %v to %v", eventlog.MinTTL, eventlog.MaxTTL)})
	}
	return h, nil
}

// submitLease hands a call to the committer that is answered with a writer. Once
// it is on its way to the disk the context no longer ends it: nobody would hold
// the run.
func (l *Log) submitLease(ctx context.Context, c *call) (eventlog.Writer, error) {
	if ctx.Err() != nil {
		l.budget.release(c.charge)
		return nil, &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: ctx.Err(), Hint: "nothing was written"}
	}
	if !l.queue.push(work{call: c}) {
		l.budget.release(c.charge)
		return nil, c.fail(eventlog.ErrClosed)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.withdraw() {
			return nil, &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: ctx.Err(), Hint: "nothing was written"}
		}
		<-c.done
	}
	if c.err != nil {
		return nil, c.err
	}
	return c.writer, nil
}

// TakeRun implements [eventlog.Log]. Once it is on its way to the disk the
// context no longer ends the call.
func (l *Log) TakeRun(ctx context.Context, key eventlog.ThreadKey, run agui.RunKey, holder eventlog.Holder) (eventlog.Writer, error) {
	const op = "take run"
	if err := l.checkKey(op, key); err != nil {
		return nil, err
	}
	h, err := l.holder(op, key, holder)
	if err != nil {
		return nil, err
	}
	c := newCall(callTake, op, key)
	c.run, c.holder = run, h
	return l.submitLease(ctx, c)
}

// Attach implements [eventlog.Log].
func (l *Log) Attach(ctx context.Context, lease eventlog.Lease) (eventlog.Writer, error) {
	const op = "attach"
	if err := l.checkKey(op, lease.Thread); err != nil {
		return nil, err
	}
	c := newCall(callAttach, op, lease.Thread)
	c.run, c.lease = lease.Run, lease
	return l.submitLease(ctx, c)
}

// appendUnder is Append of a batch that has a lease.
func (l *Log) appendUnder(ctx context.Context, key eventlog.ThreadKey, batch eventlog.Batch) (eventlog.Appended, error) {
	const op = "append"
	lease := *batch.Lease
	refuse := func(err error) (eventlog.Appended, error) {
		return eventlog.Appended{}, &eventlog.Error{Op: op, Key: key, Run: lease.Run, Err: err}
	}
	if batch.Origin != eventlog.OriginAppend || !batch.Run.IsZero() || batch.Parent != nil {
		return refuse(&eventlog.InvalidError{Reason: "a batch with a lease has no run, parent or origin of its own"})
	}
	if lease.Thread != (eventlog.ThreadKey{}) && lease.Thread != key {
		return refuse(&eventlog.InvalidError{Reason: "the lease is for another thread"})
	}
	if n, limit := len(batch.Key), l.opts.Limits.KeyBytes; n > limit {
		return refuse(&eventlog.TooLargeError{What: "idempotency key", Size: n, Limit: limit})
	}
	events, size, err := l.check(ctx, op, key, batch.Events)
	if err != nil {
		return eventlog.Appended{}, err
	}
	for i := range events {
		if h := &events[i].head; h.Type.Terminal() && i+1 < len(events) {
			l.budget.release(charge(size, len(events)))
			return refuse(&eventlog.FencedError{Run: lease.Run, Epoch: lease.Epoch, Status: agui.EndStatus(h)})
		}
	}
	c := newCall(callLeased, op, key)
	c.events, c.bytes, c.charge = events, size, charge(size, len(events))
	c.run, c.lease, c.expect, c.idem = lease.Run, lease, batch.Expect, batch.Key
	if c.idem != "" {
		c.digest = digestOf(events)
	}
	return l.submit(ctx, c)
}

// What follows is done by the committer.

// hold gives a lease of a run, whether it has one or not.
func (b *builder) hold(i int, h eventlog.Holder) {
	a := &b.thread.applied
	a.epoch++
	in := &a.info[i]
	if !in.held {
		a.held++
	} else if in.ttl != 0 {
		a.expiring--
	}
	in.held, in.epoch, in.owner = true, a.epoch, h.Owner
	in.term = term{ttl: h.TTL.Microseconds(), pinned: in.pinned}
	if !in.pinned {
		in.pinned = true
		b.log.cache.pin(b.thread)
	}
	if in.ttl != 0 {
		a.expiring++
		b.renew(i)
		b.log.due.watch(a.leaseID(i), b.thread.key, in.expires)
	} else {
		b.set(leaseKey(a.ord, a.ordinal(i)), b.log.enc.lease(leaseRow{}))
		b.log.due.forget(a.leaseID(i))
	}
	b.touch(i, true)
	b.row = true
}

// unhold ends the lease of a run, if there is one.
func (b *builder) unhold(i int) {
	a := &b.thread.applied
	in := &a.info[i]
	if !in.held {
		return
	}
	if in.ttl != 0 {
		a.expiring--
		b.log.due.forget(a.leaseID(i))
	}
	if in.pinned {
		b.unpin++
	}
	in.held, in.term = false, term{}
	a.held--
	_ = b.group.batch.Delete(leaseKey(a.ord, a.ordinal(i)), nil)
	b.touch(i, true)
}

// renew moves the end of a lease, in memory, and on disk where the end there
// would come too early. It never comes earlier than it did: after a restart it
// may be later than a time to live from now, and may have been told.
func (b *builder) renew(i int) {
	a := &b.thread.applied
	in := &a.info[i]
	if !in.held || in.ttl == 0 {
		return
	}
	in.expires = max(in.expires, b.time+in.ttl)
	if in.stored >= in.expires {
		return
	}
	in.stored = in.expires + in.ttl/2
	b.set(leaseKey(a.ord, a.ordinal(i)), b.log.enc.lease(leaseRow{ttl: in.ttl, expires: in.stored}))
	b.group.rows = true
	b.group.renewed = append(b.group.renewed, b.thread)
}

// fencedAt is why a lease of a run is not good any more.
func (a *applied) fencedAt(i int, lease eventlog.Lease) error {
	in := &a.info[i]
	if in.held && in.epoch == lease.Epoch {
		return nil
	}
	r := a.tracker.At(i)
	e := &eventlog.FencedError{Run: r.Key, Epoch: lease.Epoch, Status: r.Status}
	if in.epoch != lease.Epoch {
		e.Current, e.Owner = in.epoch, in.owner
	}
	return e
}

// leased finds the run of a lease that is good.
func (a *applied) leased(lease eventlog.Lease) (int, error) {
	if !a.exists {
		return 0, eventlog.ErrThreadNotFound
	}
	i, ok := a.index[lease.Run]
	if !ok {
		return 0, eventlog.ErrRunNotFound
	}
	return i, a.fencedAt(i, lease)
}

// addLeased adds the events of a call that has the lease of a run.
func (b *builder) addLeased(c *call, i int) {
	a := &b.thread.applied
	b.renew(i)
	c.expires = a.info[i].expires
	run := a.tracker.At(i).Key
	for n := range c.events {
		ev := &c.events[n]
		seq := b.add(ev, agui.Claim{Run: run, Leased: true}, eventlog.OriginAgent)
		if n == 0 {
			c.res.First = seq
		}
	}
	c.res.Last, c.res.Position = b.seq(), b.position
}

// appendLeased writes a batch that has a lease.
func (l *Log) appendLeased(g *group, t *thread, c *call) error {
	a := &t.applied
	if c.idem != "" {
		// A key that is known goes before the lease: the run may have ended with
		// the very batch that comes again.
		if known, err := l.knownKey(g, t, c); known || err != nil {
			return err
		}
	}
	i, err := a.leased(c.lease)
	if err != nil {
		return err
	}
	if err := expected(a, c); err != nil {
		return err
	}
	b := l.build(g, t)
	b.addLeased(c, i)
	if len(c.events) == 0 {
		c.res = eventlog.Appended{Last: a.lastSeq, Position: l.position}
	} else if c.idem != "" {
		b.key(c)
	}
	b.finish()
	return nil
}

// heartbeat renews the lease of a writer.
func (b *builder) heartbeat(c *call) error {
	w, a := c.writer, &b.thread.applied
	if err := w.fenced(a); err != nil {
		return err
	}
	b.renew(w.index)
	c.expires = a.info[w.index].expires
	return nil
}

// take gives a new lease on a run that is there.
func (l *Log) take(g *group, t *thread, c *call) error {
	a := &t.applied
	if !a.exists {
		return eventlog.ErrThreadNotFound
	}
	i, ok := a.index[c.run]
	if !ok {
		return eventlog.ErrRunNotFound
	}
	if r := a.tracker.At(i); !r.Running() {
		return &eventlog.FencedError{Run: r.Key, Status: r.Status}
	}
	b := l.build(g, t)
	b.stream, b.needed = streamControl, true
	b.hold(i, c.holder)
	b.finish()
	c.res.Position = b.position
	c.writer = l.writerOf(t, i)
	return nil
}

// attach makes a writer for a lease that was given before.
func (l *Log) attach(t *thread, c *call) error {
	a := &t.applied
	i, err := a.leased(c.lease)
	if err != nil {
		return err
	}
	if in := &a.info[i]; !in.pinned {
		in.pinned = true
		l.cache.pin(t)
	}
	c.writer = l.writerOf(t, i)
	return nil
}

// abandon closes a run so that another can start. Whoever holds it is fenced by
// the one who starts.
func (b *builder) abandon(k agui.RunKey, c *call) {
	a := &b.thread.applied
	in := &a.info[a.index[k]]
	if !in.held {
		b.close(k, agui.CodeAbandoned, "nobody has written this run since its last event")
		return
	}
	a.epoch++
	in.epoch, in.owner = a.epoch, c.holder.Owner
	b.close(k, agui.CodeAbandoned, "another run was started in its place")
}

// expire closes the runs of a thread whose leases have expired, as one commit.
// It goes before everything else that is done to the thread, so that nothing
// depends on whether the timer has been there.
func (l *Log) expire(g *group, t *thread) {
	a := &t.applied
	if a.expiring == 0 {
		return
	}
	now := l.clock()
	var b *builder
	for _, r := range a.tracker.OpenRuns() {
		in := &a.info[a.index[r.Key]]
		if !in.expired(now) {
			continue
		}
		if b == nil {
			b = l.build(g, t)
		}
		b.close(r.Key, agui.CodeAbandoned, fmt.Sprintf("its writer has not been heard of for %v", time.Duration(in.ttl)*time.Microsecond))
		l.opts.Listener.LeaseExpired(t.key, r.Key)
	}
	if b != nil {
		b.finish()
	}
}

// expired reports whether the run has a lease that is past its end.
func (in *runInfo) expired(now int64) bool { return in.held && in.ttl != 0 && now >= in.expires }

// expireFor is expire before the calls of a writer. A thread whose lease the
// writer has lost may have left the memory, and be there again as another: what
// the writer knows of it must not be written from.
func (l *Log) expireFor(g *group, w *writer) {
	if w.fenced(&w.thread.applied) == nil {
		l.expire(g, w.thread)
	}
}

// loadLeases reads the terms of the leases of a thread. What was promised may
// end earlier than what is stored, never later.
func (a *applied) loadLeases(l *Log, d *decoder) error {
	if a.held == 0 {
		return nil
	}
	return l.scan(ordinalKey(prefixLease, a.ord), func(key, value []byte) error {
		row, err := d.lease(value)
		if err != nil {
			return err
		}
		i, ok := a.place(leaseRun(key), len(a.info))
		if !ok || !a.info[i].held {
			return errDamaged
		}
		if row.ttl != 0 {
			a.info[i].term = term{ttl: row.ttl, expires: row.expires, stored: row.expires}
			a.expiring++
		}
		return nil
	})
}

// leaseOrd and leaseRun are what the key of a lease names: the ordinals of the
// thread and of its run.
func leaseOrd(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }
func leaseRun(key []byte) uint32 { return binary.BigEndian.Uint32(key[9:]) }

func (a *applied) leaseID(i int) leaseID { return leaseID{a.ord, a.ordinal(i)} }

// watchLeases has the leases of a thread looked at when they are due.
func (l *Log) watchLeases(t *thread) {
	a := &t.applied
	if a.expiring == 0 {
		return
	}
	for _, r := range a.tracker.OpenRuns() {
		i := a.index[r.Key]
		if in := &a.info[i]; in.held && in.ttl != 0 {
			l.due.watch(a.leaseID(i), t.key, in.expires)
		}
	}
}

// Renew implements [eventlog.Writer].
func (w *writer) Renew(ctx context.Context) (eventlog.Lease, error) {
	c := newCall(callRenew, "renew", w.lease.Thread)
	c.run, c.writer = w.lease.Run, w
	if err := w.accept(ctx, c); err != nil {
		return eventlog.Lease{}, err
	}
	if _, err := c.wait(ctx); err != nil {
		return eventlog.Lease{}, err
	}
	w.renewed(c)
	return w.Lease(), nil
}

// renewed takes note of what a call has done to the lease. The caller of a call
// may go on before answered was told.
func (w *writer) renewed(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expires = max(w.expires, c.expires)
}
