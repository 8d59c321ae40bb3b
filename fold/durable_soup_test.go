package fold_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// Words of a small alphabet: ids of messages and calls are the same few, so
// that everything meets everything.
var soupIDs = []string{"x", "y", "x~text", "x~tool", "y~2"}

// soupEvent draws an event out of any order.
func soupEvent(t *rapid.T) string {
	id := func() string { return rapid.SampledFrom(soupIDs).Draw(t, "id") }
	opt := func(member, value string) string {
		if rapid.Bool().Draw(t, member) {
			return fmt.Sprintf(`,%q:%s`, member, value)
		}
		return ""
	}
	word := func() string {
		return rapid.SampledFrom([]string{`"a"`, `"b"`, `"\ud83c"`, `"\udf45"`, `""`}).Draw(t, "word")
	}
	metadata := opt("metadata", `{"k":`+word()+`}`)
	tag := opt("subagentRunId", `"s"`)
	common := metadata + tag
	switch rapid.IntRange(0, 24).Draw(t, "event") {
	case 0:
		run := rapid.SampledFrom([]string{"r", "q"}).Draw(t, "run")
		return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":%q%s%s}`, run,
			opt("parentRunId", `"r"`),
			opt("input", `{"threadId":"t","runId":"r","messages":[`+soupMessages(t)+`],"tools":[],"context":[]`+
				opt("state", `{"n":1}`)+opt("resume", `[{"interruptId":"i","status":"resolved"}]`)+`}`))
	case 1:
		outcome := rapid.SampledFrom([]string{
			`{"type":"success"}`, `{"type":"cancelled"}`, `{"type":"odd"}`,
			`{"type":"interrupt","interrupts":[{"id":"i","reason":"q"},{"id":"j","reason":"q"}]}`,
		}).Draw(t, "outcome")
		return `{"type":"RUN_FINISHED","threadId":"t"` + opt("runId", `"r"`) + opt("outcome", outcome) + `}`
	case 2:
		return `{"type":"RUN_ERROR","message":"no"}`
	case 3, 4:
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":%q%s%s}`, id(), opt("role", `"user"`), common)
	case 5, 6:
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":%s%s}`, id(), word(), common)
	case 7:
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":%q%s}`, id(), common)
	case 8:
		return fmt.Sprintf(`{"type":"REASONING_MESSAGE_START","messageId":%q,"role":"reasoning"%s}`, id(), common)
	case 9:
		return fmt.Sprintf(`{"type":"REASONING_MESSAGE_CONTENT","messageId":%q,"delta":%s%s}`, id(), word(), common)
	case 10:
		return fmt.Sprintf(`{"type":"REASONING_MESSAGE_END","messageId":%q%s}`, id(), common)
	case 11, 12:
		return fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":%q,"toolCallName":"f"%s%s}`, id(),
			opt("parentMessageId", fmt.Sprintf("%q", id())), common)
	case 13:
		return fmt.Sprintf(`{"type":"TOOL_CALL_ARGS","toolCallId":%q,"delta":%s%s}`, id(), word(), common)
	case 14:
		return fmt.Sprintf(`{"type":"TOOL_CALL_END","toolCallId":%q%s}`, id(), common)
	case 15, 16:
		return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":%q,"toolCallId":%q,"content":%s%s}`, id(), id(), word(), common)
	case 17:
		return `{"type":"MESSAGES_SNAPSHOT","messages":[` + soupMessages(t) + `]` + metadata + `}`
	case 18:
		return fmt.Sprintf(`{"type":"ACTIVITY_SNAPSHOT","messageId":%q,"activityType":"A","content":{"n":1}%s%s}`, id(),
			opt("replace", `false`), common)
	case 19:
		return fmt.Sprintf(`{"type":"ACTIVITY_DELTA","messageId":%q,"activityType":"B","patch":%s}`, id(), soupPatch(t))
	case 20:
		return `{"type":"STATE_DELTA","delta":` + soupPatch(t) + common + `}`
	case 21:
		kind := rapid.SampledFrom([]string{"message", "tool-call"}).Draw(t, "subtype")
		return fmt.Sprintf(`{"type":"REASONING_ENCRYPTED_VALUE","subtype":%q,"entityId":%q,"encryptedValue":%s}`, kind, id(), word())
	case 22:
		chunk := rapid.SampledFrom([]string{"TEXT_MESSAGE_CHUNK", "REASONING_MESSAGE_CHUNK"}).Draw(t, "chunk")
		return fmt.Sprintf(`{"type":%q%s%s%s}`, chunk, opt("messageId", fmt.Sprintf("%q", id())), opt("delta", word()), common)
	case 23:
		return fmt.Sprintf(`{"type":"TOOL_CALL_CHUNK"%s%s%s%s}`, opt("toolCallId", fmt.Sprintf("%q", id())),
			opt("toolCallName", `"g"`), opt("delta", word()), common)
	}
	return rapid.SampledFrom([]string{
		`{"type":"CUSTOM","name":"on_interrupt","value":1}`, `{"type":"RAW","event":{}}`, `{"type":"NEWS"}`, `{"type":"TEXT_MESSAGE_END"}`, `{`,
		`{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"STEP_FINISHED","stepName":"s"}`,
		`{"type":"SUBAGENT_STARTED","subagentRunId":"s","name":"n"}`, `{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}`,
		`{"type":"STATE_SNAPSHOT","snapshot":{"n":[1,2]}}`,
		`{"type":"THINKING_TEXT_MESSAGE_START"}`, `{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"c"}`, `{"type":"THINKING_TEXT_MESSAGE_END"}`,
	}).Draw(t, "other")
}

func soupMessages(t *rapid.T) string {
	list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		id := rapid.SampledFrom(soupIDs).Draw(t, "id")
		call := rapid.SampledFrom(soupIDs).Draw(t, "call")
		return rapid.SampledFrom([]string{
			fmt.Sprintf(`{"id":%q,"role":"user","content":[{"type":"text","text":"p"}]}`, id),
			fmt.Sprintf(`{"id":%q,"role":"assistant","content":"m"}`, id),
			fmt.Sprintf(`{"id":%q,"role":"assistant","toolCalls":[{"id":%q,"type":"function","function":{"name":"f","arguments":"1"}},{"id":"x","type":"function","function":{"name":"f","arguments":"2"}}]}`, id, call),
			fmt.Sprintf(`{"id":%q,"role":"tool","toolCallId":%q,"content":"r"}`, id, call),
			fmt.Sprintf(`{"id":%q,"role":"reasoning","content":"t"}`, id),
			fmt.Sprintf(`{"id":%q,"role":"activity","activityType":"A","content":{}}`, id),
			fmt.Sprintf(`{"id":%q,"role":"ghost"}`, id),
		}).Draw(t, "message")
	}), 0, 4).Draw(t, "messages")
	return strings.Join(list, ",")
}

func soupPatch(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		`[{"op":"add","path":"/a","value":1}]`, `[{"op":"add","path":"/n/-","value":3},{"op":"remove","path":"/m"}]`,
		`[{"op":"replace","path":"","value":[]}]`, `[{"op":"move","from":"/n","path":"/m"},{"op":"odd"}]`,
	}).Draw(t, "patch")
}

func soup(t *rapid.T) [][]byte {
	events := rapid.SliceOfN(rapid.Custom(soupEvent), 1, 60).Draw(t, "events")
	out := [][]byte{[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)}
	for _, e := range events {
		out = append(out, []byte(e))
	}
	return out
}

// whole wants of a view what must hold whatever was folded.
func whole(t testing.TB, v *fold.View) {
	t.Helper()
	ids := make(map[string]bool)
	for i := range v.Messages {
		m := &v.Messages[i]
		if ids[m.ID] {
			t.Fatalf("two messages have the id %q", m.ID)
		}
		ids[m.ID] = true
		if m.Role == agui.RoleActivity && m.Content.Kind != agui.ObjectContent {
			t.Fatalf("the content of activity %q is no object", m.ID)
		}
	}
	parse(t, v.AppendJSON(nil))
}

// Any soup folds, and folding on from any point is folding from the beginning.
// Views that were taken on the way stay what they were.
func TestSoup(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := soup(rt)
		tracker := agui.NewTracker(nil, agui.RunKey{})
		once, often := fold.New(fold.Options{}), fold.New(fold.Options{})
		type taken struct {
			view *fold.View
			text []byte
		}
		var views []taken
		for i, line := range lines {
			r := fold.Record{Seq: uint64(i) + 1, Raw: line}
			var h agui.Header
			if agui.ReadHeader(line, &h) == nil {
				a := tracker.Assign(&h, r.Seq, agui.Claim{})
				r.Run, r.Echo, r.UnknownParent = a.Run, a.Echo, a.UnknownParent
			}
			once.Apply(r)
			r.Raw = slices.Clone(line)
			often.Apply(r)
			clear(r.Raw) // a fold keeps no hold on a record
			v := often.View()
			whole(t, v)
			if err := fold.CheckDurable(often); err != nil {
				rt.Fatalf("after event %d: %v", r.Seq, err)
			}
			views = append(views, taken{v, v.AppendJSON(nil)})
		}
		if a, b := once.View().AppendJSON(nil), views[len(views)-1].text; !bytes.Equal(a, b) {
			rt.Fatalf("from the beginning:\n%s\nwith views on the way:\n%s", a, b)
		}
		for i, v := range views {
			if now := v.view.AppendJSON(nil); !bytes.Equal(now, v.text) {
				rt.Fatalf("the view at %d has changed from\n%s\nto\n%s", i+1, v.text, now)
			}
		}
	})
}

// What is said into an open message is there afterwards, in order, whatever
// else happens in between.
func TestSoupLosesNoWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := soup(rt)
		said := []string{`{"type":"TEXT_MESSAGE_START","messageId":"mine"}`}
		for i := range 5 {
			said = append(said, fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"mine","delta":"%d"}`, i))
		}
		// The soup's own runs must not close it in between: no frames.
		lines = slices.DeleteFunc(lines, func(line []byte) bool {
			return bytes.Contains(line, []byte(`"type":"RUN_`))
		})
		for _, event := range said {
			at, last := rapid.IntRange(0, len(lines)).Draw(rt, "at"), -1
			for i, line := range lines {
				if bytes.Contains(line, []byte(`"mine"`)) {
					last = i
				}
			}
			lines = slices.Insert(lines, max(at, last+1), []byte(event))
		}
		lines = slices.Insert(lines, 0, []byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`))
		v := fold.Stream(slices.Values(lines), fold.Options{}, 0)
		for i := range v.Messages {
			if m := &v.Messages[i]; m.ID == "mine" {
				// Chunks that name nothing may have added letters of theirs.
				if said := regexp.MustCompile("[^0-9]").ReplaceAllString(m.Content.Text, ""); said != "01234" {
					rt.Fatalf("what is left of the words: %q", m.Content.Text)
				}
				return
			}
		}
		rt.Fatal("the message is gone")
	})
}

// FuzzDurable: no stream panics or costs more than its length allows, every view
// is whole, and event by event a stream comes to what it comes to at once.
func FuzzDurable(f *testing.F) {
	f.Add([]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}
{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"\ud83c"}
{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"a"}
{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"a","role":"assistant","content":null,"toolCalls":[]}]}
{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c","content":[{"type":"text","text":"x"}]}
{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"q"}]}}`))
	f.Add([]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":[{"id":"u","role":"user","content":"x"}],"state":[1]}}
{"type":"STATE_DELTA","delta":[{"op":"add","path":"/-","value":{"a":1e400}}]}
{"type":"ACTIVITY_SNAPSHOT","messageId":"u","activityType":"A","content":{}}
{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"u","encryptedValue":"e"}
{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"y"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		lines := bytes.Split(raw, []byte("\n"))
		var v *fold.View
		bounded(t, raw, func() { v = fold.Stream(slices.Values(lines), fold.Options{}, 0) })
		whole(t, v)
		// Folding on is folding from the beginning.
		for prefix := range fold.Prefixes(slices.Values(lines), fold.Options{}) {
			v = prefix
		}
		if got, want := string(shownView(v)), string(shownView(fold.Stream(slices.Values(lines), fold.Options{}, 0))); got != want {
			t.Fatalf("event by event\n%s\nat once\n%s", got, want)
		}
	})
}
