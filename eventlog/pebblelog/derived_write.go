package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// DerivedWrite implements [eventlog.Derived].
func (l *Log) DerivedWrite(ctx context.Context, s eventlog.Space, b eventlog.DerivedBatch) error {
	const op = "write derived rows"
	refuse := func(err error) error {
		return &eventlog.Error{Op: op, Key: eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}, Err: err}
	}
	if err := checkDerived(&b); err != nil {
		return refuse(err)
	}
	if err := ctx.Err(); err != nil {
		return refuse(err)
	}
	return l.changeSpace(op, s, func(p derivedPlace, batch *pebble.Batch) error {
		w := &l.derived
		if mark := l.mark.get(); b.To.Position > mark {
			return &eventlog.InvalidError{Reason: fmt.Sprintf("derived rows are not written ahead of the log: position %d, and %d is durable", b.To.Position, mark)}
		}
		at, err := l.head(p, w.dec)
		if err != nil {
			return err
		}
		if b.To.Removals != p.receipts || !b.Anew && at != b.From {
			return &eventlog.StaleError{Expected: b.From, Actual: at, Removals: p.receipts}
		}
		// Writing into a batch in memory fails only for a batch that was applied.
		if b.Anew || at == (eventlog.At{}) {
			used, err := l.used(p.prefix) // also by what has no head
			if err != nil {
				return err
			}
			if used {
				_ = batch.DeleteRange(p.prefix, after(p.prefix), nil)
			}
		}
		_ = batch.Set(p.prefix, w.enc.derived(b.To, nil), nil)
		for i := range b.Changes {
			c := &b.Changes[i]
			key := append(bytes.Clone(p.prefix), c.Key...)
			if c.Delete {
				_ = batch.Delete(key, nil)
			} else {
				_ = batch.Set(key, w.enc.derived(b.To, c.Value), nil)
			}
		}
		return nil
	})
}

// DerivedDrop implements [eventlog.Derived].
func (l *Log) DerivedDrop(ctx context.Context, s eventlog.Space) error {
	const op = "drop derived rows"
	if err := ctx.Err(); err != nil {
		return &eventlog.Error{Op: op, Key: eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}, Err: err}
	}
	return l.changeSpace(op, s, func(p derivedPlace, batch *pebble.Batch) error {
		return batch.DeleteRange(p.prefix, after(p.prefix), nil)
	})
}

// used reports whether there are keys with a prefix.
func (l *Log) used(prefix []byte) (bool, error) {
	it, err := l.iterate(prefix)
	if err != nil {
		return false, err
	}
	defer it.Close()
	return it.First(), it.Error()
}

// checkDerived refuses what cannot be written.
func checkDerived(b *eventlog.DerivedBatch) error {
	if b.To == (eventlog.At{}) {
		return &eventlog.InvalidError{Reason: "derived rows are of no position"}
	}
	if b.To.Position < b.From.Position && !b.Anew {
		return &eventlog.InvalidError{Reason: "derived rows do not go back in the log"}
	}
	size := 0
	for i := range b.Changes {
		c := &b.Changes[i]
		switch {
		case len(c.Key) == 0:
			return &eventlog.InvalidError{Reason: "the key of a derived row is empty"}
		case len(c.Key) > eventlog.DerivedKeyBytes:
			return &eventlog.TooLargeError{What: "key of a derived row", Size: len(c.Key), Limit: eventlog.DerivedKeyBytes}
		}
		size += len(c.Key) + len(c.Value)
	}
	if size > eventlog.DerivedBatchBytes {
		return &eventlog.TooLargeError{What: "batch of derived rows", Size: size, Limit: eventlog.DerivedBatchBytes}
	}
	return nil
}

// changeSpace has a batch filled in the caller's turn, and applies it. What may
// keep it waiting it waits for before.
func (l *Log) changeSpace(op string, s eventlog.Space, fill func(p derivedPlace, batch *pebble.Batch) error) error {
	return l.inSpace(op, s, func(see func() (derivedPlace, error)) error {
		if l.opts.readOnly {
			return &eventlog.Error{Op: op, Key: eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}, Err: eventlog.ErrReadOnly, Hint: hintReadOnly}
		}
		l.pace()
		w := &l.derived
		w.mu.Lock()
		defer w.mu.Unlock()
		if err := l.failure.get(); err != nil {
			return err
		}
		p, err := see()
		if err != nil {
			return err
		}
		batch := l.db.NewBatch()
		if err := fill(p, batch); err != nil {
			_ = batch.Close() // it was never applied
			return err
		}
		return l.applyDerived(batch)
	})
}

// applyDerived hands a batch to the engine, which does not sync it. A fault of
// the engine ends it for all, as with a commit.
func (l *Log) applyDerived(b *pebble.Batch) error {
	if err := l.db.Apply(b, pebble.NoSync); err != nil {
		l.poison(err)
		return l.failure.last()
	}
	if err := l.traffic.fatal(); err != nil {
		return l.failure.last()
	}
	return b.Close()
}

// sweepDerived deletes the rows of a thread that were derived before a removal.
func (l *Log) sweepDerived(ctx context.Context, j job) error {
	l.derived.barrier() // who wrote before it was published is done
	stale := false
	all := rangeOf(eventlog.PlaceDerived, threadSpaces(j.ord))
	err := l.reading("remove from", j.key, func() (err error) {
		stale, err = l.hasStale(j)
		return err
	})
	if err != nil || !stale {
		return err
	}
	found, err := l.countRange(ctx, j.key, all)
	if err != nil {
		return err
	}
	return l.step(ctx, j, func(b *builder, row *receiptRow) error {
		row.count(found.Name, found.Count, found.Bytes)
		return b.group.batch.DeleteRange(all.from, all.to, nil)
	})
}

// hasStale reports whether a thread has rows that were derived before a removal,
// or rows of which that is not known.
func (l *Log) hasStale(j job) (stale bool, err error) {
	d := newDecoder()
	err = l.eachSpace(threadSpaces(j.ord), func(prefix []byte, _ string) error {
		value, ok, err := l.get(prefix)
		if err != nil {
			return err
		}
		at, _, err := d.derived(value)
		stale = stale || !ok || err != nil || at.Removals < j.number
		return nil
	})
	return stale, err
}

// scopeHolders names who keeps rows of a scope, which may hold what was removed
// until they are told of it.
func (l *Log) scopeHolders(scope string) (out []string) {
	_ = l.eachSpace(scopeSpaces(scope), func(_ []byte, owner string) error {
		if len(out) < maxHolders {
			out = append(out, fmt.Sprintf("rows of the scope that %q derives from its threads, until it has seen the removal", owner))
		}
		return nil
	})
	return out
}

// derived is a row: version, CRC-32C of all that follows, where it is true, and
// what it says.
func (e *encoder) derived(at eventlog.At, value []byte) []byte {
	e.buf = append(e.buf[:0], valueVersion, 0, 0, 0, 0)
	e.array(2)
	e.uint(at.Position)
	e.uint(at.Removals)
	e.buf = append(e.buf, value...)
	sealRecord(e.buf)
	return e.finish()
}

// derived gives what a row says, which aliases stored.
func (d *decoder) derived(stored []byte) (at eventlog.At, value []byte, err error) {
	d.err = nil
	if err := unsealed(stored); err != nil {
		if errors.Is(err, eventlog.ErrVersion) {
			err = errDamaged // the store has a version that has no other rows
		}
		return at, nil, err
	}
	if d.reset(stored[5:]) != 2 {
		d.in.fail()
	}
	at.Position, at.Removals = d.uint(), d.uint()
	return at, d.in.rest, d.fault()
}
