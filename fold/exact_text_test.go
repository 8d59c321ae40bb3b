package fold

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
)

// Both profiles give back every string code unit by code unit, and every number
// as it was written.
func TestTextIsExact(t *testing.T) {
	for _, c := range []struct {
		name   string
		deltas []string // as JSON strings
		want   string   // as one JSON string
	}{
		{"a pair in two deltas", []string{`"x\ud83c"`, `"\udf89y"`}, "\"x🎉y\""},
		{"a pair in two deltas with nothing between", []string{`"\uD83C"`, `""`, `"\uDF89"`}, `"🎉"`},
		{"lone surrogates", []string{`"\ud83c"`, `"-\udf89"`, `"\ud83c"`}, `"\ud83c-\udf89\ud83c"`},
		{"halves in the wrong order", []string{`"\udf89"`, `"\ud83c"`}, `"\udf89\ud83c"`},
		{"two first halves and a second", []string{`"\ud83c\ud83c"`, `"\udf89"`}, `"\ud83c🎉"`},
		{"NUL", []string{`"a\u0000"`, `"\u0000b"`}, `"a\u0000\u0000b"`},
		{"U+2028 and U+2029, written and escaped", []string{"\"\u2028\"", `"\u2029\u2028"`}, "\"\u2028\u2029\u2028\""},
		{"controls, quotes, slashes", []string{`"\b\f\n\r\t\u001f\u007f"`, `"\"\\\/"`}, "\"\\b\\f\\n\\r\\t\\u001f\u007f\\\"\\\\/\""},
		{"nothing is normalised", []string{`"e"`, "\"\u0301\"", `"\u00e9\ufeff\ufffe\ufffd"`}, "\"e\u0301é\ufeff\ufffe\ufffd\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachProfile(t, func(t *testing.T, next func(raw string) *View) {
				var v *View
				say := func(format string, args ...any) { v = next(fmt.Sprintf(format, args...)) }
				say(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
				say(`{"type":"TEXT_MESSAGE_START","messageId":"text"}`)
				say(`{"type":"TOOL_CALL_START","toolCallId":"call","toolCallName":"f"}`)
				say(`{"type":"REASONING_MESSAGE_START","messageId":"thought","role":"reasoning"}`)
				for _, d := range c.deltas {
					say(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"text","delta":%s}`, d)
					say(`{"type":"TOOL_CALL_ARGS","toolCallId":"call","delta":%s}`, d)
					say(`{"type":"REASONING_MESSAGE_CONTENT","messageId":"thought","delta":%s}`, d)
				}
				// As an id, a key, a value and a pointer: what the deltas together are.
				say(`{"type":"TOOL_CALL_RESULT","messageId":%s,"toolCallId":"call","content":%[1]s}`, c.want)
				say(`{"type":"STATE_SNAPSHOT","snapshot":{%s:{%[1]s:%[1]s}}}`, c.want)
				pointer := strings.ReplaceAll(strings.Trim(c.want, `"`), "/", "~1")
				if !strings.Contains(pointer, `\"`) {
					say(`{"type":"STATE_DELTA","delta":[{"op":"copy","from":"/%s/%[1]s","path":"/copied"},{"op":"remove","path":"/%[1]s"}]}`, pointer)
				} else {
					say(`{"type":"STATE_SNAPSHOT","snapshot":{"copied":%s}}`, c.want)
				}
				noErrors(t, v)
				got := string(v.AppendJSON(nil))
				for _, want := range []string{
					`"role":"assistant","content":` + c.want,
					`"arguments":` + c.want,
					`"role":"reasoning","content":` + c.want,
					`{"id":` + c.want + `,"role":"tool","content":` + c.want,
					`"state":{"copied":` + c.want + `}`,
				} {
					if !strings.Contains(got, want) {
						t.Errorf("no %s in %s", want, got)
					}
				}
			})
		})
	}
}

// Keys are told apart and found by code unit, unpaired escapes included.
func TestKeysAreExact(t *testing.T) {
	eachProfile(t, func(t *testing.T, next func(raw string) *View) {
		var v *View
		for _, raw := range []string{
			`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
			`{"type":"STATE_SNAPSHOT","snapshot":{"\ud83c":1,"\ufffd":2,"\udf89":3,"\ud83c\udf89":4,"\u0000":5,"\u2028":6,"":7,"\ud83c ":8}}`,
			`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/\ud83c","value":"a"},{"op":"test","path":"/\ufffd","value":2},` +
				`{"op":"move","from":"/\udf89","path":"/moved"},{"op":"remove","path":"/🎉"},{"op":"remove","path":"/\u0000"},{"op":"remove","path":"/\u2028"},{"op":"remove","path":"/"}]}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"\ud83c","metadata":{"\udc00":1}}`,
			`{"type":"TEXT_MESSAGE_START","messageId":"\ufffd","metadata":{"\ufffd":1}}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"\ud83c","delta":"first","metadata":{"\ufffd":2,"\udc00":3}}`,
		} {
			v = next(raw)
		}
		noErrors(t, v)
		if got, want := string(v.State), `{"\ud83c":"a","�":2,"\ud83c ":8,"moved":3}`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		for i, want := range []string{
			`{"id":"\ud83c","role":"assistant","content":"first","metadata":{"\udc00":3,"�":2}}`,
			`{"id":"�","role":"assistant","content":"","metadata":{"�":1}}`,
		} {
			if got := string(v.Messages[i].AppendJSON(nil)); got != want {
				t.Errorf("message %d is %s, want %s", i, got, want)
			}
		}
	})
}

func TestNumbersStayAsWritten(t *testing.T) {
	const numbers = `[1.0,1e0,-0,-0.0,9007199254740993,123456789012345678901234567890,0.10,1E+2,5e-324,1e-400,1e400]`
	eachProfile(t, func(t *testing.T, next func(raw string) *View) {
		var v *View
		for _, raw := range []string{
			`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
			`{"type":"STATE_SNAPSHOT","snapshot":{"a":` + numbers + `}}`,
			`{"type":"STATE_DELTA","delta":[{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/c","value":` + numbers + `},{"op":"test","path":"/a/0","value":1}]}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"P","content":{"n":` + numbers + `},"metadata":{"n":` + numbers + `}}`,
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":` + numbers + `,"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"r","metadata":{"n":` + numbers + `}}]}}`,
		} {
			v = next(raw)
		}
		noErrors(t, v)
		got := string(v.AppendJSON(nil))
		for _, want := range []string{
			`"state":{"a":` + numbers + `,"b":` + numbers + `,"c":` + numbers + `}`,
			`"content":{"n":` + numbers + `}`, `"result":` + numbers,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %s in %s", want, got)
			}
		}
		if n := strings.Count(got, `"metadata":{"n":`+numbers+`}`); n < 2 {
			t.Errorf("%d of the metadata are as they were written: %s", n, got)
		}
	})
}

// eachProfile gives the test what folds the next event of the run "r".
func eachProfile(t *testing.T, test func(t *testing.T, say func(raw string) *View)) {
	for _, p := range []Profile{Durable, Reference} {
		t.Run(p.String(), func(t *testing.T) {
			f, seq := New(Options{Profile: p}), uint64(0)
			test(t, func(raw string) *View {
				seq++
				f.Apply(Record{Seq: seq, Run: agui.RunKey{ID: "r", Attempt: 1}, Raw: []byte(raw)})
				return f.View()
			})
		})
	}
}

func noErrors(t *testing.T, v *View) {
	t.Helper()
	if len(v.Diagnostics) > 0 {
		t.Errorf("diagnostics %+v", v.Diagnostics)
	}
	if v.Reference != nil && (v.Reference.Error != nil || len(v.Reference.Warnings) > 0) {
		t.Errorf("error %v, warnings %v", v.Reference.Error, v.Reference.Warnings)
	}
}
