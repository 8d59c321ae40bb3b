package agui

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
)

// history is what a verifier has accepted. It answers by looking at all of it,
// as SEMANTICS section 7 is written, and remembers nothing else.
type history []*Event

// run is what was accepted since the last RUN_STARTED, with it.
func (h history) run() history {
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].Type == TypeRunStarted {
			return h[i:]
		}
	}
	return nil
}

// last is the latest event of these types.
func (h history) last(is func(*Event) bool) *Event {
	for i := len(h) - 1; i >= 0; i-- {
		if is(h[i]) {
			return h[i]
		}
	}
	return nil
}

func (h history) isOpen(start, end Type, id string) bool {
	e := h.last(func(e *Event) bool { return (e.Type == start || e.Type == end) && e.entity() == id })
	return e != nil && e.Type == start
}

func (h history) stepOpen(owner Opt[string], name string) bool {
	e := h.last(func(e *Event) bool {
		return (e.Type == TypeStepStarted || e.Type == TypeStepFinished) && e.SubagentRunID == owner && e.StepName.V == name
	})
	return e != nil && e.Type == TypeStepStarted
}

// subagent says whether an id is active, or has ended.
func (h history) subagent(id string) (active, ended bool) {
	e := h.last(func(e *Event) bool {
		return (e.Type == TypeSubagentStarted || e.Type == TypeSubagentFinished || e.Type == TypeSubagentError) && e.SubagentRunID.V == id
	})
	return e != nil && e.Type == TypeSubagentStarted, e != nil && e.Type != TypeSubagentStarted
}

// anyOpen reports whether anything keeps RUN_FINISHED from coming (V-12).
func (h history) anyOpen() bool {
	for i, e := range h {
		rest := h[i:]
		switch e.Type {
		case TypeTextMessageStart:
			if rest.isOpen(TypeTextMessageStart, TypeTextMessageEnd, e.entity()) {
				return true
			}
		case TypeToolCallStart:
			if rest.isOpen(TypeToolCallStart, TypeToolCallEnd, e.entity()) {
				return true
			}
		case TypeReasoningMessageStart:
			if rest.isOpen(TypeReasoningMessageStart, TypeReasoningMessageEnd, e.entity()) {
				return true
			}
		case TypeReasoningStart:
			if rest.isOpen(TypeReasoningStart, TypeReasoningEnd, e.entity()) {
				return true
			}
		case TypeStepStarted:
			if rest.stepOpen(e.SubagentRunID, e.StepName.V) {
				return true
			}
		case TypeSubagentStarted:
			if active, _ := rest.subagent(e.SubagentRunID.V); active {
				return true
			}
		}
	}
	return false
}

// owner is whose an id is in this run, if that is recorded (V-10, V-11).
func (h history) owner(kind ownedKind, id string) (owner Opt[string], known bool) {
	record := func(k ownedKind, of string, to Opt[string], always bool) {
		if k == kind && of == id && (always || !known) {
			owner, known = to, true
		}
	}
	messages := func(list []Message, always bool) {
		for i := range list {
			m := &list[i]
			k := map[Role]ownedKind{RoleReasoning: ownedReasoning, RoleActivity: ownedActivity}[m.Role]
			record(k, m.ID, m.SubagentRunID, always)
			for j := range m.ToolCalls {
				record(ownedCall, m.ToolCalls[j].ID, m.SubagentRunID, always)
			}
		}
	}
	for i, e := range h {
		switch e.Type {
		case TypeTextMessageStart:
			record(ownedMessage, e.MessageID.V, e.SubagentRunID, false)
		case TypeReasoningStart, TypeReasoningMessageStart:
			record(ownedReasoning, e.MessageID.V, e.SubagentRunID, false)
		case TypeToolCallResult:
			record(ownedMessage, e.MessageID.V, e.SubagentRunID, true)
		case TypeActivitySnapshot:
			record(ownedActivity, e.MessageID.V, e.SubagentRunID, e.Replace.Or(true))
		case TypeToolCallStart:
			to := e.SubagentRunID
			if parent, found := h[:i].owner(ownedMessage, e.ParentMessageID.V); kind == ownedCall && !to.Set && e.ParentMessageID.Set && found {
				to = parent
			}
			record(ownedCall, e.ToolCallID.V, to, false)
		case TypeMessagesSnapshot:
			messages(e.Messages, true)
		case TypeRunStarted:
			if e.Input != nil {
				messages(e.Input.Messages, false)
			}
		}
	}
	return owner, known
}

// rule is the rule that e breaks behind what was accepted, "" if none.
func (h history) rule(e *Event) string {
	lifecycle := h.last(func(e *Event) bool { return e.Type == TypeRunStarted || e.Type.Terminal() })
	goingOn := lifecycle != nil && lifecycle.Type == TypeRunStarted
	switch {
	case e.Type == TypeRunStarted && goingOn:
		return "V-4"
	case e.Type == TypeRunStarted:
		return ""
	case lifecycle == nil && e.Type != TypeRunError:
		return "V-3"
	case lifecycle != nil && lifecycle.Type == TypeRunError:
		return "V-1"
	case lifecycle != nil && lifecycle.Type == TypeRunFinished && e.Type != TypeRunError:
		return "V-2"
	case e.Type == TypeRunError:
		return ""
	}
	return h.run().within(e)
}

// within is rule for an event within a run.
func (h history) within(e *Event) string {
	foreign := func(kind ownedKind, id string) bool {
		owner, known := h.owner(kind, id)
		return known && e.SubagentRunID.Set && owner != e.SubagentRunID
	}
	piece := func(rule string, start, end Type, kind ownedKind) string {
		if h.isOpen(start, end, e.entity()) == (e.Type == start) {
			return rule
		}
		if foreign(kind, e.entity()) {
			return "V-10"
		}
		return ""
	}
	active, ended := h.subagent(e.SubagentRunID.V)
	broken := ""
	switch e.Type {
	case TypeRunFinished:
		if h.anyOpen() {
			broken = "V-12"
		}
	case TypeTextMessageStart, TypeTextMessageContent, TypeTextMessageEnd:
		broken = piece("V-5", TypeTextMessageStart, TypeTextMessageEnd, ownedMessage)
	case TypeReasoningMessageStart, TypeReasoningMessageContent, TypeReasoningMessageEnd:
		broken = piece("V-7", TypeReasoningMessageStart, TypeReasoningMessageEnd, ownedReasoning)
	case TypeReasoningStart, TypeReasoningEnd:
		broken = piece("V-7", TypeReasoningStart, TypeReasoningEnd, ownedReasoning)
	case TypeToolCallStart, TypeToolCallArgs, TypeToolCallEnd:
		broken = piece("V-6", TypeToolCallStart, TypeToolCallEnd, ownedCall)
		if broken == "" && e.Type == TypeToolCallStart && e.ParentMessageID.Set {
			parent, hasParent := h.owner(ownedMessage, e.ParentMessageID.V)
			owner, known := h.owner(ownedCall, e.ToolCallID.V)
			if foreign(ownedMessage, e.ParentMessageID.V) || !e.SubagentRunID.Set && hasParent && known && parent != owner {
				broken = "V-10"
			}
		}
	case TypeStepStarted, TypeStepFinished:
		if h.stepOpen(e.SubagentRunID, e.StepName.V) == (e.Type == TypeStepStarted) {
			broken = "V-8"
		}
	case TypeSubagentStarted:
		parentActive, parentEnded := h.subagent(e.ParentSubagentRunID.V)
		if active || ended || e.ParentSubagentRunID.Set && !parentActive && !parentEnded {
			broken = "V-9"
		}
	case TypeSubagentFinished, TypeSubagentError:
		if !active {
			broken = "V-9"
		}
	case TypeActivityDelta:
		if foreign(ownedActivity, e.MessageID.V) {
			broken = "V-10"
		}
	case TypeReasoningEncryptedValue:
		kind := ownedReasoning
		if _, known := h.owner(ownedMessage, e.EntityID.V); e.Subtype.V == "tool-call" {
			kind = ownedCall
		} else if known {
			kind = ownedMessage
		}
		if foreign(kind, e.EntityID.V) {
			broken = "V-10"
		}
	}
	return broken
}

// expanded are the events of a stream as a verifier is given them.
func expanded(stream []byte) []*Event {
	var out []*Event
	var thinking Thinking
	var expander Expander
	minted := 0
	for line := range bytes.Lines(stream) {
		e, err := Decode(line)
		if err != nil || !e.Type.Known() {
			continue
		}
		thinking.Name(e, func() string { minted++; return MintedID(minted) })
		events, err := expander.Expand(e)
		if err != nil {
			continue
		}
		for _, e := range events {
			kept := *e
			out = append(out, &kept)
		}
	}
	return out
}

// verifyAll checks a verifier against all that it has accepted.
func verifyAll(t *testing.T, events []*Event) {
	t.Helper()
	var v Verifier
	var accepted history
	for i, e := range events {
		restored, err := RestoreVerifier(v.State())
		if err != nil {
			t.Fatal(err)
		}
		answer := v.Verify(uint64(i)+1, e)
		if other := restored.Verify(uint64(i)+1, e); !reflect.DeepEqual(answer, other) {
			t.Fatalf("event %d, %+v: %v, restored %v", i, e, answer, other)
		}
		rule := accepted.rule(e)
		if answer == nil {
			if rule != "" {
				t.Fatalf("event %d, %+v: accepted, but breaks %s", i, e, rule)
			}
			accepted = append(accepted, e)
			continue
		}
		violation, ok := errors.AsType[*Violation](answer)
		if !ok || violation.Rule != rule {
			t.Fatalf("event %d, %+v: %v, want rule %q", i, e, answer, rule)
		}
		if violation.Type != e.Type || violation.Seq != uint64(i)+1 || violation.Reason == "" || violation.Expected == "" {
			t.Fatalf("event %d: an incomplete violation %+v", i, violation)
		}
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzVerify: a verifier answers as the rules say of all that it has accepted,
// so also when it is restored; it panics at nothing and takes memory in
// proportion to the stream.
func FuzzVerify(f *testing.F) {
	for _, name := range []string{"all-31-event-types", "chunk-lanes", "story-approval", "story-legacy-server"} {
		raw, err := os.ReadFile(filepath.Join("../fold/testdata/oracle", name+".jsonl"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[{"role":"assistant","id":"m","subagentRunId":"s","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]}]}}
{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}
{"type":"SUBAGENT_STARTED","subagentRunId":"u","name":"n","parentSubagentRunId":"s"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}
{"type":"STEP_STARTED","stepName":"p","subagentRunId":"s"}
{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":""}
{"type":"TOOL_CALL_END","toolCallId":"c","subagentRunId":"u"}
{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"A","content":{},"replace":false}
{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"A","patch":[],"subagentRunId":"u"}
{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"m","encryptedValue":"","subagentRunId":"s"}
{"type":"RUN_FINISHED","threadId":"t","runId":"r"}
{"type":"SUBAGENT_ERROR","subagentRunId":"s","message":""}
{"type":"RUN_ERROR","message":""}`))
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := expanded(stream)
		// An expander may make several events of one; what is checked is the verifier.
		events = events[:min(len(events), 200)]
		size := 0
		for _, e := range events {
			size += 300 + len(e.MessageID.V) + len(e.ToolCallID.V) + len(e.SubagentRunID.V) + len(e.StepName.V) + len(e.RunID.V) + 300*len(e.Messages)
		}
		if got := allocated(func() {
			var v Verifier
			for i, e := range events {
				_ = v.Verify(uint64(i), e)
			}
		}); got > 64<<10+uint64(10*(size+len(stream))) {
			t.Fatalf("%d events of about %d bytes took %d", len(events), size, got)
		}
		verifyAll(t, events)
	})
}

func TestVerifyIsWhatTheRulesSay(t *testing.T) {
	files, err := filepath.Glob("../fold/testdata/*/*.jsonl")
	if err != nil || len(files) < 400 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if events := expanded(raw); len(events) <= 500 {
			t.Run(filepath.Base(file), func(t *testing.T) { verifyAll(t, events) })
		}
	}
}
