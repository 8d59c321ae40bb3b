package fold

import (
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// refTranscript is the list of messages as the official client has it. Ids may
// occur more than once; the first message that has one is meant (SEMANTICS
// section 8). No event costs more the longer the list is, but a snapshot while an
// id is there twice.
type refTranscript struct {
	first, last *refEntry
	length      int
	byID        map[string]*refEntry     // the first entry with the id
	calls       map[string]*refCallEntry // the first call with the id
	// twice: some id, of a message or of a call, is or was there more than once.
	twice bool
	// shape changes when entries come to stand for other messages: what is
	// remembered of rows of results holds only within one shape.
	shape int
	// What a snapshot may take away, by what it has to own for that: the reasoning,
	// activities by their types, and all else.
	others, reasoning *refGroup
	activities        map[string]*refGroup // none is empty
}

// refGroup is entries in no order.
type refGroup struct {
	first    *refEntry
	activity string // the type
}

// refEntry is a place in the list. Two may hold one message (R-MSNAP-4).
type refEntry struct {
	prev, next *refEntry
	message    *refMessage
	// lastResult is a place in the row of tool messages directly behind this
	// one, in the transcript's shape of then.
	lastResult *refEntry
	shape      int

	group      *refGroup
	near, past *refEntry // of the group: the next and the one before
}

type refCallEntry struct {
	call *refCall
	in   *refEntry
}

// refMessage is a message that grows.
type refMessage struct {
	id           string
	role         agui.Role
	kind         agui.ContentKind
	text         *jsonvalue.Text     // of TextContent
	parts        []agui.Part         // of PartsContent
	object       *jsonvalue.Document // of ObjectContent
	name         agui.Opt[string]
	calls        []*refCall
	hasCalls     bool // toolCalls is there, if only as an empty list
	toolCallID   agui.Opt[string]
	failure      agui.Opt[string]
	activityType agui.Opt[string]
	encrypted    agui.Opt[string]
	owner        agui.Opt[string]
	metadata     *jsonvalue.Document // nil: none
}

// refCall is a tool call that grows.
type refCall struct {
	id        string
	name      string
	arguments *jsonvalue.Text
	encrypted agui.Opt[string]
	metadata  *jsonvalue.Document // nil: none
}

func (t *refTranscript) clear() {
	*t = refTranscript{
		byID: map[string]*refEntry{}, calls: map[string]*refCallEntry{}, shape: t.shape + 1,
		others: &refGroup{}, reasoning: &refGroup{}, activities: map[string]*refGroup{},
	}
}

// find returns the message with this id, nil if there is none.
func (t *refTranscript) find(id string) *refMessage {
	if at := t.byID[id]; at != nil {
		return at.message
	}
	return nil
}

func (t *refTranscript) append(m *refMessage) *refEntry {
	at := &refEntry{message: m}
	t.link(at, t.last)
	t.index(at)
	return at
}

// link puts an entry behind another one, or in front if that is nil.
func (t *refTranscript) link(at, behind *refEntry) {
	at.prev = behind
	if behind == nil {
		at.next, t.first = t.first, at
	} else {
		at.next, behind.next = behind.next, at
	}
	if at.next == nil {
		t.last = at
	} else {
		at.next.prev = at
	}
	t.length++
	t.join(at)
}

// index makes the last entry of the list known by its ids.
func (t *refTranscript) index(at *refEntry) {
	if t.byID[at.message.id] == nil {
		t.byID[at.message.id] = at
	} else {
		t.twice = true
	}
	for _, c := range at.message.calls {
		if t.calls[c.id] == nil {
			t.calls[c.id] = &refCallEntry{call: c, in: at}
		} else {
			t.twice = true
		}
	}
}

// insertResult puts a tool message behind the entry that has its call and the
// tool messages that follow that directly (R-RESULT-2).
func (t *refTranscript) insertResult(m *refMessage, call *refEntry) {
	behind := call
	if call.lastResult != nil && call.shape == t.shape {
		behind = call.lastResult
	}
	for behind.next != nil && behind.next.message.role == agui.RoleTool {
		behind = behind.next
	}
	at := &refEntry{message: m}
	t.link(at, behind)
	call.lastResult, call.shape = at, t.shape
	switch known := t.byID[m.id]; {
	case known == nil:
		t.byID[m.id] = at
	default:
		t.twice = true
		if t.before(at, known) {
			t.byID[m.id] = at
		}
	}
}

// before reports whether a stands before b, looking both ways at once, since
// messages with one id are mostly near to each other.
func (t *refTranscript) before(a, b *refEntry) bool {
	for up, down := a.prev, a.next; ; up, down = up.prev, down.next {
		switch {
		case up == b || down == nil:
			return false
		case down == b || up == nil:
			return true
		}
	}
}

// replace puts another message with the same id in the place of one (R-ACT-3).
func (t *refTranscript) replace(at *refEntry, m *refMessage) {
	old := at.message
	at.message = m
	t.regroup(at)
	if old.role == agui.RoleTool {
		t.shape++
	}
	if t.twice {
		t.reindex()
		return
	}
	for _, c := range old.calls {
		delete(t.calls, c.id)
	}
}

// alone makes the message at a place one that no other place holds. The client
// changes an activity by putting another object in its place, so of two that
// are one (R-MSNAP-4) only the first changes.
func (t *refTranscript) alone(at *refEntry) *refMessage {
	if !t.twice {
		return at.message
	}
	m := *at.message
	m.object = jsonvalue.NewDocument(m.object.Snapshot())
	if m.metadata != nil {
		m.metadata = jsonvalue.NewDocument(m.metadata.Snapshot())
	}
	at.message = &m
	return at.message
}

func (t *refTranscript) reindex() {
	clear(t.byID)
	clear(t.calls)
	t.twice = false
	for at := t.first; at != nil; at = at.next {
		t.index(at)
	}
}

// addUnknown appends the messages whose id is not in the list (R-RUN-6).
func (t *refTranscript) addUnknown(messages []agui.Message) {
	for i := range messages {
		if t.byID[messages[i].ID] == nil {
			t.append(newRefMessage(&messages[i]))
		}
	}
}

// show lists the messages as they are now.
func (t *refTranscript) show() []agui.Message {
	out := make([]agui.Message, 0, t.length)
	for at := t.first; at != nil; at = at.next {
		out = append(out, at.message.show())
	}
	return out
}

func newRefMessage(message *agui.Message) *refMessage {
	from := detached(message)
	m := &refMessage{
		id: from.ID, role: from.Role, name: from.Name, hasCalls: from.ToolCalls != nil,
		toolCallID: from.ToolCallID, failure: from.Error, activityType: from.ActivityType,
		encrypted: from.EncryptedValue, owner: from.SubagentRunID,
	}
	m.setContent(from.Content)
	m.merge(from.Metadata)
	for i := range from.ToolCalls {
		call := &from.ToolCalls[i]
		c := &refCall{id: call.ID, name: call.Name, arguments: jsonvalue.NewText(call.Arguments), encrypted: call.EncryptedValue}
		c.merge(call.Metadata)
		m.calls = append(m.calls, c)
	}
	return m
}

func (m *refMessage) setContent(c agui.Content) {
	m.kind, m.parts = c.Kind, c.Parts
	switch c.Kind {
	case agui.TextContent:
		m.text = jsonvalue.NewText(c.Text)
	case agui.ObjectContent:
		m.object = jsonvalue.NewDocument(c.Object)
	}
}

// merge is R-META-1.
func (m *refMessage) merge(metadata agui.Value) { refMerge(&m.metadata, metadata) }

// merge is R-META-2.
func (c *refCall) merge(metadata agui.Value) { refMerge(&c.metadata, metadata) }

func refMerge(into **jsonvalue.Document, metadata agui.Value) {
	if !metadata.Present() {
		return
	}
	if *into == nil {
		*into = new(jsonvalue.Document)
	}
	(*into).Merge(metadata.Detach())
}

func (m *refMessage) show() agui.Message {
	out := agui.Message{
		ID: m.id, Role: m.role, Name: m.name, ToolCallID: m.toolCallID, Error: m.failure,
		ActivityType: m.activityType, EncryptedValue: m.encrypted, SubagentRunID: m.owner,
		Content: agui.Content{Kind: m.kind, Parts: m.parts},
	}
	switch m.kind {
	case agui.TextContent:
		out.Content.Text = m.text.String()
	case agui.ObjectContent:
		out.Content.Object = m.object.Snapshot()
	}
	if m.metadata != nil {
		out.Metadata = m.metadata.Snapshot()
	}
	if m.hasCalls {
		out.ToolCalls = make([]agui.ToolCall, len(m.calls))
		for i, c := range m.calls {
			out.ToolCalls[i] = agui.ToolCall{ID: c.id, Name: c.name, Arguments: c.arguments.String(), EncryptedValue: c.encrypted}
			if c.metadata != nil {
				out.ToolCalls[i].Metadata = c.metadata.Snapshot()
			}
		}
	}
	return out
}
