package fold

import (
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
)

// The strings and values of a decoded event are pieces of one text, that of the
// event or of several. A fold keeps little of most events for a long time; these
// functions see to it that it does not keep the rest in memory with it: the
// conversation that an input repeats, the provider's event in rawEvent.

// kept is a text without a hold on its event.
func kept(s agui.Opt[string]) agui.Opt[string] {
	s.V = strings.Clone(s.V)
	return s
}

// slim takes the values of an event with a rawEvent, which may be many times
// larger than the event, off its text.
func slim(e *agui.Event) {
	if !e.RawEvent.Present() {
		return
	}
	for _, v := range [...]*agui.Value{
		&e.Metadata, &e.Snapshot, &e.Value, &e.Event, &e.Result, &e.Content.Object,
	} {
		*v = v.Detach()
	}
	for i := range e.Patch {
		op := &e.Patch[i]
		op.Path, op.From, op.Value = strings.Clone(op.Path), strings.Clone(op.From), op.Value.Detach()
	}
	e.Content.Parts = detachedParts(e.Content.Parts)
}

// detached is m without a hold on the event it came with.
func detached(m *agui.Message) *agui.Message {
	out := *m
	out.ID, out.Role = strings.Clone(m.ID), agui.Role(strings.Clone(string(m.Role)))
	for _, s := range [...]*agui.Opt[string]{
		&out.Name, &out.ToolCallID, &out.Error, &out.ActivityType, &out.EncryptedValue, &out.SubagentRunID,
	} {
		*s = kept(*s)
	}
	out.Metadata = m.Metadata.Detach()
	out.Content.Object = m.Content.Object.Detach()
	out.Content.Parts = detachedParts(m.Content.Parts)
	out.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range out.ToolCalls {
		c := &out.ToolCalls[i]
		c.ID, c.Name, c.Metadata = strings.Clone(c.ID), strings.Clone(c.Name), c.Metadata.Detach()
		c.EncryptedValue = kept(c.EncryptedValue)
	}
	return &out
}

func detachedParts(parts []agui.Part) []agui.Part {
	out := slices.Clone(parts)
	for i := range out {
		p := &out[i]
		p.Type, p.Metadata = strings.Clone(p.Type), p.Metadata.Detach()
		p.Text, p.ID = kept(p.Text), kept(p.ID)
		if p.Source != nil {
			s := *p.Source
			s.Type, s.Value = strings.Clone(s.Type), strings.Clone(s.Value)
			s.MimeType, s.Provider = kept(s.MimeType), kept(s.Provider)
			p.Source = &s
		}
	}
	return out
}

func detachedInterrupt(in *agui.Interrupt) agui.Interrupt {
	return agui.Interrupt{
		ID: strings.Clone(in.ID), Reason: strings.Clone(in.Reason), Message: kept(in.Message),
		ToolCallID: kept(in.ToolCallID), ResponseSchema: in.ResponseSchema.Detach(),
		ExpiresAt: kept(in.ExpiresAt), SubagentRunID: kept(in.SubagentRunID), Metadata: in.Metadata.Detach(),
	}
}
