package fold

import (
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
)

// stream is an open stream of chunks (SEMANTICS section 6, fold-rules R29). An
// owner, the run itself or one of its subagents, has at most one.
type stream struct {
	kind agui.Type // that of its chunks
	id   string
	tag  agui.Opt[string]
	// What its opener said: role and name, or toolCallName and parentMessageId.
	role, name, parent agui.Opt[string]
	call               *call // of a stream of arguments
}

// chunk is one chunk: it goes on with a stream, or opens one.
func (d *durable) chunk(r *run, e *agui.Event) {
	s, own := d.streamFor(r, e)
	id := chunkID(e)
	if s == nil || id.Set && id.V != s.id {
		if s = d.openStream(r, own, e); s == nil {
			return
		}
		// The opener's metadata are there already; a second time they change
		// nothing, unless something else has been said in between.
		if !e.Delta.Set && !e.RawEvent.Present() {
			return
		}
	} else {
		d.agree(s, e)
		if !e.Delta.Set && !e.RawEvent.Present() && !e.Metadata.Present() {
			return
		}
	}
	if s.call != nil {
		d.addTo(s.call, e)
		return
	}
	if m := d.transcript.find(streamKind(s.kind), s.id); m != nil {
		d.append(m, e)
	}
}

func chunkID(e *agui.Event) agui.Opt[string] {
	if e.Type == agui.TypeToolCallChunk {
		return e.ToolCallID
	}
	return e.MessageID
}

func streamKind(t agui.Type) kind {
	if t == agui.TypeReasoningMessageChunk {
		return kindReasoning
	}
	return kindText
}

// streamFor finds the stream that a chunk may go on with, nil if there is none
// of its kind, and the one that it would end by opening another.
func (d *durable) streamFor(r *run, e *agui.Event) (same, own *stream) {
	id := chunkID(e)
	var ofKind []*stream
	for _, s := range r.streams {
		if s.tag == e.SubagentRunID {
			own = s
		}
		if s.kind != e.Type {
			continue
		}
		ofKind = append(ofKind, s)
		if id.Set && s.id == id.V {
			if e.SubagentRunID.Set && s.tag != e.SubagentRunID {
				d.diagnose("chunk_disagrees", "id", s.id, "subagentRunId", e.SubagentRunID)
			}
			return s, own
		}
	}
	if own != nil && own.kind == e.Type {
		return own, own
	}
	if id.Set || e.SubagentRunID.Set || len(ofKind) == 0 {
		return nil, own
	}
	if len(ofKind) > 1 {
		// Of several that it may mean it gets the latest: dropping it would lose
		// its words for certain.
		d.diagnose("ambiguous_chunk", "id", ofKind[len(ofKind)-1].id)
	}
	return ofKind[len(ofKind)-1], own
}

// openStream opens a stream with a chunk, which must name something. The
// stream its owner had ends. nil if the chunk cannot.
func (d *durable) openStream(r *run, own *stream, e *agui.Event) *stream {
	id := chunkID(e)
	if !id.Set {
		d.diagnose("chunk_without_stream", "type", string(e.Type))
		return nil
	}
	s := &stream{kind: e.Type, id: strings.Clone(id.V), tag: e.SubagentRunID}
	if e.Type == agui.TypeToolCallChunk {
		if s.call = d.chunkCall(r, e); s.call == nil {
			return nil
		}
		s.name, s.parent = e.ToolCallName, e.ParentMessageID
	}
	if own != nil {
		d.closeStream(r, own)
	}
	if s.call == nil {
		s.role, s.name = agui.Some(e.Role.Or(string(agui.RoleAssistant))), e.Name
		d.startText(r, streamKind(e.Type), e)
	} else {
		d.openCall(r, s.call)
	}
	r.streams = append(r.streams, s)
	return s
}

// chunkCall gives the call that a chunk names: one that it takes up again, or
// one that it starts (R14).
func (d *durable) chunkCall(r *run, e *agui.Event) *call {
	c := d.transcript.newest(e.ToolCallID.V)
	if c != nil && c.open != nil && (!e.ToolCallName.Set || c.open == r && c.results == 0) {
		if e.ToolCallName.Set {
			d.rename(c, e.ToolCallName.V)
		}
		d.describeCall(c, e)
		return c
	}
	switch {
	case e.ToolCallName.Set:
		return d.startCall(r, e)
	case c == nil:
		d.diagnose("unknown_call", "type", string(e.Type), "toolCallId", e.ToolCallID)
	default:
		d.diagnose("arguments_after_end", "toolCallId", c.id)
	}
	return nil
}

// agree reports what a chunk says otherwise than its stream's opener. The
// opener's word stands.
func (d *durable) agree(s *stream, e *agui.Event) {
	name := e.Name
	if s.call != nil {
		name = e.ToolCallName
	}
	for _, said := range [...]struct {
		field    string
		now, was agui.Opt[string]
	}{{"role", e.Role, s.role}, {"name", name, s.name}, {"parentMessageId", e.ParentMessageID, s.parent}} {
		if said.now.Set && said.now != said.was {
			d.diagnose("chunk_disagrees", "id", s.id, "member", said.field)
		}
	}
}

// closeForEvent ends the streams of chunks that an event ends. A
// MESSAGES_SNAPSHOT ends none here (R29).
func (d *durable) closeForEvent(r *run, e *agui.Event) {
	if len(r.streams) == 0 {
		return
	}
	switch e.Type {
	case agui.TypeTextMessageStart, agui.TypeTextMessageContent, agui.TypeTextMessageEnd,
		agui.TypeToolCallStart, agui.TypeToolCallArgs, agui.TypeToolCallEnd, agui.TypeToolCallResult,
		agui.TypeStateSnapshot, agui.TypeStateDelta, agui.TypeCustom,
		agui.TypeStepStarted, agui.TypeStepFinished,
		agui.TypeReasoningStart, agui.TypeReasoningMessageStart, agui.TypeReasoningMessageContent,
		agui.TypeReasoningMessageEnd, agui.TypeReasoningEnd,
		agui.TypeSubagentFinished, agui.TypeSubagentError:
	default:
		return
	}
	for _, s := range r.streams {
		if s.tag == e.SubagentRunID {
			d.closeStream(r, s)
			return
		}
	}
}

// closeStream is the END that a stream of chunks gets.
func (d *durable) closeStream(r *run, s *stream) {
	r.streams = slices.DeleteFunc(r.streams, func(other *stream) bool { return other == s })
	if s.call != nil {
		if s.call.open == r {
			s.call.settle()
			s.call.paused = true
			r.paused = append(r.paused, s.call)
		}
		return
	}
	if m := d.transcript.find(streamKind(s.kind), s.id); m != nil && m.open == r {
		m.open = nil
	}
}

// closeStreams ends all streams of a run that ends. Of one that a failure cuts
// nobody knows whether it had all been said.
func (d *durable) closeStreams(r *run, cut bool) {
	for len(r.streams) > 0 {
		s := r.streams[0]
		if cut && s.call != nil && s.call.open == r {
			d.diagnose("incomplete_call", "toolCallId", s.call.id)
		}
		d.closeStream(r, s)
	}
}
