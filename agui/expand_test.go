package agui

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// types lists the types of what e expands to.
func types(t testing.TB, x *Expander, raw string) string {
	t.Helper()
	events, err := x.Expand(decode(t, false, raw))
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, e := range events {
		out += string(e.Type) + " "
	}
	return out
}

func TestExpand(t *testing.T) {
	var x Expander
	for _, c := range []struct{ raw, want string }{
		{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`, "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT "},
		{`{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}`, "TEXT_MESSAGE_CONTENT "},
		{`{"type":"TEXT_MESSAGE_CHUNK"}`, ""},
		{`{"type":"RAW","event":1}`, "RAW "},
		{`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}`, "TEXT_MESSAGE_END TOOL_CALL_START "},
		{`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","metadata":{}}`, "TOOL_CALL_ARGS "},
		{`{"type":"CUSTOM","name":"n","value":1,"subagentRunId":"s"}`, "CUSTOM "},
		{`{"type":"REASONING_MESSAGE_CHUNK","messageId":"r","subagentRunId":"s"}`, "REASONING_MESSAGE_START "},
		{`{"type":"MESSAGES_SNAPSHOT","messages":[]}`, "TOOL_CALL_END REASONING_MESSAGE_END MESSAGES_SNAPSHOT "},
	} {
		if got := types(t, &x, c.raw); got != c.want {
			t.Errorf("%s became %q, want %q", c.raw, got, c.want)
		}
	}
	if open := x.Open(); len(open) != 0 {
		t.Errorf("still open: %+v", open)
	}
}

func TestExpandMarksWhatItMakes(t *testing.T) {
	var x Expander
	events, err := x.Expand(decode(t, false, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"user","name":"n","delta":"a","metadata":{"k":1},"rawEvent":2,"timestamp":5}`))
	if err != nil {
		t.Fatal(err)
	}
	start, content := events[0], events[1]
	if !start.Synthetic || start.Role != Some("user") || start.Name != Some("n") || start.Metadata.String() != `{"k":1}` || start.Timestamp.Set {
		t.Errorf("START %+v", start)
	}
	if !content.Synthetic || content.Delta != Some("a") || content.RawEvent.String() != "2" || content.Metadata.String() != `{"k":1}` {
		t.Errorf("CONTENT %+v", content)
	}
}

// A chunk that cannot be expanded is refused with its rule, and leaves the
// streams as they were.
func TestExpandRefuses(t *testing.T) {
	var x Expander
	types(t, &x, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","subagentRunId":"s"}`)
	types(t, &x, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","subagentRunId":"u"}`)
	types(t, &x, `{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"f","parentMessageId":"p"}`)
	before := x.Open()
	for _, c := range []struct{ raw, rule string }{
		{`{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}`, "X-5"},
		{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","subagentRunId":"u"}`, "X-5"},
		{`{"type":"REASONING_MESSAGE_CHUNK","delta":"d"}`, "X-1"},
		{`{"type":"TOOL_CALL_CHUNK","toolCallId":"d"}`, "X-1"},
		{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"user"}`, "X-3"},
		{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","name":"n"}`, "X-3"},
		{`{"type":"TOOL_CALL_CHUNK","toolCallName":"g"}`, "X-3"},
		{`{"type":"TOOL_CALL_CHUNK","parentMessageId":"q"}`, "X-3"},
	} {
		_, err := x.Expand(decode(t, false, c.raw))
		if got, ok := errors.AsType[*ChunkError](err); !ok || got.Rule != c.rule || !errors.Is(err, ErrChunk) {
			t.Errorf("%s: error %v, want one of rule %s", c.raw, err, c.rule)
		}
	}
	if !reflect.DeepEqual(before, x.Open()) {
		t.Errorf("refused chunks changed the streams from %+v to %+v", before, x.Open())
	}
}

func TestExpandKeepsStreamsAtSnapshot(t *testing.T) {
	x := Expander{KeepAtSnapshot: true}
	types(t, &x, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m"}`)
	if got := types(t, &x, `{"type":"MESSAGES_SNAPSHOT","messages":[]}`); got != "MESSAGES_SNAPSHOT " {
		t.Errorf("the snapshot became %q", got)
	}
	if got := types(t, &x, `{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}`); got != "TEXT_MESSAGE_CONTENT " {
		t.Errorf("the next chunk became %q", got)
	}
}

// chunkEvents draws events of two lanes, most of them chunks.
func chunkEvents(rt *rapid.T) *Event {
	e := &Event{Type: rapid.SampledFrom([]Type{
		TypeTextMessageChunk, TypeToolCallChunk, TypeReasoningMessageChunk, TypeStateSnapshot, TypeRaw, TypeRunError,
	}).Draw(rt, "type")}
	text := func(name string) Opt[string] {
		if rapid.Bool().Draw(rt, name+" set") {
			return Some(rapid.SampledFrom([]string{"a", "b", ""}).Draw(rt, name))
		}
		return Opt[string]{}
	}
	e.SubagentRunID = text("tag")
	switch e.Type {
	case TypeTextMessageChunk, TypeReasoningMessageChunk:
		e.MessageID, e.Delta = text("id"), text("delta")
	case TypeToolCallChunk:
		e.ToolCallID, e.ToolCallName, e.Delta = text("id"), text("name"), text("delta")
	}
	return e
}

// An expander restored from the open streams of another goes on like it.
func TestExpanderRestored(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var x Expander
		for range rapid.IntRange(0, 8).Draw(rt, "before") {
			_, _ = x.Expand(chunkEvents(rt)) // refusals are part of the game
		}
		var y Expander
		if err := y.Restore(x.Open()); err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "after") {
			e := chunkEvents(rt)
			a, errA := x.Expand(e)
			b, errB := y.Expand(e)
			if len(a)+len(b) > 0 && !reflect.DeepEqual(a, b) || fmt.Sprint(errA) != fmt.Sprint(errB) {
				rt.Fatalf("%+v became %+v, %v and %+v, %v", e, a, errA, b, errB)
			}
		}
	})
}

// Most chunks are expanded without an allocation, and the next call leaves alone
// the strings of what the last one made.
func TestExpandAllocatesNothing(t *testing.T) {
	var x Expander
	chunk := decode(t, false, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"a"}`)
	expand := func() []*Event {
		events, err := x.Expand(chunk)
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	events := expand()
	id, delta := events[0].MessageID, events[1].Delta
	if n := testing.AllocsPerRun(100, func() { expand() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if id != Some("m") || delta != Some("a") {
		t.Errorf("id %v and delta %v of the first chunk", id, delta)
	}
}

// A call that ends more streams than it has memory for makes all their ENDs.
func TestExpandEndsManyStreams(t *testing.T) {
	var x Expander
	const lanes = 10
	for i := range lanes {
		types(t, &x, fmt.Sprintf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m%d","subagentRunId":"s%d"}`, i, i))
	}
	events, err := x.Expand(decode(t, false, `{"type":"RUN_ERROR","message":"no"}`))
	if err != nil || len(events) != lanes+1 {
		t.Fatalf("%d events, error %v", len(events), err)
	}
	for i, e := range events[:lanes] {
		if e.Type != TypeTextMessageEnd || e.MessageID != Some(fmt.Sprintf("m%d", i)) {
			t.Errorf("event %d is %s of %v", i, e.Type, e.MessageID)
		}
	}
}
