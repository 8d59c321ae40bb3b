package fold

import (
	"strings"

	"github.com/agstore/agstore/agui"
)

// create makes a message that is not in the list yet, and says so if it could
// not have its own id (R7).
func (d *durable) create(k kind, id string, role agui.Role) *message {
	m := d.transcript.create(k, id, role)
	if m.id != id {
		d.diagnose("id_renamed", "messageId", id, "as", m.id)
	}
	return m
}

// startText opens a text or reasoning message, a new one or one that is there.
func (d *durable) startText(r *run, k kind, e *agui.Event) {
	m := d.transcript.find(k, e.MessageID.V)
	switch {
	case m == nil:
		role := agui.RoleReasoning
		if k == kindText {
			role = agui.Role(strings.Clone(e.Role.Or(string(agui.RoleAssistant))))
		}
		m = d.create(k, e.MessageID.V, role)
		m.content.kind = agui.TextContent
		m.name, m.tag = kept(e.Name), kept(e.SubagentRunID)
		d.transcript.append(m)
	case m.open == r:
		d.diagnose("duplicate_start", "messageId", m.id)
	}
	d.describe(m, e)
	d.open(r, m)
}

// open marks the text of a message as open.
func (d *durable) open(r *run, m *message) {
	m.open, m.opening = r, d.seq
	r.open(opening{message: m, seq: d.seq})
}

// describe merges an event's metadata into a message.
func (d *durable) describe(m *message, e *agui.Event) {
	if e.Metadata.Present() {
		merge(&m.metadata, e.Metadata)
		m.changed()
	}
}

// addText appends to a message, open or not (R8).
func (d *durable) addText(k kind, e *agui.Event) {
	m := d.transcript.find(k, e.MessageID.V)
	if m == nil {
		d.diagnose("unknown_message", "type", string(e.Type), "messageId", e.MessageID)
		return
	}
	if m.open == nil {
		d.diagnose("content_after_end", "messageId", m.id)
	}
	d.append(m, e)
}

func (d *durable) append(m *message, e *agui.Event) {
	if !m.content.add(e.Delta.V) {
		d.diagnose("text_into_parts", "messageId", m.id)
	}
	m.changed()
	d.describe(m, e)
}

func (d *durable) endText(k kind, e *agui.Event) {
	m := d.transcript.find(k, e.MessageID.V)
	switch {
	case m == nil:
		d.diagnose("unknown_message", "type", string(e.Type), "messageId", e.MessageID)
	case m.open == nil:
		d.diagnose("second_end", "messageId", m.id)
	default:
		d.describe(m, e)
		m.close()
	}
}

// encrypted keeps an encrypted value with what it names, or apart (R28).
func (d *durable) encrypted(r *run, e *agui.Event) {
	t := &d.transcript
	if e.Subtype.V == "tool-call" {
		if c := d.transcript.newest(e.EntityID.V); c != nil {
			c.encrypted = kept(e.EncryptedValue)
			c.changed()
			return
		}
	} else {
		for _, k := range [...]kind{kindReasoning, kindText, kindTool} {
			if m := t.find(k, e.EntityID.V); m != nil {
				m.encrypted = kept(e.EncryptedValue)
				m.changed()
				return
			}
		}
	}
	o := OpaqueReasoning{
		ID: strings.Clone(e.EntityID.V), Subtype: strings.Clone(e.Subtype.V), Value: strings.Clone(e.EncryptedValue.V),
		Run: r.Key, Seq: d.seq,
	}
	if t.last != nil {
		o.After = agui.Some(t.last.id)
	}
	d.opaque = append(d.opaque, o)
}
