package agui

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// ErrInvalidEvent says that bytes are not an event: not JSON, not an object,
// or without a string "type". What it wraps is always an [*InvalidEventError].
var ErrInvalidEvent = errors.New("not an AG-UI event")

// InvalidEventError says why and where bytes are not an event.
type InvalidEventError struct {
	Offset int    // byte offset in the event at which the fault was seen
	Reason string // in words, without any of the event's content
}

func (e *InvalidEventError) Error() string {
	return fmt.Sprintf("%v: %s at byte %d", ErrInvalidEvent, e.Reason, e.Offset)
}

// Is reports that every InvalidEventError is an [ErrInvalidEvent].
func (e *InvalidEventError) Is(target error) bool { return target == ErrInvalidEvent }

// MaxNesting is how deep objects and lists of an event may be nested: the depth
// the official client can handle (SEMANTICS N-6, fold-rules R25).
const MaxNesting = 3000

// Header is what a log must know of an event: its type and its ids.
//
// The ids alias the event's bytes unless they contained escapes; they are valid
// as long as the event is. A nil id is absent or not a string; an empty id that
// is present is empty but not nil.
type Header struct {
	Type            Type
	ThreadID        []byte
	RunID           []byte
	ParentRunID     []byte
	MessageID       []byte
	ParentMessageID []byte
	ToolCallID      []byte
	StepName        []byte
	SubagentRunID   []byte
	// Code is the "code" of a RUN_ERROR.
	Code []byte
	// Outcome is the "type" of a RUN_FINISHED's outcome, nil if it has none.
	Outcome []byte
}

// ReadHeader checks that raw is one event and fills h from it. An event is one
// JSON object in valid UTF-8 (RFC 8259; white space around it is allowed) with
// a member "type" that is a string. Of members that occur twice the last counts
// (SEMANTICS N-4). The error is an [*InvalidEventError].
func ReadHeader(raw []byte, h *Header) error {
	*h = Header{}
	s := scanner{raw: raw}
	s.space()
	if s.at >= len(raw) {
		return s.fault("empty")
	}
	if raw[s.at] != '{' {
		if err := s.value(0); err != nil {
			return err
		}
		s.at = 0
		return s.fault("JSON, but not an object")
	}
	var outcome []byte
	hasType := false
	err := s.object(1, func(key, value []byte) error {
		field := (*[]byte)(nil)
		switch string(key) {
		case "type":
			hasType = len(value) > 0 && value[0] == '"'
			if hasType {
				h.Type = typeOf(unquote(value))
			}
		case "threadId":
			field = &h.ThreadID
		case "runId":
			field = &h.RunID
		case "parentRunId":
			field = &h.ParentRunID
		case "messageId":
			field = &h.MessageID
		case "parentMessageId":
			field = &h.ParentMessageID
		case "toolCallId":
			field = &h.ToolCallID
		case "stepName":
			field = &h.StepName
		case "subagentRunId":
			field = &h.SubagentRunID
		case "code":
			field = &h.Code
		case "outcome":
			outcome = value
		}
		if field != nil {
			*field = nil
			if value[0] == '"' {
				*field = unquote(value)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.space()
	if s.at < len(raw) {
		return s.fault("more after the end of the object")
	}
	if !hasType {
		s.at = 0
		return s.fault(`no string member "type"`)
	}
	if h.Type == TypeRunFinished && len(outcome) > 0 && outcome[0] == '{' {
		in := scanner{raw: outcome}
		return in.object(1, func(key, value []byte) error {
			if string(key) == "type" {
				h.Outcome = nil
				if value[0] == '"' {
					h.Outcome = unquote(value)
				}
			}
			return nil
		})
	}
	return nil
}

// typeOf is Type(b), without an allocation for the types of AG-UI.
func typeOf(b []byte) Type {
	switch string(b) {
	case string(TypeTextMessageStart):
		return TypeTextMessageStart
	case string(TypeTextMessageContent):
		return TypeTextMessageContent
	case string(TypeTextMessageEnd):
		return TypeTextMessageEnd
	case string(TypeTextMessageChunk):
		return TypeTextMessageChunk
	case string(TypeToolCallStart):
		return TypeToolCallStart
	case string(TypeToolCallArgs):
		return TypeToolCallArgs
	case string(TypeToolCallEnd):
		return TypeToolCallEnd
	case string(TypeToolCallChunk):
		return TypeToolCallChunk
	case string(TypeToolCallResult):
		return TypeToolCallResult
	case string(TypeStateSnapshot):
		return TypeStateSnapshot
	case string(TypeStateDelta):
		return TypeStateDelta
	case string(TypeMessagesSnapshot):
		return TypeMessagesSnapshot
	case string(TypeActivitySnapshot):
		return TypeActivitySnapshot
	case string(TypeActivityDelta):
		return TypeActivityDelta
	case string(TypeRaw):
		return TypeRaw
	case string(TypeCustom):
		return TypeCustom
	case string(TypeRunStarted):
		return TypeRunStarted
	case string(TypeRunFinished):
		return TypeRunFinished
	case string(TypeRunError):
		return TypeRunError
	case string(TypeStepStarted):
		return TypeStepStarted
	case string(TypeStepFinished):
		return TypeStepFinished
	case string(TypeReasoningStart):
		return TypeReasoningStart
	case string(TypeReasoningEnd):
		return TypeReasoningEnd
	case string(TypeReasoningMessageStart):
		return TypeReasoningMessageStart
	case string(TypeReasoningMessageContent):
		return TypeReasoningMessageContent
	case string(TypeReasoningMessageEnd):
		return TypeReasoningMessageEnd
	case string(TypeReasoningMessageChunk):
		return TypeReasoningMessageChunk
	case string(TypeReasoningEncryptedValue):
		return TypeReasoningEncryptedValue
	case string(TypeSubagentStarted):
		return TypeSubagentStarted
	case string(TypeSubagentFinished):
		return TypeSubagentFinished
	case string(TypeSubagentError):
		return TypeSubagentError
	}
	return Type(b)
}

// scanner walks over JSON text and checks it.
type scanner struct {
	raw []byte
	at  int
}

func (s *scanner) fault(reason string) error {
	return &InvalidEventError{Offset: s.at, Reason: reason}
}

func (s *scanner) space() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// object walks over the object that begins at s.at and calls member for each of
// its members. Keys are unescaped, values are raw text.
func (s *scanner) object(depth int, member func(key, value []byte) error) error {
	if depth > MaxNesting {
		return s.fault(fmt.Sprintf("nested deeper than %d levels", MaxNesting))
	}
	s.at++ // {
	s.space()
	if s.at < len(s.raw) && s.raw[s.at] == '}' {
		s.at++
		return nil
	}
	for {
		s.space()
		key, err := s.string()
		if err != nil {
			return err
		}
		s.space()
		if s.at >= len(s.raw) || s.raw[s.at] != ':' {
			return s.fault("no colon behind a member's name")
		}
		s.at++
		s.space()
		from := s.at
		if err := s.value(depth); err != nil {
			return err
		}
		if member != nil {
			if err := member(unquote(key), s.raw[from:s.at]); err != nil {
				return err
			}
		}
		s.space()
		switch {
		case s.at >= len(s.raw):
			return s.fault("cut off inside an object")
		case s.raw[s.at] == ',':
			s.at++
		case s.raw[s.at] == '}':
			s.at++
			return nil
		default:
			return s.fault("no comma or } behind a member")
		}
	}
}

func (s *scanner) list(depth int) error {
	if depth > MaxNesting {
		return s.fault(fmt.Sprintf("nested deeper than %d levels", MaxNesting))
	}
	s.at++ // [
	s.space()
	if s.at < len(s.raw) && s.raw[s.at] == ']' {
		s.at++
		return nil
	}
	for {
		s.space()
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		switch {
		case s.at >= len(s.raw):
			return s.fault("cut off inside a list")
		case s.raw[s.at] == ',':
			s.at++
		case s.raw[s.at] == ']':
			s.at++
			return nil
		default:
			return s.fault("no comma or ] behind an element")
		}
	}
}

// value walks over one value that stands inside depth levels.
func (s *scanner) value(depth int) error {
	if s.at >= len(s.raw) {
		return s.fault("cut off before a value")
	}
	switch c := s.raw[s.at]; {
	case c == '{':
		return s.object(depth+1, nil)
	case c == '[':
		return s.list(depth + 1)
	case c == '"':
		_, err := s.string()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.raw[s.at:], []byte(word)) {
			s.at += len(word)
			return nil
		}
	}
	return s.fault("not JSON")
}

// string walks over a string and returns it with its quotes.
func (s *scanner) string() ([]byte, error) {
	if s.at >= len(s.raw) || s.raw[s.at] != '"' {
		return nil, s.fault("no string where one must be")
	}
	from := s.at
	s.at++
	for s.at < len(s.raw) {
		switch c := s.raw[s.at]; {
		case c == '"':
			s.at++
			return s.raw[from:s.at], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, s.fault("a control character inside a string")
		case c < utf8.RuneSelf:
			s.at++
		default:
			r, n := utf8.DecodeRune(s.raw[s.at:])
			if r == utf8.RuneError && n == 1 {
				return nil, s.fault("invalid UTF-8")
			}
			s.at += n
		}
	}
	return nil, s.fault("cut off inside a string")
}

func (s *scanner) escape() error {
	if s.at+1 >= len(s.raw) {
		return s.fault("cut off inside a string")
	}
	switch s.raw[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return nil
	case 'u':
		if s.at+6 > len(s.raw) {
			return s.fault("cut off inside a string")
		}
		if _, ok := hex4(s.raw[s.at+2 : s.at+6]); !ok {
			return s.fault("a broken \\u escape")
		}
		s.at += 6
		return nil
	}
	return s.fault("an unknown escape inside a string")
}

func (s *scanner) number() error {
	digits := func() bool {
		from := s.at
		for s.at < len(s.raw) && '0' <= s.raw[s.at] && s.raw[s.at] <= '9' {
			s.at++
		}
		return s.at > from
	}
	is := func(c byte) bool { return s.at < len(s.raw) && s.raw[s.at] == c }
	if is('-') {
		s.at++
	}
	if is('0') {
		s.at++
	} else if !digits() {
		return s.fault("not a number")
	}
	if is('.') {
		s.at++
		if !digits() {
			return s.fault("not a number")
		}
	}
	if is('e') || is('E') {
		s.at++
		if is('+') || is('-') {
			s.at++
		}
		if !digits() {
			return s.fault("not a number")
		}
	}
	return nil
}

// unquote is the text of a checked JSON string, in WTF-8. Without escapes it
// aliases quoted.
func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsonvalue.AppendText(make([]byte, 0, len(quoted)), quoted) // it was checked
	return text
}

func hex4(b []byte) (uint16, bool) {
	var u uint16
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			u = u<<4 | uint16(c-'0')
		case 'a' <= c && c <= 'f':
			u = u<<4 | uint16(c-'a'+10)
		case 'A' <= c && c <= 'F':
			u = u<<4 | uint16(c-'A'+10)
		default:
			return 0, false
		}
	}
	return u, true
}

// Unquote is the text of a JSON string, in WTF-8; false if raw is not one.
func Unquote(raw []byte) (string, bool) {
	s := scanner{raw: raw}
	s.space()
	quoted, err := s.string()
	if err != nil {
		return "", false
	}
	s.space()
	return string(unquote(quoted)), s.at == len(raw)
}
