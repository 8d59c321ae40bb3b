package pebblelog

import (
	"context"
	"encoding/binary"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// receiptRow is a stored receipt.
type receiptRow struct {
	removal                     eventlog.Removal
	position                    uint64
	time                        int64
	reason, actor               string
	created                     int64
	generation                  uint64
	message                     string
	first, last                 uint64
	firstPosition, lastPosition uint64
	firstRun, lastRun           uint32 // run ordinals, the first excluded
	removed                     bool
	gone                        int64 // 0: not yet
	diskBytes                   uint64
	places                      []eventlog.Place
	holders                     []string
}

// count adds to what was removed from a place.
func (r *receiptRow) count(name string, count, bytes uint64) {
	for i := range r.places {
		if p := &r.places[i]; p.Name == name {
			p.Count += count
			p.Bytes += bytes
			return
		}
	}
	r.places = append(r.places, eventlog.Place{Name: name, Count: count, Bytes: bytes})
}

func (r *receiptRow) describe(key eventlog.ThreadKey, number uint64) eventlog.Receipt {
	out := eventlog.Receipt{
		Thread: key, Number: number, Removal: r.removal, Time: moment(r.time), Position: r.position,
		Reason: r.reason, Actor: r.actor, Created: moment(r.created), Generation: r.generation, Message: r.message,
		First: r.first, Last: r.last, FirstPosition: r.firstPosition, LastPosition: r.lastPosition,
		Places: r.places, Removed: r.removed, DiskBytes: r.diskBytes, Holders: r.holders,
	}
	if r.gone != 0 {
		out.Gone = moment(r.gone)
	}
	return out
}

func (e *encoder) receipt(r *receiptRow) []byte {
	e.begin(18)
	e.small(uint8(r.removal))
	e.uint(r.position)
	e.time(r.time)
	e.text(r.reason)
	e.text(r.actor)
	e.time(r.created)
	e.uint(r.generation)
	e.text(r.message)
	e.uint(r.first)
	e.uint(r.last)
	e.uint(r.firstPosition)
	e.uint(r.lastPosition)
	e.run(r.firstRun)
	e.run(r.lastRun)
	e.bool(r.removed)
	e.time(r.gone)
	e.uint(r.diskBytes)
	e.array(3*len(r.places) + len(r.holders) + 1)
	e.ordinal(len(r.places))
	for _, p := range r.places {
		e.text(p.Name)
		e.uint(p.Count)
		e.uint(p.Bytes)
	}
	for _, h := range r.holders {
		e.text(h)
	}
	return e.finish()
}

func (d *decoder) receipt(value []byte) (r receiptRow, err error) {
	d.begin(value, 18)
	r.removal, r.position, r.time = eventlog.Removal(d.small()), d.uint(), d.time()
	r.reason, r.actor, r.created, r.generation, r.message = d.text(), d.text(), d.time(), d.uint(), d.text()
	r.first, r.last, r.firstPosition, r.lastPosition = d.uint(), d.uint(), d.uint(), d.uint()
	r.firstRun, r.lastRun = d.run(), d.run()
	r.removed, r.gone, r.diskBytes = d.bool(), d.time(), d.uint()
	left := d.in.array() - 1
	places := d.ordinal()
	if left < 0 || places > left/3 {
		d.in.fail()
	}
	for range places {
		if err := d.fault(); err != nil {
			return r, err
		}
		r.places = append(r.places, eventlog.Place{Name: d.text(), Count: d.uint(), Bytes: d.uint()})
	}
	for range left - 3*places {
		if err := d.fault(); err != nil {
			return r, err
		}
		r.holders = append(r.holders, d.text())
	}
	return r, d.end()
}

// receipt reads a stored receipt.
func (l *Log) receipt(d *decoder, ord, number uint64) (receiptRow, error) {
	value, ok, err := l.get(receiptKey(ord, number))
	if err == nil && !ok {
		err = errDamaged
	}
	if err != nil {
		return receiptRow{}, err
	}
	return d.receipt(value)
}

// readReceipt is receipt, for a caller.
func (l *Log) readReceipt(key eventlog.ThreadKey, ord, number uint64) (out eventlog.Receipt, err error) {
	err = l.reading("read the receipt of", key, func() error {
		row, err := l.receipt(newDecoder(), ord, number)
		out = row.describe(key, number)
		return err
	})
	return out, err
}

// lastReceipt is the number of a thread's latest receipt; 0: there is none.
func lastReceipt(from pebble.Reader, ord uint64) (uint64, error) {
	prefix := ordinalKey(prefixReceipt, ord)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return 0, err
	}
	defer it.Close()
	if !it.Last() {
		return 0, it.Error()
	}
	return binary.BigEndian.Uint64(it.Key()[9:]), nil
}

// Receipts implements [eventlog.Log].
func (l *Log) Receipts(ctx context.Context, scope, thread string) iter.Seq2[eventlog.Receipt, error] {
	const op = "list receipts"
	return func(yield func(eventlog.Receipt, error) bool) {
		key := eventlog.ThreadKey{Scope: scope, Thread: thread}
		if thread == "" {
			key.Thread = "-" // any that can be
		}
		if err := l.checkKey(op, key); err != nil {
			yield(eventlog.Receipt{}, err)
			return
		}
		key.Thread = thread
		var from []byte
		for more := true; more; {
			if ctx.Err() != nil {
				yield(eventlog.Receipt{}, &eventlog.Error{Op: op, Key: key, Err: ctx.Err()})
				return
			}
			var chunk []eventlog.Receipt
			err := l.reading(op, key, func() (err error) {
				chunk, from, err = l.receiptChunk(key, from)
				return err
			})
			for _, r := range chunk {
				if !yield(r, nil) {
					return
				}
			}
			if err != nil {
				yield(eventlog.Receipt{}, err)
				return
			}
			more = from != nil
		}
	}
}

// receiptChunk lists the receipts of some threads and says with which name to go
// on; nil: with none.
func (l *Log) receiptChunk(key eventlog.ThreadKey, from []byte) (out []eventlog.Receipt, next []byte, err error) {
	prefix := scopePrefix(key.Scope)
	end := after(prefix)
	if key.Thread != "" {
		from = nameKey(key)
		end = append(nameKey(key), 0)
	} else if from == nil {
		from = prefix
	}
	d := newDecoder()
	mark, looked := l.mark.get(), 0
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: end})
	if err != nil {
		return nil, nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if looked++; looked > chunkItems || len(out) > chunkItems {
			return out, append([]byte(nil), it.Key()...), nil
		}
		ord, err := d.name(it.Value())
		if err != nil {
			return out, nil, err
		}
		thread := eventlog.ThreadKey{Scope: key.Scope, Thread: string(it.Key()[len(prefix):])}
		err = l.scan(ordinalKey(prefixReceipt, ord), func(k, value []byte) error {
			row, err := d.receipt(value)
			if err == nil && row.position <= mark {
				out = append(out, row.describe(thread, binary.BigEndian.Uint64(k[9:])))
			}
			return err
		})
		if err != nil {
			return out, nil, err
		}
	}
	return out, nil, it.Error()
}
