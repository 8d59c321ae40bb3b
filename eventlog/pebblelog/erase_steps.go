package pebblelog

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// removeItems bounds what one step of a removal looks at.
const removeItems = 1000

// job is a removal that was committed and is to be finished.
type job struct {
	key         eventlog.ThreadKey
	ord, number uint64
}

// task is a job with who waits for it.
type task struct {
	job
	done chan struct{}
	err  error // once done
}

// The wait before what has failed is tried again, which doubles.
const (
	removeRetryFirst = time.Second
	removeRetryLast  = time.Minute
)

// remover finishes removals, one after the other. What fails is tried again
// after a while, when the next one comes, and when the log is opened.
type remover struct {
	log    *Log
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
	wake   chan struct{}
	// files tells that the engine has deleted a file.
	files chan struct{}
	fresh freshWish
	// measured is the position up to which all was in tables when their sizes
	// were last asked for.
	measured atomic.Uint64

	retry time.Duration // the wait; of the loop

	mu     sync.Mutex
	tasks  []*task
	failed []job
}

func newRemover(l *Log) *remover {
	ctx, cancel := context.WithCancel(context.Background())
	return &remover{
		log: l, ctx: ctx, cancel: cancel, ended: make(chan struct{}),
		wake: make(chan struct{}, 1), files: make(chan struct{}, 1), retry: removeRetryFirst,
	}
}

// stop ends the remover; what it was at goes on at the next open.
func (r *remover) stop() {
	r.cancel()
	<-r.ended
}

// fileDeleted is called by the engine.
func (r *remover) fileDeleted() {
	select {
	case r.files <- struct{}{}:
	default:
	}
}

// add queues a job, and behind it those that have failed.
func (r *remover) add(j job) *task {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.addLocked(j)
	r.againLocked()
	return t
}

func (r *remover) addLocked(j job) *task {
	for _, t := range r.tasks {
		if t.job == j {
			return t
		}
	}
	t := &task{job: j, done: make(chan struct{})}
	r.tasks = append(r.tasks, t)
	return t
}

// again queues what has failed.
func (r *remover) again() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.againLocked()
}

func (r *remover) againLocked() {
	r.requeueLocked()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *remover) requeueLocked() {
	failed := r.failed
	r.failed = nil
	for _, j := range failed {
		r.addLocked(j)
	}
}

// finish queues a job and waits for its end.
func (r *remover) finish(ctx context.Context, j job) error {
	t := r.add(j)
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
		return eventlog.ErrClosed
	}
}

// loop is the remover's goroutine.
func (r *remover) loop() {
	defer close(r.ended)
	for r.ctx.Err() == nil {
		r.mu.Lock()
		var t *task
		if len(r.tasks) > 0 {
			t = r.tasks[0]
		}
		idle, failed := t == nil, len(r.failed) > 0
		r.mu.Unlock()
		if idle {
			r.rest(failed)
			continue
		}
		t.err = r.log.finishRemoval(r.ctx, t.job)
		r.mu.Lock()
		r.tasks = r.tasks[1:]
		if t.err != nil {
			r.failed = append(r.failed, t.job)
		}
		r.mu.Unlock()
		if t.err == nil {
			r.retry = removeRetryFirst
		} else if r.ctx.Err() == nil {
			r.log.opts.Listener.EngineError(unfinished(t.key, t.err))
		}
		close(t.done)
	}
}

// rest waits for the next task, or until what has failed is tried again.
func (r *remover) rest(failed bool) {
	var fired <-chan time.Time
	stop := func() bool { return false }
	if failed {
		fired, stop = r.log.opts.After(r.retry)
	}
	select {
	case <-r.wake:
		stop()
	case <-r.ctx.Done():
		stop()
	case <-fired:
		r.retry = min(2*r.retry, removeRetryLast)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requeueLocked()
	}
}

// unfinished is the fault of a removal that will be tried again.
func unfinished(key eventlog.ThreadKey, err error) error {
	return &eventlog.Error{Op: "finish a removal", Key: key, Err: damage(err), Hint: "nobody sees the content, and it is not yet off the disk: it is tried again"}
}

// resumeRemovals queues what a former process has not finished.
func (l *Log) resumeRemovals() error {
	d := newDecoder()
	return l.reading("resume removals", eventlog.ThreadKey{}, func() error {
		return l.scan([]byte{prefixPending}, func(key, _ []byte) error {
			if len(key) != recordKeyBytes {
				l.passBy(unrecovered(eventlog.ThreadKey{}, 0, errDamaged))
				return nil
			}
			j := job{ord: commitPosition(key[:9]), number: recordSeq(key)}
			var err error
			if j.key, err = l.threadKey(d, j.ord); err != nil {
				if l.passBy(unrecovered(j.key, j.ord, err)) {
					return nil
				}
				return err
			}
			l.remover.add(j)
			return nil
		})
	})
}

// finishRemoval brings a committed removal to its end.
func (l *Log) finishRemoval(ctx context.Context, j job) error {
	var row receiptRow
	err := l.reading("remove from", j.key, func() (err error) {
		row, err = l.receipt(newDecoder(), j.ord, j.number)
		return err
	})
	if err != nil {
		return err
	}
	if row.gone != 0 {
		return nil
	}
	if !row.removed {
		if err := l.removeRows(ctx, j, &row); err != nil {
			return err
		}
	}
	if row.removal == eventlog.RemovalRedact {
		if err := l.sweepDerived(ctx, j); err != nil {
			return err
		}
	}
	if err := l.removeFromFiles(ctx, j, &row); err != nil {
		return err
	}
	return l.step(ctx, j, func(b *builder, row *receiptRow) error {
		row.gone = b.time
		_ = b.group.batch.Delete(pendingKey(j.ord, j.number), nil)
		return nil
	})
}

// step has the committer do a piece of a removal; the receipt is written anew
// with it.
func (l *Log) step(ctx context.Context, j job, do func(b *builder, row *receiptRow) error) error {
	c := newCall(callDo, "remove from", j.key)
	c.do = func(g *group, t *thread) error {
		row, err := l.receipt(l.dec, j.ord, j.number)
		if err != nil {
			return damage(err)
		}
		b := l.build(g, t)
		if err := do(b, &row); err != nil {
			return damage(err)
		}
		b.set(receiptKey(j.ord, j.number), l.enc.receipt(&row))
		b.needed, b.stream = true, streamControl
		b.finish()
		return nil
	}
	if !l.queue.push(work{call: c}) {
		return c.fail(eventlog.ErrClosed)
	}
	_, err := c.wait(ctx)
	return err
}

// removeRows deletes the rows of an erased or cleared thread. Nobody reads them
// any more, so that it may take many steps, and each may be repeated.
func (l *Log) removeRows(ctx context.Context, j job, row *receiptRow) error {
	var next []byte
	for more := true; more; {
		err := l.step(ctx, j, func(b *builder, row *receiptRow) (err error) {
			next, err = l.removeKeys(b, row, j.ord, next)
			return err
		})
		if err != nil {
			return err
		}
		more = next != nil
	}
	l.derived.barrier() // who wrote derived rows before it was published is done
	found, err := l.countRows(ctx, j, row)
	if err != nil {
		return err
	}
	return l.step(ctx, j, func(b *builder, row *receiptRow) error {
		a := &b.thread.applied
		for _, p := range found {
			row.count(p.Name, p.Count, p.Bytes)
		}
		for _, r := range l.rowsOf(j.ord, row) {
			_ = b.group.batch.DeleteRange(r.from, r.to, nil)
		}
		row.removed = true
		b.row = true
		switch {
		case row.removal == eventlog.RemovalErase:
			a.state = stateErased
		case a.state == stateClearing && a.generation == row.generation+1:
			a.state = stateLive
		}
		return nil
	})
}

// removeKeys deletes some idempotency keys of an erased thread, or takes from
// those of a cleared one what they say of the events: that they were used is to
// be known until they are past their age. It says where to go on; nil: nowhere.
func (l *Log) removeKeys(b *builder, row *receiptRow, ord uint64, from []byte) (next []byte, err error) {
	prefix := ordinalKey(prefixKey, ord)
	if from == nil {
		from = prefix
	}
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(prefix)})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > removeItems {
			return append([]byte(nil), it.Key()...), nil
		}
		key, err := l.dec.key(it.Value())
		if err != nil {
			return nil, err
		}
		cleared := false
		if row.removal == eventlog.RemovalClear && key.digest != [16]byte{} {
			if cleared, err = l.keyGone(&b.thread.applied, &key); err != nil {
				return nil, err
			}
		}
		name := string(it.Key()[len(prefix):])
		switch {
		case row.removal == eventlog.RemovalErase:
			_ = b.group.batch.Delete(it.Key(), nil)
			_ = b.group.batch.Delete(keyTimeKey(key.time, ord, name), nil)
		case cleared:
			key.digest = [16]byte{}
			b.set(append([]byte(nil), it.Key()...), l.enc.key(key))
		default:
			continue
		}
		row.count(eventlog.PlaceKeys, 1, uint64(len(it.Value())))
	}
	return nil, it.Error()
}

// keyRange is a range of keys, its end excluded.
type keyRange struct {
	place    string // empty: nobody counts it
	from, to []byte
}

func rangeOf(place string, prefix []byte) keyRange { return keyRange{place, prefix, after(prefix)} }

// rowsOf are the ranges that a removal of all deletes.
func (l *Log) rowsOf(ord uint64, row *receiptRow) []keyRange {
	if row.removal == eventlog.RemovalErase {
		return []keyRange{
			rangeOf(eventlog.PlaceRecords, ordinalKey(prefixRecord, ord)),
			rangeOf(eventlog.PlaceRuns, ordinalKey(prefixRun, ord)),
			rangeOf(eventlog.PlaceCompanion, ordinalKey(prefixCompanion, ord)),
			rangeOf(eventlog.PlaceDerived, threadSpaces(ord)),
			rangeOf("", ordinalKey(prefixLease, ord)),
			rangeOf("", ordinalKey(prefixKey, ord)),
		}
	}
	var out []keyRange
	if row.first > 0 {
		out = append(out, keyRange{eventlog.PlaceRecords, recordKey(ord, row.first), after(recordKey(ord, row.last))})
	}
	if row.lastRun > row.firstRun {
		out = append(out, keyRange{eventlog.PlaceRuns, runRowKey(ord, row.firstRun+1), after(runRowKey(ord, row.lastRun))})
	}
	return append(out, rangeOf(eventlog.PlaceDerived, threadSpaces(ord)))
}

// countRows counts what a removal is about to delete. The receipt's own rows are
// changed by nobody, so that what it counts is what will be deleted; but derived
// rows of the next generation may come and be deleted too.
func (l *Log) countRows(ctx context.Context, j job, row *receiptRow) ([]eventlog.Place, error) {
	var out []eventlog.Place
	for _, r := range l.rowsOf(j.ord, row) {
		if r.place == "" {
			continue
		}
		p, err := l.countRange(ctx, j.key, r)
		if err != nil {
			return nil, err
		}
		if p.Count > 0 {
			out = append(out, p)
		}
	}
	return out, nil
}

// countRange counts the keys of a range and the bytes of their values, in pieces
// that keep nobody waiting.
func (l *Log) countRange(ctx context.Context, key eventlog.ThreadKey, r keyRange) (eventlog.Place, error) {
	p := eventlog.Place{Name: r.place}
	for from := r.from; from != nil; {
		if ctx.Err() != nil {
			return p, ctx.Err()
		}
		err := l.reading("count", key, func() error {
			it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: r.to})
			if err != nil {
				return err
			}
			defer it.Close()
			from = nil
			n := 0
			for ok := it.First(); ok; ok = it.Next() {
				if n++; n > 16*removeItems {
					from = append([]byte(nil), it.Key()...)
					return nil
				}
				p.Count++
				p.Bytes += uint64(len(it.Value()))
			}
			return it.Error()
		})
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

// wouldRemove is what a removal would remove.
func (l *Log) wouldRemove(ctx context.Context, r *removal) (eventlog.Receipt, error) {
	var row receiptRow
	var run error
	err := l.look(r.op, r.key, func(p *published) {
		r.ord = p.ord
		row = receiptRow{
			removal: r.kind, reason: r.opts.Reason, actor: r.opts.Actor, created: p.created, generation: p.generation,
			firstRun: p.firstRun, lastRun: p.firstRun + uint32(len(p.runs)), time: l.opts.Now().UnixMicro(),
		}
		if p.lastSeq >= p.first() {
			row.first, row.last = p.first(), p.lastSeq
		}
		if want, ok := r.opts.Expect.Seq(); ok && want != p.lastSeq {
			run = &eventlog.ConflictError{Expected: want, Actual: p.lastSeq}
		}
	})
	if err == nil && run != nil {
		err = r.fail(run, "")
	}
	if err != nil {
		return eventlog.Receipt{}, err
	}
	err = l.reading(r.op, r.key, func() error { return l.positions(r.ord, &row, nil) })
	if err != nil {
		return eventlog.Receipt{}, err
	}
	j := job{key: r.key, ord: r.ord}
	var full []keyRange
	ranges := append(l.rowsOf(r.ord, &row), rangeOf(eventlog.PlaceKeys, ordinalKey(prefixKey, r.ord)))
	for _, rows := range ranges {
		if rows.place == "" {
			continue
		}
		p, err := l.countRange(ctx, r.key, rows)
		if err != nil {
			return eventlog.Receipt{}, err
		}
		if p.Count > 0 {
			row.count(p.Name, p.Count, p.Bytes)
			full = append(full, rows) // an empty range would be taken for a block
		}
	}
	if row.diskBytes, err = l.diskBytes(ctx, j.key, full); err != nil {
		return eventlog.Receipt{}, err
	}
	return row.describe(r.key, 0), nil
}

// positions finds the commits of a receipt's first and last record. Those of the
// group that the removal is committed with are only in its batch; nil: there is
// none.
func (l *Log) positions(ord uint64, row *receiptRow, batch *pebble.Batch) error {
	if row.first == 0 {
		return nil
	}
	d := newDecoder()
	for _, p := range []struct {
		seq uint64
		to  *uint64
	}{{row.first, &row.firstPosition}, {row.last, &row.lastPosition}} {
		value, ok, err := l.get(recordKey(ord, p.seq))
		if err != nil {
			return err
		}
		if !ok {
			value, ok = inBatch(batch, recordKey(ord, p.seq))
		}
		if !ok {
			continue // verify says so; what is there is removed all the same
		}
		h, _, err := d.record(value)
		if err != nil {
			continue // a damaged record must not keep anybody from removing it
		}
		*p.to = h.position
	}
	return nil
}

// inBatch looks for what a batch sets a key to.
func inBatch(batch *pebble.Batch, key []byte) (value []byte, found bool) {
	if batch == nil {
		return nil, false
	}
	for r := batch.Reader(); ; {
		kind, k, v, ok, err := r.Next()
		if !ok || err != nil {
			return value, found
		}
		if kind == pebble.InternalKeyKindSet && bytes.Equal(k, key) {
			value, found = v, true
		}
	}
}
