package fold_test

import (
	"testing"
)

// What no case of testdata/durable shows, rule by rule (fold-rules).
func TestDurableRules(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         []string // the transcript
		rules        []string // the diagnostics
	}{
		{
			name: "R1 what a run leaves open is closed by its end",
			script: `run r1
				text a1
				say a1 half
				end r1
				run r2
				say a1 _more
				stop a1
				end r2`,
			want:  []string{"assistant:a1:half more"},
			rules: []string{"6:content_after_end", "7:second_end"},
		},
		{
			name: "R3 text before the first run",
			script: `text a0
				run r1
				end r1`,
			want:  nil,
			rules: []string{"1:late_event"},
		},
		{
			name: "R4 a bad role costs the role, not the message",
			script: `run r1
				{"type":"TEXT_MESSAGE_START","messageId":"a1","role":"robot"}
				say a1 hi
				end r1`,
			want:  []string{"assistant:a1:hi"},
			rules: []string{"2:malformed_part"},
		},
		{
			name: "R4 a content without delta costs itself",
			script: `run r1
				text a1
				{"type":"TEXT_MESSAGE_CONTENT","messageId":"a1"}
				say a1 hi
				end r1`,
			want:  []string{"assistant:a1:hi"},
			rules: []string{"3:malformed_event"},
		},
		{
			name: "R4 lines that are no events count",
			script: `run r1
				{"type":
				{"no":"type"}
				text a1
				end r1`,
			want:  []string{"assistant:a1:"},
			rules: []string{"2:invalid_line", "3:invalid_line"},
		},
		{
			name: "R4 a bad message of an input costs that message",
			script: `run r1 "messages":[{"id":"u1","role":"user"},{"role":"ghost","id":"g"},{"id":"u2","role":"user","content":"Hi"}]
				end r1`,
			want:  []string{"user:u2:Hi"},
			rules: []string{"1:malformed_part", "1:unknown_role"},
		},
		{
			name: "R4 a bad copy in a snapshot does not cost the message that is there",
			script: `run r1 "messages":[{"id":"u1","role":"user","content":"Hi"}]
				snapshot {"id":"u1","role":"user","content":7} user:u2:Yo
				end r1`,
			want:  []string{"user:u1:Hi", "user:u2:Yo"},
			rules: []string{"2:malformed_part"},
		},
		{
			name: "R7 ids are unique in a view, and name their messages for ever",
			script: `run r1
				think x
				muse x hm
				done x
				text x
				say x one
				stop x
				{"type":"ACTIVITY_SNAPSHOT","messageId":"x","activityType":"P","content":{}}
				text x~text
				say x~text _two
				stop x~text
				end r1
				run r2 "messages":[{"id":"x~text","role":"assistant","content":"one"},{"id":"x","role":"reasoning","content":"hm"}]
				call c f x
				called c
				snapshot {"id":"x","role":"assistant","content":"uno"}
				end r2`,
			want:  []string{"reasoning:x:hm", "assistant:x~text:uno", "activity:x~activity:{}"},
			rules: []string{"5:id_renamed", "8:id_renamed"},
		},
		{
			name: "R7 a name that is taken is made longer",
			script: `run r1
				text x~text
				think x
				text x
				say x hi
				end r1`,
			want:  []string{"assistant:x~text:", "reasoning:x:", "assistant:x~text~text:hi"},
			rules: []string{"4:id_renamed"},
		},
		{
			name: "R8 content for what nobody knows is dropped",
			script: `run r1
				say a9 lost
				stop a9
				muse a9 lost
				args c9 lost
				called c9
				end r1`,
			want:  nil,
			rules: []string{"2:unknown_message", "3:unknown_message", "4:unknown_message", "5:unknown_call", "6:unknown_call"},
		},
		{
			name: "R8 text into a list of parts",
			script: `run r1 "messages":[{"id":"u1","role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"url","value":"x:y"}}]},{"id":"u2","role":"user","content":[{"type":"image","source":{"type":"url","value":"x:y"}}]}]
				text u1
				say u1 _this
				say u1 _one
				text u2
				say u2 hm
				stop u2
				stop u1
				end r1`,
			want: []string{
				`user:u1:[{"type":"text","text":"see this one"},{"type":"image","source":{"type":"url","value":"x:y"}}]`,
				`user:u2:[{"type":"image","source":{"type":"url","value":"x:y"}},{"type":"text","text":"hm"}]`,
			},
			rules: []string{"3:text_into_parts", "4:text_into_parts", "6:text_into_parts"},
		},
		{
			name: "R9 a: the snapshot's order, also of results",
			script: `run r1 "messages":[{"id":"u1","role":"user","content":"1"},{"id":"u2","role":"user","content":"2"}]
				call c1 f a1
				called c1
				snapshot user:u2:B {"id":"t1","role":"tool","toolCallId":"c1","content":"r"} user:u1:A {"id":"a1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}
				end r1`,
			want: []string{"user:u2:B", "tool:t1:r", "user:u1:A", "assistant:a1 c1=f({})"},
		},
		{
			name: "R9 b: reasoning is kept if the snapshot has none, activities by type",
			script: `run r1
				think th
				done th
				{"type":"ACTIVITY_SNAPSHOT","messageId":"p","activityType":"PLAN","content":{}}
				{"type":"ACTIVITY_SNAPSHOT","messageId":"q","activityType":"SEARCH","content":{}}
				{"type":"MESSAGES_SNAPSHOT","messages":[],"metadata":{"@ag-ui/client":{"authoritativeActivityTypes":["PLAN"]}}}
				snapshot {"id":"th2","role":"reasoning","content":"new"}
				end r1`,
			want:  []string{"activity:q:{}", "reasoning:th2:new"},
			rules: []string{"6:snapshot_removed"},
		},
		{
			name: "R9 c: what is open stays, also a call alone",
			script: `run r1
				text a1
				say a1 talk
				stop a1
				call c1 f a1
				args c1 {
				think th
				snapshot user:u1:Hi {"id":"th9","role":"reasoning","content":"x"}
				args c1 }
				called c1
				muse th ok
				done th
				result t1 c1 fine
				end r1`,
			want: []string{"assistant:a1:talk c1=f({})", "tool:t1:fine", "reasoning:th:ok", "user:u1:Hi", "reasoning:th9:x"},
		},
		{
			name: "R9 c: an open call that its message's copy leaves out stays, last",
			script: `run r1
				call c1 f a1
				args c1 {
				call c2 g a1
				called c2
				snapshot {"id":"a1","role":"assistant","toolCalls":[{"id":"c2","type":"function","function":{"name":"g","arguments":"2"}}]}
				args c1 }
				called c1
				end r1`,
			want: []string{"assistant:a1 c2=g(2) c1=f({})"},
		},
		{
			name: "R9 c: an open call under another message is that call",
			script: `run r1
				call c1 f a1
				args c1 {
				snapshot {"id":"b1","role":"assistant","toolCalls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{"}}]}
				args c1 }
				called c1
				end r1`,
			want: []string{"assistant:b1 c1=f({})"},
		},
		{
			name: "R9 d: what is kept stands behind its nearest former predecessor",
			script: `run r1 "messages":[{"id":"u1","role":"user","content":"1"}]
				think t1
				done t1
				think t2
				done t2
				text a1
				stop a1
				think t3
				done t3
				snapshot user:u0:0 user:u1:1 user:u2:2
				end r1`,
			want: []string{"user:u0:0", "user:u1:1", "reasoning:t1:", "reasoning:t2:", "reasoning:t3:", "user:u2:2"},
		},
		{
			name: "R9 e: an id twice in a snapshot",
			script: `run r1
				snapshot user:u1:first user:u2:second user:u1:last
				end r1`,
			want:  []string{"user:u1:last", "user:u2:second"},
			rules: []string{"2:duplicate_message"},
		},
		{
			name: "R10 null in an optional field is absent",
			script: `run r1 "messages":[{"id":"u1","role":"user","content":"Hi","name":null,"metadata":null}],"state":null,"resume":null
				{"type":"TEXT_MESSAGE_START","messageId":"a1","role":null,"name":null,"subagentRunId":null,"metadata":null,"timestamp":null}
				say a1 hi
				{"type":"RUN_FINISHED","threadId":"t","runId":"r1","outcome":null,"result":null,"usage":null}`,
			want: []string{"user:u1:Hi", "assistant:a1:hi"},
		},
		{
			name: "R11 an input removes nothing, changes nothing, and places tool messages",
			script: `run r1 "messages":[{"id":"u1","role":"user","content":"one"}]
				call c1 f a1
				called c1
				text a2
				stop a2
				end r1
				run r2 "messages":[{"id":"u1","role":"user","content":"edited"},{"id":"t1","role":"tool","toolCallId":"c1","content":"r"},{"id":"u2","role":"user","content":"two"},{"id":"u2","role":"user","content":"again"}]
				end r2`,
			want: []string{"user:u1:one", "assistant:a1 c1=f()", "tool:t1:r", "assistant:a2:", "user:u2:two"},
		},
		{
			name: "R13 results stand in the order they came, and a result of a name that is there replaces it",
			script: `run r1
				call c1 f a1
				called c1
				call c2 f a1
				called c2
				text a2
				result t2 c2 two
				result t1 c1 one
				result t2 c2 zwei
				end r1`,
			want:  []string{"assistant:a1 c1=f() c2=f()", "tool:t2:zwei", "tool:t1:one", "assistant:a2:"},
			rules: []string{"9:result_replaced"},
		},
		{
			name: "R13 against R14: one name for the results of two calls",
			script: `run r1
				call c f a1
				called c
				result t c one
				call c f a2
				called c
				result t c two
				result t c zwei
				end r1`,
			want: []string{"assistant:a1 c=f()", "tool:t:one", "assistant:a2 c=f()", "tool:t~2:zwei"},
			rules: []string{
				"5:call_id_reused", "7:id_renamed", "8:result_replaced",
			},
		},
		{
			name: "R14 a: a call that is open goes on",
			script: `run r1
				call c f a1
				args c {
				call c g a2
				args c }
				called c
				end r1`,
			want:  []string{"assistant:a1 c=g({})"},
			rules: []string{"4:duplicate_start", "4:call_renamed"},
		},
		{
			name: "R14 b: new arguments replace the old ones when their END comes",
			script: `run r1
				call c f a1
				args c {"a":1}
				called c
				call c g
				args c {"b":
				args c 2}
				called c
				args c lost
				end r1`,
			want:  []string{`assistant:a1 c=g({"b":2})`},
			rules: []string{"5:call_reannounced", "5:call_renamed", "9:arguments_after_end"},
		},
		{
			name: "R14 b: without their END, or without any, the old ones stand",
			script: `run r1
				call c f a1
				args c old
				fail
				run r2
				call c f a1
				args c half
				fail
				run r3
				call c f a1
				called c
				end r3`,
			want: []string{`assistant:a1 c=f(old)`},
			rules: []string{
				"4:incomplete_call", "6:call_reannounced", "8:incomplete_call", "10:call_reannounced",
			},
		},
		{
			name: "R14 b: a call that a run without an end left open",
			script: `run r1
				call c f a1
				args c {"a":
				run r2
				call c f a1
				args c {"a":1}
				called c
				end r2`,
			want:  []string{`assistant:a1 c=f({"a":1})`},
			rules: []string{"5:call_reannounced"},
		},
		{
			name: "R14 c: without a message to go into, a new call makes one",
			script: `run r1
				call c f
				called c
				result t1 c 1
				call c f
				called c
				result t2 c 2
				call c f
				called c
				result t3 c 3
				end r1`,
			want: []string{
				"assistant:c c=f()", "tool:t1:1", "assistant:c~2 c=f()", "tool:t2:2", "assistant:c~3 c=f()", "tool:t3:3",
			},
			rules: []string{"5:call_id_reused", "5:id_renamed", "8:call_id_reused", "8:id_renamed"},
		},
		{
			name: "R14 a chunk that names a call takes it up again",
			script: `run r1
				{"type":"TOOL_CALL_CHUNK","toolCallId":"c1","toolCallName":"f","parentMessageId":"a1","delta":"{"}
				{"type":"TOOL_CALL_CHUNK","toolCallId":"c2","toolCallName":"g","parentMessageId":"a1","delta":"["}
				{"type":"TOOL_CALL_CHUNK","toolCallId":"c1","delta":"}"}
				{"type":"TOOL_CALL_CHUNK","toolCallId":"c2","toolCallName":"g","delta":"]"}
				end r1`,
			want: []string{"assistant:a1 c1=f({}) c2=g([])"},
		},
		{
			name: "R15 arguments are kept partial, in the order of the STARTs",
			script: `run r1
				call c1 f a1
				call c2 g a1
				args c2 {"x
				args c1 {}
				called c1
				fail`,
			want:  []string{`assistant:a1 c1=f({}) c2=g({"x)`},
			rules: []string{"7:incomplete_call"},
		},
		{
			name: "R16 a parent of another kind is none",
			script: `run r1
				think th
				done th
				call c1 f th
				called c1
				end r1`,
			want:  []string{"reasoning:th:", "assistant:c1 c1=f()"},
			rules: []string{"4:parent_not_assistant"},
		},
		{
			name: "R27 thinking of two attempts, and one without a start",
			script: `run r1
				{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"a"}
				{"type":"THINKING_TEXT_MESSAGE_END"}
				{"type":"THINKING_TEXT_MESSAGE_START"}
				{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"b"}
				fail
				run r1
				{"type":"THINKING_TEXT_MESSAGE_START"}
				{"type":"THINKING_TEXT_MESSAGE_CONTENT","delta":"c"}
				end r1`,
			want:  []string{"reasoning:r1-thinking-1:a", "reasoning:r1-thinking-2:b", "reasoning:r1.2-thinking-1:c"},
			rules: []string{"2:thinking_without_start"},
		},
		{
			name: "R29 chunks that cannot go on",
			script: `run r1
				{"type":"TEXT_MESSAGE_CHUNK","delta":"lost"}
				{"type":"TOOL_CALL_CHUNK","toolCallId":"c1","delta":"lost"}
				{"type":"TEXT_MESSAGE_CHUNK","messageId":"a1","delta":"one"}
				{"type":"STEP_STARTED","stepName":"s"}
				{"type":"TEXT_MESSAGE_CHUNK","delta":"lost"}
				end r1`,
			want:  []string{"assistant:a1:one"},
			rules: []string{"2:chunk_without_stream", "3:unknown_call", "6:chunk_without_stream"},
		},
		{
			name: "R29 a chunk that names nothing goes to what is open in another way",
			script: `run r1
				think t1
				text a1
				call c1 f a1
				{"type":"TOOL_CALL_CHUNK","delta":"{}"}
				{"type":"TEXT_MESSAGE_CHUNK","delta":"words"}
				{"type":"TEXT_MESSAGE_CHUNK","subagentRunId":"s","delta":"lost"}
				stop a1
				{"type":"TEXT_MESSAGE_CHUNK","delta":"lost"}
				called c1
				done t1
				end r1`,
			want: []string{"reasoning:t1:", "assistant:a1:words c1=f({})"},
			rules: []string{
				"5:chunk_without_stream", "6:chunk_without_stream", "7:chunk_without_stream", "9:chunk_without_stream",
			},
		},
		{
			name: "R29 owners do not end each other's streams",
			script: `run r1
				{"type":"TEXT_MESSAGE_CHUNK","messageId":"a1","delta":"one "}
				{"type":"TEXT_MESSAGE_CHUNK","messageId":"s1","subagentRunId":"s","delta":"eins "}
				{"type":"TEXT_MESSAGE_CHUNK","delta":"two"}
				{"type":"TEXT_MESSAGE_CHUNK","subagentRunId":"s","delta":"zwei"}
				{"type":"SUBAGENT_FINISHED","subagentRunId":"s"}
				{"type":"TEXT_MESSAGE_CHUNK","messageId":"a1","role":"user","delta":"!"}
				end r1`,
			want:  []string{"assistant:a1:one two!", "assistant:s1:eins zwei"},
			rules: []string{"6:unknown_subagent", "7:chunk_disagrees"},
		},
		{
			name: "R29 a snapshot does not end a stream of chunks",
			script: `run r1
				{"type":"TEXT_MESSAGE_CHUNK","messageId":"a1","delta":"one "}
				snapshot user:u1:Hi
				{"type":"TEXT_MESSAGE_CHUNK","delta":"two"}
				{"type":"TOOL_CALL_CHUNK","toolCallId":"c1","toolCallName":"f","parentMessageId":"a1","delta":"{"}
				snapshot user:u1:Hi user:a1:ONE
				{"type":"TOOL_CALL_CHUNK","delta":"}"}
				end r1`,
			want: []string{"user:u1:Hi", "user:a1:ONE c1=f({})"},
		},
		{
			name: "R31 unknown types outside a run are no late events",
			script: `{"type":"HEARTBEAT"}
				run r1
				end r1`,
			rules: []string{"1:unknown_event"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := view(c.script)
			wantTranscript(t, v, c.want...)
			wantRules(t, v, c.rules...)
		})
	}
}
