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
)

// delta reads an event that is TEXT_MESSAGE_CONTENT, REASONING_MESSAGE_CONTENT
// or TOOL_CALL_ARGS and has its id, its delta and at most a subagentRunId. It
// returns false for any other, and for one with anything unusual about it, and
// leaves e as it was.
func (o *Decoder) delta(raw []byte, e *Event) bool {
	s := scanner{raw: raw}
	s.space()
	if s.at >= len(raw) || raw[s.at] != '{' {
		return false
	}
	s.at++
	var kind Type
	var idName string
	var id, delta, tag piece
	for seen := 0; ; {
		name, ok := s.quoted()
		if !ok || !name.plain || !s.past(':') {
			return false
		}
		value, ok := s.quoted()
		if !ok {
			return false
		}
		member := 0
		switch text := name.raw[1 : len(name.raw)-1]; string(text) {
		case "type":
			member = seenType
			if kind = deltaType(value.raw); kind == "" {
				return false
			}
		case "messageId":
			member, id, idName = seenID, value, "messageId"
		case "toolCallId":
			member, id, idName = seenID, value, "toolCallId"
		case "delta":
			member, delta = seenDelta, value
		case "subagentRunId":
			member, tag = seenTag, value
		}
		if member == 0 || seen&member != 0 {
			return false
		}
		seen |= member
		if s.past(',') {
			continue
		}
		if !s.past('}') || s.at < len(raw) {
			return false
		}
		if seen&^seenTag != seenType|seenID|seenDelta || (kind == TypeToolCallArgs) != (idName == "toolCallId") {
			return false
		}
		return o.fill(e, kind, id, delta, tag)
	}
}

// fill makes e the delta that has been read.
func (o *Decoder) fill(e *Event, kind Type, id, delta, tag piece) bool {
	o.room(len(id.raw) + len(delta.raw) + len(tag.raw))
	idText, ok1 := o.keep(id)
	deltaText, ok2 := o.keep(delta)
	tagText, ok3 := o.keep(tag)
	if !ok1 || !ok2 || !ok3 {
		return false
	}
	e.Type = kind
	if kind == TypeToolCallArgs {
		e.ToolCallID = Some(idText)
	} else {
		e.MessageID = Some(idText)
	}
	e.Delta = Some(deltaText)
	if tag.raw != nil {
		e.SubagentRunID = Some(tagText)
	}
	return true
}

// deltaType is the type that a quoted text names, if it is one of those.
func deltaType(quoted []byte) Type {
	switch string(quoted) {
	case `"` + string(TypeTextMessageContent) + `"`:
		return TypeTextMessageContent
	case `"` + string(TypeToolCallArgs) + `"`:
		return TypeToolCallArgs
	case `"` + string(TypeReasoningMessageContent) + `"`:
		return TypeReasoningMessageContent
	}
	return ""
}

// piece is a JSON string with its quotes.
type piece struct {
	raw   []byte
	plain bool // it has no escapes
}

// quoted reads a string with the white space around it.
func (s *scanner) quoted() (p piece, ok bool) {
	s.space()
	n, plain, ok := jsonvalue.ScanString(s.raw[s.at:])
	p = piece{s.raw[s.at : s.at+n], plain}
	s.at += n
	s.space()
	return p, ok
}

// past reads c with the white space behind it, if it is next.
func (s *scanner) past(c byte) bool {
	if s.at >= len(s.raw) || s.raw[s.at] != c {
		return false
	}
	s.at++
	s.space()
	return true
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
