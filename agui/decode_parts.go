package agui

import "github.com/agstore/agstore/internal/jsonvalue"

// The fields of messages by role (SEMANTICS E-7).
var messageFields = map[Role][]field[Message]{
	RoleDeveloper: messageWith(textContent(required), messageName, encrypted),
	RoleSystem:    messageWith(textContent(required), messageName, encrypted),
	RoleAssistant: messageWith(textContent(optional), toolCalls, messageName, encrypted),
	RoleUser:      messageWith(anyContent, messageName, encrypted),
	RoleTool: messageWith(anyContent, encrypted,
		optText("toolCallId", required, func(m *Message) *Opt[string] { return &m.ToolCallID }),
		optText("error", optional, func(m *Message) *Opt[string] { return &m.Error })),
	RoleActivity: messageWith(
		optText("activityType", required, func(m *Message) *Opt[string] { return &m.ActivityType }),
		field[Message]{name: "content", need: required, read: func(d *decoder, v Value, to *Message) bool {
			return readObjectContent(d, v, &to.Content)
		}}),
	RoleReasoning: messageWith(textContent(required), encrypted),
}

func messageWith(fields ...field[Message]) []field[Message] {
	return append(fields,
		text("id", func(m *Message) *string { return &m.ID }),
		tag[Message]("role"),
		optText("subagentRunId", optional, func(m *Message) *Opt[string] { return &m.SubagentRunID }),
		object("metadata", optional, func(m *Message) *Value { return &m.Metadata }),
	)
}

var (
	messageName = optText("name", optional, func(m *Message) *Opt[string] { return &m.Name })
	encrypted   = optText("encryptedValue", optional, func(m *Message) *Opt[string] { return &m.EncryptedValue })
	anyContent  = field[Message]{name: "content", need: required, read: func(d *decoder, v Value, to *Message) bool {
		return readContent(d, v, &to.Content)
	}}
	toolCalls = list("toolCalls", optional, func(m *Message) *[]ToolCall { return &m.ToolCalls },
		func(d *decoder, v Value, to *ToolCall) verdict { return element(readObject(d, v, callFields, to)) })
)

// textContent is a content that can only be text. A lenient decoder takes a
// list of parts as well, rather than losing what it says.
func textContent(n need) field[Message] {
	return field[Message]{name: "content", need: n, read: func(d *decoder, v Value, to *Message) bool {
		if d.lenient && v.Kind() == jsonvalue.List {
			return readContent(d, v, &to.Content)
		}
		s, ok := readText(d, v, nil)
		if ok {
			to.Content = TextOf(s)
		}
		return ok
	}}
}

func readMessages(d *decoder, v Value, to *[]Message) bool {
	d.upgrade = true
	defer func() { d.upgrade = false }()
	out, ok := readList(d, v, readMessage)
	*to = out
	return ok
}

func readMessage(d *decoder, v Value, to *Message) verdict {
	if v.Kind() != jsonvalue.Object {
		return element(d.wrong(v, "an object"))
	}
	role, _ := v.GetText("role")
	fields, known := messageFields[Role(role)]
	if !known {
		d.note(NoteRemoved)
		return unknown
	}
	to.Role = Role(role)
	d.binary = false
	return element(readObject(d, v, fields, to))
}

// readContent reads text or a list of parts.
func readContent(d *decoder, v Value, to *Content) bool {
	if s, ok := v.Text(); ok {
		*to = TextOf(s)
		return true
	}
	if v.Kind() != jsonvalue.List {
		return d.wrong(v, "a string or a list")
	}
	read := readPart
	if d.upgrade {
		read = func(d *decoder, part Value, to *Part) verdict { return readOldPart(d, v, part, to) }
	}
	parts, ok := readList(d, v, read)
	if ok {
		*to = Content{Kind: PartsContent, Parts: parts}
	}
	return ok
}

func readObjectContent(d *decoder, v Value, to *Content) bool {
	if v.Kind() != jsonvalue.Object {
		return d.wrong(v, "an object")
	}
	*to = Content{Kind: ObjectContent, Object: v}
	return true
}

var (
	textPart = []field[Part]{
		tag[Part]("type"),
		optText("text", required, func(p *Part) *Opt[string] { return &p.Text }),
		optText("id", optional, func(p *Part) *Opt[string] { return &p.ID }),
		opaque("metadata", optional, func(p *Part) *Value { return &p.Metadata }),
	}
	mediaPart = []field[Part]{
		tag[Part]("type"),
		{name: "source", need: required, read: func(d *decoder, v Value, to *Part) bool {
			to.Source = new(Source)
			kind, _ := v.GetText("type")
			return readObject(d, v, sourceFields[kind], to.Source)
		}},
		optText("id", optional, func(p *Part) *Opt[string] { return &p.ID }),
		opaque("metadata", optional, func(p *Part) *Value { return &p.Metadata }),
	}
	// oldMediaPart is that of the messages to which C-9 applies.
	oldMediaPart = append(mediaPart[:3:3], legacyNull(mediaPart[3]))
)

var sourceFields = map[string][]field[Source]{
	"data": {sourceType, sourceValue, sourceMime(required)},
	"url":  {sourceType, sourceValue, sourceMime(optional)},
	"file": {sourceType, sourceValue, sourceMime(optional), optText("provider", optional, func(s *Source) *Opt[string] { return &s.Provider })},
}

var (
	sourceType  = text("type", func(s *Source) *string { return &s.Type })
	sourceValue = text("value", func(s *Source) *string { return &s.Value })
)

func sourceMime(n need) field[Source] {
	return optText("mimeType", n, func(s *Source) *Opt[string] { return &s.MimeType })
}

func readPart(d *decoder, v Value, to *Part) verdict {
	if v.Kind() != jsonvalue.Object {
		return element(d.wrong(v, "an object"))
	}
	kind, _ := v.GetText("type")
	fields := textPart
	switch kind {
	case "text":
	case "image", "audio", "video", "document":
		fields = mediaPart
		if d.upgrade {
			fields = oldMediaPart
		}
		if source := v.Get("source"); source.Kind() == jsonvalue.Object {
			if name, _ := source.GetText("type"); sourceFields[name] == nil {
				if d.upgrade && v.Get("metadata").IsNull() {
					d.noteMember(NoteLegacy, "metadata")
				}
				d.note(NoteRemoved)
				return unknown
			}
		}
	default:
		d.note(NoteRemoved)
		return unknown
	}
	to.Type = kind
	return element(readObject(d, v, fields, to))
}

var callFields = []field[ToolCall]{
	text("id", func(c *ToolCall) *string { return &c.ID }),
	fixed[ToolCall]("type", expected, "function"),
	{name: "function", need: required, read: func(d *decoder, v Value, to *ToolCall) bool {
		return readObject(d, v, functionFields, to)
	}},
	optText("encryptedValue", optional, func(c *ToolCall) *Opt[string] { return &c.EncryptedValue }),
	object("metadata", optional, func(c *ToolCall) *Value { return &c.Metadata }),
}

var functionFields = []field[ToolCall]{
	text("name", func(c *ToolCall) *string { return &c.Name }),
	textOr("arguments", func(c *ToolCall) *string { return &c.Arguments }),
}

var inputFields = []field[RunInput]{
	optText("threadId", expected, func(in *RunInput) *Opt[string] { return &in.ThreadID }),
	optText("runId", expected, func(in *RunInput) *Opt[string] { return &in.RunID }),
	optText("parentRunId", optional, func(in *RunInput) *Opt[string] { return &in.ParentRunID }),
	optText("protocolVersion", optional, func(in *RunInput) *Opt[string] { return &in.ProtocolVersion }),
	anything("state", optional, func(in *RunInput) *Value { return &in.State }),
	{name: "messages", need: expected, read: func(d *decoder, v Value, to *RunInput) bool {
		return readMessages(d, v, &to.Messages)
	}},
	objects("tools", func(in *RunInput) *[]Tool { return &in.Tools }, toolFields),
	objects("context", func(in *RunInput) *[]ContextEntry { return &in.Context }, contextFields),
	legacyNull(opaque("forwardedProps", optional, func(in *RunInput) *Value { return &in.ForwardedProps })),
	objects("resume", func(in *RunInput) *[]Resume { return &in.Resume }, resumeFields),
}

var toolFields = []field[Tool]{
	text("name", func(t *Tool) *string { return &t.Name }),
	textOr("description", func(t *Tool) *string { return &t.Description }),
	legacyNull(opaque("parameters", optional, func(t *Tool) *Value { return &t.Parameters })),
	object("metadata", optional, func(t *Tool) *Value { return &t.Metadata }),
}

var contextFields = []field[ContextEntry]{
	text("description", func(c *ContextEntry) *string { return &c.Description }),
	text("value", func(c *ContextEntry) *string { return &c.Value }),
}

var resumeFields = []field[Resume]{
	text("interruptId", func(r *Resume) *string { return &r.InterruptID }),
	text("status", func(r *Resume) *string { return &r.Status }, "resolved", "cancelled"),
	legacyNull(opaque("payload", optional, func(r *Resume) *Value { return &r.Payload })),
	object("metadata", optional, func(r *Resume) *Value { return &r.Metadata }),
}

var runOutcomes = map[OutcomeType][]field[Outcome]{
	OutcomeSuccess:   {tag[Outcome]("type"), texts("pendingToolCallIds", func(o *Outcome) *[]string { return &o.PendingToolCallIDs })},
	OutcomeInterrupt: {tag[Outcome]("type"), interrupts},
	OutcomeCancelled: {tag[Outcome]("type")},
}

var subagentOutcomes = map[OutcomeType][]field[Outcome]{
	OutcomeSuccess:   {tag[Outcome]("type")},
	OutcomeSuspended: {tag[Outcome]("type"), texts("interruptIds", func(o *Outcome) *[]string { return &o.InterruptIDs })},
}

var interrupts = field[Outcome]{name: "interrupts", need: expected, read: func(d *decoder, v Value, to *Outcome) bool {
	out, ok := readList(d, v, func(d *decoder, v Value, to *Interrupt) verdict {
		return element(readObject(d, v, interruptFields, to))
	})
	if ok && len(out) == 0 && !d.lenient {
		return d.fail("is empty")
	}
	to.Interrupts = out
	return ok
}}

var interruptFields = []field[Interrupt]{
	text("id", func(i *Interrupt) *string { return &i.ID }),
	textOr("reason", func(i *Interrupt) *string { return &i.Reason }),
	optText("message", optional, func(i *Interrupt) *Opt[string] { return &i.Message }),
	optText("toolCallId", optional, func(i *Interrupt) *Opt[string] { return &i.ToolCallID }),
	object("responseSchema", optional, func(i *Interrupt) *Value { return &i.ResponseSchema }),
	optText("expiresAt", optional, func(i *Interrupt) *Opt[string] { return &i.ExpiresAt }),
	object("metadata", optional, func(i *Interrupt) *Value { return &i.Metadata }),
	optText("subagentRunId", optional, func(i *Interrupt) *Opt[string] { return &i.SubagentRunID }),
}

// readOutcome reads an outcome; one of unknown type leaves none (SEMANTICS E-3).
func readOutcome(d *decoder, v Value, outcomes map[OutcomeType][]field[Outcome], to *Event) bool {
	if v.Kind() != jsonvalue.Object {
		return d.wrong(v, "an object")
	}
	name, _ := v.GetText("type")
	fields, known := outcomes[OutcomeType(name)]
	if !known {
		d.note(NoteRemoved)
		to.UnknownOutcome = Some(name)
		return true
	}
	out := &Outcome{Type: OutcomeType(name)}
	if !readObject(d, v, fields, out) {
		return false
	}
	to.Outcome = out
	return true
}
