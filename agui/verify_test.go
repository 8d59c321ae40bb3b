package agui

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What every rule says of the event that breaks it: all fields of the violation.
func TestVerify(t *testing.T) {
	const (
		start     = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
		again     = `{"type":"RUN_STARTED","threadId":"t","runId":"q"}`
		finish    = `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
		failed    = `{"type":"RUN_ERROR","message":"m"}`
		text      = `{"type":"TEXT_MESSAGE_START","messageId":"m"}`
		textEnd   = `{"type":"TEXT_MESSAGE_END","messageId":"m"}`
		call      = `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","subagentRunId":"s"}`
		reasoning = `{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`
		span      = `{"type":"REASONING_START","messageId":"m"}`
		step      = `{"type":"STEP_STARTED","stepName":"p"}`
		subStep   = `{"type":"STEP_STARTED","stepName":"p","subagentRunId":"s"}`
		sub       = `{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}`
		subEnd    = `{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`
		activity  = `{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"A","content":{},"subagentRunId":"s"}`
		snapshot  = `{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","id":"m","content":""},{"role":"reasoning","id":"m","content":"","subagentRunId":"s"},{"role":"assistant","id":"a","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}]}`
	)
	run := []Entity{{EntityRun, "r"}}
	owner := Entity{EntitySubagent, "s"}
	for _, c := range []struct {
		events []string
		want   *Violation // what the last event is, seq and type aside; nil if it is legal
	}{
		{[]string{start, failed, failed}, &Violation{Rule: "V-1", Others: run, Reason: "after RUN_ERROR", Expected: "RUN_STARTED"}},
		{[]string{failed, text}, &Violation{Rule: "V-1", Reason: "after RUN_ERROR", Expected: "RUN_STARTED"}},
		{[]string{start, finish, finish}, &Violation{Rule: "V-2", Others: run, Reason: "after RUN_FINISHED", Expected: "RUN_STARTED or RUN_ERROR"}},
		{[]string{start, finish, failed, start, finish, start}, nil},
		{[]string{text}, &Violation{Rule: "V-3", Reason: "before the first RUN_STARTED", Expected: "RUN_STARTED or RUN_ERROR"}},
		{[]string{failed, start}, nil},
		{[]string{start, again}, &Violation{Rule: "V-4", Kind: EntityRun, ID: "q", Others: run, Reason: "a run is still going on", Expected: `RUN_FINISHED or RUN_ERROR of "r" before RUN_STARTED`}},

		{[]string{start, text, text}, &Violation{Rule: "V-5", Kind: EntityMessage, ID: "m", Reason: "it is open already", Expected: `TEXT_MESSAGE_END of "m" before TEXT_MESSAGE_START`}},
		{[]string{start, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"","delta":""}`}, &Violation{Rule: "V-5", Kind: EntityMessage, Reason: "it is not open", Expected: `TEXT_MESSAGE_START of "" before TEXT_MESSAGE_CONTENT`}},
		{[]string{start, reasoning, textEnd}, &Violation{Rule: "V-5", Kind: EntityMessage, ID: "m", Reason: "it is not open", Expected: `TEXT_MESSAGE_START of "m" before TEXT_MESSAGE_END`}},
		{[]string{start, text, textEnd, text}, nil},

		{[]string{start, call, call}, &Violation{Rule: "V-6", Kind: EntityCall, ID: "c", Reason: "it is open already", Expected: `TOOL_CALL_END of "c" before TOOL_CALL_START`}},
		{[]string{start, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":""}`}, &Violation{Rule: "V-6", Kind: EntityCall, ID: "c", Reason: "it is not open", Expected: `TOOL_CALL_START of "c" before TOOL_CALL_ARGS`}},
		{[]string{start, `{"type":"TOOL_CALL_END","toolCallId":"c"}`}, &Violation{Rule: "V-6", Kind: EntityCall, ID: "c", Reason: "it is not open", Expected: `TOOL_CALL_START of "c" before TOOL_CALL_END`}},
		{[]string{start, `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":""}`}, nil},

		{[]string{start, reasoning, reasoning}, &Violation{Rule: "V-7", Kind: EntityReasoning, ID: "m", Reason: "it is open already", Expected: `REASONING_MESSAGE_END of "m" before REASONING_MESSAGE_START`}},
		{[]string{start, text, `{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":""}`}, &Violation{Rule: "V-7", Kind: EntityReasoning, ID: "m", Reason: "it is not open", Expected: `REASONING_MESSAGE_START of "m" before REASONING_MESSAGE_CONTENT`}},
		{[]string{start, span, `{"type":"REASONING_MESSAGE_END","messageId":"m"}`}, &Violation{Rule: "V-7", Kind: EntityReasoning, ID: "m", Reason: "it is not open", Expected: `REASONING_MESSAGE_START of "m" before REASONING_MESSAGE_END`}},
		{[]string{start, span, span}, &Violation{Rule: "V-7", Kind: EntitySpan, ID: "m", Reason: "it is open already", Expected: `REASONING_END of "m" before REASONING_START`}},
		{[]string{start, reasoning, `{"type":"REASONING_END","messageId":"m"}`}, &Violation{Rule: "V-7", Kind: EntitySpan, ID: "m", Reason: "it is not open", Expected: `REASONING_START of "m" before REASONING_END`}},
		{[]string{start, text, span, reasoning}, nil},

		{[]string{start, step, step}, &Violation{Rule: "V-8", Kind: EntityStep, ID: "p", Reason: "it is open already", Expected: `STEP_FINISHED of "p" without subagentRunId before STEP_STARTED`}},
		{[]string{start, step, `{"type":"STEP_FINISHED","stepName":"p","subagentRunId":""}`}, &Violation{Rule: "V-8", Kind: EntityStep, ID: "p", Others: []Entity{{EntitySubagent, ""}}, Reason: "it is not open", Expected: `STEP_STARTED of "p" with subagentRunId "" before STEP_FINISHED`}},
		{[]string{start, step, subStep}, nil},

		{[]string{start, `{"type":"SUBAGENT_ERROR","subagentRunId":"s","message":"m"}`}, &Violation{Rule: "V-9", Kind: EntitySubagent, ID: "s", Reason: "it is not active", Expected: `SUBAGENT_STARTED of "s" before SUBAGENT_ERROR`}},
		{[]string{start, sub, subEnd, subEnd}, &Violation{Rule: "V-9", Kind: EntitySubagent, ID: "s", Reason: "it has ended already", Expected: `no second end of "s"`}},
		{[]string{start, sub, sub}, &Violation{Rule: "V-9", Kind: EntitySubagent, ID: "s", Reason: "it has been started already", Expected: "a subagentRunId that is new in this run"}},
		{[]string{start, sub, subEnd, sub}, &Violation{Rule: "V-9", Kind: EntitySubagent, ID: "s", Reason: "it has been started already", Expected: "a subagentRunId that is new in this run"}},
		{[]string{start, `{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n","parentSubagentRunId":"p"}`}, &Violation{Rule: "V-9", Kind: EntitySubagent, ID: "s", Others: []Entity{{EntitySubagent, "p"}}, Reason: "its parent is no subagent of this run", Expected: `SUBAGENT_STARTED of "p" before that of "s"`}},
		{[]string{start, sub, subEnd, `{"type":"SUBAGENT_STARTED","subagentRunId":"u","name":"n","parentSubagentRunId":"s"}`}, nil},

		{[]string{start, call, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"","subagentRunId":"u"}`}, &Violation{Rule: "V-10", Kind: EntityCall, ID: "c", Others: []Entity{owner}, Reason: "it belongs to another agent", Expected: `subagentRunId "s" or none`}},
		{[]string{start, call, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":""}`}, nil},
		{[]string{start, snapshot, `{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"s"}`}, &Violation{Rule: "V-10", Kind: EntityMessage, ID: "m", Reason: "it belongs to another agent", Expected: "no subagentRunId"}},
		{[]string{start, snapshot, `{"type":"REASONING_START","messageId":"m","subagentRunId":""}`}, &Violation{Rule: "V-10", Kind: EntitySpan, ID: "m", Others: []Entity{owner}, Reason: "it belongs to another agent", Expected: `subagentRunId "s" or none`}},
		{[]string{start, snapshot, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m","subagentRunId":"s"}`}, &Violation{Rule: "V-10", Kind: EntityMessage, ID: "m", Others: []Entity{{EntityCall, "c"}}, Reason: "it belongs to another agent", Expected: "no subagentRunId"}},
		{[]string{start, snapshot, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","subagentRunId":"s"}`}, &Violation{Rule: "V-10", Kind: EntityCall, ID: "c", Reason: "it belongs to another agent", Expected: "no subagentRunId"}},
		{[]string{start, call, `{"type":"TOOL_CALL_END","toolCallId":"c"}`, text, textEnd, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}`}, &Violation{Rule: "V-10", Kind: EntityCall, ID: "c", Others: []Entity{owner, {EntityMessage, "m"}}, Reason: "it belongs to another agent than its message", Expected: `a parentMessageId of subagent "s", or none`}},
		{[]string{start, activity, `{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"A","patch":[],"subagentRunId":"u"}`}, &Violation{Rule: "V-10", Kind: EntityActivity, ID: "m", Others: []Entity{owner}, Reason: "it belongs to another agent", Expected: `subagentRunId "s" or none`}},
		{[]string{start, snapshot, `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c","encryptedValue":"","subagentRunId":"u"}`}, &Violation{Rule: "V-10", Kind: EntityCall, ID: "c", Reason: "it belongs to another agent", Expected: "no subagentRunId"}},
		{[]string{start, snapshot, `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m","encryptedValue":"","subagentRunId":"s"}`}, &Violation{Rule: "V-10", Kind: EntityMessage, ID: "m", Reason: "it belongs to another agent", Expected: "no subagentRunId"}},
		{[]string{start, `{"type":"REASONING_START","messageId":"m","subagentRunId":"s"}`, `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m","encryptedValue":"","subagentRunId":"u"}`}, &Violation{Rule: "V-10", Kind: EntityReasoning, ID: "m", Others: []Entity{owner}, Reason: "it belongs to another agent", Expected: `subagentRunId "s" or none`}},
		// V-11 is what the snapshot above does; the input of a run never overwrites, and
		// owners do not outlive their run.
		{[]string{`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[{"role":"assistant","id":"m","subagentRunId":"s"},{"role":"user","id":"m","content":""}]}}`, `{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"u"}`}, &Violation{Rule: "V-10", Kind: EntityMessage, ID: "m", Others: []Entity{owner}, Reason: "it belongs to another agent", Expected: `subagentRunId "s" or none`}},
		{[]string{start, snapshot, finish, start, `{"type":"TEXT_MESSAGE_START","messageId":"m","subagentRunId":"u"}`}, nil},

		{[]string{start, call, `{"type":"TEXT_MESSAGE_START","messageId":"z"}`, `{"type":"TEXT_MESSAGE_START","messageId":"b"}`, finish}, &Violation{Rule: "V-12", Kind: EntityMessage, ID: "z", Others: run, Reason: "text messages are still open", Expected: `TEXT_MESSAGE_END of "z" before RUN_FINISHED`}},
		{[]string{start, step, sub, call, finish}, &Violation{Rule: "V-12", Kind: EntityCall, ID: "c", Others: run, Reason: "tool calls are still open", Expected: `TOOL_CALL_END of "c" before RUN_FINISHED`}},
		{[]string{start, span, reasoning, finish}, &Violation{Rule: "V-12", Kind: EntityReasoning, ID: "m", Others: run, Reason: "reasoning messages are still open", Expected: `REASONING_MESSAGE_END of "m" before RUN_FINISHED`}},
		{[]string{start, span, finish}, &Violation{Rule: "V-12", Kind: EntitySpan, ID: "m", Others: run, Reason: "reasoning spans are still open", Expected: `REASONING_END of "m" before RUN_FINISHED`}},
		{[]string{start, sub, finish}, &Violation{Rule: "V-12", Kind: EntitySubagent, ID: "s", Others: run, Reason: "subagents are still open", Expected: `SUBAGENT_FINISHED or SUBAGENT_ERROR of "s" before RUN_FINISHED`}},
		{[]string{start, step, finish}, &Violation{Rule: "V-12", Kind: EntityStep, ID: "p", Others: run, Reason: "steps are still open", Expected: `STEP_FINISHED of "p" without subagentRunId before RUN_FINISHED`}},
		{[]string{start, subStep, finish}, &Violation{Rule: "V-12", Kind: EntityStep, ID: "p", Others: append(run, owner), Reason: "steps are still open", Expected: `STEP_FINISHED of "p" with subagentRunId "s" before RUN_FINISHED`}},
		{[]string{start, text, failed}, nil},
	} {
		var v Verifier
		for i, raw := range c.events[:len(c.events)-1] {
			if err := v.Verify(uint64(i), decode(t, false, raw)); err != nil {
				t.Errorf("%s: %v", raw, err)
			}
			// What a verifier knows is in its state.
			restored, err := RestoreVerifier(v.State())
			if err != nil {
				t.Fatal(err)
			}
			v = *restored
		}
		last := decode(t, false, c.events[len(c.events)-1])
		err := v.Verify(77, last)
		if c.want == nil {
			if err != nil {
				t.Errorf("%v: %v", c.events, err)
			}
			continue
		}
		c.want.Seq, c.want.Type = 77, last.Type
		if got, ok := errors.AsType[*Violation](err); !ok || !errors.Is(err, ErrViolation) || !sameViolation(got, c.want) {
			t.Errorf("%v:\n%+v, want\n%+v", c.events, err, c.want)
		}
	}
}

func sameViolation(a, b *Violation) bool {
	others := slices.Equal(a.Others, b.Others)
	x, y := *a, *b
	x.Others, y.Others = nil, nil
	return others && reflect.DeepEqual(x, y)
}

// A violation in words: ids as JSON has them, however long they are.
func TestViolationError(t *testing.T) {
	long := strings.Repeat("é", 50)
	for want, v := range map[string]*Violation{
		`protocol violation: TEXT_MESSAGE_END at 7 (V-5): message "": it is not open; expected x`: {Type: TypeTextMessageEnd, Rule: "V-5", Seq: 7, Kind: EntityMessage, Reason: "it is not open", Expected: "x"},
		`protocol violation: RUN_ERROR (V-1): after RUN_ERROR; expected RUN_STARTED`:              {Type: TypeRunError, Rule: "V-1", Reason: "after RUN_ERROR", Expected: "RUN_STARTED"},
		`protocol violation: RUN_ERROR (V-1): step "\ud83c\"": x; expected y`:                     {Type: TypeRunError, Rule: "V-1", Kind: EntityStep, ID: "\xed\xa0\xbc\"", Reason: "x", Expected: "y"},
		`protocol violation: RUN_ERROR (V-1): call "` + long[:64] + `"…: x; expected y`:           {Type: TypeRunError, Rule: "V-1", Kind: EntityCall, ID: long, Reason: "x", Expected: "y"},
	} {
		if got := v.Error(); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	odd := &Violation{Kind: EntityCall, ID: "x" + long}
	if got := odd.Error(); !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
}

func TestViolationJSON(t *testing.T) {
	for want, v := range map[string]*Violation{
		`{"type":"STEP_FINISHED","rule":"V-8","seq":7,"kind":"step","id":"","others":[{"kind":"subagent","id":"\ud83c"}],"reason":"it is not open","expected":"x"}`: {
			Type: TypeStepFinished, Rule: "V-8", Seq: 7, Kind: EntityStep, Others: []Entity{{EntitySubagent, "\xed\xa0\xbc"}}, Reason: "it is not open", Expected: "x"},
		`{"type":"RUN_ERROR","rule":"V-1","reason":"after RUN_ERROR","expected":"RUN_STARTED"}`: {Type: TypeRunError, Rule: "V-1", Reason: "after RUN_ERROR", Expected: "RUN_STARTED"},
	} {
		if got := v.JSON().String(); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
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
				if err := alone.Verify(0, before); err != nil {
					rt.Fatalf("%s was accepted, and is refused without the refused ones before it: %v", before.Type, err)
				}
			}
			got, want := all.Verify(0, e), alone.Verify(0, e)
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s: %v, but %v without the refused ones before it", e.Type, got, want)
			}
			if got == nil {
				legal = append(legal, e)
			}
		}
	})
}
