package agui

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// ErrChunk says that a chunk event cannot be expanded. What it wraps is always
// a [*ChunkError].
var ErrChunk = errors.New("chunk without a place")

// ChunkError says which rule of SEMANTICS section 6 a chunk breaks.
type ChunkError struct {
	Type   Type
	Rule   string
	Reason string
}

func (e *ChunkError) Error() string {
	return fmt.Sprintf("%v: %s (%s): %s", ErrChunk, e.Type, e.Rule, e.Reason)
}

// Is reports that every ChunkError is an [ErrChunk].
func (e *ChunkError) Is(target error) bool { return target == ErrChunk }

// ChunkStream is a message or call that chunks have opened.
type ChunkStream struct {
	Kind  Type        // TypeTextMessageChunk, TypeToolCallChunk or TypeReasoningMessageChunk
	Owner Opt[string] // the lane: a subagent's tag, or the parent agent
	ID    string
	// What the opener said, for later chunks to agree with.
	Role, Name             Opt[string]
	ToolCallName, ParentID Opt[string]
	serial                 uint64
}

// Expander replaces chunk events by the START, CONTENT or ARGS, and END events
// they stand for (SEMANTICS section 6). Its state is the list of open streams.
// The zero Expander has none.
type Expander struct {
	// KeepAtSnapshot lets streams go on across a MESSAGES_SNAPSHOT (fold-rules
	// R29). The official client closes them.
	KeepAtSnapshot bool

	lanes  map[Opt[string]]*ChunkStream
	byKind map[Type]map[Opt[string]]*ChunkStream
	byID   map[streamID]*ChunkStream
	serial uint64
	out    []*Event
	made   []Event // memory for the events of one call, as far as it goes
	used   int
}

// maxMade is how many events a chunk makes at the most: an END, a START and a
// CONTENT.
const maxMade = 3

type streamID struct {
	kind Type
	id   string
}

// Open lists the open streams in the order they were opened in.
func (x *Expander) Open() []ChunkStream {
	out := make([]ChunkStream, 0, len(x.lanes))
	for _, s := range x.lanes {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b ChunkStream) int { return cmp.Compare(a.serial, b.serial) })
	return out
}

// Restore opens streams that [Expander.Open] has listed. It fails if two of them
// are of one owner or name the same, which is never so.
func (x *Expander) Restore(streams []ChunkStream) error {
	for _, s := range streams {
		if x.lanes[s.Owner] != nil || x.byID[streamID{s.Kind, s.ID}] != nil {
			return errors.New("agui: two open streams of chunks with one owner or one id")
		}
		x.open(&s)
	}
	return nil
}

// Expand returns what e stands for: itself, with the ENDs of what it closes in
// front of it, or what a chunk expands to. The list and the events that are
// Synthetic are valid until the next call, their strings and values for ever.
// The error is a [*ChunkError]; then nothing has changed.
func (x *Expander) Expand(e *Event) ([]*Event, error) {
	clear(x.out)
	x.out, x.used = x.out[:0], 0
	switch e.Type {
	case TypeTextMessageChunk, TypeToolCallChunk, TypeReasoningMessageChunk:
		return x.out, x.chunk(e)
	case TypeRunStarted, TypeRunFinished, TypeRunError:
		x.closeAll()
	case TypeMessagesSnapshot:
		if !x.KeepAtSnapshot {
			x.closeAll()
		}
	case TypeRaw, TypeActivitySnapshot, TypeActivityDelta, TypeReasoningEncryptedValue, TypeSubagentStarted:
	default:
		// The others close what their own lane has open.
		if s := x.lanes[e.SubagentRunID]; s != nil {
			x.close(s)
		}
	}
	x.out = append(x.out, e)
	return x.out, nil
}

func (x *Expander) chunk(e *Event) error {
	id := e.MessageID
	if e.Type == TypeToolCallChunk {
		id = e.ToolCallID
	}
	lane, err := x.lane(e, id)
	if err != nil {
		return err
	}
	s := x.lanes[lane]
	if s != nil && s.Kind == e.Type && (!id.Set || id.V == s.ID) {
		if err := s.agrees(e); err != nil {
			return err
		}
	} else {
		if err := canOpen(e, id); err != nil {
			return err
		}
		if s != nil {
			x.close(s)
		}
		s = &ChunkStream{Kind: e.Type, Owner: lane, ID: id.V, Role: e.Role, Name: e.Name, ToolCallName: e.ToolCallName, ParentID: e.ParentMessageID}
		x.open(s)
		start := x.event(s, startOf)
		start.Metadata = e.Metadata
		x.out = append(x.out, start)
	}
	if e.Delta.Set || e.RawEvent.Present() || len(x.out) == 0 && e.Metadata.Present() {
		content := x.event(s, contentOf)
		content.Delta = Some(e.Delta.V)
		content.Metadata, content.RawEvent = e.Metadata, e.RawEvent
		if e.SubagentRunID.Set {
			content.SubagentRunID = e.SubagentRunID
		}
		x.out = append(x.out, content)
	}
	return nil
}

// lane decides which lane a chunk belongs to.
func (x *Expander) lane(e *Event, id Opt[string]) (Opt[string], error) {
	if id.Set {
		s := x.byID[streamID{e.Type, id.V}]
		switch {
		case s == nil:
		case e.SubagentRunID.Set && e.SubagentRunID != s.Owner:
			return s.Owner, &ChunkError{e.Type, "X-5", "its id is open in the lane of another agent"}
		default:
			return s.Owner, nil
		}
	}
	if id.Set || e.SubagentRunID.Set {
		return e.SubagentRunID, nil
	}
	var parent Opt[string]
	open := x.byKind[e.Type]
	if open[parent] == nil && len(open) > 0 {
		if len(open) > 1 {
			return parent, &ChunkError{e.Type, "X-5", "it has neither an id nor a subagentRunId, and several lanes are open"}
		}
		for owner := range open {
			return owner, nil
		}
	}
	return parent, nil
}

// canOpen reports whether a chunk says enough to open a stream.
func canOpen(e *Event, id Opt[string]) error {
	if !id.Set {
		return &ChunkError{e.Type, "X-1", "the first chunk of a stream needs an id"}
	}
	if e.Type == TypeToolCallChunk && !e.ToolCallName.Set {
		return &ChunkError{e.Type, "X-1", "the first chunk of a call needs a toolCallName"}
	}
	return nil
}

// agrees reports whether a chunk says nothing else than the opener.
func (s *ChunkStream) agrees(e *Event) error {
	for _, f := range []struct {
		name        string
		said, again Opt[string]
	}{
		{"role", Some(s.Role.Or(string(RoleAssistant))), e.Role},
		{"name", s.Name, e.Name},
		{"toolCallName", s.ToolCallName, e.ToolCallName},
		{"parentMessageId", s.ParentID, e.ParentMessageID},
	} {
		if f.again.Set && f.again != f.said {
			return &ChunkError{e.Type, "X-3", "its " + f.name + " is not what the stream's first chunk said"}
		}
	}
	return nil
}

func (x *Expander) open(s *ChunkStream) {
	if x.lanes == nil {
		x.lanes = map[Opt[string]]*ChunkStream{}
		x.byKind = map[Type]map[Opt[string]]*ChunkStream{}
		x.byID = map[streamID]*ChunkStream{}
	}
	if x.byKind[s.Kind] == nil {
		x.byKind[s.Kind] = map[Opt[string]]*ChunkStream{}
	}
	x.serial++
	s.serial = x.serial
	x.lanes[s.Owner] = s
	x.byKind[s.Kind][s.Owner] = s
	x.byID[streamID{s.Kind, s.ID}] = s
}

func (x *Expander) close(s *ChunkStream) {
	delete(x.lanes, s.Owner)
	delete(x.byKind[s.Kind], s.Owner)
	delete(x.byID, streamID{s.Kind, s.ID})
	x.out = append(x.out, x.event(s, endOf))
}

func (x *Expander) closeAll() {
	streams := slices.SortedFunc(maps.Values(x.lanes), func(a, b *ChunkStream) int { return cmp.Compare(a.serial, b.serial) })
	for _, s := range streams {
		x.close(s)
	}
}

// What the events of a stream are, by its kind.
var (
	startOf   = map[Type]Type{TypeTextMessageChunk: TypeTextMessageStart, TypeToolCallChunk: TypeToolCallStart, TypeReasoningMessageChunk: TypeReasoningMessageStart}
	contentOf = map[Type]Type{TypeTextMessageChunk: TypeTextMessageContent, TypeToolCallChunk: TypeToolCallArgs, TypeReasoningMessageChunk: TypeReasoningMessageContent}
	endOf     = map[Type]Type{TypeTextMessageChunk: TypeTextMessageEnd, TypeToolCallChunk: TypeToolCallEnd, TypeReasoningMessageChunk: TypeReasoningMessageEnd}
)

// event makes an event of a stream.
func (x *Expander) event(s *ChunkStream, typeOf map[Type]Type) *Event {
	e := x.memory()
	*e = Event{Type: typeOf[s.Kind], Synthetic: true, SubagentRunID: s.Owner}
	if s.Kind == TypeToolCallChunk {
		e.ToolCallID = Some(s.ID)
	} else {
		e.MessageID = Some(s.ID)
	}
	switch e.Type {
	case TypeTextMessageStart:
		e.Role, e.Name = Some(s.Role.Or(string(RoleAssistant))), s.Name
	case TypeToolCallStart:
		e.ToolCallName, e.ParentMessageID = s.ToolCallName, s.ParentID
	case TypeReasoningMessageStart:
		e.Role = Some(string(RoleReasoning))
	}
	return e
}

// memory gives room for an event. Only where many streams end at once is it new.
func (x *Expander) memory() *Event {
	if x.used == maxMade {
		return new(Event)
	}
	if x.made == nil {
		x.made = make([]Event, maxMade)
	}
	x.used++
	return &x.made[x.used-1]
}
