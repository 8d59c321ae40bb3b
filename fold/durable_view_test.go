package fold_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// What a view shows beside the transcript. check is written as the views of
// testdata/durable are.
func TestDurableViews(t *testing.T) {
	for _, c := range []struct{ name, script, check string }{
		{
			"R2 the first terminal event decides, an unknown outcome is a success",
			`run r1
			end r1 {"type":"cancelled"}
			fail
			run r2
			end r2 {"type":"paused"}
			run r3
			fail AGSTORE_ABANDONED
			run r4`,
			`{"runs":[{"run":"r1","status":"cancelled"},{"run":"r2","status":"success"},{"run":"r3","status":"abandoned","code":"AGSTORE_ABANDONED"},{"run":"r4","status":"running"}],
			"view":{"run":"r4","status":"running","seq":8},
			"diagnostics":[{"seq":3,"rule":"second_terminal"},{"seq":5,"rule":"unknown_outcome","outcome":"paused"}]}`,
		},
		{
			"R4 a run without an id, an end without ids, an error before any run",
			`{"type":"RUN_ERROR"}
			{"type":"RUN_STARTED","input":{"messages":[{"id":"u1","role":"user","content":"Hi"}]}}
			text a1
			{"type":"RUN_FINISHED"}`,
			`{"runs":[{"run":"","status":"success"}],"messages":[{"id":"u1","role":"user","content":"Hi"},{"id":"a1","role":"assistant","content":""}],
			"diagnostics":[{"seq":1,"rule":"thread_error"}],"noDiagnostics":["late_event"]}`,
		},
		{
			"R5 a run that died and was overtaken does not overlap",
			`run r1
			text a1
			run r2
			end r2`,
			`{"runs":[{"run":"r1","status":"running"},{"run":"r2","status":"success"}],"noDiagnostics":["overlapping_runs"]}`,
		},
		{
			"R6 steps by owner and name, and what a run's end leaves of them",
			`run r1
			{"type":"STEP_STARTED","stepName":"s"}
			{"type":"STEP_STARTED","stepName":"s","subagentRunId":""}
			{"type":"STEP_STARTED","stepName":"s"}
			{"type":"STEP_FINISHED","stepName":"s","subagentRunId":"x"}
			{"type":"STEP_FINISHED","stepName":"s","subagentRunId":""}
			{"type":"SUBAGENT_STARTED","subagentRunId":"x","name":"n","parentToolCallId":"c"}
			{"type":"SUBAGENT_STARTED","subagentRunId":"y","name":"n"}
			{"type":"SUBAGENT_ERROR","subagentRunId":"y","message":"no","code":"E"}
			{"type":"SUBAGENT_STARTED","subagentRunId":"z","name":"n"}
			{"type":"SUBAGENT_FINISHED","subagentRunId":"z","outcome":{"type":"suspended","interruptIds":["i"]}}
			end r1`,
			`{"steps":[{"stepName":"s","subagentRunId":null,"status":"cut","endSeq":12},{"stepName":"s","subagentRunId":"","status":"finished"}],
			"subagents":[{"subagentRunId":"x","status":"cut","parentToolCallId":"c"},{"subagentRunId":"y","status":"failed","error":"no","code":"E"},{"subagentRunId":"z","status":"suspended","interruptIds":["i"]}],
			"diagnostics":[{"seq":4,"rule":"duplicate_start"},{"seq":5,"rule":"unknown_step"}]}`,
		},
		{
			"R9 f: encrypted values stay where a snapshot leaves them out",
			`run r1
			text a1
			stop a1
			call c1 f a1
			called c1
			{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"a1","encryptedValue":"E1"}
			{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c1","encryptedValue":"E2"}
			snapshot {"id":"a1","role":"assistant","content":"hi","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}
			end r1`,
			`{"messages":[{"id":"a1","role":"assistant","content":"hi","encryptedValue":"E1","toolCalls":[{"id":"c1","name":"f","arguments":"{}","encryptedValue":"E2"}]}]}`,
		},
		{
			"R10 null inside data is data",
			`run r1 "state":{"a":null}
			{"type":"STATE_DELTA","delta":[{"op":"test","path":"/a","value":null},{"op":"add","path":"/b","value":null}]}
			{"type":"TEXT_MESSAGE_START","messageId":"a1","metadata":{"k":null}}
			{"type":"CUSTOM","name":"n","value":null}
			end r1`,
			`{"state":{"a":null,"b":null},"messages":[{"id":"a1","role":"assistant","content":"","metadata":{"k":null}}],"custom":[{"name":"n","seq":4,"openMessage":"a1"}],"noDiagnostics":["patch_failed"]}`,
		},
		{
			"R12 a half without its partner stays what it is",
			`run r1
			{"type":"TEXT_MESSAGE_START","messageId":"a1"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"x\ud83c"}
			{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1","delta":"y\udf45"}
			end r1`,
			`{"messages":[{"id":"a1","role":"assistant","content":"x\ud83cy\udf45"}]}`,
		},
		{
			"R17 the calls the last run started and nobody answered; an empty list is none",
			`run r1
			call c1 f a1
			called c1
			call c2 f a1
			called c2
			result t2 c2 x
			call c2 f a2
			called c2
			result t0 c9 orphan
			call c9 f a2
			called c9
			end r1 {"type":"success","pendingToolCallIds":[]}`,
			`{"pendingToolCalls":["c1","c2"]}`,
		},
		{
			"R17 a run that did not end well leaves none",
			`run r1
			call c1 f a1
			called c1
			end r1 {"type":"cancelled"}`,
			`{"pendingToolCalls":[]}`,
		},
		{
			"R17 a result in a snapshot is a result",
			`run r1
			call c1 f a1
			called c1
			call c2 f a1
			called c2
			snapshot {"id":"a1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"f","arguments":"{}"}}]} {"id":"t1","role":"tool","toolCallId":"c1","content":"r"}
			end r1`,
			`{"pendingToolCalls":["c2"]}`,
		},
		{
			"R18 a failed answer retires nothing, nor does an unknown outcome; a cancelled run does",
			`run r1
			end r1 {"type":"interrupt","interrupts":[{"id":"i1","reason":"q"},{"id":"i2","reason":"q"},{"id":"i3","reason":"q"}]}
			run r2 "resume":[{"interruptId":"i1","status":"resolved","payload":1},{"interruptId":"i9","status":"resolved"}]
			fail
			run r3 "resume":[{"interruptId":"i2","status":"resolved"}]
			end r3 {"type":"paused"}
			run r4 "resume":[{"interruptId":"i3","status":"cancelled","metadata":{"by":"me"}}]
			end r4 {"type":"cancelled"}`,
			`{"pendingInterrupts":[{"id":"i1","run":"r1","status":"pending"},{"id":"i2","run":"r1","status":"pending"}],
			"interruptHistory":[
			{"id":"i1","answered":false,"answers":[{"run":"r2","status":"resolved","payload":1}]},
			{"id":"i2","answered":false,"answers":[{"run":"r3"}]},
			{"id":"i3","answered":true,"status":"answered","answers":[{"run":"r4","status":"cancelled","payload":null,"metadata":{"by":"me"}}]}],
			"diagnostics":[{"seq":3,"rule":"unknown_interrupt","interruptId":"i9"}]}`,
		},
		{
			"R18 an id raised again while it is open is one entry at its place; after its answer another",
			`run r1
			end r1 {"type":"interrupt","interrupts":[{"id":"i1","reason":"old"},{"id":"i2","reason":"q"}]}
			run r2
			end r2 {"type":"interrupt","interrupts":[{"id":"i1","reason":"new","message":"?"}]}
			run r3 "resume":[{"interruptId":"i1","status":"resolved"}]
			end r3 {"type":"interrupt","interrupts":[{"id":"i1","reason":"third"}]}`,
			`{"pendingInterrupts":[{"id":"i2"},{"id":"i1","reason":"third","run":"r3"}],
			"interruptHistory":[{"id":"i1","reason":"new","message":"?","answered":true},{"id":"i2","answered":false},{"id":"i1","reason":"third","answered":false,"answers":[]}]}`,
		},
		{
			"R19 a second answer to a retired question is kept in its history",
			`run r1
			end r1 {"type":"interrupt","interrupts":[{"id":"i1","reason":"q"}]}
			run r2 "resume":[{"interruptId":"i1","status":"resolved"}]
			end r2
			run r3 "resume":[{"interruptId":"i1","status":"cancelled"}]
			end r3`,
			`{"pendingInterrupts":[],"interruptHistory":[{"id":"i1","answered":true,"answers":[{"run":"r2","status":"resolved"},{"run":"r3","status":"cancelled"}]}],
			"diagnostics":[{"seq":5,"rule":"answered_before"}]}`,
		},
		{
			"R20 an unreadable expiresAt is a diagnostic",
			`run r1
			end r1 {"type":"interrupt","interrupts":[{"id":"i1","reason":"q","expiresAt":"soon"},{"id":"i2","reason":"q","expiresAt":"2026-03-01T08:00:00.5+01:00"}]}`,
			`{"pendingInterrupts":[{"id":"i1","expiresAt":"soon"},{"id":"i2"}],"diagnostics":[{"seq":2,"rule":"unreadable_expiry","interruptId":"i1"}]}`,
		},
		{
			"R21 another run ends the old questions",
			`run r1
			{"type":"CUSTOM","name":"on_interrupt","value":"q"}
			end r1
			run r2`,
			`{"legacyInterrupts":[],"custom":[{"type":"CUSTOM","name":"on_interrupt","value":"q","run":"r1"}]}`,
		},
		{
			"R23 a patch that fails does not set a state that was never set",
			`run r1
			{"type":"STATE_DELTA","delta":[{"op":"test","path":"/a","value":null}]}
			end r1`,
			`{"noState":true,"diagnostics":[{"seq":2,"rule":"patch_failed","operation":0,"op":"test"}]}`,
		},
		{
			"R23 a patch on a state never set works on {}",
			`run r1
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}
			end r1`,
			`{"state":{"a":1}}`,
		},
		{
			"R23 null is a state",
			`run r1
			{"type":"STATE_SNAPSHOT","snapshot":null}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}
			end r1`,
			`{"state":null,"diagnostics":[{"seq":3,"rule":"patch_failed"}]}`,
		},
		{
			"R24 an unknown operation is left out, a failing patch names its operation",
			`run r1 "state":{}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1},{"op":"increase","path":"/a"},{"op":"add","path":"/b","value":2}]}
			{"type":"STATE_DELTA","delta":[{"op":"increase","path":"/a"},{"op":"add","path":"/c","value":1},{"op":"remove","path":"/toString"}]}
			{"type":"STATE_DELTA","delta":[{"op":"move","from":"","path":"/a"}]}
			end r1`,
			`{"state":{"a":1,"b":2},"diagnostics":[{"seq":2,"rule":"unknown_operation","path":"/delta/1"},{"seq":3,"rule":"patch_failed","operation":2,"op":"remove"},{"seq":4,"rule":"patch_failed"}]}`,
		},
		{
			"R24 an activity's content stays an object, its metadata count all the same",
			`run r1
			{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"A","content":{"n":1}}
			{"type":"ACTIVITY_DELTA","messageId":"p","activityType":"B","patch":[{"op":"replace","path":"","value":[]}],"metadata":{"k":1}}
			{"type":"ACTIVITY_DELTA","messageId":"p","activityType":"C","patch":[{"op":"replace","path":"/n","value":2}]}
			{"type":"ACTIVITY_DELTA","messageId":"q","activityType":"C","patch":[]}
			{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"D","content":{},"replace":false,"metadata":{"l":2}}
			end r1`,
			`{"messages":[{"id":"p","role":"activity","activityType":"C","content":{"n":2},"metadata":{"k":1,"l":2}}],
			"diagnostics":[{"seq":3,"rule":"patch_failed","messageId":"p"},{"seq":5,"rule":"unknown_message"}]}`,
		},
		{
			"R26 an empty input state sets only what was not set",
			`run r1 "state":{}
			{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a","value":1}]}
			end r1
			run r2 "state":{}
			end r2
			run r3 "state":null
			end r3`,
			`{"state":{"a":1}}`,
		},
		{
			"R28 reasoning before text before tool, never activity; and apart even if it comes later",
			`run r1
			think x
			done x
			text x
			stop x
			{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"A","content":{}}
			{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"x","encryptedValue":"E"}
			{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"p","encryptedValue":"F"}
			{"type":"REASONING_ENCRYPTED_VALUE","subtype":"tool-call","entityId":"c","encryptedValue":"G"}
			call c f x
			called c
			end r1`,
			`{"messages":[{"id":"x","role":"reasoning","content":"","encryptedValue":"E"},{"id":"x~text","role":"assistant","content":"","toolCalls":[{"id":"c","name":"f","arguments":""}]},{"id":"p","role":"activity","activityType":"A","content":{}}],
			"opaqueReasoning":[{"id":"p","subtype":"message","value":"F","seq":8,"after":"p"},{"id":"c","subtype":"tool-call","value":"G","seq":9}]}`,
		},
		{
			"R30 metadata of calls and results",
			`run r1
			{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":"a1","metadata":{"v":{"x":1}}}
			{"type":"TOOL_CALL_END","toolCallId":"c","metadata":{"v":{"y":2}}}
			{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c","content":"1","metadata":{"k":1}}
			{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c","content":"2","metadata":{"l":2}}
			end r1`,
			`{"messages":[{"id":"a1","role":"assistant","toolCalls":[{"id":"c","name":"f","arguments":"","metadata":{"v":{"y":2}}}]},{"id":"t","role":"tool","toolCallId":"c","content":"2","metadata":{"k":1,"l":2}}]}`,
		},
		{
			"R32 CUSTOM and RAW are kept wherever they stand, with the message they broke into",
			`{"type":"RAW","event":1}
			run r1
			think t1
			call c f a1
			{"type":"RAW","event":2}
			called c
			{"type":"RAW","event":3}
			done t1
			{"type":"TEXT_MESSAGE_CHUNK","messageId":"a2","delta":"x"}
			{"type":"CUSTOM","name":"n","value":4}
			{"type":"CUSTOM","name":"n","value":5}
			end r1
			{"type":"CUSTOM","name":"on_interrupt","value":6}`,
			`{"custom":[{"event":1,"run":null,"openMessage":null},{"event":2,"openMessage":"a1"},{"event":3,"openMessage":"t1"},{"value":4,"openMessage":"a2"},{"value":5,"openMessage":null},{"value":6,"openMessage":null}],
			"legacyInterrupts":[],"diagnostics":[{"seq":1,"rule":"late_event"},{"seq":13,"rule":"late_event"}]}`,
		},
		{
			"R34 a file with branches folds to the lineage of its last run",
			`run r1
			text a1
			end r1
			run r2
			text a2
			end r2
			{"type":"RUN_STARTED","threadId":"t","runId":"r3","parentRunId":"r1"}
			text a3
			end r3`,
			`{"runs":[{"run":"r1"},{"run":"r3"}],"messages":[{"id":"a1","role":"assistant","content":""},{"id":"a3","role":"assistant","content":""}],"view":{"run":"r3","seq":9}}`,
		},
		{
			"an agent that answers under another name",
			`run r1
			{"type":"RUN_FINISHED","threadId":"other","runId":"r1"}
			run r2
			{"type":"RUN_STARTED","threadId":"t","runId":"r2","input":{"threadId":"t","runId":"r2","messages":[{"id":"u9","role":"user","content":"?"}],"tools":[],"context":[]}}
			end r2`,
			`{"messages":[],"diagnostics":[{"seq":2,"rule":"other_thread_id"},{"seq":4,"rule":"echo_input","messageId":"u9"}]}`,
		},
		{
			"usage is added up per model",
			`run r1
			{"type":"RUN_FINISHED","threadId":"t","runId":"r1","usage":[{"model":"m","inputTokens":1,"outputTokens":2},{"model":"n","inputTokens":5}]}
			run r2
			{"type":"RUN_ERROR","message":"no","usage":[{"model":"m","inputTokens":10,"totalTokens":7}]}`,
			`{"view":{"usage":[{"model":"m","inputTokens":11,"outputTokens":2,"totalTokens":7},{"model":"n","inputTokens":5}]}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parse(t, view(c.script).AppendJSON(nil))
			for _, difference := range compare(parse(t, []byte(c.check)), got) {
				t.Error(difference)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	limits := fold.Limits{EventBytes: 400, PatchOps: 2, PatchCopied: 20, StateBytes: 60, Nesting: 12}
	long := strings.Repeat("x", 61)
	for _, c := range []struct{ name, event, rule string }{
		{"event", `{"type":"CUSTOM","name":"n","value":"` + strings.Repeat("x", 400) + `"}`, "over_limit"},
		{"operations", `{"type":"STATE_DELTA","delta":[{"op":"test","path":"/a","value":1},{"op":"test","path":"/a","value":1},{"op":"test","path":"/a","value":1}]}`, "patch_failed"},
		{"copied", `{"type":"STATE_DELTA","delta":[{"op":"copy","from":"/b","path":"/c"}]}`, "patch_failed"},
		{"state by snapshot", `{"type":"STATE_SNAPSHOT","snapshot":"` + long + `"}`, "over_limit"},
		{"state by patch", `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/c","value":"` + long + `"}]}`, "patch_failed"},
		{"activity", `{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"A","content":{"a":"` + long + `"}}`, "over_limit"},
		{"nesting", `{"type":"STATE_SNAPSHOT","snapshot":` + strings.Repeat("[", 12) + strings.Repeat("]", 12) + `}`, "invalid_line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := fold.New(fold.Options{Limits: limits})
			key := agui.RunKey{ID: "r", Attempt: 1}
			for i, raw := range []string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"state":{"a":1,"b":"0123456789012345678"}}}`,
				c.event,
				`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/a","value":2}]}`,
			} {
				f.Apply(fold.Record{Seq: uint64(i) + 1, Run: key, Raw: []byte(raw)})
			}
			v := f.View()
			wantRules(t, v, "2:"+c.rule)
			if got, want := string(v.State), `{"a":2,"b":"0123456789012345678"}`; got != want {
				t.Errorf("the state is %s, want %s", got, want)
			}
			if len(v.Messages) != 0 || len(v.Custom) != 0 {
				t.Errorf("%d messages, %d custom events, want none", len(v.Messages), len(v.Custom))
			}
		})
	}
}

// A run must not vanish because its frame is over a limit.
func TestLimitsKeepTheFrameOfARun(t *testing.T) {
	f := fold.New(fold.Options{Limits: fold.Limits{EventBytes: 100}})
	for i, raw := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"state":"` + strings.Repeat("x", 100) + `"}}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"a1"}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":"` + strings.Repeat("x", 100) + `"}`,
	} {
		f.Apply(fold.Record{Seq: uint64(i) + 1, Run: agui.RunKey{ID: "r", Attempt: 1}, Raw: []byte(raw)})
	}
	v := f.View()
	wantTranscript(t, v, "assistant:a1:")
	wantRules(t, v, "1:over_limit", "3:over_limit")
	if v.Status != agui.RunSuccess || v.State != nil {
		t.Errorf("status %v, state %s", v.Status, v.State)
	}
}

func TestInterruptsExpire(t *testing.T) {
	v := view(`run r1
		end r1 {"type":"interrupt","interrupts":[{"id":"old","reason":"q","expiresAt":"2026-03-01T08:00:00Z"},{"id":"new","reason":"q","expiresAt":"2026-03-01T08:00:00.001Z"},{"id":"never","reason":"q"},{"id":"odd","reason":"q","expiresAt":"next tuesday"},{"id":"day","reason":"q","expiresAt":"2026-02-28"},{"id":"bare","reason":"q","expiresAt":"2026-03-01T08:00:00.5"}]}`)
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	got := ""
	for _, in := range v.Interrupts(now) {
		got += fmt.Sprintf("%s %v ", in.ID, in.Expired)
	}
	if want := "old true new false never false odd false day true bare false "; got != want {
		t.Errorf("expired: %s, want %s", got, want)
	}
	if v.PendingInterrupts[0].Expired {
		t.Error("Interrupts has changed the view")
	}
}

// An unknown parent, and an echo, are decided by the log.
func TestRecordMarks(t *testing.T) {
	f := fold.New(fold.Options{})
	key := agui.RunKey{ID: "r", Attempt: 1}
	start := []byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r","parentRunId":"nobody","input":{"messages":[{"id":"u1","role":"user","content":"Hi"}],"state":{"a":1}}}`)
	f.Apply(fold.Record{Seq: 1, Run: key, UnknownParent: true, Raw: start})
	f.Apply(fold.Record{Seq: 2, Run: key, Echo: true, Raw: bytes.ReplaceAll(start, []byte(`"a":1`), []byte(`"a":2`))})
	v := f.View()
	wantTranscript(t, v, "user:u1:Hi")
	wantRules(t, v, "1:unknown_parent")
	if string(v.State) != `{"a":1}` {
		t.Errorf("the state is %s", v.State)
	}
}
