package fold

import (
	"cmp"
	"maps"
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
	call               *call  // of a stream of arguments
	opening            uint64 // when it was opened
	closed             bool
}

// lanes are the streams of one kind that a run has open.
type lanes struct {
	count int
	order []*stream // as they were opened; closed ones may still be there, but not at the end
}

func (l *lanes) trim() {
	for n := len(l.order); n > 0 && l.order[n-1].closed; n-- {
		l.order = l.order[:n-1]
	}
}

// add makes s one of the streams of a run.
func (r *run) add(s *stream) {
	if r.streams == nil {
		r.streams, r.named = make(map[agui.Opt[string]]*stream), make(map[streamKey]*stream)
		r.lanes = make(map[agui.Type]*lanes)
	}
	r.streams[s.tag], r.named[streamKey{s.kind, s.id}] = s, s
	l := r.lanes[s.kind]
	if l == nil {
		l = new(lanes)
		r.lanes[s.kind] = l
	}
	l.count++
	l.order = append(l.order, s)
}

// streamKey is a stream as a chunk names it.
type streamKey struct {
	kind agui.Type
	id   string
}

// chunk is one chunk: it goes on with a stream, or opens one.
func (d *durable) chunk(r *run, e *agui.Event) {
	s, own := d.streamFor(r, e)
	id := chunkID(e)
	if s == nil && !id.Set {
		d.nameless(r, e)
		return
	}
	if s == nil || id.Set && id.V != s.id {
		if s = d.openStream(r, own, e); s == nil {
			return
		}
		// Its START has brought the metadata already.
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

// namelessReach is how many of the things that are open a chunk that names nothing
// is compared with, the newest first.
const namelessReach = 1000

// nameless is a chunk that names nothing and can go on with no stream. If the
// run has something of its kind open in another way, its words go there.
func (d *durable) nameless(r *run, e *agui.Event) {
	o, ok := d.openFor(r, e)
	switch {
	case !ok:
		d.diagnose("chunk_without_stream", "type", string(e.Type))
	case o.call != nil:
		d.diagnose("chunk_without_stream", "type", string(e.Type), "toolCallId", o.call.id)
		d.addTo(o.call, e)
	default:
		d.diagnose("chunk_without_stream", "type", string(e.Type), "messageId", o.message.id)
		d.append(o.message, e)
	}
}

// openFor finds what was opened last of that which a chunk that names nothing
// may mean: of its kind and its owner.
func (d *durable) openFor(r *run, e *agui.Event) (found opening, ok bool) {
	call := e.Type == agui.TypeToolCallChunk
	seen, closed := 0, 0
	for _, o := range slices.Backward(r.opened) {
		if !o.isOpen(r) {
			closed++
			continue
		}
		if call {
			ok = o.call != nil && o.call.owner.tag == e.SubagentRunID
		} else {
			ok = o.message != nil && o.message.kind == streamKind(e.Type) && o.message.tag == e.SubagentRunID
		}
		if seen++; ok || seen == namelessReach {
			found = o
			break
		}
	}
	if closed > namelessReach {
		r.forgetClosed() // not to pass by them every time
	}
	return found, ok
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
	own = r.streams[e.SubagentRunID]
	id := chunkID(e)
	if id.Set {
		if s := r.named[streamKey{e.Type, id.V}]; s != nil {
			if e.SubagentRunID.Set && s.tag != e.SubagentRunID {
				d.diagnose("chunk_disagrees", "id", s.id, "subagentRunId", e.SubagentRunID)
			}
			return s, own
		}
	}
	if own != nil && own.kind == e.Type {
		return own, own
	}
	if id.Set || e.SubagentRunID.Set {
		return nil, own
	}
	// Of several that it may mean it gets the latest: dropping it would lose its
	// words for certain.
	l := r.lanes[e.Type]
	if l == nil || l.count == 0 {
		return nil, own
	}
	same = l.order[len(l.order)-1]
	if l.count > 1 {
		d.diagnose("ambiguous_chunk", "id", same.id)
	}
	return same, own
}

// openStream opens a stream with a chunk that names something. The stream
// its owner had ends. nil if the chunk cannot.
func (d *durable) openStream(r *run, own *stream, e *agui.Event) *stream {
	s := &stream{kind: e.Type, id: strings.Clone(chunkID(e).V), tag: kept(e.SubagentRunID), opening: d.seq}
	if e.Type == agui.TypeToolCallChunk {
		if s.call = d.chunkCall(r, e); s.call == nil {
			return nil
		}
		s.name, s.parent = kept(e.ToolCallName), kept(e.ParentMessageID)
	}
	if own != nil {
		d.closeStream(r, own)
	}
	if s.call == nil {
		s.role, s.name = agui.Some(e.Role.Or(string(agui.RoleAssistant))), kept(e.Name)
		d.startText(r, streamKind(e.Type), e)
	}
	r.add(s)
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
		d.openCall(r, c)
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
	if s := r.streams[e.SubagentRunID]; s != nil {
		d.closeStream(r, s)
	}
}

// closeStream is the END that a stream of chunks gets.
func (d *durable) closeStream(r *run, s *stream) {
	delete(r.streams, s.tag)
	delete(r.named, streamKey{s.kind, s.id})
	s.closed = true
	l := r.lanes[s.kind]
	l.count--
	l.trim()
	if s.call != nil {
		if s.call.open == r {
			s.call.settle()
			s.call.set(r, true)
			r.paused = append(r.paused, s.call)
		}
		return
	}
	if m := d.transcript.find(streamKind(s.kind), s.id); m != nil && m.open == r {
		m.close()
	}
}

// closeStreams ends all streams of a run that ends. Of one that a failure cuts
// nobody knows whether it had all been said.
func (d *durable) closeStreams(r *run, cut bool) {
	for _, s := range r.inOrder() {
		if cut && s.call != nil && s.call.open == r {
			d.diagnose("incomplete_call", "toolCallId", s.call.id)
		}
		d.closeStream(r, s)
	}
}

// inOrder lists a run's streams in the order they were opened in.
func (r *run) inOrder() []*stream {
	return slices.SortedFunc(maps.Values(r.streams), func(a, b *stream) int { return cmp.Compare(a.opening, b.opening) })
}
