package pebblelog

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// How much is read before the engine's iterator is closed and the caller sees
// it.
const (
	chunkItems = 512
	chunkBytes = 1 << 20
)

// Watermark implements [eventlog.Log].
func (l *Log) Watermark() uint64 { return l.mark.get() }

// Wait implements [eventlog.Log].
func (l *Log) Wait(ctx context.Context, position uint64) (uint64, error) {
	now, err := l.mark.wait(ctx, position)
	if err != nil {
		return now, &eventlog.Error{Op: "wait", Err: err}
	}
	return now, nil
}

// reading runs a piece of work on the engine, which must not be closed
// meanwhile, and says what failed.
func (l *Log) reading(op string, key eventlog.ThreadKey, do func() error) error {
	if err := l.life.enter(); err != nil {
		return &eventlog.Error{Op: op, Key: key, Err: err, Hint: l.advice(err)}
	}
	defer l.life.leave()
	err := do()
	if err == nil {
		return nil
	}
	e, ok := err.(*eventlog.Error)
	if !ok {
		e = &eventlog.Error{Op: op, Key: key, Err: damage(err)}
	}
	if e.Hint == "" {
		e.Hint = l.advice(e.Err)
	}
	return e
}

// look gives the published state of a thread to see.
func (l *Log) look(op string, key eventlog.ThreadKey, see func(p *published)) error {
	if err := l.checkKey(op, key); err != nil {
		return err
	}
	return l.reading(op, key, func() error {
		t, err := l.cache.acquire(key)
		defer l.cache.release(t)
		if err != nil {
			return err
		}
		t.mu.RLock()
		defer t.mu.RUnlock()
		if !t.published.exists {
			return eventlog.ErrThreadNotFound
		}
		if t.published.erased != nil {
			return t.published.erased
		}
		see(&t.published)
		return nil
	})
}

// Thread implements [eventlog.Log].
func (l *Log) Thread(_ context.Context, key eventlog.ThreadKey) (out eventlog.Thread, err error) {
	err = l.look("describe", key, func(p *published) { out = p.describe(key) })
	return out, err
}

// Runs implements [eventlog.Log].
func (l *Log) Runs(_ context.Context, key eventlog.ThreadKey) (out []eventlog.Run, err error) {
	err = l.look("list runs", key, func(p *published) { out = slices.Clone(p.runs) })
	return out, err
}

// selection is what a read yields.
type selection struct {
	key      eventlog.ThreadKey
	ord      uint64
	next, to uint64
	runs     []agui.RunKey
	through  map[uint32]uint64 // by run ordinal; nil: all records
	removed
	gap *eventlog.GapError // in front of next
}

// Read implements [eventlog.Log].
func (l *Log) Read(ctx context.Context, key eventlog.ThreadKey, opts eventlog.ReadOptions) iter.Seq2[eventlog.Record, error] {
	chosen, err := l.choose(key, opts)
	return func(yield func(eventlog.Record, error) bool) {
		if err != nil {
			yield(eventlog.Record{}, err)
			return
		}
		s := chosen
		if s.gap != nil && !yield(eventlog.Record{}, &eventlog.Error{Op: "read", Key: key, Seq: s.gap.From, Err: s.gap}) {
			return
		}
		d := newDecoder()
		var chunk []eventlog.Record
		for s.next <= s.to {
			if ctx.Err() != nil {
				yield(eventlog.Record{}, &eventlog.Error{Op: "read", Key: key, Seq: s.next, Err: ctx.Err()})
				return
			}
			fault := l.reading("read", key, func() (err error) {
				chunk, err = l.chunk(&s, d, chunk[:0])
				if removed := l.removedSince(&s); removed != nil {
					chunk, err = nil, removed
				}
				return err
			})
			for _, r := range chunk {
				if !yield(r, nil) {
					return
				}
			}
			if fault != nil {
				yield(eventlog.Record{}, fault)
				return
			}
		}
	}
}

func (l *Log) choose(key eventlog.ThreadKey, opts eventlog.ReadOptions) (selection, error) {
	s := selection{key: key}
	var runs []eventlog.Run
	err := l.look("read", key, func(p *published) {
		s.ord, s.to, s.runs, s.removed = p.ord, p.lastSeq, p.keys, p.removed
		if opts.Lineage != nil {
			runs = slices.Clone(p.runs)
		}
	})
	if err != nil {
		return s, err
	}
	if opts.To != 0 {
		s.to = min(s.to, opts.To)
	}
	s.begin(opts.From)
	if opts.Lineage == nil {
		return s, nil
	}
	s.through = make(map[uint32]uint64)
	segments := agui.Lineage(eventlog.Tree(runs), *opts.Lineage)
	if len(segments) == 0 && !opts.Lineage.IsZero() {
		return s, &eventlog.Error{Op: "read", Key: key, Run: *opts.Lineage, Err: eventlog.ErrRunNotFound}
	}
	ordinals := make(map[agui.RunKey]uint32, len(runs))
	for i := range runs {
		ordinals[runs[i].Key] = s.ordinal(i)
	}
	for _, seg := range segments {
		s.through[ordinals[seg.Run]] = seg.Through
	}
	return s, nil
}

// takes reports whether a record belongs to the selection.
func (s *selection) takes(seq uint64, run uint32) bool {
	if s.through == nil || run == 0 {
		return true
	}
	through, ok := s.through[run]
	return ok && seq <= through
}

// chunk reads some records, none of which alias the engine's memory. What was
// read before a fault is returned with it.
func (l *Log) chunk(s *selection, d *decoder, out []eventlog.Record) ([]eventlog.Record, error) {
	it, err := l.db.NewIter(&pebble.IterOptions{
		LowerBound: recordKey(s.ord, s.next),
		UpperBound: after(recordKey(s.ord, s.to)),
	})
	if err != nil {
		return out, err
	}
	defer it.Close()
	fault := func(err error) error {
		return &eventlog.Error{Op: "read", Key: s.key, Seq: s.next, Err: damage(err)}
	}
	size, looked := 0, 0
	for ok := it.First(); ok && len(out) < chunkItems && size < chunkBytes && looked < 16*chunkItems; ok = it.Next() {
		if seq := recordSeq(it.Key()); seq != s.next {
			return out, fault(fmt.Errorf("%w: records %d to %d are missing", errDamaged, s.next, seq-1))
		}
		h, event, err := d.record(it.Value())
		if err != nil {
			return out, fault(err)
		}
		if _, ok := s.place(h.run, len(s.runs)); !ok && h.run != 0 {
			return out, fault(fmt.Errorf("%w: a record of an unknown run", errDamaged))
		}
		looked++
		if s.takes(s.next, h.run) {
			out = append(out, s.record(&h, event))
			size += len(event)
		}
		s.next++
	}
	if err := it.Error(); err != nil {
		return out, fault(err)
	}
	if looked == 0 {
		return out, fault(fmt.Errorf("%w: records %d to %d are missing", errDamaged, s.next, s.to))
	}
	return out, nil
}

func (s *selection) record(h *recordHeader, event []byte) eventlog.Record {
	r := eventlog.Record{
		Seq: s.next, Position: h.position, Time: moment(h.time), Type: h.typ, Origin: h.origin,
		Echo: h.flags&flagEcho != 0, UnknownParent: h.flags&flagUnknownParent != 0,
		Redacted: h.flags&flagRedacted != 0,
		Event:    bytes.Clone(event),
	}
	if i, ok := s.place(h.run, len(s.runs)); ok {
		r.Run = s.runs[i]
	}
	return r
}

// Commits implements [eventlog.Log].
func (l *Log) Commits(ctx context.Context, from uint64) iter.Seq2[eventlog.Commit, error] {
	to := l.mark.get()
	return func(yield func(eventlog.Commit, error) bool) {
		next := max(1, from)
		d := newDecoder()
		for next <= to {
			if ctx.Err() != nil {
				yield(eventlog.Commit{}, &eventlog.Error{Op: "read commits", Err: ctx.Err()})
				return
			}
			var chunk []eventlog.Commit
			fault := l.reading("read commits", eventlog.ThreadKey{}, func() (err error) {
				chunk, err = l.commitChunk(d, next, to)
				return err
			})
			for _, c := range chunk {
				if !yield(c, nil) {
					return
				}
				next = c.Position + 1
			}
			if fault != nil {
				yield(eventlog.Commit{}, fault)
				return
			}
		}
	}
}

func (l *Log) commitChunk(d *decoder, next, to uint64) (out []eventlog.Commit, err error) {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: commitKey(next), UpperBound: after(commitKey(to))})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok && len(out) < chunkItems; ok = it.Next() {
		position := commitPosition(it.Key())
		if position != next {
			return out, fmt.Errorf("%w: commits %d to %d are missing", errDamaged, next, position-1)
		}
		row, err := d.commit(it.Value())
		if err != nil {
			return out, fmt.Errorf("commit %d: %w", position, err)
		}
		key, err := l.nameOf(d, row.ord)
		if err != nil {
			return out, fmt.Errorf("commit %d: %w", position, err)
		}
		out = append(out, eventlog.Commit{Position: position, Thread: key, Stream: eventlog.Stream(row.stream), First: row.first, Count: row.count, Time: moment(row.time)})
		next++
	}
	if err := it.Error(); err != nil {
		return out, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: commits %d to %d are missing", errDamaged, next, to)
	}
	return out, nil
}

// names are the threads of ordinals that were looked for. A thread that is
// durable keeps its ordinal for ever.
type names struct {
	mu sync.Mutex
	of map[uint64]eventlog.ThreadKey
}

// namesKept bounds them.
const namesKept = 10_000

// nameOf is threadKey of a durable thread, remembered.
func (l *Log) nameOf(d *decoder, ord uint64) (eventlog.ThreadKey, error) {
	n := &l.names
	n.mu.Lock()
	key, known := n.of[ord]
	n.mu.Unlock()
	if known {
		return key, nil
	}
	key, err := l.threadKey(d, ord)
	if err != nil {
		return key, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.of) >= namesKept || n.of == nil {
		n.of = make(map[uint64]eventlog.ThreadKey)
	}
	n.of[ord] = key
	return key, nil
}
