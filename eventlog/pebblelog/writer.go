package pebblelog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// writer writes one run. Its calls stand in a queue of its own, in order; the
// committer takes all of them as one commit.
type writer struct {
	log    *Log
	thread *thread        // pinned by the lease
	index  int            // of the run
	lease  eventlog.Lease // without its end, which moves
	first  uint64
	// generation of the thread that the run is of
	generation uint64

	mu       sync.Mutex
	expires  int64 // when the lease ends; 0: it does not expire
	waiting  []*call
	queued   bool // it stands in the committer's queue
	bytes    int  // of calls without an answer
	accepted uint64
	replied  uint64
	last     uint64 // durable
	terminal *call  // accepted, with the run's terminal event or its end
	status   agui.RunStatus
	err      error         // of the first call that failed; it stops the writer
	life     uint64        // of the log, when that was
	changed  chan struct{} // closed at the next answer
}

// writerOf makes a writer for the lease that a run has now.
func (l *Log) writerOf(t *thread, index int) *writer {
	a := &t.applied
	in, r := &a.info[index], a.tracker.At(index)
	return &writer{
		log: l, thread: t, index: index, first: r.FirstSeq, last: r.LastSeq, expires: in.expires,
		lease: eventlog.Lease{
			Thread: t.key, Run: r.Key, Epoch: in.epoch, Owner: in.owner,
			TTL: time.Duration(in.ttl) * time.Microsecond,
		},
		changed:    make(chan struct{}),
		generation: a.generation,
	}
}

// Lease implements [eventlog.Writer].
func (w *writer) Lease() eventlog.Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease := w.lease
	if w.expires != 0 {
		lease.Expires = moment(w.expires)
	}
	return lease
}

// First implements [eventlog.Writer].
func (w *writer) First() uint64 { return w.first }

// Append implements [eventlog.Writer].
func (w *writer) Append(ctx context.Context, events ...[]byte) (eventlog.Appended, error) {
	c, err := w.submit(ctx, "append", events)
	if c == nil {
		return eventlog.Appended{}, err
	}
	done, err := c.wait(ctx)
	if err == nil {
		w.renewed(c)
	} else if c.state.Load() == callWithdrawn {
		w.forget(c)
	}
	return done, err
}

// Enqueue implements [eventlog.Writer].
func (w *writer) Enqueue(ctx context.Context, events ...[]byte) error {
	_, err := w.submit(ctx, "enqueue", events)
	return err
}

// submit puts events into the writer's queue. No events: no call and no error,
// unless the writer can write no more.
func (w *writer) submit(ctx context.Context, op string, events [][]byte) (*call, error) {
	checked, size, err := w.log.check(ctx, op, w.lease.Thread, events)
	if err != nil {
		return nil, err
	}
	c := newCall(callWrite, op, w.lease.Thread)
	c.events, c.bytes, c.run, c.writer = checked, size, w.lease.Run, w
	c.charge = charge(size, len(checked))
	for i := range checked {
		if h := &checked[i].head; h.Type.Terminal() && i+1 < len(checked) {
			w.log.budget.release(c.charge)
			return nil, c.fail(w.ended(agui.EndStatus(h)))
		}
	}
	if err := w.accept(ctx, c); err != nil {
		w.log.budget.release(c.charge)
		return nil, err
	}
	if len(checked) == 0 {
		w.log.budget.release(c.charge)
		return nil, nil
	}
	return c, nil
}

// accept waits for room and puts a call into the queue.
func (w *writer) accept(ctx context.Context, c *call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if ctx.Err() != nil {
			return &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: ctx.Err(), Hint: "nothing was written"}
		}
		if c.kind == callWrite && w.err != nil {
			return w.err
		}
		if c.kind == callWrite && w.terminal != nil {
			return c.fail(w.ended(w.status))
		}
		if w.bytes == 0 || w.bytes+c.cost() <= w.log.opts.QueueBytes {
			break
		}
		w.waitLocked(ctx)
	}
	if c.kind == callWrite && len(c.events) == 0 {
		return nil
	}
	if !w.queued && !w.log.queue.push(work{writer: w}) {
		return c.fail(eventlog.ErrClosed)
	}
	w.queued = true
	w.waiting = append(w.waiting, c)
	w.accepted++
	w.bytes += c.cost()
	w.note(c)
	return nil
}

// cost is what a call counts against the writer's bound: its bytes and what its
// events need beside them.
func (c *call) cost() int { return charge(c.bytes, len(c.events)) }

// note remembers that the run will have ended.
func (w *writer) note(c *call) {
	if w.terminal != nil {
		return
	}
	if c.kind == callRenew {
		return
	}
	if c.kind == callEnd {
		w.terminal, w.status = c, agui.RunFailed
		if c.code == agui.CodeAbandoned {
			w.status = agui.RunAbandoned
		}
		return
	}
	if h := &c.events[len(c.events)-1].head; h.Type.Terminal() {
		w.terminal, w.status = c, agui.EndStatus(h)
	}
}

// forget takes back what a withdrawn call would have done.
func (w *writer) forget(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.terminal == c {
		w.terminal = nil
	}
}

// waitLocked waits for the next answer.
func (w *writer) waitLocked(ctx context.Context) {
	changed := w.changed
	w.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	w.mu.Lock()
}

// drain gives the committer the calls for one commit.
func (w *writer) drain(limits eventlog.Limits) []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	events, size, n := 0, 0, 0
	var out []*call
	for _, c := range w.waiting {
		if n > 0 && (events+len(c.events) > limits.BatchEvents || size+c.bytes > min(limits.BatchBytes, groupBytes)) {
			break
		}
		n++
		if !c.take() {
			w.settleLocked(c)
			w.log.budget.release(c.charge)
			continue
		}
		events += len(c.events)
		size += c.bytes
		out = append(out, c)
	}
	w.waiting = w.waiting[n:]
	if len(w.waiting) == 0 {
		w.waiting = nil
		w.queued = false
	}
	return out
}

// more reports whether the writer must stand in the queue again.
func (w *writer) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting) > 0 && w.queued
}

// answered takes note of the answer to a call.
func (w *writer) answered(c *call) {
	if c.kind == callBegin || c.kind == callTake || c.kind == callAttach {
		return // it was the answer
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.err == nil {
		w.last = max(w.last, c.res.Last)
		w.expires = max(w.expires, c.expires)
	} else if w.err == nil {
		w.err, w.life = c.err, w.log.lives.Load()
	}
	w.settleLocked(c)
}

func (w *writer) settleLocked(c *call) {
	w.replied++
	w.bytes -= c.cost()
	close(w.changed)
	w.changed = make(chan struct{})
}

// Sync implements [eventlog.Writer].
func (w *writer) Sync(ctx context.Context) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for target := w.accepted; w.replied < target; {
		if ctx.Err() != nil {
			return w.last, &eventlog.Error{Op: "sync", Key: w.lease.Thread, Run: w.lease.Run, Err: ctx.Err(), Hint: hintUnknown}
		}
		w.waitLocked(ctx)
	}
	err := w.err
	if err != nil && errors.Is(err, eventlog.ErrUnavailable) && w.log.lives.Load() != w.life {
		w.resumeLocked()
	}
	return w.last, err
}

// stopped is why a call that was accepted must not be written all the same: one
// before it was not. An end is, whatever came before.
func (w *writer) stopped(c *call) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.kind == callWrite && errors.Is(w.err, eventlog.ErrUnavailable) {
		return w.err
	}
	return nil
}

// resumeLocked lets a writer that a write error has stopped go on: the log has
// come back, and what it found of the run is published.
func (w *writer) resumeLocked() {
	w.err, w.terminal = nil, nil
	t := w.thread
	t.mu.RLock()
	defer t.mu.RUnlock()
	if p := &t.published; w.index < len(p.runs) && p.keys[w.index] == w.lease.Run {
		w.last = max(w.first, p.runs[w.index].LastSeq)
	}
}

// End implements [eventlog.Writer].
func (w *writer) End(ctx context.Context, code, message string) error {
	c := newCall(callEnd, "end", w.lease.Thread)
	c.run, c.writer, c.code, c.message = w.lease.Run, w, code, message
	if err := w.accept(ctx, c); err != nil {
		return err
	}
	_, err := c.wait(ctx)
	if err != nil && c.state.Load() == callWithdrawn {
		w.forget(c)
	}
	return err
}

// fenced is why the writer may not write, as the committer sees it.
func (w *writer) fenced(a *applied) error {
	if a.erased != nil {
		return a.erased
	}
	if !w.present(a) {
		return w.ended(agui.RunAbandoned) // cleared away
	}
	return a.fencedAt(w.index, w.lease)
}

// present reports whether the writer's run was not removed.
func (w *writer) present(a *applied) bool { return a.erased == nil && w.generation == a.generation }

// ended is the refusal of what comes behind the run's end.
func (w *writer) ended(status agui.RunStatus) error {
	return &eventlog.FencedError{Run: w.lease.Run, Epoch: w.lease.Epoch, Status: status}
}
