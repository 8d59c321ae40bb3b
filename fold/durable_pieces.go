package fold

import (
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// Most records by far are pieces of text for what is open, with nothing to be
// said about them. They are folded without being decoded, to what
// [durable.event] would come to as well.
//
// Of a long transcript little is in the processor's caches, so that a piece
// for some message has to wait for memory, and more than once: for the index,
// the message, its text. Therefore pieces are put off and then settled many at a
// time, in steps that each go through all of them: the processor waits for the
// memory of many at once. A piece for the same message as the one before has
// nothing to wait for, and is added at once.

const (
	maxPieces     = 128      // that are put off
	maxPieceBytes = 16 << 10 // their ids and texts
)

// pieces are those that are put off.
type pieces struct {
	list  []piece
	bytes []byte // what their texts are parts of
	run   *run   // of the latest piece; nil: none yet

	// latest is where the latest piece went, which was of this type and id; it is
	// zero if there is none, or anything else has happened since.
	latest     target
	latestType agui.Type
	latestID   []byte

	touched byte // what was read only to have it at hand
}

type piece struct {
	agui.Delta
	run *run
	seq uint64
}

// target is the text that a piece goes to: of a message or of a call.
type target struct {
	message *message
	call    *call
}

func (t target) text() *jsonvalue.Text {
	if t.call != nil {
		return t.call.arguments
	}
	return &t.message.content.text
}

func (t target) add(text []byte) {
	t.text().AppendBytes(text)
	if t.call != nil {
		t.call.changed()
	} else {
		t.message.changed()
	}
}

// piece takes a record that is a piece of text. It returns false if the record
// is anything else, or out of the ordinary in a way that can be seen at once.
func (d *durable) piece(rec Record) bool {
	var p agui.Delta
	if len(rec.Raw) > d.limits.EventBytes || !d.decoder.Delta(rec.Raw, &p) {
		return false
	}
	q := &d.pieces
	if q.run == nil || q.run.Key != rec.Run {
		if q.run = d.byKey[rec.Run]; q.run == nil {
			return false
		}
	}
	if r := q.run; r.EndSeq != 0 || r.overtaken != 0 || len(r.streams) > 0 {
		return false
	}
	if len(q.list) > 0 || q.latest != (target{}) && !q.again(&p) {
		if len(rec.Raw) > maxPieceBytes {
			return false
		}
		q.putOff(&p, rec.Seq)
		if len(q.list) == maxPieces || len(q.bytes) > maxPieceBytes {
			d.settle()
		}
		return true
	}
	if q.latest == (target{}) {
		to := d.target(&p, d.likely(&p))
		if !to.ready() {
			return false
		}
		q.remember(to, &p)
	}
	q.latest.add(p.Text)
	d.seq = rec.Seq
	return true
}

// again reports whether a piece is for what the latest was for.
func (q *pieces) again(p *agui.Delta) bool {
	return string(p.ID) == string(q.latestID) && p.Type == q.latestType
}

func (q *pieces) remember(to target, p *agui.Delta) {
	q.latest, q.latestType, q.latestID = to, p.Type, append(q.latestID[:0], p.ID...)
}

func (q *pieces) putOff(p *agui.Delta, seq uint64) {
	kept := piece{run: q.run, seq: seq, Delta: agui.Delta{Type: p.Type, ID: q.keep(p.ID), Text: q.keep(p.Text)}}
	if p.SubagentRunID != nil {
		kept.SubagentRunID = q.keep(p.SubagentRunID)
	}
	q.list = append(q.list, kept)
}

// keep copies text. Where it has to move what is there, the copies before stay
// where they are.
func (q *pieces) keep(text []byte) []byte {
	from := len(q.bytes)
	q.bytes = append(q.bytes, text...)
	return q.bytes[from:len(q.bytes):len(q.bytes)]
}

// target finds where a piece goes, nowhere if what it names is not there.
func (d *durable) target(p *agui.Delta, likely *place) target {
	k := kindText
	switch p.Type {
	case agui.TypeToolCallArgs:
		if s := d.transcript.calls[string(p.ID)]; s != nil {
			d.transcript.ordered(s)
			return target{call: s.all[len(s.all)-1]}
		}
		return target{}
	case agui.TypeReasoningMessageContent:
		k = kindReasoning
	}
	if at := d.transcript.places.findBytes(likely, k, p.ID); at != nil {
		return target{message: at.message}
	}
	return target{}
}

// likely is where in the index the message of a piece should be.
func (d *durable) likely(p *agui.Delta) *place {
	if p.Type == agui.TypeToolCallArgs {
		return nil
	}
	return d.transcript.places.likely(p.ID)
}

// ready reports whether a piece can be added just so.
func (t target) ready() bool {
	if t.call != nil {
		return t.call.open != nil && !t.call.again
	}
	m := t.message
	return m != nil && m.open != nil && m.content.kind == agui.TextContent
}

// settle adds the pieces that were put off. Those that cannot be added just so
// are handled as any other event. None of them changes where another goes.
func (d *durable) settle() {
	q := &d.pieces
	if len(q.list) == 0 {
		return
	}
	var likely [maxPieces]*place
	var to [maxPieces]target
	var ready [maxPieces]bool
	touched := byte(0)
	for i := range q.list {
		likely[i] = d.likely(&q.list[i].Delta)
	}
	for i := range q.list {
		touched ^= likely[i].touch()
	}
	for i := range q.list {
		to[i] = d.target(&q.list[i].Delta, likely[i])
	}
	for i := range q.list {
		if ready[i] = to[i].ready(); ready[i] {
			touched ^= to[i].text().Touch()
		}
	}
	q.touched = touched
	for i := range q.list {
		p := &q.list[i]
		d.seq = p.seq
		if ready[i] {
			to[i].add(p.Text)
		} else {
			d.odd(p)
		}
	}
	if last := len(q.list) - 1; ready[last] {
		q.remember(to[last], &q.list[last].Delta)
	}
	clear(q.list)
	q.list, q.bytes = q.list[:0], q.bytes[:0]
}

// odd applies a piece that there is something to say about.
func (d *durable) odd(p *piece) {
	e := &d.current
	*e = agui.Event{Type: p.Type, Delta: agui.Some(string(p.Text))}
	if p.Type == agui.TypeToolCallArgs {
		e.ToolCallID = agui.Some(string(p.ID))
	} else {
		e.MessageID = agui.Some(string(p.ID))
	}
	if p.SubagentRunID != nil {
		e.SubagentRunID = agui.Some(string(p.SubagentRunID))
	}
	d.event(Record{Seq: p.seq, Run: p.run.Key}, e)
}
