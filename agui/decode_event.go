package agui

import (
	"github.com/agstore/agstore/internal/jsonvalue"
)

// maxInt is the largest integer of AG-UI, 2^53-1.
const maxInt = 1<<53 - 1

// The fields every event may have.
var commonFields = []field[Event]{
	tag[Event]("type"),
	optInt("timestamp", -maxInt, func(e *Event) *Opt[int64] { return &e.Timestamp }),
	legacyNull(opaque("rawEvent", optional, func(e *Event) *Value { return &e.RawEvent })),
	object("metadata", optional, func(e *Event) *Value { return &e.Metadata }),
}

// The fields of each type beside the common ones (SEMANTICS E-7).
var eventFields = map[Type][]field[Event]{
	TypeTextMessageStart:        {messageID(required), textRole, name(optional), subagentTag(optional)},
	TypeTextMessageContent:      {messageID(required), delta(required), subagentTag(optional)},
	TypeTextMessageEnd:          {messageID(required), subagentTag(optional)},
	TypeTextMessageChunk:        {messageID(optional), textRole, delta(optional), name(optional), subagentTag(optional)},
	TypeToolCallStart:           {toolCallID(required), toolCallName(required), parentMessageID(true), subagentTag(optional)},
	TypeToolCallArgs:            {toolCallID(required), delta(required), subagentTag(optional)},
	TypeToolCallEnd:             {toolCallID(required), subagentTag(optional)},
	TypeToolCallChunk:           {toolCallID(optional), toolCallName(optional), parentMessageID(true), delta(optional), subagentTag(optional)},
	TypeToolCallResult:          {messageID(required), toolCallID(required), resultContent, fixed[Event]("role", optional, "tool"), subagentTag(optional)},
	TypeStateSnapshot:           {anything("snapshot", required, func(e *Event) *Value { return &e.Snapshot }), subagentTag(optional)},
	TypeStateDelta:              {patch("delta"), subagentTag(optional)},
	TypeMessagesSnapshot:        {snapshotMessages},
	TypeActivitySnapshot:        {messageID(required), activityType, activityContent, optBool("replace", func(e *Event) *Opt[bool] { return &e.Replace }), subagentTag(optional)},
	TypeActivityDelta:           {messageID(required), activityType, patch("patch"), subagentTag(optional)},
	TypeRaw:                     {anything("event", required, func(e *Event) *Value { return &e.Event }), optText("source", optional, func(e *Event) *Opt[string] { return &e.Source }), subagentTag(optional)},
	TypeCustom:                  {name(required), anything("value", required, func(e *Event) *Value { return &e.Value }), subagentTag(optional)},
	TypeRunStarted:              {threadID(expected), runID(expected), protocolVersion, parentRunID, runInput},
	TypeRunFinished:             {threadID(expected), runID(expected), result, runOutcome, usage},
	TypeRunError:                {errorText(expected), code, usage},
	TypeStepStarted:             {stepName, subagentTag(optional)},
	TypeStepFinished:            {stepName, subagentTag(optional)},
	TypeReasoningStart:          {messageID(required), subagentTag(optional)},
	TypeReasoningEnd:            {messageID(required), subagentTag(optional)},
	TypeReasoningMessageStart:   {messageID(required), fixed[Event]("role", expected, "reasoning"), subagentTag(optional)},
	TypeReasoningMessageContent: {messageID(required), delta(required), subagentTag(optional)},
	TypeReasoningMessageEnd:     {messageID(required), subagentTag(optional)},
	TypeReasoningMessageChunk:   {messageID(optional), delta(optional), subagentTag(optional)},
	TypeReasoningEncryptedValue: {
		optText("subtype", required, func(e *Event) *Opt[string] { return &e.Subtype }, "tool-call", "message"),
		optText("entityId", required, func(e *Event) *Opt[string] { return &e.EntityID }),
		optText("encryptedValue", required, func(e *Event) *Opt[string] { return &e.EncryptedValue }),
		subagentTag(optional),
	},
	TypeSubagentStarted: {
		name(required),
		optText("description", optional, func(e *Event) *Opt[string] { return &e.Description }),
		optText("parentSubagentRunId", optional, func(e *Event) *Opt[string] { return &e.ParentSubagentRunID }),
		optText("parentToolCallId", optional, func(e *Event) *Opt[string] { return &e.ParentToolCallID }),
		parentMessageID(false),
		subagentTag(required),
	},
	TypeSubagentFinished: {result, subagentOutcome, subagentTag(required)},
	TypeSubagentError:    {errorText(expected), code, subagentTag(required)},
}

func messageID(n need) field[Event] {
	return optText("messageId", n, func(e *Event) *Opt[string] { return &e.MessageID })
}

func toolCallID(n need) field[Event] {
	return optText("toolCallId", n, func(e *Event) *Opt[string] { return &e.ToolCallID })
}

func toolCallName(n need) field[Event] {
	return optText("toolCallName", n, func(e *Event) *Opt[string] { return &e.ToolCallName })
}

func parentMessageID(nullForgiven bool) field[Event] {
	f := optText("parentMessageId", optional, func(e *Event) *Opt[string] { return &e.ParentMessageID })
	if nullForgiven {
		f = legacyNull(f) // C-7
	}
	return f
}

func delta(n need) field[Event] {
	return optText("delta", n, func(e *Event) *Opt[string] { return &e.Delta })
}

func name(n need) field[Event] {
	return optText("name", n, func(e *Event) *Opt[string] { return &e.Name })
}

func subagentTag(n need) field[Event] {
	return optText("subagentRunId", n, func(e *Event) *Opt[string] { return &e.SubagentRunID })
}

func threadID(n need) field[Event] {
	return optText("threadId", n, func(e *Event) *Opt[string] { return &e.ThreadID })
}

func runID(n need) field[Event] {
	return optText("runId", n, func(e *Event) *Opt[string] { return &e.RunID })
}

func errorText(n need) field[Event] {
	return optText("message", n, func(e *Event) *Opt[string] { return &e.Message })
}

var (
	textRole        = optText("role", optional, func(e *Event) *Opt[string] { return &e.Role }, "developer", "system", "assistant", "user")
	activityType    = optText("activityType", required, func(e *Event) *Opt[string] { return &e.ActivityType })
	stepName        = optText("stepName", required, func(e *Event) *Opt[string] { return &e.StepName })
	code            = optText("code", optional, func(e *Event) *Opt[string] { return &e.Code })
	protocolVersion = optText("protocolVersion", optional, func(e *Event) *Opt[string] { return &e.ProtocolVersion })
	parentRunID     = optText("parentRunId", optional, func(e *Event) *Opt[string] { return &e.ParentRunID })
	result          = legacyNull(opaque("result", optional, func(e *Event) *Value { return &e.Result }))
	usage           = objects("usage", func(e *Event) *[]Usage { return &e.Usage }, usageFields)

	resultContent = field[Event]{name: "content", need: required, read: func(d *decoder, v Value, to *Event) bool {
		return readContent(d, v, &to.Content)
	}}
	activityContent = field[Event]{name: "content", need: required, read: func(d *decoder, v Value, to *Event) bool {
		return readObjectContent(d, v, &to.Content)
	}}
	snapshotMessages = field[Event]{name: "messages", need: required, read: func(d *decoder, v Value, to *Event) bool {
		return readMessages(d, v, &to.Messages)
	}}
	runInput = field[Event]{name: "input", read: func(d *decoder, v Value, to *Event) bool {
		in := new(RunInput)
		if !readObject(d, v, inputFields, in) {
			return false
		}
		to.Input = in
		return true
	}}
	runOutcome = legacyNull(field[Event]{name: "outcome", read: func(d *decoder, v Value, to *Event) bool {
		return readOutcome(d, v, runOutcomes, to)
	}})
	subagentOutcome = field[Event]{name: "outcome", read: func(d *decoder, v Value, to *Event) bool {
		return readOutcome(d, v, subagentOutcomes, to)
	}}
)

// readEvent reads the members of an event into d.event.
func readEvent(d *decoder, v Value, fields []field[Event]) bool {
	e := d.event
	var seen uint64
	for key, item := range v.Members() {
		if e.Legacy != "" && replacedByThinking(e, key) {
			continue
		}
		f, bit := (*field[Event])(nil), uint64(0)
		if at := fieldAt(fields, key); at >= 0 {
			f, bit = &fields[at], 1<<at
		} else if at := fieldAt(commonFields, key); at >= 0 {
			f = &commonFields[at]
		} else {
			d.noteMember(NoteRemoved, key)
			continue
		}
		ok, there := readField(d, item, f, e)
		if !ok {
			return false
		}
		if there {
			seen |= bit
		}
	}
	if e.Legacy != "" {
		// What Thinking provides, or the translation did.
		for i := range fields {
			if fields[i].name == "messageId" || fields[i].name == "role" {
				seen |= 1 << i
			}
		}
	}
	return complete(d, fields, seen)
}

func patch(name string) field[Event] {
	return field[Event]{name: name, need: required, read: func(d *decoder, v Value, to *Event) bool {
		if v.Kind() != jsonvalue.List {
			return d.wrong(v, "a list")
		}
		to.Patch = make([]Op, 0, v.Len())
		for i, item := range v.Items() {
			d.inItem(i)
			op, what := readOp(d, item)
			d.out()
			switch what {
			case bad:
				return false
			case unknown:
				to.left = append(to.left, i)
			default:
				to.Patch = append(to.Patch, op)
			}
		}
		return true
	}}
}

// readOp reads one operation. Members that it does not define are ignored
// (SEMANTICS E-6).
func readOp(d *decoder, v Value) (op Op, what verdict) {
	if v.Kind() != jsonvalue.Object {
		return op, element(d.wrong(v, "an object"))
	}
	name, _ := v.GetText("op")
	op.Kind = jsonvalue.OpKind(name)
	switch op.Kind {
	case jsonvalue.Add, jsonvalue.Replace, jsonvalue.Test:
		if op.Value = v.Get("value"); !op.Value.Present() && !d.lenient {
			return op, element(d.fail("has no value"))
		}
	case jsonvalue.Move, jsonvalue.Copy:
		if !readPointer(d, v, "from", &op.From) {
			return op, bad
		}
	case jsonvalue.Remove:
	default:
		d.note(NoteRemoved)
		return op, unknown
	}
	return op, element(readPointer(d, v, "path", &op.Path))
}

func readPointer(d *decoder, op Value, name string, to *string) bool {
	d.in(name)
	defer d.out()
	v := op.Get(name)
	s, ok := v.Text()
	if !ok {
		return d.wrong(v, "a string")
	}
	if _, ok := jsonvalue.SplitPointer(s); !ok && !d.lenient {
		return d.fail("is not a JSON Pointer")
	}
	*to = s
	return true
}

var usageFields = func() []field[Usage] {
	fields := []field[Usage]{
		optText("provider", optional, func(u *Usage) *Opt[string] { return &u.Provider }),
		optText("model", optional, func(u *Usage) *Opt[string] { return &u.Model }),
	}
	for i, count := range new(Usage).counts() {
		fields = append(fields, optInt(count.name, 0, func(u *Usage) *Opt[int64] { return u.counts()[i].at }))
	}
	return fields
}()
