package pebblelog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// AppendCompanion implements [eventlog.Log].
func (l *Log) AppendCompanion(ctx context.Context, key eventlog.ThreadKey, batch eventlog.CompanionBatch) (eventlog.Appended, error) {
	const op = "append to the companion stream"
	if err := l.checkKey(op, key); err != nil {
		return eventlog.Appended{}, err
	}
	if n, limit := len(batch.Key), l.opts.Limits.KeyBytes; n > limit {
		return eventlog.Appended{}, &eventlog.Error{Op: op, Key: key, Err: &eventlog.TooLargeError{What: "idempotency key", Size: n, Limit: limit}}
	}
	entries, size, err := l.checkEntries(ctx, op, key, batch.Entries)
	if err != nil {
		return eventlog.Appended{}, err
	}
	c := newCall(callCompanion, op, key)
	c.entries, c.bytes, c.charge = entries, size, charge(size, len(entries))
	c.expect, c.idem = batch.Expect, batch.Key
	if c.idem != "" {
		c.digest = digestOfEntries(entries)
	}
	return l.submit(ctx, c)
}

// checkEntries copies and checks entries: what it returns no longer depends on
// the caller's memory. It waits for room as check does.
func (l *Log) checkEntries(ctx context.Context, op string, key eventlog.ThreadKey, entries []eventlog.Entry) ([]eventlog.Entry, int, error) {
	refuse := func(line int, err error) ([]eventlog.Entry, int, error) {
		return nil, 0, &eventlog.Error{Op: op, Key: key, Line: line, Err: err}
	}
	limits := &l.opts.Limits
	if len(entries) == 0 {
		return refuse(0, &eventlog.InvalidError{Reason: "a companion batch has at least one entry"})
	}
	if n := len(entries); n > limits.BatchEvents {
		return refuse(0, &eventlog.TooLargeError{What: "batch entries", Size: n, Limit: limits.BatchEvents})
	}
	size := 0
	for i, e := range entries {
		switch {
		case e.Kind == "":
			return refuse(i+1, &eventlog.InvalidError{Reason: "the kind of an entry is empty"})
		case len(e.Kind) > eventlog.KindBytes:
			return refuse(i+1, &eventlog.TooLargeError{What: "kind", Size: len(e.Kind), Limit: eventlog.KindBytes})
		case !agui.IsText(e.Kind):
			return refuse(i+1, &eventlog.InvalidError{Reason: "the kind of an entry is not UTF-8"})
		case len(e.Body) > limits.EventBytes:
			return refuse(i+1, &eventlog.TooLargeError{What: "entry", Size: len(e.Body), Limit: limits.EventBytes})
		}
		size += len(e.Kind) + len(e.Body)
	}
	if size > limits.BatchBytes {
		return refuse(0, &eventlog.TooLargeError{What: "batch", Size: size, Limit: limits.BatchBytes})
	}
	if err := l.admit(ctx, op, key, charge(size, len(entries))); err != nil {
		return nil, 0, err
	}
	out := make([]eventlog.Entry, len(entries))
	for i, e := range entries {
		out[i] = eventlog.Entry{Kind: e.Kind, Body: bytes.Clone(e.Body)}
	}
	return out, size, nil
}

// digestOfEntries tells the entries of one batch from those of another, and from
// events.
func digestOfEntries(entries []eventlog.Entry) (out [16]byte) {
	h := sha256.New()
	h.Write([]byte("companion"))
	var size [8]byte
	for i := range entries {
		for _, part := range [][]byte{[]byte(entries[i].Kind), entries[i].Body} {
			binary.BigEndian.PutUint64(size[:], uint64(len(part)))
			h.Write(size[:])
			h.Write(part)
		}
	}
	copy(out[:], h.Sum(nil))
	return out
}

// appendCompanion writes a batch of entries, as one commit.
func (l *Log) appendCompanion(g *group, t *thread, c *call) error {
	a := &t.applied
	if c.idem != "" {
		if known, err := l.knownKey(g, t, c); known || err != nil {
			return err
		}
	}
	if want, ok := c.expect.Seq(); ok && want != a.companion {
		return &eventlog.ConflictError{Expected: want, Actual: a.companion}
	}
	b := l.build(g, t)
	b.exist()
	b.stream, b.first = streamCompanion, a.companion+1
	for i := range c.entries {
		b.entry(&c.entries[i])
	}
	c.res = eventlog.Appended{First: b.first, Last: a.companion, Position: b.position}
	if c.idem != "" {
		b.key(c)
	}
	b.finish()
	return nil
}

// entry writes one entry.
func (b *builder) entry(e *eventlog.Entry) {
	a := &b.thread.applied
	a.companion++
	b.count++
	h := entryHeader{position: b.position, time: b.time, kind: e.Kind}
	b.link.entry(e.Kind, e.Body)
	b.set(companionKey(a.ord, a.companion), b.log.enc.entry(&h, e.Body))
}

// loadCompanion finds the last entry of a thread.
func (a *applied) loadCompanion(l *Log, d *decoder) error {
	it, err := l.iterate(ordinalKey(prefixCompanion, a.ord))
	if err != nil {
		return err
	}
	defer it.Close()
	if !it.Last() {
		return it.Error()
	}
	h, _, err := d.entry(it.Value())
	if err != nil {
		return err
	}
	a.companion = recordSeq(it.Key())
	return a.loadTip(l, d, streamCompanion, h.position)
}

// Companion implements [eventlog.Log].
func (l *Log) Companion(ctx context.Context, key eventlog.ThreadKey, from, to uint64) iter.Seq2[eventlog.Entry, error] {
	const op = "read the companion stream"
	var ord, last uint64
	err := l.look(op, key, func(p *published) { ord, last = p.ord, p.companion })
	if to != 0 {
		last = min(last, to)
	}
	return func(yield func(eventlog.Entry, error) bool) {
		if err != nil {
			yield(eventlog.Entry{}, err)
			return
		}
		d := newDecoder()
		for next := max(1, from); next <= last; {
			if ctx.Err() != nil {
				yield(eventlog.Entry{}, &eventlog.Error{Op: op, Key: key, Seq: next, Err: ctx.Err()})
				return
			}
			var chunk []eventlog.Entry
			fault := l.reading(op, key, func() (err error) {
				if chunk, err = l.entryChunk(d, ord, next, last); err != nil {
					seq := next + uint64(len(chunk))
					err = &eventlog.Error{Op: op, Key: key, Seq: seq, Err: damage(err)}
				}
				return err
			})
			for _, e := range chunk {
				if !yield(e, nil) {
					return
				}
				next = e.Seq + 1
			}
			if fault != nil {
				yield(eventlog.Entry{}, fault)
				return
			}
		}
	}
}

// entryChunk reads some entries, none of which alias the engine's memory. What
// was read before a fault is returned with it.
func (l *Log) entryChunk(d *decoder, ord, next, last uint64) (out []eventlog.Entry, err error) {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: companionKey(ord, next), UpperBound: after(companionKey(ord, last))})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	size := 0
	for ok := it.First(); ok && len(out) < chunkItems && size < chunkBytes; ok = it.Next() {
		seq := recordSeq(it.Key())
		if seq != next {
			return out, fmt.Errorf("%w: entries %d to %d are missing", errDamaged, next, seq-1)
		}
		h, body, err := d.entry(it.Value())
		if err != nil {
			return out, err
		}
		out = append(out, eventlog.Entry{Seq: seq, Position: h.position, Time: moment(h.time), Kind: h.kind, Body: bytes.Clone(body)})
		size += len(body)
		next++
	}
	if err := it.Error(); err != nil {
		return out, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: entries %d to %d are missing", errDamaged, next, last)
	}
	return out, nil
}

// entryHeader is what an entry's value has before its body.
type entryHeader struct {
	position uint64
	time     int64
	kind     string
}

// entry is: version, CRC-32C of all that follows, header, body.
func (e *encoder) entry(h *entryHeader, body []byte) []byte {
	e.buf = append(e.buf[:0], valueVersion, 0, 0, 0, 0)
	e.array(3)
	e.uint(h.position)
	e.time(h.time)
	e.text(h.kind)
	e.buf = append(e.buf, body...)
	sealRecord(e.buf)
	return e.finish()
}

// entry gives the header and the body, which aliases value.
func (d *decoder) entry(value []byte) (h entryHeader, body []byte, err error) {
	d.err = nil
	if err := unsealed(value); err != nil {
		return h, nil, err
	}
	if d.reset(value[5:]) != 3 {
		d.in.fail()
	}
	h.position, h.time, h.kind = d.uint(), d.time(), d.text()
	return h, d.in.rest, d.fault()
}
