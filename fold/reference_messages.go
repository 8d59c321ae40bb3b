package fold

import (
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/internal/jsonvalue"
)

// startText is R-TEXT-1, R-TEXT-2, R-TEXT-6 and their twins for reasoning.
func (r *reference) startText(e *agui.Event) {
	m := r.transcript.find(e.MessageID.V)
	if m == nil {
		role := agui.RoleReasoning
		if e.Type == agui.TypeTextMessageStart {
			role = agui.Role(strings.Clone(e.Role.Or(string(agui.RoleAssistant))))
		}
		m = &refMessage{
			id: strings.Clone(e.MessageID.V), role: role, name: kept(e.Name),
			kind: agui.TextContent, text: new(jsonvalue.Text), owner: kept(e.SubagentRunID),
		}
		r.transcript.append(m)
	}
	if m.role == agui.RoleActivity {
		r.warn(StageApply, "target-is-activity")
		return
	}
	m.merge(e.Metadata)
}

// continueText is R-TEXT-3 to R-TEXT-6 and R-REAS-3.
func (r *reference) continueText(e *agui.Event) {
	m := r.transcript.find(e.MessageID.V)
	switch {
	case m == nil:
		r.warn(StageApply, "target-missing")
		return
	case m.role == agui.RoleActivity:
		r.warn(StageApply, "target-is-activity")
		return
	}
	if e.Type == agui.TypeTextMessageContent || e.Type == agui.TypeReasoningMessageContent {
		if m.kind != agui.TextContent {
			m.kind, m.text, m.parts = agui.TextContent, new(jsonvalue.Text), nil
		}
		m.text.Append(e.Delta.V)
	}
	m.merge(e.Metadata)
}

// startCall is R-TOOL-2 and R-TOOL-3.
func (r *reference) startCall(e *agui.Event) {
	t := &r.transcript
	if c := t.calls[e.ToolCallID.V]; c != nil {
		if c.call.name != e.ToolCallName.V {
			c.call.name = strings.Clone(e.ToolCallName.V)
			r.warn(StageApply, "tool-call-renamed")
		}
		c.call.merge(e.Metadata)
		return
	}
	id := e.ToolCallID.V
	var in *refEntry
	if parent := e.ParentMessageID.V; parent != "" {
		switch in = t.byID[parent]; {
		case in == nil:
			id = parent
		case in.message.role != agui.RoleAssistant:
			in = nil
			r.warn(StageApply, "parent-not-assistant")
		}
	}
	if in == nil {
		m := &refMessage{id: strings.Clone(id), role: agui.RoleAssistant}
		if t.byID[id] == nil {
			m.owner = kept(e.SubagentRunID)
		}
		in = t.append(m)
	}
	c := &refCall{id: strings.Clone(e.ToolCallID.V), name: strings.Clone(e.ToolCallName.V), arguments: new(jsonvalue.Text)}
	c.merge(e.Metadata)
	in.message.calls = append(in.message.calls, c)
	in.message.hasCalls = true
	t.calls[c.id] = &refCallEntry{call: c, in: in}
}

// continueCall is R-TOOL-4 and R-TOOL-5.
func (r *reference) continueCall(e *agui.Event) {
	c := r.transcript.calls[e.ToolCallID.V]
	if c == nil {
		r.warn(StageApply, "target-missing")
		return
	}
	if e.Type == agui.TypeToolCallArgs {
		c.call.arguments.Append(e.Delta.V)
	}
	c.call.merge(e.Metadata)
}

// result is R-RESULT-1 and R-RESULT-2.
func (r *reference) result(e *agui.Event) {
	m := &refMessage{
		id: strings.Clone(e.MessageID.V), role: agui.RoleTool,
		toolCallID: kept(e.ToolCallID), owner: kept(e.SubagentRunID),
	}
	m.setContent(e.Content)
	m.merge(e.Metadata)
	if c := r.transcript.calls[e.ToolCallID.V]; c != nil {
		r.transcript.insertResult(m, c.in)
		return
	}
	r.transcript.append(m)
}

// activity is R-ACT-1 to R-ACT-3.
func (r *reference) activity(e *agui.Event) {
	at := r.transcript.byID[e.MessageID.V]
	replace := e.Replace.Or(true)
	switch {
	case at == nil:
		r.transcript.append(newActivity(e))
	case at.message.role != agui.RoleActivity:
		if replace {
			r.transcript.replace(at, newActivity(e))
		}
	default:
		if replace {
			m := r.transcript.alone(at)
			m.activityType, m.owner = kept(e.ActivityType), kept(e.SubagentRunID)
			m.object.Set(e.Content.Object)
			r.transcript.regroup(at)
		}
		at.message.merge(e.Metadata)
	}
}

func newActivity(e *agui.Event) *refMessage {
	m := &refMessage{
		id: strings.Clone(e.MessageID.V), role: agui.RoleActivity,
		activityType: kept(e.ActivityType), owner: kept(e.SubagentRunID),
	}
	m.setContent(e.Content)
	m.merge(e.Metadata)
	return m
}

// patchActivity is R-ACT-4 to R-ACT-6.
func (r *reference) patchActivity(e *agui.Event) {
	at := r.transcript.byID[e.MessageID.V]
	switch {
	case at == nil:
		return
	case at.message.role != agui.RoleActivity:
		r.warn(StageApply, "target-not-activity")
		return
	}
	at.message.merge(e.Metadata)
	content := at.message.object
	switch {
	case content.Kind() == jsonvalue.Null:
		content = jsonvalue.NewDocument(jsonvalue.NewObject())
	case r.transcript.twice:
		// Another place may show this content.
		content = jsonvalue.NewDocument(content.Snapshot())
	}
	if !r.patch(content, e) {
		r.warn(StageApply, "activity-patch-failed")
		return
	}
	m := r.transcript.alone(at)
	m.object, m.activityType = content, kept(e.ActivityType)
	r.transcript.regroup(at)
}

// encrypted is R-ENC-1 to R-ENC-3.
func (r *reference) encrypted(e *agui.Event) {
	if e.Subtype.V == "tool-call" {
		if c := r.transcript.calls[e.EntityID.V]; c != nil {
			c.call.encrypted = kept(e.EncryptedValue)
		}
		return
	}
	if m := r.transcript.find(e.EntityID.V); m != nil && m.role != agui.RoleActivity {
		m.encrypted = kept(e.EncryptedValue)
	}
}

// snapshot is R-MSNAP-1 to R-MSNAP-5.
func (r *reference) snapshot(e *agui.Event) {
	activities := slices.ContainsFunc(e.Messages, func(m agui.Message) bool { return m.Role == agui.RoleActivity })
	r.transcript.reconcile(e.Messages, ownedActivities(e, activities))
}
