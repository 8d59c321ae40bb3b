package pebblelog

import (
	"bytes"
	"context"
	"iter"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// Threads implements [eventlog.Log]. A thread created while it runs may or may
// not be among them.
func (l *Log) Threads(ctx context.Context, scope, afterID string) iter.Seq2[eventlog.Thread, error] {
	const op = "list threads"
	return func(yield func(eventlog.Thread, error) bool) {
		fail := func(err error) {
			yield(eventlog.Thread{}, &eventlog.Error{Op: op, Key: eventlog.ThreadKey{Scope: scope}, Err: err})
		}
		if scope == "" || len(scope) > l.opts.Limits.IDBytes {
			fail(eventlog.ErrInvalid)
			return
		}
		from := append(scopePrefix(scope), afterID...)
		if afterID != "" {
			from = append(from, 0)
		}
		for from != nil {
			if ctx.Err() != nil {
				fail(ctx.Err())
				return
			}
			var chunk []eventlog.Thread
			err := l.reading(op, eventlog.ThreadKey{Scope: scope}, func() (err error) {
				chunk, from, err = l.threadChunk(scope, from)
				return err
			})
			for _, t := range chunk {
				if !yield(t, nil) {
					return
				}
			}
			if err != nil {
				yield(eventlog.Thread{}, err)
				return
			}
		}
	}
}

// threadChunk describes some threads and says where to go on; nil: nowhere.
func (l *Log) threadChunk(scope string, from []byte) (out []eventlog.Thread, next []byte, err error) {
	prefix := scopePrefix(scope)
	type named struct {
		id  string
		ord uint64
	}
	var found []named
	d := newDecoder()
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(prefix)})
	if err != nil {
		return nil, nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		if len(found) == chunkItems {
			next = append([]byte(nil), it.Key()...)
			break
		}
		ord, err := d.name(it.Value())
		if err != nil {
			it.Close()
			return nil, nil, err
		}
		found = append(found, named{string(it.Key()[len(prefix):]), ord})
	}
	if err := it.Close(); err != nil {
		return nil, nil, err
	}
	for _, n := range found {
		t, ok, err := l.describe(d, eventlog.ThreadKey{Scope: scope, Thread: n.id}, n.ord)
		if err != nil {
			return out, nil, err
		}
		if ok {
			out = append(out, t)
		}
	}
	return out, next, nil
}

// describe gives a thread as it is published, without loading it where it can:
// what is stored up to the watermark is durable, and a thread with more than
// that is in memory.
func (l *Log) describe(d *decoder, key eventlog.ThreadKey, ord uint64) (eventlog.Thread, bool, error) {
	if t, ok := l.cache.cached(key); ok {
		defer l.cache.release(t)
		if t.err == nil {
			out, exists := t.describe()
			return out, exists, nil
		}
	}
	mark := l.mark.get()
	out, position, err := l.stored(d, ord)
	if err == nil && position <= mark {
		return out, true, nil
	}
	t, err := l.cache.acquire(key)
	defer l.cache.release(t)
	if err != nil {
		return eventlog.Thread{}, false, &eventlog.Error{Op: "list threads", Key: key, Err: damage(err)}
	}
	out, exists := t.describe()
	return out, exists, nil
}

// stored describes a thread from its row and its last record, and gives the
// position of its latest commit.
func (l *Log) stored(d *decoder, ord uint64) (out eventlog.Thread, position uint64, err error) {
	snap := l.db.NewSnapshot()
	defer snap.Close()
	value, closer, err := snap.Get(threadRowKey(ord))
	if err != nil {
		return out, 0, err
	}
	row, err := d.thread(value)
	closer.Close()
	if err != nil {
		return out, 0, err
	}
	out = eventlog.Thread{Key: row.key, Created: moment(row.created), Updated: moment(row.created), Runs: row.runs, Generation: row.generation, FirstSeq: row.firstSeq}
	if row.state >= stateErasing || row.generation > 0 {
		return out, math.MaxUint64, nil // its thread says more
	}
	if n, err := lastReceipt(snap, ord); err != nil || n > 0 {
		return out, math.MaxUint64, err
	}
	position = row.position
	it, err := snap.NewIter(nil)
	if err != nil {
		return out, 0, err
	}
	defer it.Close()
	if lastOf(it, ordinalKey(prefixRecord, ord)) {
		h, _, err := d.record(it.Value())
		if err != nil {
			return out, 0, err
		}
		out.LastSeq, out.Updated, position = recordSeq(it.Key()), moment(h.time), h.position
	}
	if lastOf(it, ordinalKey(prefixCompanion, ord)) {
		h, _, err := d.entry(it.Value())
		if err != nil {
			return out, 0, err
		}
		out.CompanionSeq, position = recordSeq(it.Key()), max(position, h.position)
	}
	if err := it.Error(); err != nil || row.head == 0 {
		return out, position, err
	}
	value, closer, err = snap.Get(runRowKey(ord, row.head))
	if err != nil {
		return out, 0, err
	}
	defer closer.Close()
	head, err := d.runRow(value)
	out.Head = head.run.Key
	return out, position, err
}

// lastOf finds the last key with a prefix.
func lastOf(it *pebble.Iterator, prefix []byte) bool {
	return it.SeekLT(after(prefix)) && bytes.HasPrefix(it.Key(), prefix)
}
