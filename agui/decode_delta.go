package agui

import (
	"strings"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// Most events by far are pieces of text: a type, an id, a delta. They are read
// here without building a value first and without an allocation of their own.

// textsSize is how much text is allocated at once.
const textsSize = 8 << 10

// The members of a delta that are read here.
const (
	seenType = 1 << iota
	seenID
	seenDelta
	seenTag
	isCall // with seenID: the id is a toolCallId
)

// Delta is a piece of text: a TEXT_MESSAGE_CONTENT, a REASONING_MESSAGE_CONTENT
// or a TOOL_CALL_ARGS with nothing else in it.
type Delta struct {
	Type Type
	ID   []byte // messageId or toolCallId, WTF-8
	Text []byte // delta, WTF-8
	// SubagentRunID is nil if there is none.
	SubagentRunID []byte
}

// Delta reads an event that is a [Delta], as Decode would, without copying it:
// d holds pieces of raw and of the decoder's own memory, good until the next
// call. It returns false for any other event, and for one with anything unusual
// about it, which Decode may well accept.
func (o *Decoder) Delta(raw []byte, d *Delta) bool {
	var p pieces
	if !p.read(raw) {
		return false
	}
	o.scratch = o.scratch[:0]
	var ok1, ok2, ok3 bool
	d.Type = p.kind
	d.ID, ok1 = o.plain(p.id)
	d.Text, ok2 = o.plain(p.delta)
	d.SubagentRunID, ok3 = o.plain(p.tag)
	if cap(o.scratch) > textsSize {
		o.scratch = nil
	}
	return ok1 && ok2 && ok3
}

// plain returns the text of a piece, unescaped behind what scratch holds.
func (o *Decoder) plain(p piece) ([]byte, bool) {
	if p.raw == nil {
		return nil, true
	}
	if p.plain {
		return p.raw[1 : len(p.raw)-1], true
	}
	from := len(o.scratch)
	out, ok := jsonvalue.AppendText(o.scratch, p.raw)
	if !ok {
		return nil, false
	}
	o.scratch = out
	return out[from:], true
}

// delta reads an event that is a [Delta] into e. If it returns false, e is as
// it was.
func (o *Decoder) delta(raw []byte, e *Event) bool {
	var p pieces
	return p.read(raw) && o.fill(e, &p)
}

// pieces are the members of a [Delta].
type pieces struct {
	kind           Type
	id, delta, tag piece
}

// read finds the pieces of an event. It returns false if the event is no
// [Delta] or unusual; escapes may still turn out to be broken.
func (p *pieces) read(raw []byte) bool {
	s := scanner{raw: raw}
	s.skip()
	if !s.past('{') {
		return false
	}
	call := false // its id is a toolCallId
	for seen := 0; ; {
		member := s.memberName()
		if member == 0 || seen&(member&^isCall) != 0 || !s.past(':') {
			return false
		}
		ok := false
		switch member {
		case seenType:
			p.kind = s.deltaType()
			ok = p.kind != ""
		case seenDelta:
			p.delta, ok = s.quoted()
		case seenTag:
			p.tag, ok = s.quoted()
		default:
			p.id, ok = s.quoted()
			call = member&isCall != 0
		}
		if !ok {
			return false
		}
		seen |= member &^ isCall
		if s.past(',') {
			continue
		}
		if !s.past('}') || s.at < len(raw) {
			return false
		}
		return seen&^seenTag == seenType|seenID|seenDelta && (p.kind == TypeToolCallArgs) == call
	}
}

// fill makes e the delta that has been read.
func (o *Decoder) fill(e *Event, p *pieces) bool {
	o.room(len(p.id.raw) + len(p.delta.raw) + len(p.tag.raw))
	id, ok1 := o.keep(p.id)
	delta, ok2 := o.keep(p.delta)
	tag, ok3 := o.keep(p.tag)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	e.Type = p.kind
	if p.kind == TypeToolCallArgs {
		e.ToolCallID = Some(id)
	} else {
		e.MessageID = Some(id)
	}
	e.Delta = Some(delta)
	if p.tag.raw != nil {
		e.SubagentRunID = Some(tag)
	}
	return true
}

// memberName reads the name of a member of a [Delta], 0 if it is none.
func (s *scanner) memberName() int {
	switch {
	case s.literal(`"type"`):
		return seenType
	case s.literal(`"messageId"`):
		return seenID
	case s.literal(`"toolCallId"`):
		return seenID | isCall
	case s.literal(`"delta"`):
		return seenDelta
	case s.literal(`"subagentRunId"`):
		return seenTag
	}
	return 0
}

// deltaType reads the type of a [Delta], "" if it is none.
func (s *scanner) deltaType() Type {
	switch {
	case s.literal(`"` + string(TypeTextMessageContent) + `"`):
		return TypeTextMessageContent
	case s.literal(`"` + string(TypeToolCallArgs) + `"`):
		return TypeToolCallArgs
	case s.literal(`"` + string(TypeReasoningMessageContent) + `"`):
		return TypeReasoningMessageContent
	}
	return ""
}

// literal reads text with the white space behind it, if it is next.
func (s *scanner) literal(text string) bool {
	if len(s.raw)-s.at < len(text) || string(s.raw[s.at:s.at+len(text)]) != text {
		return false
	}
	s.at += len(text)
	s.skip()
	return true
}

// piece is a JSON string with its quotes.
type piece struct {
	raw   []byte
	plain bool // it has no escapes
}

// quoted reads a string with the white space behind it.
func (s *scanner) quoted() (p piece, ok bool) {
	n, plain, ok := jsonvalue.ScanString(s.raw[s.at:])
	p = piece{s.raw[s.at : s.at+n], plain}
	s.at += n
	s.skip()
	return p, ok
}

// past reads c with the white space behind it, if it is next.
func (s *scanner) past(c byte) bool {
	if s.at >= len(s.raw) || s.raw[s.at] != c {
		return false
	}
	s.at++
	s.skip()
	return true
}

// skip is space, where there is mostly none.
func (s *scanner) skip() {
	if s.at < len(s.raw) && s.raw[s.at] <= ' ' {
		s.space()
	}
}

// room makes sure that n bytes of text can be kept without moving what has been.
func (o *Decoder) room(n int) {
	if o.texts == nil || o.texts.Cap()-o.texts.Len() < n {
		o.texts = new(strings.Builder)
		o.texts.Grow(max(n, textsSize))
	}
}

// keep returns the text of a piece.
func (o *Decoder) keep(p piece) (string, bool) {
	if len(p.raw) <= 2 {
		return "", true
	}
	text := p.raw[1 : len(p.raw)-1]
	if !p.plain {
		out, ok := jsonvalue.AppendText(o.scratch[:0], p.raw)
		if !ok {
			return "", false
		}
		if text = out; cap(out) <= textsSize {
			o.scratch = out
		}
	}
	from := o.texts.Len()
	o.texts.Write(text)
	return o.texts.String()[from:], true
}
