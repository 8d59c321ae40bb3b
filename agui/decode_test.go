package agui

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// decode reads an event strictly, or leniently, and fails the test on an error.
func decode(t testing.TB, lenient bool, raw string) *Event {
	t.Helper()
	e := new(Event)
	if err := (&Decoder{Lenient: lenient}).Decode([]byte(raw), e); err != nil {
		t.Fatalf("Decode(%s): %v", raw, err)
	}
	return e
}

func codes(e *Event) string {
	var out []string
	for _, n := range e.Notes {
		out = append(out, string(n.Code)+" "+n.Path)
	}
	return strings.Join(out, "; ")
}

func TestDecodeFields(t *testing.T) {
	e := decode(t, false, `{"type":"TEXT_MESSAGE_START","messageId":"","role":"user","name":"n","timestamp":1.0,"rawEvent":0,"metadata":{"a":null},"subagentRunId":"s"}`)
	if e.Type != TypeTextMessageStart || e.MessageID != Some("") || e.Role != Some("user") || e.Name != Some("n") ||
		e.Timestamp != Some(int64(1)) || e.SubagentRunID != Some("s") || e.RawEvent.String() != "0" || e.Metadata.String() != `{"a":null}` {
		t.Errorf("read %+v", e)
	}
	if e.Delta.Set || e.Message.Set || e.Snapshot.Present() || e.Notes != nil {
		t.Errorf("something is there that was not: %+v", e)
	}
	e = decode(t, false, `{"type":"STATE_SNAPSHOT","snapshot":null}`)
	if !e.Snapshot.IsNull() {
		t.Errorf("null snapshot read as %v", e.Snapshot)
	}
	e = decode(t, false, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"model":"m","inputTokens":3}],"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"ask","responseSchema":{"x":1.10}}]}}`)
	if e.Outcome.Type != OutcomeInterrupt || e.Outcome.Interrupts[0].JSON().String() != `{"id":"i","reason":"ask","responseSchema":{"x":1.10}}` {
		t.Errorf("outcome %+v", e.Outcome)
	}
	if got := e.Usage[0].JSON().String(); got != `{"model":"m","inputTokens":3}` {
		t.Errorf("usage %s", got)
	}
	e = decode(t, false, `{"type":"STATE_DELTA","delta":[{"op":"spin"},{"op":"add","path":"/a","value":null,"more":1},{"op":5},{"op":"move","from":"/a","path":""}]}`)
	if len(e.Patch) != 2 || !e.Patch[0].Value.IsNull() || e.Patch[1].From != "/a" {
		t.Errorf("patch %+v", e.Patch)
	}
	if e.OpIndex(0) != 1 || e.OpIndex(1) != 3 {
		t.Errorf("operations were at %d and %d", e.OpIndex(0), e.OpIndex(1))
	}
	if got := codes(e); got != "material-removed /delta/0; material-removed /delta/2" {
		t.Errorf("notes %s", got)
	}
}

// What a message says comes back as it went in.
func TestDecodeMessages(t *testing.T) {
	for _, m := range []string{
		`{"id":"1","role":"developer","content":"c","name":"n","encryptedValue":"e"}`,
		`{"id":"2","role":"system","content":""}`,
		`{"id":"3","role":"assistant","toolCalls":[],"metadata":{}}`,
		`{"id":"3","role":"assistant","content":"c","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{"},"encryptedValue":"e","metadata":{"a":1}}]}`,
		`{"id":"4","role":"user","content":[{"type":"text","text":"t","id":"p","metadata":5},{"type":"image","source":{"type":"data","value":"v","mimeType":"image/png"}},{"type":"document","source":{"type":"file","value":"v","provider":"p"}}]}`,
		`{"id":"5","role":"tool","content":"c","toolCallId":"c","error":"e"}`,
		`{"id":"6","role":"activity","activityType":"A","content":{"n":1.0},"subagentRunId":"s"}`,
		`{"id":"7","role":"reasoning","content":"\ud83c"}`,
	} {
		got, err := DecodeMessage([]byte(m))
		if err != nil {
			t.Errorf("%s: %v", m, err)
			continue
		}
		want, _ := jsonvalue.Parse([]byte(m), 0)
		if !jsonvalue.Equal(got.JSON(), want) {
			t.Errorf("%s came back as %s", m, got.AppendJSON(nil))
		}
	}
	for _, m := range []string{`[]`, `{`, `{"id":"1","role":"nobody"}`, `{"id":"1","role":"assistant","content":null}`, `{"role":"user","content":"c"}`} {
		if _, err := DecodeMessage([]byte(m)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", m, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ raw, field string }{
		{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}`, "/delta"},
		{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":5}`, "/delta"},
		{`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"tool"}`, "/role"},
		{`{"type":"TEXT_MESSAGE_END","messageId":"m","timestamp":1.5}`, "/timestamp"},
		{`{"type":"TEXT_MESSAGE_END","messageId":"m","metadata":null}`, "/metadata"},
		{`{"type":"TEXT_MESSAGE_END","messageId":"m","subagentRunId":null}`, "/subagentRunId"},
		{`{"type":"STATE_SNAPSHOT"}`, "/snapshot"},
		{`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a"}]}`, "/delta/0"},
		{`{"type":"STATE_DELTA","delta":[{"op":"x"},{"op":"remove","path":"a"}]}`, "/delta/1/path"},
		{`{"type":"STATE_DELTA","delta":["add"]}`, "/delta/0"},
		{`{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","id":"m","content":[{"type":"image","source":{"type":"data","value":"v"}}]}]}`, "/messages/0/content/0/source/mimeType"},
		{`{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"assistant","id":"m","toolCalls":[{"id":"c","type":"tool","function":{"name":"n","arguments":""}}]}]}`, "/messages/0/toolCalls/0/type"},
		{`{"type":"MESSAGES_SNAPSHOT","messages":[null]}`, "/messages/0"},
		{`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}`, "/outcome/interrupts"},
		{`{"type":"RUN_FINISHED","threadId":"t"}`, "/runId"},
		{`{"type":"RUN_FINISHED","threadId":"t","runId":"r","usage":[{"inputTokens":-1}]}`, "/usage/0/inputTokens"},
		{`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r"}}`, "/input/messages"},
		{`{"type":"REASONING_MESSAGE_START","messageId":"m","role":"assistant"}`, "/role"},
		{`{"type":"SUBAGENT_FINISHED","subagentRunId":"s","outcome":null}`, "/outcome"},
		{`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"A","content":[]}`, "/content"},
		{`{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","id":"m","content":[{"type":"binary","mimeType":"a/b","data":5,"url":"u"}]}]}`, "/messages/0/content/0"},
	} {
		_, err := Decode([]byte(c.raw))
		if bad, ok := errors.AsType[*MalformedError](err); !ok || bad.Field != c.field || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v, want one about %s", c.raw, err, c.field)
		}
	}
	for _, raw := range []string{``, `5`, `[]`, `{"type":5}`, `{"type":""}`, `{}`, `{"type":"RAW"`} {
		if _, err := Decode([]byte(raw)); !errors.Is(err, ErrInvalidEvent) {
			t.Errorf("%s: error %v", raw, err)
		}
	}
}

func TestDecodeLeavesOutTheUnknown(t *testing.T) {
	for _, c := range []struct{ raw, notes string }{
		{`{"type":"FUTURE","x":1}`, "event-dropped "},
		{`{"type":"TEXT_MESSAGE_END","messageId":"m","delta":{"a":1},"~/":2}`, "material-removed /delta; material-removed /~0~1"},
		{`{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"robot"},{"role":"user","id":"m","content":[{"type":"smell"},{"type":"image","source":{"type":"tape"}},{"type":"text","text":"t","x":1}]}]}`,
			"material-removed /messages/0; material-removed /messages/1/content/0; material-removed /messages/1/content/1; material-removed /messages/1/content/2/x"},
		{`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"paused","more":[]}}`, "material-removed /outcome"},
	} {
		e := decode(t, false, c.raw)
		if got := codes(e); got != c.notes {
			t.Errorf("%s: notes %q, want %q", c.raw, got, c.notes)
		}
	}
	e := decode(t, false, `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"paused"}}`)
	if e.Outcome != nil || e.UnknownOutcome != Some("paused") {
		t.Errorf("outcome %v, unknown %v", e.Outcome, e.UnknownOutcome)
	}
}

// A lenient decoder loses as little as it can (fold-rules R4, R10).
func TestDecodeLeniently(t *testing.T) {
	for _, c := range []struct{ raw, notes string }{
		{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d","timestamp":"soon","metadata":null,"subagentRunId":null}`, "malformed-removed /timestamp"},
		{`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"model"}`, "malformed-removed /role"},
		{`{"type":"RUN_FINISHED"}`, ""},
		{`{"type":"RUN_ERROR"}`, ""},
		{`{"type":"RUN_STARTED","runId":"r","input":{"messages":[{"role":"user","id":"m","content":null}],"state":null,"resume":[{"interruptId":"i"}]}}`,
			"malformed-removed /input/messages/0/content; malformed-removed /input/resume/0/status"},
		{`{"type":"REASONING_MESSAGE_START","messageId":"m","role":"assistant"}`, "malformed-removed /role"},
		{`{"type":"STATE_DELTA","delta":[{"op":"add","path":"no"},{"op":"test","path":"/a"}]}`, ""},
	} {
		if got := codes(decode(t, true, c.raw)); got != c.notes {
			t.Errorf("%s: notes %q, want %q", c.raw, got, c.notes)
		}
	}
	e := decode(t, true, `{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","id":"a","content":5},{"role":"assistant","id":"b","content":null,"toolCalls":[{"id":"c"},{"id":"d","function":{"name":"f"}}]},7]}`)
	if len(e.Messages) != 1 || e.Messages[0].Content.Kind != NoContent || len(e.Messages[0].ToolCalls) != 1 {
		t.Errorf("messages %+v", e.Messages)
	}
	if _, err := Decode([]byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}`)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a required field is missing: error %v", err)
	}
}

func TestDecodeLegacy(t *testing.T) {
	for _, c := range []struct{ raw, notes string }{
		{`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n","parentMessageId":null}`, "legacy-converted /parentMessageId"},
		{`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":null,"result":null,"rawEvent":null}`, "legacy-converted /outcome; legacy-converted /result; legacy-converted /rawEvent"},
		{`{"type":"THINKING_START","title":"hm","messageId":5}`, "legacy-converted ; title-dropped /title"},
	} {
		if got := codes(decode(t, false, c.raw)); got != c.notes {
			t.Errorf("%s: notes %q, want %q", c.raw, got, c.notes)
		}
	}
	e := decode(t, false, `{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","id":"m","content":[
		{"type":"image","source":{"type":"url","value":"u","mimeType":"image/png"},"metadata":null},
		{"type":"binary","mimeType":"image/png","url":"u","data":""},
		{"type":"binary","mimeType":"text/plain","data":"d","filename":"f"},
		{"type":"binary","mimeType":"text/plain","id":"x"}]}]}`)
	got := e.Messages[0].Content.JSON().String()
	want := `[{"type":"image","source":{"type":"url","value":"u","mimeType":"image/png"}},{"type":"document","source":{"type":"data","value":"d","mimeType":"text/plain"},"metadata":{"filename":"f"}}]`
	if got != want {
		t.Errorf("parts %s, want %s", got, want)
	}
}

func TestThinkingNames(t *testing.T) {
	var thinking Thinking
	n := 0
	mint := func() string { n++; return string(rune('a' + n - 1)) }
	var got []string
	for _, kind := range []Type{TypeThinkingTextMessageContent, TypeThinkingStart, TypeThinkingTextMessageStart, TypeThinkingTextMessageContent, TypeThinkingTextMessageEnd, TypeThinkingEnd, TypeThinkingEnd} {
		e := decode(t, false, `{"type":"`+string(kind)+`","delta":"d"}`)
		thinking.Name(e, mint)
		got = append(got, e.MessageID.V)
	}
	if want := []string{"a", "b", "c", "c", "c", "b", "d"}; !slices.Equal(got, want) {
		t.Errorf("named %v, want %v", got, want)
	}
}

// FuzzDecode: no bytes panic; what is accepted strictly is accepted leniently;
// messages that were read are read again as they are printed; reading takes
// memory in proportion to the bytes.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"role":"user","id":"m","content":[{"type":"binary","mimeType":"image/png","url":"u"}]}]}`,
		`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"i","status":"resolved"}]}}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"r"}]}}`,
		`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}`, `{"type":"THINKING_START"}`,
		`{"delta":"\u00e9\n","subagentRunId":"","toolCallId":"\"c","type":"TOOL_CALL_ARGS"}`,
		` { "type" : "REASONING_MESSAGE_CONTENT" , "messageId" : "" , "delta" : "" } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var strict, lenient Event
		var strictErr, lenientErr error
		if got := allocated(func() {
			strictErr = new(Decoder).Decode(raw, &strict)
			lenientErr = (&Decoder{Lenient: true}).Decode(raw, &lenient)
		}); got > 64<<10+1000*uint64(len(raw)) {
			t.Fatalf("%d bytes took %d", len(raw), got)
		}
		var slow Event
		if err := new(Decoder).any(raw, &slow); (err == nil) != (strictErr == nil) || err == nil && !reflect.DeepEqual(slow, strict) {
			t.Fatalf("%q: as a delta %+v, %v, as any event %+v, %v", raw, strict, strictErr, slow, err)
		}
		var quick Delta
		if new(Decoder).Delta(raw, &quick) {
			same := string(quick.Text) == strict.Delta.V && string(quick.SubagentRunID) == strict.SubagentRunID.V &&
				string(quick.ID) == strict.MessageID.V+strict.ToolCallID.V && quick.Type == strict.Type
			if strictErr != nil || !same || (quick.SubagentRunID != nil) != strict.SubagentRunID.Set {
				t.Fatalf("%q: as a delta %+v, as any event %+v, %v", raw, quick, strict, strictErr)
			}
		}
		if strictErr == nil && lenientErr != nil {
			t.Fatalf("%q: accepted strictly, but leniently %v", raw, lenientErr)
		}
		for i := range strict.Messages {
			text := strict.Messages[i].AppendJSON(nil)
			again, err := DecodeMessage(text)
			if err != nil || string(again.AppendJSON(nil)) != string(text) {
				t.Fatalf("%s is read as %s, %v", text, again.AppendJSON(nil), err)
			}
		}
		var h Header
		if err := ReadHeader(raw, &h); (err == nil) != !errors.Is(strictErr, ErrInvalidEvent) && h.Type != "" {
			t.Fatalf("%q: the header says %v, the decoder %v", raw, err, strictErr)
		}
	})
}
