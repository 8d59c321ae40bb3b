package agui

import "github.com/agstore/agstore/internal/jsonvalue"

// Event is a decoded event. It has the fields of all types; which of them a
// type has, and what they mean, SEMANTICS E-7 says. What a type does not have
// is absent.
type Event struct {
	Type Type
	// Legacy is the type the event came with if it was a THINKING_* event of
	// 0.x; Type is then what that became (SEMANTICS C-1 to C-5), and MessageID
	// is absent until a [Thinking] has named it.
	Legacy Type
	// Synthetic: an [Expander] made it out of a chunk.
	Synthetic bool

	Timestamp     Opt[int64]
	RawEvent      Value
	Metadata      Value // an object, or absent
	SubagentRunID Opt[string]

	MessageID       Opt[string]
	ParentMessageID Opt[string]
	Role            Opt[string]
	Name            Opt[string] // also of CUSTOM and SUBAGENT_STARTED
	Delta           Opt[string] // of text, arguments and reasoning
	ToolCallID      Opt[string]
	ToolCallName    Opt[string]
	Content         Content // of TOOL_CALL_RESULT and ACTIVITY_SNAPSHOT
	ActivityType    Opt[string]
	Replace         Opt[bool]

	Snapshot Value // of STATE_SNAPSHOT
	Patch    []Op  // of STATE_DELTA and ACTIVITY_DELTA, without unknown operations
	Messages []Message

	ThreadID        Opt[string]
	RunID           Opt[string]
	ParentRunID     Opt[string]
	ProtocolVersion Opt[string]
	Input           *RunInput
	Result          Value
	Outcome         *Outcome
	UnknownOutcome  Opt[string] // the type of an outcome that was removed (E-3), "" if it had none
	Usage           []Usage
	Message         Opt[string] // the text of RUN_ERROR and SUBAGENT_ERROR
	Code            Opt[string]
	StepName        Opt[string]

	Subtype        Opt[string]
	EntityID       Opt[string]
	EncryptedValue Opt[string]

	Description         Opt[string]
	ParentSubagentRunID Opt[string]
	ParentToolCallID    Opt[string]

	Event  Value // of RAW
	Source Opt[string]
	Value  Value // of CUSTOM

	// Notes say what was changed or left out on the way from the bytes.
	Notes []Note

	left []int // indexes of the operations that Patch does not have
}

// OpIndex is the index that operation i of Patch had in the event.
func (e *Event) OpIndex(i int) int {
	for _, left := range e.left {
		if left <= i {
			i++
		}
	}
	return i
}

// note adds a note.
func (e *Event) note(code NoteCode, path string) {
	e.Notes = append(e.Notes, Note{Code: code, Path: path})
}

// NoteCode is the kind of a [Note].
type NoteCode string

// The kinds of notes. All but the last are the official client's warnings.
const (
	NoteEventDropped  NoteCode = "event-dropped"        // unknown type (E-1)
	NoteRemoved       NoteCode = "material-removed"     // undescribed member, or of unknown kind (E-2, E-3)
	NoteLegacy        NoteCode = "legacy-converted"     // 0.x (C-1 to C-11)
	NoteTitleDropped  NoteCode = "title-dropped"        // C-1
	NoteIDMinted      NoteCode = "id-minted"            // C-6
	NoteBinary        NoteCode = "binary-unconvertible" // C-11
	NoteMalformedPart NoteCode = "malformed-removed"    // only by a lenient decoder
)

// Note says what became of a piece of an event.
type Note struct {
	Code NoteCode
	Path string // JSON Pointer into the event; "" is the event itself
}

// RunInput is the input of a run as RUN_STARTED echoes it.
type RunInput struct {
	ThreadID        Opt[string]
	RunID           Opt[string]
	ParentRunID     Opt[string]
	ProtocolVersion Opt[string]
	State           Value // null is a value here
	Messages        []Message
	Tools           []Tool
	Context         []ContextEntry
	ForwardedProps  Value
	Resume          []Resume
}

// Tool is a tool offered to a run.
type Tool struct {
	Name, Description string
	Parameters        Value
	Metadata          Value
}

// ContextEntry is a piece of context given to a run.
type ContextEntry struct{ Description, Value string }

// Resume answers an interrupt.
type Resume struct {
	InterruptID string
	Status      string // resolved or cancelled
	Payload     Value
	Metadata    Value
}

// JSON is the answer as a JSON value.
func (r *Resume) JSON() Value {
	out := make(members, 0, 4)
	out.text("interruptId", r.InterruptID)
	out.text("status", r.Status)
	out.add("payload", r.Payload)
	out.add("metadata", r.Metadata)
	return out.object()
}

// OutcomeType is the kind of an [Outcome].
type OutcomeType string

// The outcomes. Suspended is a subagent's alone; a subagent is never
// interrupted or cancelled.
const (
	OutcomeSuccess   OutcomeType = "success"
	OutcomeInterrupt OutcomeType = "interrupt"
	OutcomeCancelled OutcomeType = "cancelled"
	OutcomeSuspended OutcomeType = "suspended"
)

// Outcome is how a run or a subagent ended.
type Outcome struct {
	Type               OutcomeType
	PendingToolCallIDs []string // of success
	Interrupts         []Interrupt
	InterruptIDs       []string // of suspended
}

// Interrupt is a question that stops a run until it is answered.
type Interrupt struct {
	ID             string
	Reason         string
	Message        Opt[string]
	ToolCallID     Opt[string]
	ResponseSchema Value
	ExpiresAt      Opt[string]
	SubagentRunID  Opt[string]
	Metadata       Value
}

// JSON is the interrupt as a JSON value.
func (i *Interrupt) JSON() Value {
	out := make(members, 0, 8)
	out.text("id", i.ID)
	out.text("reason", i.Reason)
	out.opt("message", i.Message)
	out.opt("toolCallId", i.ToolCallID)
	out.add("responseSchema", i.ResponseSchema)
	out.opt("expiresAt", i.ExpiresAt)
	out.opt("subagentRunId", i.SubagentRunID)
	out.add("metadata", i.Metadata)
	return out.object()
}

// Usage is what a run spent at one model. Absent counts are not 0.
type Usage struct {
	Provider, Model                                           Opt[string]
	InputTokens, OutputTokens, TotalTokens                    Opt[int64]
	ReasoningTokens, CachedInputTokens, CacheWriteInputTokens Opt[int64]
}

// JSON is the entry as a JSON value.
func (u *Usage) JSON() Value {
	out := make(members, 0, 8)
	out.opt("provider", u.Provider)
	out.opt("model", u.Model)
	for _, count := range u.counts() {
		if count.at.Set {
			out.add(count.name, jsonvalue.NewInt(count.at.V))
		}
	}
	return out.object()
}

type usageCount struct {
	name string
	at   *Opt[int64]
}

// counts lists the counts of tokens with their names.
func (u *Usage) counts() []usageCount {
	return []usageCount{
		{"inputTokens", &u.InputTokens},
		{"outputTokens", &u.OutputTokens},
		{"totalTokens", &u.TotalTokens},
		{"reasoningTokens", &u.ReasoningTokens},
		{"cachedInputTokens", &u.CachedInputTokens},
		{"cacheWriteInputTokens", &u.CacheWriteInputTokens},
	}
}
