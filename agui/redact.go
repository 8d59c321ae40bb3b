package agui

import (
	"bytes"
	"cmp"
	"slices"
)

// What a redacted message says in place of its content, and of the arguments of
// its calls or its content where that is an object.
const (
	RedactedText   = "[redacted]"
	redactedObject = `{"redacted":true}`
)

// Redactor takes the content of one message out of events. It must be shown all
// events of a thread in their order: to which message a call belongs, or a chunk
// that names nothing, earlier events say. Make it with NewRedactor.
//
// What stays of an event that carries the message are its type, its ids and what
// else gives it its place. The first piece of content after the message's start
// becomes a marker, those behind it become empty. Of a list of messages only the
// entry of that id changes. What repeats the content without naming the message
// (RAW, CUSTOM, state, results of runs) is not found.
type Redactor struct {
	message string
	calls   map[string]bool // of the message: whether their marker was placed
	placed  bool            // the message's own marker was placed
	latest  map[chunkLane]chunkName
	found   bool
}

// chunkLane is where a chunk that names nothing looks for its stream.
type chunkLane struct {
	run      RunKey
	subagent string
	typ      Type
}

type chunkName struct {
	id     string // of the message or call
	parent string // of a call: its parentMessageId
}

// NewRedactor makes a redactor of the message with an id.
func NewRedactor(message string) *Redactor {
	return &Redactor{message: message, calls: make(map[string]bool), latest: make(map[chunkLane]chunkName)}
}

// Found reports whether any event carried the message.
func (r *Redactor) Found() bool { return r.found }

// Redact gives the event to store in place of raw; nil if it stays as it is. h
// is raw's header, run the run it belongs to. The error is that of an event that
// is none.
func (r *Redactor) Redact(h *Header, run RunKey, raw []byte) ([]byte, error) {
	switch h.Type {
	case TypeTextMessageStart, TypeReasoningMessageStart, TypeReasoningStart,
		TypeTextMessageContent, TypeReasoningMessageContent, TypeTextMessageEnd, TypeReasoningMessageEnd, TypeReasoningEnd,
		TypeToolCallResult, TypeActivitySnapshot, TypeActivityDelta:
		return r.ofMessage(h, string(h.MessageID), raw)
	case TypeTextMessageChunk, TypeReasoningMessageChunk:
		return r.ofMessage(h, r.chunk(h, run, h.MessageID).id, raw)
	case TypeToolCallStart, TypeToolCallArgs, TypeToolCallEnd:
		return r.ofCall(h, chunkName{string(h.ToolCallID), string(h.ParentMessageID)}, raw)
	case TypeToolCallChunk:
		return r.ofCall(h, r.chunk(h, run, h.ToolCallID), raw)
	case TypeReasoningEncryptedValue:
		return r.encrypted(raw)
	case TypeMessagesSnapshot:
		return r.inList(raw, "messages")
	case TypeRunStarted:
		// Another run may bring the message anew.
		r.placed = false
		return r.inList(raw, "input", "messages")
	}
	return nil, nil
}

// chunk is what a chunk belongs to: what it names, or else what the chunk before
// it in its lane named.
func (r *Redactor) chunk(h *Header, run RunKey, id []byte) chunkName {
	lane := chunkLane{run, string(h.SubagentRunID), h.Type}
	if id != nil {
		name := chunkName{string(id), string(h.ParentMessageID)}
		if old := r.latest[lane]; old.id == name.id && name.parent == "" {
			name.parent = old.parent
		}
		r.latest[lane] = name
	}
	return r.latest[lane]
}

func (r *Redactor) ofMessage(h *Header, id string, raw []byte) ([]byte, error) {
	if id != r.message {
		return nil, nil
	}
	r.found = true
	switch h.Type {
	case TypeTextMessageStart, TypeReasoningMessageStart:
		r.placed = false
	}
	return rebuilt(raw, func(name string, value []byte) []byte {
		switch name {
		case "delta":
			return r.marker(&r.placed, value, Quote(RedactedText))
		case "content":
			r.placed = true
			if h.Type == TypeActivitySnapshot {
				return []byte(redactedObject)
			}
			return Quote(RedactedText)
		case "patch":
			return []byte("[]")
		}
		return kept(name, value)
	})
}

// marker is what a piece of content becomes.
func (r *Redactor) marker(placed *bool, value, marker []byte) []byte {
	if len(value) == 0 || value[0] != '"' || *placed {
		return []byte(`""`)
	}
	*placed = true
	return marker
}

func (r *Redactor) ofCall(h *Header, call chunkName, raw []byte) ([]byte, error) {
	placed, known := r.calls[call.id]
	if h.Type == TypeToolCallStart || h.Type == TypeToolCallChunk && !known {
		// A call without a message is a message of its own id.
		if call.parent != r.message && (call.parent != "" || call.id != r.message) {
			if h.Type == TypeToolCallStart {
				delete(r.calls, call.id) // the id is another call's now
			}
			return nil, nil
		}
		placed, known = false, true
	}
	if !known {
		return nil, nil
	}
	r.found = true
	out, err := rebuilt(raw, func(name string, value []byte) []byte {
		if name == "delta" {
			return r.marker(&placed, value, Quote(redactedObject))
		}
		return kept(name, value)
	})
	r.calls[call.id] = placed
	return out, err
}

// encrypted is of an encrypted value of the message or of one of its calls.
func (r *Redactor) encrypted(raw []byte) ([]byte, error) {
	var entity string
	if err := eachMember(raw, func(_ int, name string, value []byte) {
		if name == "entityId" {
			entity, _ = Unquote(value)
		}
	}); err != nil {
		return nil, err
	}
	if _, call := r.calls[entity]; !call && entity != r.message {
		return nil, nil
	}
	r.found = true
	return rebuilt(raw, func(name string, value []byte) []byte {
		if name == "encryptedValue" {
			return Quote(RedactedText)
		}
		return kept(name, value)
	})
}

// kept is a member that is no content; nil for others.
func kept(name string, value []byte) []byte {
	switch name {
	case "type", "timestamp", "messageId", "parentMessageId", "toolCallId", "toolCallName", "role", "name",
		"subagentRunId", "activityType", "replace", "subtype", "entityId":
		return value
	}
	return nil
}

// replacement is a piece of a text that becomes another one.
type replacement struct {
	from, to int
	with     []byte
}

// inList replaces the message's entries in the list at a path of an event, and
// leaves the other bytes as they are, but for the raw event.
func (r *Redactor) inList(raw []byte, path ...string) ([]byte, error) {
	var changes, origin []replacement
	if err := r.search(raw, 0, path, &changes, &origin); err != nil || len(changes) == 0 {
		return nil, err
	}
	var out []byte
	at := 0
	changes = append(changes, origin...)
	slices.SortFunc(changes, func(a, b replacement) int { return cmp.Compare(a.from, b.from) })
	for _, c := range changes {
		out = append(append(out, raw[at:c.from]...), c.with...)
		at = c.to
	}
	out = append(out, raw[at:]...)
	if bytes.Equal(out, raw) {
		return nil, nil
	}
	return out, nil
}

// search finds what is to be replaced in the object raw, which stands at base.
func (r *Redactor) search(raw []byte, base int, path []string, changes, origin *[]replacement) error {
	var failed error
	err := eachMember(raw, func(at int, name string, value []byte) {
		switch {
		case base == 0 && name == "rawEvent":
			*origin = append(*origin, replacement{at, at + len(value), Quote(RedactedText)})
		case name != path[0] || failed != nil:
		case len(path) > 1 && value[0] == '{':
			failed = r.search(value, base+at, path[1:], changes, origin)
		case len(path) == 1 && value[0] == '[':
			failed = eachElement(value, func(in int, entry []byte) {
				if out := r.entry(entry); out != nil {
					from := base + at + in
					*changes = append(*changes, replacement{from, from + len(entry), out})
				}
			})
		}
	})
	if err == nil {
		err = failed
	}
	return err
}

// entry is a message in a list, without its content; nil if it is another one.
func (r *Redactor) entry(raw []byte) []byte {
	if raw[0] != '{' {
		return nil
	}
	var id, role string
	if eachMember(raw, func(_ int, name string, value []byte) {
		switch name {
		case "id":
			id, _ = Unquote(value)
		case "role":
			role, _ = Unquote(value)
		}
	}) != nil || id != r.message {
		return nil
	}
	r.found = true
	out, err := rebuiltAlways(raw, func(name string, value []byte) []byte {
		switch name {
		case "content":
			if role == string(RoleActivity) {
				return []byte(redactedObject)
			}
			return Quote(RedactedText)
		case "toolCalls":
			return r.callsOf(value)
		case "id":
			return value
		}
		return kept(name, value)
	})
	if err != nil {
		return nil
	}
	return out
}

// callsOf is the calls of a message without their arguments.
func (r *Redactor) callsOf(raw []byte) []byte {
	if raw[0] != '[' {
		return nil
	}
	out := []byte{'['}
	_ = eachElement(raw, func(_ int, call []byte) {
		if call[0] != '{' {
			return
		}
		one, err := rebuiltAlways(call, func(name string, value []byte) []byte {
			switch {
			case name == "id":
				if id, ok := Unquote(value); ok && !r.calls[id] {
					r.calls[id] = false // of the message, its marker not placed
				}
				return value
			case name == "function" && value[0] == '{':
				function, _ := rebuiltAlways(value, func(name string, value []byte) []byte {
					if name == "arguments" {
						return Quote(redactedObject)
					}
					return kept(name, value)
				})
				return function
			}
			return kept(name, value)
		})
		if err != nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, one...)
	})
	return append(out, ']')
}

// rebuilt is an object with the members that member gives, or nil if they are
// those that it has.
func rebuilt(raw []byte, member func(name string, value []byte) []byte) ([]byte, error) {
	changed := false
	out, err := rebuiltAlways(raw, func(name string, value []byte) []byte {
		with := member(name, value)
		changed = changed || with == nil || !bytes.Equal(with, value)
		return with
	})
	if err != nil || !changed {
		return nil, err
	}
	return out, nil
}

func rebuiltAlways(raw []byte, member func(name string, value []byte) []byte) ([]byte, error) {
	out := []byte{'{'}
	err := eachMember(raw, func(_ int, name string, value []byte) {
		with := member(name, value)
		if with == nil {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, Quote(name)...), ':'), with...)
	})
	return append(out, '}'), err
}

// eachMember visits the members of an object: where the value stands, the name, the
// value.
func eachMember(raw []byte, visit func(at int, name string, value []byte)) error {
	s := scanner{raw: raw}
	s.space()
	if s.at >= len(raw) || raw[s.at] != '{' {
		return s.fault("not an object")
	}
	return s.object(1, func(key, value []byte) error {
		visit(s.at-len(value), string(key), value)
		return nil
	})
}

// eachElement visits the elements of a list.
func eachElement(raw []byte, visit func(at int, value []byte)) error {
	s := scanner{raw: raw, at: 1}
	for s.space(); s.at < len(raw) && raw[s.at] != ']'; s.space() {
		if raw[s.at] == ',' {
			s.at++
			continue
		}
		from := s.at
		if err := s.value(1); err != nil {
			return err
		}
		visit(from, raw[from:s.at])
	}
	return nil
}
