package pebblelog

import (
	"context"
	"fmt"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// How content is removed. The call commits that it is gone: the thread's row, a
// receipt, and an entry that finds the receipt as long as work is left (erase.go,
// clear.go, redact.go). From that commit on no reader sees the content. The
// remover then deletes it in bounded steps through the committer
// (erase_steps.go), and gets the bytes out of the engine's files (erase_disk.go).
// What a process leaves undone the next one finds and finishes.

// maxRemovalText bounds the reason and the actor of a removal.
const maxRemovalText = 1024

// maxHolders bounds what a receipt lists.
const maxHolders = 1000

// removed is what readers must know of what was removed from a thread.
type removed struct {
	generation uint64
	firstSeq   uint64
	firstRun   uint32
	receipts   uint64
	erased     *eventlog.ErasedError
	reset      bool // all runs went with it
}

// first is the seq of the first record that is not gone.
func (r *removed) first() uint64 { return max(1, r.firstSeq) }

func (r *removed) ordinal(i int) uint32                     { return ordinalOf(r.firstRun, i) }
func (r *removed) place(run uint32, runs int) (int, bool)   { return placeOf(r.firstRun, run, runs) }
func (l *lifecycle) ordinal(i int) uint32                   { return ordinalOf(l.firstRun, i) }
func (l *lifecycle) place(run uint32, runs int) (int, bool) { return placeOf(l.firstRun, run, runs) }

// ordinalOf is the run ordinal of the i-th run of a generation before which
// there were first runs.
func ordinalOf(first uint32, i int) uint32 { return first + uint32(i) + 1 }

// placeOf is which of a generation's runs a run ordinal is of.
func placeOf(first, run uint32, runs int) (int, bool) {
	i := int(run) - int(first) - 1
	return i, i >= 0 && i < runs
}

// gone reports whether a seq is of an earlier generation.
func (a *applied) gone(seq uint64) bool { return a.generation > 0 && seq < a.firstSeq }

// keyGone reports whether what an idempotency key was used for was removed. The
// companion stream has seqs of its own, and stays.
func (l *Log) keyGone(a *applied, row *keyRow) (bool, error) {
	if !a.gone(row.last) {
		return false, nil
	}
	value, ok, err := l.get(commitKey(row.position))
	if err != nil || !ok {
		return true, err
	}
	commit, err := l.dec.commit(value)
	return commit.stream != streamCompanion, err
}

// headIndex is the place of the head among the runs; -1: there is none.
func (a *applied) headIndex() int {
	if i, ok := a.index[a.tracker.Head()]; ok {
		return i
	}
	return -1
}

// removals is what readers must know, now.
func (a *applied) removals() removed {
	return removed{generation: a.generation, firstSeq: a.firstSeq, firstRun: a.firstRun, receipts: a.receipts, erased: a.erased}
}

// remove takes note of a removal.
func (p *published) remove(r *removed) {
	if r == nil {
		return
	}
	p.removed = *r
	if r.reset {
		p.runs, p.keys, p.head = nil, nil, agui.RunKey{}
	}
}

// begin is where a selection begins that is asked for from a seq on.
func (s *selection) begin(from uint64) {
	s.next = max(s.first(), from)
	if from > 0 && from < s.first() {
		s.gap = &eventlog.GapError{From: from, To: s.first() - 1, Reason: eventlog.RemovalClear}
	}
}

// removedSince is why a selection cannot be read on: what it was chosen from was
// removed since.
func (l *Log) removedSince(s *selection) error {
	t, err := l.cache.acquire(s.key)
	defer l.cache.release(t)
	if err != nil {
		return nil // the read itself says more
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	fail := func(err error) error {
		return &eventlog.Error{Op: "read", Key: s.key, Seq: s.next, Err: err}
	}
	switch p := &t.published; {
	case p.erased != nil:
		return fail(p.erased)
	case p.generation != s.generation:
		return fail(&eventlog.GapError{From: s.next, To: p.first() - 1, Reason: eventlog.RemovalClear})
	}
	return nil
}

// loadRemovals reads what was removed from a thread.
func (t *thread) loadRemovals(l *Log, d *decoder) error {
	a := &t.applied
	a.lastSeq = a.firstSeq - 1
	number, err := lastReceipt(l.db, a.ord)
	if err != nil || number == 0 && a.state < stateErasing {
		return err
	}
	r, err := l.receipt(d, a.ord, number)
	if err != nil {
		return err
	}
	a.receipts = number
	if a.state < stateErasing {
		if r.removal == eventlog.RemovalClear {
			a.updated = r.time
		}
		return nil
	}
	a.erased = &eventlog.ErasedError{Time: moment(r.time), Reason: r.reason}
	a.lastSeq, a.updated = r.last, r.time
	t.publishAll()
	return nil
}

// Erase implements [eventlog.Log].
func (l *Log) Erase(ctx context.Context, key eventlog.ThreadKey, opts eventlog.RemoveOptions) (eventlog.Receipt, error) {
	return l.remove(ctx, removal{kind: eventlog.RemovalErase, op: "erase", key: key, opts: opts})
}

// removal is one call that removes content.
type removal struct {
	kind eventlog.Removal
	op   string
	key  eventlog.ThreadKey
	opts eventlog.RemoveOptions
	// found is what a redaction writes anew.
	found *redacted

	// The answer of the committer.
	ord, number uint64
}

func (r *removal) fail(err error, hint string) error {
	return &eventlog.Error{Op: r.op, Key: r.key, Err: err, Hint: hint}
}

// check refuses what cannot be kept.
func (l *Log) checkRemoval(r *removal) error {
	if err := l.checkKey(r.op, r.key); err != nil {
		return err
	}
	if err := checkNotes(r.opts.Reason, r.opts.Actor); err != nil {
		return r.fail(err, "")
	}
	return nil
}

// checkNotes refuses a reason or an actor that cannot be kept.
func checkNotes(reason, actor string) error {
	for _, f := range []struct{ what, text string }{{"reason", reason}, {"actor", actor}} {
		if len(f.text) > maxRemovalText {
			return &eventlog.TooLargeError{What: f.what, Size: len(f.text), Limit: maxRemovalText}
		}
		if !agui.IsText(f.text) {
			return &eventlog.InvalidError{Reason: "the " + f.what + " is not UTF-8"}
		}
	}
	return nil
}

// remove commits a removal and waits until the content is gone.
func (l *Log) remove(ctx context.Context, r removal) (eventlog.Receipt, error) {
	if err := l.checkRemoval(&r); err != nil {
		return eventlog.Receipt{}, err
	}
	if err := ctx.Err(); err != nil {
		return eventlog.Receipt{}, r.fail(err, "nothing was removed")
	}
	if r.opts.DryRun {
		return l.wouldRemove(ctx, &r)
	}
	c := newCall(callDo, r.op, r.key)
	c.expect = r.opts.Expect
	c.do = func(g *group, t *thread) error { return l.commitRemoval(g, t, c, &r) }
	if !l.queue.push(work{call: c}) {
		return eventlog.Receipt{}, r.fail(eventlog.ErrClosed, "nothing was removed")
	}
	if _, err := c.wait(ctx); err != nil {
		return eventlog.Receipt{}, err
	}
	return l.finishRemoved(ctx, &r)
}

// finishRemoved waits until the content of a committed removal is gone.
func (l *Log) finishRemoved(ctx context.Context, r *removal) (eventlog.Receipt, error) {
	err := l.remover.finish(ctx, job{key: r.key, ord: r.ord, number: r.number})
	receipt, readErr := l.readReceipt(r.key, r.ord, r.number)
	if readErr != nil {
		return receipt, r.fail(readErr, "")
	}
	if err != nil {
		return receipt, r.fail(err, "nobody sees the content any more; it is removed from the disk as soon as that can go on, at the latest when the store is opened again")
	}
	return receipt, nil
}

// commitRemoval is the committer's part of a removal.
func (l *Log) commitRemoval(g *group, t *thread, c *call, r *removal) error {
	a := &t.applied
	if !a.exists {
		return eventlog.ErrThreadNotFound
	}
	r.ord = a.ord
	if a.erased != nil {
		if r.kind == eventlog.RemovalErase {
			r.number = a.receipts // the first, and the last
			return nil
		}
		return a.erased
	}
	if err := expected(a, c); err != nil {
		return err
	}
	if r.kind == eventlog.RemovalRedact {
		return l.commitRedaction(g, t, r)
	}
	if r.kind == eventlog.RemovalClear && !r.opts.TakeOver {
		if err := l.idle(a); err != nil {
			return err
		}
	}
	return l.commitRemovalOfAll(g, t, r)
}

// idle refuses if anybody writes a run of the thread.
func (l *Log) idle(a *applied) error {
	now := l.clock()
	for _, run := range a.tracker.OpenRuns() {
		if a.owned(run.Key, now, l.opts.ImplicitLease) {
			return a.active(run.Key)
		}
	}
	return nil
}

// commitRemovalOfAll commits that a thread is erased or cleared.
func (l *Log) commitRemovalOfAll(g *group, t *thread, r *removal) error {
	a := &t.applied
	row := receiptRow{
		removal: r.kind, reason: r.opts.Reason, actor: r.opts.Actor, created: a.created, generation: a.generation,
		firstRun: a.firstRun, lastRun: a.firstRun + uint32(len(a.info)),
	}
	if a.lastSeq >= a.firstSeq {
		row.first, row.last = a.firstSeq, a.lastSeq
	}
	if err := l.positions(a.ord, &row, g.batch); err != nil {
		return fmt.Errorf("find what to remove: %w", damage(err))
	}
	b := l.build(g, t)
	b.dropLeases()
	a.chainKey, a.chainStart, a.chainBase = nil, 0, nil // what goes on begins a new one
	if r.kind == eventlog.RemovalErase {
		row.last = a.lastSeq // also without a record, for the tombstone
		a.state = stateErasing
		a.erased = &eventlog.ErasedError{Time: moment(b.time), Reason: row.reason}
	} else {
		a.state = stateClearing
		a.generation++
		a.firstSeq, a.firstRun = a.lastSeq+1, row.lastRun
		a.updated = b.time // as it is found again: when its last record came is gone with it
	}
	a.tracker, a.index, a.info, a.held = agui.NewTracker(nil, agui.RunKey{}), make(map[agui.RunKey]int), nil, 0
	a.expiring = 0
	r.number = b.writeReceipt(&row)
	b.removed.reset = true
	b.row = true
	b.finish()
	return nil
}

// dropLeases takes the leases of a thread away from their writers.
func (b *builder) dropLeases() {
	a := &b.thread.applied
	for i := range a.info {
		in := &a.info[i]
		if !in.held {
			continue
		}
		_ = b.group.batch.Delete(leaseKey(a.ord, a.ordinal(i)), nil)
		if in.ttl != 0 {
			b.log.due.forget(a.leaseID(i))
		}
		if in.pinned {
			b.unpin++
		}
	}
}

// backupsSince lists the backups that may hold what was written from a position
// on. One that cannot be read is no reason to keep the content.
func (l *Log) backupsSince(position uint64) (out []string) {
	_ = l.scan(backupPrefix(), func(_, value []byte) error {
		row, err := l.dec.backup(value)
		if err == nil && row.upTo >= position && len(out) < maxHolders {
			out = append(out, fmt.Sprintf("the backup %s of %s", row.dir, moment(row.time).Format(time.RFC3339)))
		}
		return err
	})
	return out
}

// writeReceipt adds a receipt and what finds it again as long as there is work
// left, and gives its number. The commit has no records.
func (b *builder) writeReceipt(row *receiptRow) uint64 {
	a := &b.thread.applied
	a.receipts++
	row.position, row.time = b.position, b.time
	row.holders = append(b.log.backupsSince(row.firstPosition), b.log.scopeHolders(b.thread.key.Scope)...)
	b.set(receiptKey(a.ord, a.receipts), b.log.enc.receipt(row))
	b.set(pendingKey(a.ord, a.receipts), b.log.enc.empty())
	b.needed, b.stream = true, streamControl
	now := a.removals()
	b.removed = &now
	return a.receipts
}
