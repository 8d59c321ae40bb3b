package agui

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestVerify(t *testing.T) {
	const (
		start  = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
		finish = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
		failed = `{"type":"RUN_ERROR","message":"m"}`
		text   = `{"type":"TEXT_MESSAGE_START","messageId":"m"}`
		call   = `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","subagentRunId":"s"}`
	)
	for _, c := range []struct {
		rule   string // of the violation that the last event is; "" if none is
		events []string
	}{
		{"V-1", []string{start, failed, failed}},
		{"V-2", []string{start, finish, finish}},
		{"", []string{start, finish, failed, start, finish, start}},
		{"V-3", []string{text}},
		{"", []string{failed, start}},
		{"V-4", []string{start, start}},
		{"V-5", []string{start, text, text}},
		{"V-5", []string{start, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":""}`}},
		{"", []string{start, text, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`, text}},
		{"V-6", []string{start, call, call}},
		{"V-6", []string{start, `{"type":"TOOL_CALL_END","toolCallId":"c"}`}},
		{"V-7", []string{start, `{"type":"REASONING_START","messageId":"m"}`, `{"type":"REASONING_MESSAGE_END","messageId":"m"}`}},
		{"", []string{start, text, `{"type":"REASONING_START","messageId":"m"}`, `{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`}},
		{"V-8", []string{start, `{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"STEP_FINISHED","stepName":"s","subagentRunId":""}`}},
		{"V-9", []string{start, `{"type":"SUBAGENT_ERROR","subagentRunId":"s","message":"m"}`}},
		{"V-9", []string{start, `{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n","parentSubagentRunId":"p"}`}},
		{"V-10", []string{start, call, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"","subagentRunId":"u"}`}},
		{"", []string{start, call, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":""}`}},
		{"V-10", []string{start, `{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","id":"m","content":""}]}`, `{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"s"}`}},
		{"V-12", []string{start, text, finish}},
		{"V-12", []string{start, `{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}`, finish}},
		{"", []string{start, text, failed}},
	} {
		var v Verifier
		var err error
		for i, raw := range c.events {
			if err = v.Verify(decode(t, false, raw)); err != nil && i < len(c.events)-1 {
				t.Errorf("%s: %v", raw, err)
			}
		}
		if c.rule == "" {
			if err != nil {
				t.Errorf("%v: %v", c.events, err)
			}
			continue
		}
		if got, ok := errors.AsType[*Violation](err); !ok || got.Rule != c.rule || !errors.Is(err, ErrViolation) {
			t.Errorf("%v: error %v, want rule %s", c.events, err, c.rule)
		}
	}
}

// orderedEvents draws an event that says something about order.
func orderedEvents(rt *rapid.T) *Event {
	e := &Event{Type: rapid.SampledFrom(Types()).Draw(rt, "type"), Outcome: &Outcome{Type: OutcomeSuccess}}
	if rapid.IntRange(0, 3).Draw(rt, "runs") == 0 {
		e.Type = rapid.SampledFrom([]Type{TypeRunStarted, TypeRunFinished}).Draw(rt, "run")
	}
	id := func(name string) Opt[string] {
		return Some(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, name))
	}
	if rapid.Bool().Draw(rt, "tagged") {
		e.SubagentRunID = id("tag")
	}
	switch e.Type {
	case TypeToolCallStart, TypeToolCallArgs, TypeToolCallEnd:
		e.ToolCallID, e.ParentMessageID = id("call"), id("parent")
	default:
		e.MessageID, e.EntityID, e.StepName = id("message"), id("entity"), id("step")
		e.Subtype = Some(rapid.SampledFrom([]string{"message", "tool-call"}).Draw(rt, "subtype"))
	}
	return e
}

// An event that is refused changes nothing: a verifier that has seen the others
// alone says the same of what follows.
func TestVerifyRefusedEventsChangeNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all Verifier
		var legal []*Event
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			e := orderedEvents(rt)
			var alone Verifier
			for _, before := range legal {
				if err := alone.Verify(before); err != nil {
					rt.Fatalf("%s was accepted, and is refused without the refused ones before it: %v", before.Type, err)
				}
			}
			got, want := all.Verify(e), alone.Verify(e)
			if (got == nil) != (want == nil) {
				rt.Fatalf("%s: %v, but %v without the refused ones before it", e.Type, got, want)
			}
			if got == nil {
				legal = append(legal, e)
			}
		}
	})
}
