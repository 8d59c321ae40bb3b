package agui

import (
	"fmt"
	"strings"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// thinkingTypes are what the types of 0.x have become (SEMANTICS C-1 to C-5).
var thinkingTypes = map[Type]Type{
	TypeThinkingStart:              TypeReasoningStart,
	TypeThinkingEnd:                TypeReasoningEnd,
	TypeThinkingTextMessageStart:   TypeReasoningMessageStart,
	TypeThinkingTextMessageContent: TypeReasoningMessageContent,
	TypeThinkingTextMessageEnd:     TypeReasoningMessageEnd,
}

// replacedByThinking reports whether the translation of a THINKING_* event does
// not carry over a member of it.
func replacedByThinking(e *Event, member string) bool {
	switch member {
	case "messageId":
		return true
	case "role":
		return e.Legacy == TypeThinkingTextMessageStart
	case "title":
		if e.Legacy == TypeThinkingStart {
			e.note(NoteTitleDropped, "/title")
			return true
		}
	}
	return false
}

// Thinking gives the THINKING_* events of 0.x, which have no ids, the ids of
// what they belong to (SEMANTICS C-1 to C-6). Its fields are its whole state.
type Thinking struct {
	Span    Opt[string] // the current reasoning span
	Message Opt[string] // the current reasoning message
}

// Name sets the MessageID of e if e was a THINKING_* event. New ids come from
// mint.
func (t *Thinking) Name(e *Event, mint func() string) {
	current := &t.Message
	switch e.Legacy {
	case "":
		return
	case TypeThinkingStart, TypeThinkingEnd:
		current = &t.Span
	}
	switch e.Legacy {
	case TypeThinkingStart, TypeThinkingTextMessageStart:
		*current = Some(mint())
		e.MessageID = *current
		return
	}
	e.MessageID = *current
	if !current.Set {
		e.MessageID = Some(mint())
		e.note(NoteIDMinted, "")
	}
	if e.Legacy != TypeThinkingTextMessageContent {
		*current = Opt[string]{}
	}
}

// MintedID is the n-th id, counted from 1, of those that the profile Reference
// mints: the oracle's (SEMANTICS C-6).
func MintedID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", n) }

// readOldPart reads a part of the content list all, a binary part of 0.x among
// them as what it has become (SEMANTICS C-11).
func readOldPart(d *decoder, all, v Value, to *Part) verdict {
	if kind, _ := v.GetText("type"); kind != "binary" {
		return readPart(d, v, to)
	}
	// The client warns once of all that it converts in a message.
	if !d.binary {
		d.binary = true
		d.note(NoteLegacy)
	}
	mime, ok := v.GetText("mimeType")
	if !ok {
		return readPart(d, v, to)
	}
	source := &Source{Type: "data", MimeType: Some(mime)}
	bytes := v.Get("data")
	if !saysSomething(bytes) {
		source.Type, bytes = "url", v.Get("url")
	}
	if !saysSomething(bytes) {
		d.note(NoteBinary)
		return readPart(d, v, to)
	}
	if source.Value, ok = bytes.Text(); !ok {
		return element(d.wrong(bytes, "a string"))
	}
	*to = Part{Type: mediaType(mime), Source: source}
	if filename := v.Get("filename"); saysSomething(filename) {
		to.Metadata = jsonvalue.NewObject(jsonvalue.Member{Name: "filename", Value: filename})
	}
	for _, other := range all.Items() {
		if isSamePart(other, to) {
			return unknown
		}
	}
	return good
}

// saysSomething reports whether the client takes a value for given: not absent,
// null, false, 0 or "".
func saysSomething(v Value) bool {
	switch v.Kind() {
	case jsonvalue.Absent, jsonvalue.Null:
		return false
	case jsonvalue.Bool:
		b, _ := v.Bool()
		return b
	case jsonvalue.Number:
		f, _ := v.Float()
		return f != 0
	case jsonvalue.String:
		s, _ := v.Text()
		return s != ""
	}
	return true
}

func mediaType(mime string) string {
	for _, kind := range []string{"image", "audio", "video"} {
		if strings.HasPrefix(mime, kind+"/") {
			return kind
		}
	}
	return "document"
}

// isSamePart reports whether v is a modern part that says what the converted
// part p says.
func isSamePart(v Value, p *Part) bool {
	if kind, _ := v.GetText("type"); kind != p.Type {
		return false
	}
	source := v.Get("source")
	for name, want := range p.Source.JSON().Members() {
		if !jsonvalue.Equal(source.Get(name), want) {
			return false
		}
	}
	filename := p.Metadata.Get("filename")
	return !filename.Present() || jsonvalue.Equal(v.Get("metadata").Get("filename"), filename)
}
