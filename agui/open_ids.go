package agui

import (
	"cmp"
	"maps"
	"slices"
)

// openIDs is what one running run has started, and what of it is open: the
// value is the seq of the opening event, 0 once closed.
type openIDs struct {
	texts, reasonings, spans, calls, subagents map[string]uint64
	steps                                      map[step]uint64
}

func (o openIDs) clone() openIDs {
	return openIDs{
		texts:      maps.Clone(o.texts),
		reasonings: maps.Clone(o.reasonings),
		spans:      maps.Clone(o.spans),
		calls:      maps.Clone(o.calls),
		subagents:  maps.Clone(o.subagents),
		steps:      maps.Clone(o.steps),
	}
}

// step is the identity of a step (fold-rules R6): an absent subagent and one
// with the empty id differ.
type step struct {
	tagged         bool
	subagent, name string
}

func stepOf(h *Header) step {
	return step{h.SubagentRunID != nil, string(h.SubagentRunID), string(h.StepName)}
}

func set[K comparable](m *map[K]uint64, k K, v uint64) {
	if *m == nil {
		*m = make(map[K]uint64)
	}
	(*m)[k] = v
}

// touch makes a known id out of k without opening it.
func touch[K comparable](m *map[K]uint64, k K) {
	if _, ok := (*m)[k]; !ok {
		set(m, k, 0)
	}
}

func (o *openIDs) observe(h *Header, seq uint64) {
	message, call := string(h.MessageID), string(h.ToolCallID)
	switch h.Type {
	case TypeTextMessageStart:
		set(&o.texts, message, seq)
	case TypeTextMessageEnd:
		set(&o.texts, message, 0)
	case TypeTextMessageChunk, TypeActivitySnapshot, TypeToolCallResult:
		if h.MessageID != nil {
			touch(&o.texts, message)
		}
	case TypeToolCallStart:
		set(&o.calls, call, seq)
	case TypeToolCallEnd:
		set(&o.calls, call, 0)
	case TypeToolCallChunk:
		if h.ToolCallID != nil {
			touch(&o.calls, call)
		}
	case TypeReasoningStart:
		set(&o.spans, message, seq)
	case TypeReasoningEnd:
		set(&o.spans, message, 0)
	case TypeReasoningMessageStart:
		set(&o.reasonings, message, seq)
	case TypeReasoningMessageEnd:
		set(&o.reasonings, message, 0)
	case TypeReasoningMessageChunk:
		if h.MessageID != nil {
			touch(&o.reasonings, message)
		}
	case TypeStepStarted:
		set(&o.steps, stepOf(h), seq)
	case TypeStepFinished:
		set(&o.steps, stepOf(h), 0)
	case TypeSubagentStarted:
		set(&o.subagents, string(h.SubagentRunID), seq)
	case TypeSubagentFinished, TypeSubagentError:
		set(&o.subagents, string(h.SubagentRunID), 0)
	}
}

func (o *openIDs) closing(code, message string) [][]byte {
	var out [][]byte
	for _, id := range opened(o.texts) {
		out = append(out, event(TypeTextMessageEnd, "messageId", id))
	}
	for _, id := range opened(o.reasonings) {
		out = append(out, event(TypeReasoningMessageEnd, "messageId", id))
	}
	for _, id := range opened(o.spans) {
		out = append(out, event(TypeReasoningEnd, "messageId", id))
	}
	for _, id := range opened(o.calls) {
		out = append(out, event(TypeToolCallEnd, "toolCallId", id))
	}
	for _, s := range opened(o.steps) {
		if s.tagged {
			out = append(out, event(TypeStepFinished, "stepName", s.name, "subagentRunId", s.subagent))
		} else {
			out = append(out, event(TypeStepFinished, "stepName", s.name))
		}
	}
	for _, id := range opened(o.subagents) {
		out = append(out, event(TypeSubagentError, "subagentRunId", id, "message", message, "code", code))
	}
	return out
}

// opened lists the open ones of m in order of opening.
func opened[K comparable](m map[K]uint64) []K {
	var out []K
	for k, seq := range m {
		if seq != 0 {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b K) int { return cmp.Compare(m[a], m[b]) })
	return out
}

// event writes an event of string members: name, value, name, value …
func event(t Type, members ...string) []byte {
	out := append([]byte(`{"type":`), quote(string(t))...)
	for i := 0; i+1 < len(members); i += 2 {
		out = append(append(append(out, ','), quote(members[i])...), ':')
		out = append(out, quote(members[i+1])...)
	}
	return append(out, '}')
}
