package agui

// Type is the value of an event's "type" member. Types are case-sensitive.
type Type string

// The 31 event types of AG-UI 1.0.
const (
	TypeTextMessageStart        Type = "TEXT_MESSAGE_START"
	TypeTextMessageContent      Type = "TEXT_MESSAGE_CONTENT"
	TypeTextMessageEnd          Type = "TEXT_MESSAGE_END"
	TypeTextMessageChunk        Type = "TEXT_MESSAGE_CHUNK"
	TypeToolCallStart           Type = "TOOL_CALL_START"
	TypeToolCallArgs            Type = "TOOL_CALL_ARGS"
	TypeToolCallEnd             Type = "TOOL_CALL_END"
	TypeToolCallChunk           Type = "TOOL_CALL_CHUNK"
	TypeToolCallResult          Type = "TOOL_CALL_RESULT"
	TypeStateSnapshot           Type = "STATE_SNAPSHOT"
	TypeStateDelta              Type = "STATE_DELTA"
	TypeMessagesSnapshot        Type = "MESSAGES_SNAPSHOT"
	TypeActivitySnapshot        Type = "ACTIVITY_SNAPSHOT"
	TypeActivityDelta           Type = "ACTIVITY_DELTA"
	TypeRaw                     Type = "RAW"
	TypeCustom                  Type = "CUSTOM"
	TypeRunStarted              Type = "RUN_STARTED"
	TypeRunFinished             Type = "RUN_FINISHED"
	TypeRunError                Type = "RUN_ERROR"
	TypeStepStarted             Type = "STEP_STARTED"
	TypeStepFinished            Type = "STEP_FINISHED"
	TypeReasoningStart          Type = "REASONING_START"
	TypeReasoningEnd            Type = "REASONING_END"
	TypeReasoningMessageStart   Type = "REASONING_MESSAGE_START"
	TypeReasoningMessageContent Type = "REASONING_MESSAGE_CONTENT"
	TypeReasoningMessageEnd     Type = "REASONING_MESSAGE_END"
	TypeReasoningMessageChunk   Type = "REASONING_MESSAGE_CHUNK"
	TypeReasoningEncryptedValue Type = "REASONING_ENCRYPTED_VALUE"
	TypeSubagentStarted         Type = "SUBAGENT_STARTED"
	TypeSubagentFinished        Type = "SUBAGENT_FINISHED"
	TypeSubagentError           Type = "SUBAGENT_ERROR"
)

// The types of 0.x producers that the compatibility rules C-1 to C-5 translate.
// They are not [Type.Known].
const (
	TypeThinkingStart              Type = "THINKING_START"
	TypeThinkingEnd                Type = "THINKING_END"
	TypeThinkingTextMessageStart   Type = "THINKING_TEXT_MESSAGE_START"
	TypeThinkingTextMessageContent Type = "THINKING_TEXT_MESSAGE_CONTENT"
	TypeThinkingTextMessageEnd     Type = "THINKING_TEXT_MESSAGE_END"
)

// Types lists the 31 event types of AG-UI 1.0 in the order of the specification.
func Types() []Type {
	return []Type{
		TypeTextMessageStart,
		TypeTextMessageContent,
		TypeTextMessageEnd,
		TypeTextMessageChunk,
		TypeToolCallStart,
		TypeToolCallArgs,
		TypeToolCallEnd,
		TypeToolCallChunk,
		TypeToolCallResult,
		TypeStateSnapshot,
		TypeStateDelta,
		TypeMessagesSnapshot,
		TypeActivitySnapshot,
		TypeActivityDelta,
		TypeRaw,
		TypeCustom,
		TypeRunStarted,
		TypeRunFinished,
		TypeRunError,
		TypeStepStarted,
		TypeStepFinished,
		TypeReasoningStart,
		TypeReasoningEnd,
		TypeReasoningMessageStart,
		TypeReasoningMessageContent,
		TypeReasoningMessageEnd,
		TypeReasoningMessageChunk,
		TypeReasoningEncryptedValue,
		TypeSubagentStarted,
		TypeSubagentFinished,
		TypeSubagentError,
	}
}

// Known reports whether t is one of the 31 types of AG-UI 1.0. Any other type
// is legal in a log and changes nothing in a view (fold-rules R31).
func (t Type) Known() bool {
	switch t {
	case TypeTextMessageStart, TypeTextMessageContent, TypeTextMessageEnd,
		TypeTextMessageChunk, TypeToolCallStart, TypeToolCallArgs,
		TypeToolCallEnd, TypeToolCallChunk, TypeToolCallResult,
		TypeStateSnapshot, TypeStateDelta, TypeMessagesSnapshot,
		TypeActivitySnapshot, TypeActivityDelta, TypeRaw,
		TypeCustom, TypeRunStarted, TypeRunFinished,
		TypeRunError, TypeStepStarted, TypeStepFinished,
		TypeReasoningStart, TypeReasoningEnd, TypeReasoningMessageStart,
		TypeReasoningMessageContent, TypeReasoningMessageEnd, TypeReasoningMessageChunk,
		TypeReasoningEncryptedValue, TypeSubagentStarted, TypeSubagentFinished,
		TypeSubagentError:
		return true
	}
	return false
}

// Terminal reports whether an event of type t ends a run.
func (t Type) Terminal() bool { return t == TypeRunFinished || t == TypeRunError }
