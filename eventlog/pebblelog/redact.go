package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Bounds of a redaction. What it writes anew it writes as one batch.
const (
	redactBytes    = 256 << 20
	redactAttempts = 20
)

// redacted is what a redaction writes anew, found among a thread's records up to
// a seq.
type redacted struct {
	message    string
	redactor   *agui.Redactor
	ord        uint64
	generation uint64
	upTo       uint64
	records    []redactedRecord
	bytes      uint64 // of the values that are replaced
	size       int    // of those that replace them
}

type redactedRecord struct {
	seq    uint64
	run    agui.RunKey
	header recordHeader
	event  []byte
}

// Redact implements [eventlog.Log].
func (l *Log) Redact(ctx context.Context, key eventlog.ThreadKey, what eventlog.Redaction, opts eventlog.RemoveOptions) (eventlog.Receipt, error) {
	r := removal{kind: eventlog.RemovalRedact, op: "redact", key: key, opts: opts}
	if err := l.checkRemoval(&r); err != nil {
		return eventlog.Receipt{}, err
	}
	if what.Seq > 0 {
		var err error
		if what.Message, err = l.messageAt(ctx, key, what.Seq); err != nil {
			return eventlog.Receipt{}, err
		}
	}
	for attempt := 0; ; attempt++ {
		found, err := l.findMessage(ctx, key, what.Message)
		if err != nil {
			return eventlog.Receipt{}, err
		}
		if len(found.records) == 0 {
			return l.redactedBefore(ctx, &r, found)
		}
		r.found = found
		out, err := l.remove(ctx, r)
		var moved *eventlog.ConflictError
		if _, set := opts.Expect.Seq(); set || !errors.As(err, &moved) || attempt == redactAttempts {
			return out, err
		}
	}
}

// redactedBefore is the answer to a redaction that finds nothing to write anew. If
// the one that did has not been finished, it is now.
func (l *Log) redactedBefore(ctx context.Context, r *removal, found *redacted) (eventlog.Receipt, error) {
	message := found.message
	for receipt, err := range l.Receipts(ctx, r.key.Scope, r.key.Thread) {
		if err != nil {
			return eventlog.Receipt{}, err
		}
		if receipt.Removal == eventlog.RemovalRedact && receipt.Message == message {
			if receipt.Gone.IsZero() {
				r.ord, r.number = found.ord, receipt.Number
				return l.finishRemoved(ctx, r)
			}
			return receipt, nil
		}
	}
	return eventlog.Receipt{}, r.fail(eventlog.ErrNotFound, fmt.Sprintf("no record of the thread holds anything that message %q says", message))
}

// messageAt is the id of the message that a record carries.
func (l *Log) messageAt(ctx context.Context, key eventlog.ThreadKey, seq uint64) (string, error) {
	refuse := func(err error, hint string) (string, error) {
		return "", &eventlog.Error{Op: "redact", Key: key, Seq: seq, Err: err, Hint: hint}
	}
	var target agui.Header
	seen := false
	parents := make(map[string]string)
	for rec, err := range l.Read(ctx, key, eventlog.ReadOptions{}) {
		if err != nil {
			return "", err
		}
		var h agui.Header
		if err := agui.ReadHeader(rec.Event, &h); err != nil {
			return refuse(damage(err), "")
		}
		if (h.Type == agui.TypeToolCallStart || h.Type == agui.TypeToolCallChunk) && h.ToolCallID != nil {
			if _, known := parents[string(h.ToolCallID)]; h.Type == agui.TypeToolCallStart || !known {
				parents[string(h.ToolCallID)] = string(h.ParentMessageID)
			}
		}
		if rec.Seq == seq {
			target, seen = h, true
			break
		}
		if rec.Seq > seq {
			break
		}
	}
	switch {
	case !seen:
		return refuse(eventlog.ErrNotFound, "the thread has no record of that seq")
	case target.MessageID != nil && target.Type != agui.TypeMessagesSnapshot:
		return string(target.MessageID), nil
	case target.ToolCallID != nil:
		if parent := parents[string(target.ToolCallID)]; parent != "" {
			return parent, nil
		}
		return string(target.ToolCallID), nil
	}
	return refuse(&eventlog.InvalidError{Reason: fmt.Sprintf("the record, a %s, carries no message of its own", target.Type)}, "name the message by its id")
}

// findMessage looks for all that carries a message.
func (l *Log) findMessage(ctx context.Context, key eventlog.ThreadKey, message string) (*redacted, error) {
	f := &redacted{message: message, redactor: agui.NewRedactor(message)}
	var base removed
	var runs []agui.RunKey
	var to uint64
	err := l.look("redact", key, func(p *published) {
		f.ord, f.generation, f.upTo, to = p.ord, p.generation, p.first()-1, p.lastSeq
		base, runs = p.removed, p.keys
	})
	if err != nil {
		return nil, err
	}
	name := func(run uint32) (agui.RunKey, bool) {
		i, ok := base.place(run, len(runs))
		if !ok {
			return agui.RunKey{}, run == 0
		}
		return runs[i], true
	}
	d := newDecoder()
	for f.upTo < to {
		if ctx.Err() != nil {
			return nil, &eventlog.Error{Op: "redact", Key: key, Seq: f.upTo, Err: ctx.Err(), Hint: "nothing was redacted"}
		}
		err := l.reading("redact", key, func() error {
			return f.scan(l, d, min(to, f.upTo+removeItems), name)
		})
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// scan looks through the records behind upTo, up to a seq.
func (f *redacted) scan(l *Log, d *decoder, to uint64, name func(uint32) (agui.RunKey, bool)) error {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: recordKey(f.ord, f.upTo+1), UpperBound: after(recordKey(f.ord, to))})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if seq := recordSeq(it.Key()); seq != f.upTo+1 {
			return fmt.Errorf("%w: records %d to %d are missing", errDamaged, f.upTo+1, seq-1)
		}
		h, event, err := d.record(it.Value())
		if err != nil {
			return err
		}
		run, known := name(h.run)
		if !known {
			return fmt.Errorf("%w: a record of an unknown run", errDamaged)
		}
		f.upTo++
		if err := f.look(&h, run, event, len(it.Value())); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	if f.upTo < to {
		return fmt.Errorf("%w: records %d to %d are missing", errDamaged, f.upTo+1, to)
	}
	return nil
}

func (f *redacted) look(h *recordHeader, run agui.RunKey, event []byte, size int) error {
	var head agui.Header
	if err := agui.ReadHeader(event, &head); err != nil {
		return err
	}
	out, err := f.redactor.Redact(&head, run, event)
	if err != nil || out == nil {
		return err
	}
	if h.flags&flagRedacted == 0 {
		h.flags |= flagRedacted
		h.redacted = payloadDigest(event)
	}
	if f.size += len(out); f.size > redactBytes {
		return &eventlog.TooLargeError{What: "redaction", Size: f.size, Limit: redactBytes}
	}
	f.bytes += uint64(size)
	f.records = append(f.records, redactedRecord{seq: f.upTo, run: run, header: *h, event: bytes.Clone(out)})
	return nil
}

// commitRedaction writes the records anew, those too that have come since they
// were looked for.
func (l *Log) commitRedaction(g *group, t *thread, r *removal) error {
	a, f := &t.applied, r.found
	if f.generation != a.generation || a.lastSeq-f.upTo > removeItems {
		return &eventlog.ConflictError{Expected: f.upTo, Actual: a.lastSeq}
	}
	if a.lastSeq > f.upTo {
		// Those of this very group are not in the engine yet.
		if err := l.scanNew(t, f); err != nil {
			return err
		}
	}
	if !r.opts.TakeOver {
		now := l.clock()
		for _, rec := range f.records {
			i, ok := a.index[rec.run]
			if ok && a.tracker.At(i).Running() && a.owned(rec.run, now, l.opts.ImplicitLease) {
				return a.active(rec.run)
			}
		}
	}
	row := receiptRow{
		removal: r.kind, reason: r.opts.Reason, actor: r.opts.Actor, created: a.created, generation: a.generation,
		message: f.message, first: f.records[0].seq, last: f.records[len(f.records)-1].seq, removed: true,
		firstPosition: f.records[0].header.position, lastPosition: f.records[len(f.records)-1].header.position,
	}
	row.count(eventlog.PlaceRecords, uint64(len(f.records)), f.bytes)
	b := l.build(g, t)
	for i := range f.records {
		rec := &f.records[i]
		b.set(recordKey(a.ord, rec.seq), l.enc.record(&rec.header, rec.event))
	}
	r.number = b.writeReceipt(&row)
	b.finish()
	return nil
}

// scanNew looks through what has come since, if all of it is in the engine.
func (l *Log) scanNew(t *thread, f *redacted) error {
	a := &t.applied
	name := func(run uint32) (agui.RunKey, bool) {
		i, ok := a.place(run, len(a.info))
		if !ok {
			return agui.RunKey{}, run == 0
		}
		return a.tracker.At(i).Key, true
	}
	_, ok, err := l.get(recordKey(a.ord, a.lastSeq))
	if err != nil {
		return damage(err)
	}
	if !ok {
		return &eventlog.ConflictError{Expected: f.upTo, Actual: a.lastSeq}
	}
	return damage(f.scan(l, l.dec, a.lastSeq, name))
}
