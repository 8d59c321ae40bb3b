package fold

import (
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// call is a tool call.
type call struct {
	id    string
	name  string
	owner *message // nil: no longer in the transcript
	// The calls of the owner are a list; position grows in it.
	prev, next *call
	position   int
	over       bool // in the owner's list of those
	arguments  *jsonvalue.Text
	encrypted  agui.Opt[string]
	metadata   *jsonvalue.Document // nil: none

	open      *run   // that has it open; nil: it is over
	opening   uint64 // when it was opened
	startedBy *run   // the last that did
	// paused: it is open, but the END of a chunk stream has come, which a chunk
	// that names it takes back (R14).
	paused bool
	// again: it has been announced again, and fresh are its new arguments, which
	// replace the old ones when its END comes. nil: none came yet.
	again bool
	fresh *jsonvalue.Text

	results int // tool messages of the transcript that answer it
	// resulted: it ever had one.
	resulted bool
}

func (c *call) changed() {
	if c.owner != nil {
		c.owner.changed()
	}
}

// settle is an END: new arguments take the place of old ones.
func (c *call) settle() {
	if c.again && c.fresh != nil {
		c.arguments = c.fresh
		c.changed()
	}
	c.again, c.fresh = false, nil
}

// cut is the end of the run: what has not been settled is lost.
func (c *call) cut() {
	c.set(nil, false)
	c.again, c.fresh = false, nil
}

// addCall adds a call of a message that came whole.
func (d *durable) addCall(m *message, from *agui.ToolCall) *call {
	c := &call{id: from.ID}
	c.fill(from)
	m.push(c)
	d.transcript.index(c)
	return c
}

// fill makes c what a message that came whole says.
func (c *call) fill(from *agui.ToolCall) {
	c.name, c.arguments = from.Name, jsonvalue.NewText(from.Arguments)
	if from.EncryptedValue.Set {
		c.encrypted = from.EncryptedValue
	}
	c.metadata = nil
	merge(&c.metadata, from.Metadata)
}

// startCall is a TOOL_CALL_START, or a chunk that makes one (R14). A call that
// another run has left open counts as cut: its run may have died without a word,
// and arguments of two runs do not belong together.
func (d *durable) startCall(r *run, e *agui.Event) *call {
	c := d.transcript.newest(e.ToolCallID.V)
	switch {
	case c == nil:
		c = d.newCall(e)
	case c.open == r && (!c.paused || c.results == 0):
		if !c.paused {
			d.diagnose("duplicate_start", "toolCallId", c.id)
		}
		d.rename(c, e.ToolCallName.V)
	case c.results > 0:
		d.diagnose("call_id_reused", "toolCallId", c.id)
		c = d.newCall(e)
	default:
		d.diagnose("call_reannounced", "toolCallId", c.id)
		c.again, c.fresh = true, nil
		d.rename(c, e.ToolCallName.V)
	}
	d.describeCall(c, e)
	d.openCall(r, c)
	return c
}

func (d *durable) rename(c *call, name string) {
	if c.name != name {
		d.diagnose("call_renamed", "toolCallId", c.id, "from", c.name, "to", name)
		c.name = strings.Clone(name)
		c.changed()
	}
}

func (d *durable) openCall(r *run, c *call) {
	c.set(r, false)
	c.opening = d.seq
	r.open(opening{call: c, seq: d.seq})
	if c.startedBy != r {
		c.startedBy = r
		r.started = append(r.started, c)
	}
}

func (d *durable) describeCall(c *call, e *agui.Event) {
	if e.Metadata.Present() {
		merge(&c.metadata, e.Metadata)
		c.changed()
	}
}

// newCall makes a call in the message that its START names (R16).
func (d *durable) newCall(e *agui.Event) *call {
	id := strings.Clone(e.ToolCallID.V)
	m := d.ownerFor(id, e)
	c := &call{id: id, name: strings.Clone(e.ToolCallName.V), arguments: new(jsonvalue.Text)}
	m.push(c)
	m.changed()
	d.transcript.index(c)
	return c
}

func (d *durable) ownerFor(callID string, e *agui.Event) *message {
	t := &d.transcript
	parent := e.ParentMessageID.V
	if parent != "" {
		m := t.find(kindText, parent)
		if m != nil && m.role == agui.RoleAssistant {
			return m
		}
		if m == nil && !t.exists(parent) {
			return d.newOwner(parent, e)
		}
		d.diagnose("parent_not_assistant", "toolCallId", callID, "parentMessageId", parent)
	}
	id := t.free(kindText, callID)
	if id != callID {
		d.diagnose("id_renamed", "messageId", callID, "as", id)
	}
	return d.newOwner(id, e)
}

func (d *durable) newOwner(id string, e *agui.Event) *message {
	m := d.create(kindText, id, agui.RoleAssistant)
	m.tag = kept(e.SubagentRunID)
	d.transcript.append(m)
	return m
}

// addArguments is a TOOL_CALL_ARGS. Arguments never go on behind an END.
func (d *durable) addArguments(e *agui.Event) {
	c := d.transcript.newest(e.ToolCallID.V)
	switch {
	case c == nil:
		d.diagnose("unknown_call", "type", string(e.Type), "toolCallId", e.ToolCallID)
	case c.open == nil:
		d.diagnose("arguments_after_end", "toolCallId", c.id)
	default:
		d.addTo(c, e)
	}
}

func (d *durable) addTo(c *call, e *agui.Event) {
	if c.again {
		if c.fresh == nil {
			c.fresh = new(jsonvalue.Text)
		}
		c.fresh.Append(e.Delta.V)
	} else {
		c.arguments.Append(e.Delta.V)
		c.changed()
	}
	d.describeCall(c, e)
}

func (d *durable) endCall(e *agui.Event) {
	c := d.transcript.newest(e.ToolCallID.V)
	switch {
	case c == nil:
		d.diagnose("unknown_call", "type", string(e.Type), "toolCallId", e.ToolCallID)
	case c.open == nil:
		d.diagnose("second_end", "toolCallId", c.id)
	default:
		d.describeCall(c, e)
		c.settle()
		c.set(nil, false)
	}
}

// result is a TOOL_CALL_RESULT (R13).
func (d *durable) result(r *run, e *agui.Event) {
	callID := e.ToolCallID.V
	target := d.transcript.unanswered(callID)
	m := d.resultMessage(e.MessageID.V, callID, target)
	if m == nil {
		m = d.newResult(e)
	} else {
		d.diagnose("result_replaced", "messageId", m.id)
		m.content.set(e.Content)
		m.changed()
		if e.SubagentRunID.Set {
			m.tag = kept(e.SubagentRunID)
		}
		d.describe(m, e)
		if m.answers == nil && target != nil {
			d.transcript.answer(m, target)
		}
	}
	if m.answers == nil {
		if r.orphanResults == nil {
			r.orphanResults = make(map[string]bool)
		}
		r.orphanResults[callID] = true
	}
}

func (d *durable) newResult(e *agui.Event) *message {
	t := &d.transcript
	callID := strings.Clone(e.ToolCallID.V)
	id := t.free(kindTool, e.MessageID.V)
	if id != e.MessageID.V {
		d.diagnose("id_renamed", "messageId", e.MessageID, "as", id)
	}
	m := d.create(kindTool, id, agui.RoleTool)
	m.toolCallID, m.tag = agui.Some(callID), kept(e.SubagentRunID)
	m.content.set(e.Content)
	d.describe(m, e)
	d.placeResult(m)
	m.made = &resultKey{strings.Clone(e.MessageID.V), callID}
	if before := t.results[*m.made]; before != nil {
		before.changed()
	}
	t.results[*m.made] = m
	return m
}

// resultMessage gives the message that a result replaces: the one that its id
// and call have made before, unless a newer call waits for its result. Nothing
// else may be overwritten: that would lose a result (R13 against R14).
func (d *durable) resultMessage(id, callID string, target *call) *message {
	t := &d.transcript
	m := t.results[resultKey{id, callID}]
	if m == nil || !t.lists(m) {
		m = t.find(kindTool, id)
	}
	if m == nil || m.toolCallID.V != callID {
		return nil
	}
	if target != nil && target.results == 0 && m.answers != nil {
		return nil
	}
	return m
}

// placeResult puts a new tool message where it belongs.
func (d *durable) placeResult(m *message) {
	if c := d.transcript.unanswered(m.toolCallID.V); c != nil {
		d.transcript.answer(m, c)
	} else {
		d.diagnose("orphan_result", "messageId", m.id, "toolCallId", m.toolCallID)
	}
	d.transcript.insertResult(m)
}
