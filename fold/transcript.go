package fold

import (
	"strconv"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// kind is what a message is; with its id it is the message's identity (R7).
type kind uint8

const (
	kindText kind = iota
	kindReasoning
	kindActivity
	kindTool
	kinds
)

var kindNames = [...]string{"text", "reasoning", "activity", "tool"}

func (k kind) String() string { return kindNames[k] }

func kindOf(role agui.Role) kind {
	switch role {
	case agui.RoleReasoning:
		return kindReasoning
	case agui.RoleActivity:
		return kindActivity
	case agui.RoleTool:
		return kindTool
	}
	return kindText
}

// identity is a message as events name it.
type identity struct {
	kind kind
	id   string
}

// transcript is the messages in order, and the ways to find one.
type transcript struct {
	first, last *message
	count       int
	places      places
	calls       map[string]*callSet
	// results are the tool messages that TOOL_CALL_RESULTs have made, the newest
	// of each name.
	results map[resultKey]*message
	numbers map[identity]*numbers // what free knows
	// shape counts snapshots: what is remembered of the order of messages is
	// true as long as it stays. moves counts those that changed the order of what
	// stays.
	shape, moves int
	ranked       int        // the shape that the ranks of messages are of
	removable    *removable // nil: no snapshot has come yet

	shared bool // there are or were two calls of one id
	// unsaved is how many messages of the list have come or changed since the last
	// [Fold.Changes], as long as shape is what it was then.
	unsaved int
}

func newTranscript() transcript {
	return transcript{
		places:  newPlaces(0),
		calls:   make(map[string]*callSet),
		results: make(map[resultKey]*message),
		numbers: make(map[identity]*numbers),
	}
}

// resultKey is the messageId and the toolCallId of a TOOL_CALL_RESULT.
type resultKey struct{ message, call string }

// message is a message of the transcript. What a piece of text needs comes
// first, so that it is within one line of the processor's caches.
type message struct {
	shown   *agui.Message // as views show it; nil: it has changed
	open    *run          // whose text is open; nil: closed
	saved   bool          // what the last Changes said of it is still so
	content content
	opening uint64 // when it was opened

	prev, next *message
	place      *place
	kind       kind
	id         string // in views
	role       agui.Role
	name       agui.Opt[string]
	tag        agui.Opt[string] // subagentRunId
	toolCallID agui.Opt[string]
	err        agui.Opt[string]
	activity   agui.Opt[string] // activityType
	encrypted  agui.Opt[string]
	metadata   *jsonvalue.Document // nil: none
	calls      callList
	callList   bool  // toolCalls is there even if it is empty
	answers    *call // of a tool message: the call it is the result of

	// lastResult is a tool message in the unbroken row of them behind this one,
	// true if shape is the transcript's: where to look for the row's end.
	lastResult *message
	shape      int

	spot *spot // nil before the first snapshot

	made *resultKey // the TOOL_CALL_RESULT that has made it
	t    *transcript
}

// find gives the message that an event means by an id, nil if there is none.
func (t *transcript) find(k kind, id string) *message {
	if p := t.places.find(k, id); p != nil {
		return p.message
	}
	return nil
}

// lists reports whether m is in the list.
func (t *transcript) lists(m *message) bool { return m.place.message == m }

// exists reports whether a message of any kind is meant by an id.
func (t *transcript) exists(id string) bool {
	for k := range kinds {
		if t.find(k, id) != nil {
			return true
		}
	}
	return false
}

// create makes a message for an identity that has none. It is not in the list
// yet.
func (t *transcript) create(k kind, id string, role agui.Role) *message {
	p := t.places.of(k, id)
	return &message{place: p, kind: k, id: p.id, role: role, t: t}
}

// free gives the first of id, id~2, id~3 … that no message of the kind has.
func (t *transcript) free(k kind, id string) string {
	if t.find(k, id) == nil {
		return id
	}
	known := t.numbers[identity{k, id}]
	if known == nil {
		known = &numbers{next: 2}
		t.numbers[identity{k, strings.Clone(id)}] = known
	}
	taken := func(n int) bool { return t.find(k, id+"~"+strconv.Itoa(n)) != nil }
	return id + "~" + strconv.Itoa(known.free(taken))
}

// append puts m at the end of the list.
func (t *transcript) append(m *message) { t.insert(m, t.last) }

// insert puts m behind a message of the list; behind nil is the front.
func (t *transcript) insert(m, behind *message) {
	m.prev = behind
	if behind == nil {
		m.next, t.first = t.first, m
	} else {
		m.next, behind.next = behind.next, m
	}
	if m.next == nil {
		t.last = m
	} else {
		m.next.prev = m
	}
	m.place.message = m
	t.count++
	t.unsaved++
	if t.removable == nil {
		return
	}
	var before, next *spot
	if m.prev != nil {
		before = m.prev.spot
	} else if m.next != nil {
		next = m.next.spot
	}
	t.arranged(m, before, next)
}

// insertResult puts a tool message behind the message of the call it answers
// and the results that are there (R13), or at the end if it answers none.
func (t *transcript) insertResult(m *message) {
	if m.answers == nil || m.answers.owner == nil {
		t.append(m)
		return
	}
	owner := m.answers.owner
	at := owner
	if owner.shape == t.shape && owner.lastResult != nil {
		at = owner.lastResult
	}
	for at.next != nil && at.next.kind == kindTool {
		at = at.next
	}
	t.insert(m, at)
	owner.lastResult, owner.shape = m, t.shape
}

// content is what a message says, while it grows.
type content struct {
	text   jsonvalue.Text
	kind   agui.ContentKind
	parts  []agui.Part
	tail   *jsonvalue.Text // the text of the last text part, if it grew
	object *jsonvalue.Document
}

// set makes c what a message that came whole says.
func (c *content) set(to agui.Content) {
	*c = content{kind: to.Kind, parts: to.Parts}
	switch to.Kind {
	case agui.TextContent:
		c.text.Append(to.Text)
	case agui.ObjectContent:
		c.object = jsonvalue.NewDocument(to.Object)
	}
}

// add appends text. It reports false if the content is a list of parts, whose
// last text part it has extended then (R8).
func (c *content) add(s string) (plain bool) {
	if c.kind == agui.PartsContent {
		if c.tail == nil {
			c.openTail()
		}
		c.tail.Append(s)
		return false
	}
	c.kind = agui.TextContent
	c.text.Append(s)
	return true
}

func (c *content) openTail() {
	i := lastTextPart(c.parts)
	if i < 0 {
		i = len(c.parts)
		c.parts = append(c.parts[:i:i], agui.Part{Type: "text"})
	}
	c.tail = jsonvalue.NewText(c.parts[i].Text.V)
}

func lastTextPart(parts []agui.Part) int {
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].Type == "text" {
			return i
		}
	}
	return -1
}

// show gives the content as it is now.
func (c *content) show() agui.Content {
	out := agui.Content{Kind: c.kind, Parts: c.parts}
	switch {
	case c.kind == agui.TextContent:
		out.Text = c.text.String()
	case c.kind == agui.ObjectContent:
		out.Object = c.object.Snapshot()
	case c.tail != nil:
		out.Parts = append([]agui.Part(nil), c.parts...)
		out.Parts[lastTextPart(out.Parts)].Text = agui.Some(c.tail.String())
	}
	return out
}

// changed forgets what is known of the message as it was.
func (m *message) changed() {
	m.shown = nil
	if m.saved {
		m.saved = false
		m.t.unsaved++
	}
}

// show gives the message as it is now.
func (m *message) show() *agui.Message {
	if m.shown != nil {
		return m.shown
	}
	out := &agui.Message{
		ID: m.id, Role: m.role, Content: m.content.show(), Name: m.name,
		ToolCallID: m.toolCallID, Error: m.err, ActivityType: m.activity,
		EncryptedValue: m.encrypted, SubagentRunID: m.tag, Metadata: snapshotOf(m.metadata),
	}
	if m.callList || m.calls.count > 0 {
		out.ToolCalls = make([]agui.ToolCall, 0, m.calls.count)
		for c := m.calls.first; c != nil; c = c.next {
			out.ToolCalls = append(out.ToolCalls, agui.ToolCall{
				ID: c.id, Name: c.name, Arguments: c.arguments.String(),
				EncryptedValue: c.encrypted, Metadata: snapshotOf(c.metadata),
			})
		}
	}
	m.shown = out
	return out
}

func snapshotOf(d *jsonvalue.Document) agui.Value {
	if d == nil {
		return agui.Value{}
	}
	return d.Snapshot()
}

// merge merges the metadata of an event into those of a message or a call
// (SEMANTICS R-META-1).
func merge(into **jsonvalue.Document, metadata agui.Value) {
	if !metadata.Present() {
		return
	}
	if *into == nil {
		*into = new(jsonvalue.Document)
	}
	(*into).Merge(metadata)
}

// fill makes m what a message of a snapshot or an input says, but for its
// calls.
func (m *message) fill(from *agui.Message) {
	m.role, m.name, m.tag = from.Role, from.Name, from.SubagentRunID
	m.content.set(from.Content)
	m.toolCallID, m.err = from.ToolCallID, from.Error
	m.retype(from.ActivityType)
	if from.EncryptedValue.Set {
		m.encrypted = from.EncryptedValue
	}
	m.metadata = nil
	merge(&m.metadata, from.Metadata)
	m.callList = from.ToolCalls != nil
	m.changed()
}
