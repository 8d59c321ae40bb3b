package agui

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore/internal/jsonvalue"
)

// The parts of described are what SEMANTICS E-7 describes, with every field. A
// name with ? may be left out, one with ! is never looked into (E-5).
const (
	textPartDescribed  = `{"type":"text","text":"t","id?":"p","metadata?!":[null]}`
	mediaPartDescribed = `{"type":"image","source":{"type":"data","value":"v","mimeType":"image/png"},"id?":"p","metadata?!":{"a":null}},
		{"type":"audio","source":{"type":"url","value":"v","mimeType?":"audio/mp3"}},
		{"type":"document","source":{"type":"file","value":"v","provider?":"p","mimeType?":"text/plain"}},
		{"type":"video","source":{"type":"url","value":"v"}}`
	partsDescribed    = `[` + textPartDescribed + `,` + mediaPartDescribed + `]`
	messageDescribed  = `"subagentRunId?":"s","metadata?!":{"k":null}`
	callDescribed     = `{"id":"c","type":"function","function":{"name":"f","arguments":"{"},"encryptedValue?":"e","metadata?!":{"m":1}}`
	messagesDescribed = `[
		{"id":"1","role":"developer","content":"c","name?":"n","encryptedValue?":"e",` + messageDescribed + `},
		{"id":"2","role":"system","content":"c","name?":"n","encryptedValue?":"e",` + messageDescribed + `},
		{"id":"3","role":"assistant","content?":"c","name?":"n","toolCalls?":[` + callDescribed + `],"encryptedValue?":"e",` + messageDescribed + `},
		{"id":"4","role":"user","content":` + partsDescribed + `,"name?":"n","encryptedValue?":"e",` + messageDescribed + `},
		{"id":"5","role":"tool","content":` + partsDescribed + `,"toolCallId":"c","error?":"e","encryptedValue?":"e",` + messageDescribed + `},
		{"id":"6","role":"activity","activityType":"A","content!":{"n":null},` + messageDescribed + `},
		{"id":"7","role":"reasoning","content":"c","encryptedValue?":"e",` + messageDescribed + `}]`
	usageDescribed = `[{"provider?":"p","model?":"m","inputTokens?":1,"outputTokens?":2,"totalTokens?":3,"reasoningTokens?":4,"cachedInputTokens?":5,"cacheWriteInputTokens?":9007199254740991}]`
	inputDescribed = `{"threadId":"t","runId":"r","messages":` + messagesDescribed + `,"protocolVersion?":"1.0","parentRunId?":"p","state?!":{"s":null},
		"tools?":[{"name":"n","description":"d","parameters?!":{"p":null},"metadata?!":{}}],"context?":[{"description":"d","value":"v"}],
		"forwardedProps?!":[null],"resume?":[{"interruptId":"i","status":"resolved","payload?!":{"x":null},"metadata?!":{}}]}`
	interruptDescribed = `{"id":"i","reason":"r","message?":"m","toolCallId?":"c","responseSchema?!":{"x":null},"expiresAt?":"e","metadata?!":{},"subagentRunId?":"s"}`
	patchDescribed     = `[{"op":"add","path":"/a","value!":null},{"op":"move","from":"/a","path":"/b"}]`
)

// described has an event of every type.
var described = []string{
	`{"type":"TEXT_MESSAGE_START","messageId":"m","role?":"user","name?":"n"}`,
	`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"d"}`,
	`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
	`{"type":"TEXT_MESSAGE_CHUNK","messageId?":"m","role?":"system","delta?":"d","name?":"n"}`,
	`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId?":"m"}`,
	`{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"d"}`,
	`{"type":"TOOL_CALL_END","toolCallId":"c"}`,
	`{"type":"TOOL_CALL_CHUNK","toolCallId?":"c","toolCallName?":"f","parentMessageId?":"m","delta?":"d"}`,
	`{"type":"TOOL_CALL_RESULT","messageId":"m","toolCallId":"c","content":` + partsDescribed + `,"role?":"tool"}`,
	`{"type":"STATE_SNAPSHOT","snapshot!":null}`,
	`{"type":"STATE_DELTA","delta":` + patchDescribed + `}`,
	`{"type":"MESSAGES_SNAPSHOT","messages":` + messagesDescribed + `}`,
	`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"A","content!":{"a":null},"replace?":false}`,
	`{"type":"ACTIVITY_DELTA","messageId":"m","activityType":"A","patch":` + patchDescribed + `}`,
	`{"type":"RAW","event!":null,"source?":"s"}`,
	`{"type":"CUSTOM","name":"n","value!":null}`,
	`{"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion?":"1.0","parentRunId?":"p","input?":` + inputDescribed + `}`,
	`{"type":"RUN_FINISHED","threadId":"t","runId":"r","result?!":{"r":null},"outcome?":{"type":"success","pendingToolCallIds?":["c"]},"usage?":` + usageDescribed + `}`,
	`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome?":{"type":"interrupt","interrupts":[` + interruptDescribed + `]}}`,
	`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome?":{"type":"cancelled"}}`,
	`{"type":"RUN_ERROR","message":"m","code?":"c","usage?":` + usageDescribed + `}`,
	`{"type":"STEP_STARTED","stepName":"p"}`,
	`{"type":"STEP_FINISHED","stepName":"p"}`,
	`{"type":"REASONING_START","messageId":"m"}`,
	`{"type":"REASONING_END","messageId":"m"}`,
	`{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`,
	`{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"d"}`,
	`{"type":"REASONING_MESSAGE_END","messageId":"m"}`,
	`{"type":"REASONING_MESSAGE_CHUNK","messageId?":"m","delta?":"d"}`,
	`{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c","encryptedValue":"e"}`,
	`{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n","description?":"d","parentSubagentRunId?":"p","parentToolCallId?":"c","parentMessageId?":"m"}`,
	`{"type":"SUBAGENT_FINISHED","subagentRunId":"s","result?!":[null],"outcome?":{"type":"suspended","interruptIds?":["i"]}}`,
	`{"type":"SUBAGENT_ERROR","subagentRunId":"s","message":"m","code?":"c"}`,
}

// member is a place in a described event.
type memberPlace struct {
	path     string // JSON Pointer
	optional bool
	object   bool // an object whose members are described, whatever holds it
}

// change says what to make of the member at a path: as it is, or changed, or
// left out if the result is absent.
type change func(path string, v Value) Value

func same(_ string, v Value) Value { return v }

// rewrite makes an event of a described one, changed, and lists its places.
func rewrite(v Value, path string, c change, places *[]memberPlace) Value {
	switch v.Kind() {
	case jsonvalue.Object:
		*places = append(*places, memberPlace{path: path, object: true})
		var out []jsonvalue.Member
		for name, item := range v.Members() {
			plain := strings.TrimRight(name, "?!")
			at := path + "/" + plain
			*places = append(*places, memberPlace{path: at, optional: strings.Contains(name, "?")})
			if !strings.Contains(name, "!") {
				item = rewrite(item, at, c, places)
			}
			if item = c(at, item); item.Present() {
				out = append(out, jsonvalue.Member{Name: plain, Value: item})
			}
		}
		return c(path+"/", jsonvalue.NewObject(out...))
	case jsonvalue.List:
		out := make([]Value, 0, v.Len())
		for i, item := range v.Items() {
			out = append(out, rewrite(item, path+"/"+string(rune('0'+i)), c, places))
		}
		return jsonvalue.NewList(out...)
	}
	return v
}

// describedEvents yields the described events, with what all of them may have.
func describedEvents(t *testing.T, check func(name string, make func(c change) (raw string, places []memberPlace))) {
	t.Helper()
	for _, text := range described {
		v, err := jsonvalue.Parse([]byte(text), MaxNesting)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		name, _ := v.GetText("type")
		text = strings.TrimSuffix(text, "}") + `,"timestamp?":5,"rawEvent?!":{"a":null},"metadata?!":{"k":null}`
		switch Type(name) {
		case TypeRunStarted, TypeRunFinished, TypeRunError, TypeMessagesSnapshot:
		default:
			if !strings.Contains(text, `"subagentRunId":`) {
				text += `,"subagentRunId?":"s"`
			}
		}
		if v, err = jsonvalue.Parse([]byte(text+"}"), MaxNesting); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		check(name, func(c change) (string, []memberPlace) {
			var places []memberPlace
			return rewrite(v, "", c, &places).String(), places
		})
	}
}

// nullForgiven reports whether null stands for nothing in an optional field also
// for the official client (SEMANTICS C-7 to C-9).
func nullForgiven(t Type, path string) bool {
	last := path[strings.LastIndex(path, "/")+1:]
	switch {
	case path == "/rawEvent", path == "/input/state":
		return true
	case path == "/parentMessageId":
		return t == TypeToolCallStart || t == TypeToolCallChunk
	case path == "/result":
		return t == TypeRunFinished || t == TypeSubagentFinished
	case path == "/outcome":
		return t == TypeRunFinished
	case path == "/input/forwardedProps":
		return true
	case strings.HasPrefix(path, "/input/tools/"):
		return last == "parameters"
	case strings.HasPrefix(path, "/input/resume/"):
		return last == "payload"
	case last == "metadata" && strings.Contains(path, "/messages/") && strings.Contains(path, "/content/"):
		return !strings.HasSuffix(path, "/content/0/metadata") // that of the text
	}
	return false
}

func withoutNotes(e *Event) *Event {
	out := *e
	out.Notes, out.left = nil, nil
	return &out
}

// Every field of every event is read, strictly and leniently the same, and none
// is missed; a required one that is missing is missed; null in an optional one is
// what C-7 to C-10 and R10 say; what is not described is left out and said to be.
func TestEveryField(t *testing.T) {
	seen := map[Type]bool{}
	describedEvents(t, func(name string, event func(change) (string, []memberPlace)) {
		seen[Type(name)] = true
		raw, places := event(same)
		full := decode(t, false, raw)
		if codes(full) != "" {
			t.Errorf("%s: notes %s", raw, codes(full))
		}
		if lenient := decode(t, true, raw); !reflect.DeepEqual(lenient, full) {
			t.Errorf("%s: leniently %+v, strictly %+v", raw, lenient, full)
		}
		for _, p := range places {
			if p.object {
				checkUndescribed(t, event, p.path, full)
				continue
			}
			if p.path != "/type" && !strings.HasSuffix(p.path, "/type") && !strings.HasSuffix(p.path, "/role") && !strings.Contains(p.path, "/op") {
				checkMember(t, Type(name), event, p, full)
			}
		}
	})
	for _, known := range Types() {
		if !seen[known] {
			t.Errorf("%s is not described here", known)
		}
	}
}

func checkUndescribed(t *testing.T, event func(change) (string, []memberPlace), at string, full *Event) {
	t.Helper()
	raw, _ := event(func(path string, v Value) Value {
		if path != at+"/" {
			return v
		}
		return jsonvalue.NewObject(append([]jsonvalue.Member{{Name: "undescribed", Value: jsonvalue.NewNull()}}, membersOf(v)...)...)
	})
	e := decode(t, false, raw)
	want := "material-removed " + at + "/undescribed"
	if strings.HasPrefix(at, "/delta/") || strings.HasPrefix(at, "/patch/") {
		want = "" // E-6
	}
	if got := codes(e); got != want || !reflect.DeepEqual(withoutNotes(e), withoutNotes(full)) {
		t.Errorf("%s: notes %q, want %q; read %+v", raw, got, want, e)
	}
}

func membersOf(v Value) []jsonvalue.Member {
	var out []jsonvalue.Member
	for name, item := range v.Members() {
		out = append(out, jsonvalue.Member{Name: name, Value: item})
	}
	return out
}

func checkMember(t *testing.T, kind Type, event func(change) (string, []memberPlace), p memberPlace, full *Event) {
	t.Helper()
	put := func(with Value) string {
		raw, _ := event(func(path string, v Value) Value {
			if path == p.path {
				return with
			}
			return v
		})
		return raw
	}
	missing, null := put(Value{}), put(jsonvalue.NewNull())
	absent, err := Decode([]byte(missing))
	if !p.optional {
		bad, ok := errors.AsType[*MalformedError](err)
		if !ok || !strings.HasPrefix(p.path, bad.Field) {
			t.Errorf("%s: error %v, want one about %s", missing, err, p.path)
		}
		return
	}
	if err != nil || reflect.DeepEqual(withoutNotes(absent), withoutNotes(full)) {
		t.Errorf("%s: %v; or nothing has ever read it", missing, err)
		return
	}
	nulled, err := Decode([]byte(null))
	switch {
	case p.path == "/input/state":
		if err != nil || !nulled.Input.State.IsNull() {
			t.Errorf("%s: %v", null, err)
		}
		return
	case nullForgiven(kind, p.path):
		if err != nil || codes(nulled) != "legacy-converted "+p.path || !reflect.DeepEqual(withoutNotes(nulled), withoutNotes(absent)) {
			t.Errorf("%s: %v, notes %s", null, err, codes(nulled))
		}
	default:
		if bad, ok := errors.AsType[*MalformedError](err); !ok || bad.Field != p.path {
			t.Errorf("%s: error %v, want one about %s", null, err, p.path)
		}
	}
	if lenient := decode(t, true, null); !reflect.DeepEqual(withoutNotes(lenient), withoutNotes(absent)) {
		t.Errorf("%s: leniently %+v, want what is read without the field", null, lenient)
	}
}

// What the protocol keeps of a message comes out again, member for member.
func TestMessagesAreLossless(t *testing.T) {
	describedEvents(t, func(_ string, event func(change) (string, []memberPlace)) {
		raw, _ := event(same)
		v, err := jsonvalue.Parse([]byte(raw), MaxNesting)
		if err != nil {
			t.Fatal(err)
		}
		e := decode(t, false, raw)
		want := v.Get("messages")
		got := e.Messages
		if e.Input != nil {
			want, got = v.Get("input").Get("messages"), e.Input.Messages
		}
		if len(got) != want.Len() {
			t.Fatalf("%d messages, want %d", len(got), want.Len())
		}
		for i, m := range want.Items() {
			if a, b := string(got[i].JSON().AppendCanonical(nil)), string(m.AppendCanonical(nil)); a != b {
				t.Errorf("%s\ncame back as\n%s", b, a)
			}
		}
		if e.Outcome != nil && e.Outcome.Type == OutcomeInterrupt {
			in := slices.Collect(func(yield func(Value) bool) {
				for _, in := range v.Get("outcome").Get("interrupts").Items() {
					if !yield(in) {
						return
					}
				}
			})[0]
			if a, b := string(e.Outcome.Interrupts[0].JSON().AppendCanonical(nil)), string(in.AppendCanonical(nil)); a != b {
				t.Errorf("%s\ncame back as\n%s", b, a)
			}
		}
		for i, u := range v.Get("usage").Items() {
			if a, b := string(e.Usage[i].JSON().AppendCanonical(nil)), string(u.AppendCanonical(nil)); a != b {
				t.Errorf("%s\ncame back as\n%s", b, a)
			}
		}
		if e.Input != nil {
			for i, r := range v.Get("input").Get("resume").Items() {
				if a, b := string(e.Input.Resume[i].JSON().AppendCanonical(nil)), string(r.AppendCanonical(nil)); a != b {
					t.Errorf("%s\ncame back as\n%s", b, a)
				}
			}
		}
	})
}
