package agui_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
)

// redactAll redacts a message in a stream and gives what each event became.
func redactAll(t *testing.T, message string, events ...string) []string {
	t.Helper()
	r := agui.NewRedactor(message)
	var out []string
	for _, e := range events {
		var h agui.Header
		if err := agui.ReadHeader([]byte(e), &h); err != nil {
			t.Fatal(err)
		}
		got, err := r.Redact(&h, agui.RunKey{ID: "r", Attempt: 1}, []byte(e))
		if err != nil {
			t.Fatal(err)
		}
		if got == nil {
			got = []byte(e)
		}
		if err := agui.ReadHeader(got, new(agui.Header)); err != nil {
			t.Fatalf("%s became %s: %v", e, got, err)
		}
		out = append(out, string(got))
	}
	return out
}

// Each pair is an event and what it becomes when message m is redacted.
func TestRedactor(t *testing.T) {
	const same = ""
	args := `"{\"redacted\":true}"`
	for name, pairs := range map[string][][2]string{
		"text": {
			{`{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`, same},
			{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a","rawEvent":{"x":"a"}}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"[redacted]"}`},
			{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"other","delta":"a"}`, same},
			{`{"type":"TEXT_MESSAGE_CONTENT","delta":"b","messageId":"m"}`, `{"type":"TEXT_MESSAGE_CONTENT","delta":"","messageId":"m"}`},
			{`{"type":"TEXT_MESSAGE_END","messageId":"m","metadata":{"all":"ab"}}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`},
		},
		"again in another run": {
			{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"[redacted]"}`},
			{`{"type":"RUN_STARTED","runId":"r2","input":{"messages":[]}}`, same},
			{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"a"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"[redacted]"}`},
		},
		"chunks without a name": {
			{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"user","delta":"a"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","role":"user","delta":"[redacted]"}`},
			{`{"type":"TEXT_MESSAGE_CHUNK","delta":"b"}`, `{"type":"TEXT_MESSAGE_CHUNK","delta":""}`},
			{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":"c"}`, same},
			{`{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}`, same},
		},
		"calls": {
			{`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"m"}`, same},
			{`{"type":"TOOL_CALL_START","toolCallId":"d","toolCallName":"f","parentMessageId":"n"}`, same},
			{`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{\"a"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":` + args + `}`},
			{`{"type":"TOOL_CALL_ARGS","toolCallId":"d","delta":"{\"a"}`, same},
			{`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"\":1}"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":""}`},
			{`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c","encryptedValue":"zzz"}`, `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c","encryptedValue":"[redacted]"}`},
			{`{"type":"TOOL_CALL_RESULT","messageId":"res","toolCallId":"c","content":"kept"}`, same},
			{`{"type":"TOOL_CALL_START","toolCallId":"m","toolCallName":"f"}`, same},
			{`{"type":"TOOL_CALL_ARGS","toolCallId":"m","delta":"{}"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"m","delta":` + args + `}`},
		},
		"result": {
			{`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","role":"tool","content":"x"}`, `{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","role":"tool","content":"[redacted]"}`},
		},
		"activity": {
			{`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"PLAN","content":{"a":1}}`, `{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"PLAN","content":{"redacted":true}}`},
			{`{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"PLAN","patch":[{"op":"add","path":"/b","value":2}]}`, `{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"PLAN","patch":[]}`},
		},
		"lists": {
			{
				`{"type":"MESSAGES_SNAPSHOT", "messages":[ {"id":"k","role":"user","content":"k\u0041"} , {"id":"m","role":"assistant","content":"x","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"q\":1}"}}],"encryptedValue":"z"}],"rawEvent":{"x":1}}`,
				`{"type":"MESSAGES_SNAPSHOT", "messages":[ {"id":"k","role":"user","content":"k\u0041"} , {"id":"m","role":"assistant","content":"[redacted]","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":` + args + `}}]}],"rawEvent":"[redacted]"}`,
			},
			{`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"k","role":"user","content":"k"}],"rawEvent":{"x":1}}`, same},
			{
				`{"type":"RUN_STARTED","runId":"r","input":{"state":{"id":"m"},"messages":[{"role":"user","content":[{"type":"text","text":"x"}],"id":"m"}]}}`,
				`{"type":"RUN_STARTED","runId":"r","input":{"state":{"id":"m"},"messages":[{"role":"user","content":"[redacted]","id":"m"}]}}`,
			},
			{`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":` + args + `}`},
		},
		"others": {
			{`{"type":"CUSTOM","name":"x","value":"m","messageId":"m"}`, same},
			{`{"type":"STATE_SNAPSHOT","snapshot":{"messageId":"m"}}`, same},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var events []string
			for _, p := range pairs {
				events = append(events, p[0])
			}
			once := redactAll(t, "m", events...)
			for i, p := range pairs {
				want := p[1]
				if want == same {
					want = p[0]
				}
				if once[i] != want {
					t.Errorf("%s\n got %s\nwant %s", p[0], once[i], want)
				}
			}
			if twice := redactAll(t, "m", once...); fmt.Sprint(twice) != fmt.Sprint(once) {
				t.Errorf("twice: %s", strings.Join(twice, "\n"))
			}
		})
	}
}

// Whatever an event is, what becomes of it is an event of the same type and ids.
func FuzzRedactor(f *testing.F) {
	f.Add(`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m"},[{}],null],"messages":3}`)
	f.Add(`{"type":"RUN_STARTED","input":{"messages":{"id":"m"}},"input":[]}`)
	f.Add(`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","parentMessageId":"m","delta":null}`)
	f.Fuzz(func(t *testing.T, event string) {
		var before, after agui.Header
		if agui.ReadHeader([]byte(event), &before) != nil {
			t.Skip("no event")
		}
		r := agui.NewRedactor("m")
		out, err := r.Redact(&before, agui.RunKey{}, []byte(event))
		if err != nil {
			t.Fatal(err)
		}
		if out == nil {
			return
		}
		if err := agui.ReadHeader(out, &after); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		same := before.Type == after.Type
		for _, pair := range [][2][]byte{{before.MessageID, after.MessageID}, {before.ToolCallID, after.ToolCallID}, {before.ParentMessageID, after.ParentMessageID}, {before.RunID, after.RunID}} {
			same = same && string(pair[0]) == string(pair[1]) && (pair[0] == nil) == (pair[1] == nil)
		}
		if !same {
			t.Errorf("%s became %s", event, out)
		}
	})
}
