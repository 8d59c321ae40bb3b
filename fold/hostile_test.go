package fold_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/cputime"
)

// hostile are streams made to cost more than they are long. Each gets the events
// of a stream of size n.
var hostile = map[string]func(n int) []string{
	"unanswered calls": func(n int) []string {
		return inRun(n, `{"type":"TOOL_CALL_START","toolCallId":"c%[1]d","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"c%[1]d"}`)
	},
	"unanswered calls, no end": func(n int) []string {
		return noEnd(inRun(n, `{"type":"TOOL_CALL_START","toolCallId":"c%[1]d","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"c%[1]d"}`))
	},
	"calls left open": func(n int) []string {
		return noEnd(inRun(n, `{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"f"}`))
	},
	"calls of one message": func(n int) []string {
		return inRun(n, `{"type":"TOOL_CALL_START","toolCallId":"c%[1]d","toolCallName":"f","parentMessageId":"m"}`, `{"type":"TOOL_CALL_END","toolCallId":"c%[1]d"}`)
	},
	"calls of one id with results": func(n int) []string {
		return inRun(n, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"r%d","toolCallId":"c","content":"1"}`)
	},
	"results before their calls": func(n int) []string {
		return inRun(n, `{"type":"TOOL_CALL_RESULT","messageId":"r%[1]d","toolCallId":"c","content":"1"}`)
	},
	"inserts in front of a long list": func(n int) []string {
		list := `{"type":"STATE_SNAPSHOT","snapshot":{"a":[0` + strings.Repeat(",0", 20*n) + `]}}`
		return slices.Concat([]string{started(0), list}, times(n, `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a/0","value":0}]}`), []string{finished(0)})
	},
	"patches that fail late": func(n int) []string {
		list := `{"type":"STATE_SNAPSHOT","snapshot":{"a":[0` + strings.Repeat(",0", 20*n) + `]}}`
		return slices.Concat([]string{started(0), list}, times(n,
			`{"type":"STATE_DELTA","delta":[{"op":"move","from":"/a","path":"/b"},{"op":"remove","path":"/b/3"},{"op":"remove","path":"/c"}]}`), []string{finished(0)})
	},
	"an activity with a long list": func(n int) []string {
		list := `{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"t","content":{"a":[0` + strings.Repeat(",0", 20*n) + `]}}`
		return slices.Concat([]string{started(0), list}, times(n,
			`{"type":"ACTIVITY_DELTA","messageId":"a","activityType":"t","patch":[{"op":"add","path":"/a/1","value":0}]}`), []string{finished(0)})
	},
	"many members": func(n int) []string {
		return inRun(n, `{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k%[1]d","value":0},{"op":"remove","path":"/k%[1]d"},{"op":"add","path":"/k%[1]d","value":0}]}`)
	},
	"metadata": func(n int) []string {
		return inRun(n, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","metadata":{"k%d":1}}`)
	},
	"steps left open": func(n int) []string {
		return inRun(n, `{"type":"STEP_STARTED","stepName":"s%d"}`)
	},
	"steps": func(n int) []string {
		return inRun(n, `{"type":"STEP_STARTED","stepName":"s%[1]d"}`, `{"type":"STEP_FINISHED","stepName":"s%[1]d"}`)
	},
	"subagents": func(n int) []string {
		return inRun(n, `{"type":"SUBAGENT_STARTED","subagentRunId":"s%d","name":"n"}`)
	},
	"custom events": func(n int) []string {
		return inRun(n, `{"type":"CUSTOM","name":"on_interrupt","value":%d}`)
	},
	"encrypted values": func(n int) []string {
		return inRun(n, `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"e%d","encryptedValue":"x"}`)
	},
	"ids of another kind": func(n int) []string {
		return inRun(n, `{"type":"TEXT_MESSAGE_START","messageId":"i%[1]d"}`, `{"type":"REASONING_MESSAGE_START","messageId":"i%[1]d"}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"i%[1]d","activityType":"t","content":{}}`)
	},
	"ids that grow": func(n int) []string {
		// Each takes the place that the one before would give way to.
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":"t~%d","toolCallId":"c","content":""}`, i+2))
		}
		return slices.Concat([]string{started(0)}, out, times(n, `{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c%d","content":""}`), []string{finished(0)})
	},
	"lanes of chunks": func(n int) []string {
		return slices.Concat([]string{started(0)},
			times(n, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"l%[1]d","subagentRunId":"s%[1]d","delta":"d"}`),
			times(n, `{"type":"TEXT_MESSAGE_CHUNK","delta":"d"}`), []string{finished(0)})
	},
	"chunks of another kind than what is open": func(n int) []string {
		return slices.Concat([]string{started(0)},
			times(n, `{"type":"TEXT_MESSAGE_START","messageId":"l%d"}`),
			times(n, `{"type":"TOOL_CALL_CHUNK","delta":"d"}`), []string{finished(0)})
	},
	"messages that end in the order of their starts": func(n int) []string {
		return slices.Concat([]string{started(0)},
			times(n, `{"type":"TEXT_MESSAGE_START","messageId":"l%d"}`),
			times(n, `{"type":"TEXT_MESSAGE_END","messageId":"l%d"}`),
			times(n, `{"type":"CUSTOM","name":"n"}`), []string{finished(0)})
	},
	"open runs": func(n int) []string {
		return times(n, `{"type":"RUN_STARTED","threadId":"t","runId":"r%d"}`)
	},
	"open runs that go on and end": func(n int) []string {
		return slices.Concat(times(n, `{"type":"RUN_STARTED","threadId":"t","runId":"r%d"}`),
			times(n, `{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`), times(n, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"x"}`),
			times(n, `{"type":"STEP_FINISHED","stepName":"s%d"}`), times(n, `{"type":"CUSTOM","name":"n","runId":"r%d"}`),
			times(n, `{"type":"RUN_FINISHED","threadId":"t","runId":"r%d"}`))
	},
	"runs beside an open one": func(n int) []string {
		return append([]string{`{"type":"RUN_STARTED","threadId":"t","runId":"open"}`},
			times(n, `{"type":"RUN_STARTED","threadId":"t","runId":"r%[1]d"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r%[1]d"}`)...)
	},
	"attempts": func(n int) []string {
		return times(n, `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`)
	},
	"usage": func(n int) []string {
		return times(n, `{"type":"RUN_STARTED","threadId":"t","runId":"r%[1]d"}`,
			`{"type":"RUN_FINISHED","threadId":"t","runId":"r%[1]d","usage":[{"model":"m%[1]d","inputTokens":1}]}`)
	},
	"interrupts answered one by one": func(n int) []string {
		asked := make([]string, n)
		for i := range asked {
			asked[i] = fmt.Sprintf(`{"id":"i%d","reason":"x"}`, i)
		}
		return slices.Concat([]string{started(0), `{"type":"RUN_FINISHED","threadId":"t","runId":"r0","outcome":{"type":"interrupt","interrupts":[` + strings.Join(asked, ",") + `]}}`},
			times(n, `{"type":"RUN_STARTED","threadId":"t","runId":"a%[1]d","input":{"resume":[{"interruptId":"i%[1]d","status":"resolved"}]}}`,
				`{"type":"RUN_FINISHED","threadId":"t","runId":"a%[1]d"}`))
	},
	"one interrupt answered by many": func(n int) []string {
		return slices.Concat([]string{started(0), `{"type":"RUN_FINISHED","threadId":"t","runId":"r0","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"}]}}`},
			times(n, `{"type":"RUN_STARTED","threadId":"t","runId":"a%d","input":{"resume":[{"interruptId":"i","status":"resolved"}]}}`),
			times(n, `{"type":"RUN_ERROR","message":"m","runId":"a%d"}`))
	},
	"one answer many times": func(n int) []string {
		return slices.Concat([]string{started(0), `{"type":"RUN_FINISHED","threadId":"t","runId":"r0","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"x"}]}}`,
			`{"type":"RUN_STARTED","threadId":"t","runId":"a","input":{"resume":[{"interruptId":"i","status":"resolved"}` + strings.Repeat(`,{"interruptId":"i","status":"resolved"}`, n) + `]}}`})
	},
	"a snapshot of calls of one id": func(n int) []string {
		call := `{"id":"c","type":"function","function":{"name":"f","arguments":""}}`
		return []string{started(0), `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[` + call + strings.Repeat(","+call, n) + `]}]}`,
			`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[` + call + strings.Repeat(","+call, n) + `]}]}`, finished(0)}
	},
	"a snapshot of calls, and their results": func(n int) []string {
		var calls []string
		for i := range n {
			calls = append(calls, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"f","arguments":""}}`, i))
		}
		all := `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[` + strings.Join(calls, ",") + `]}]}`
		slices.Reverse(calls)
		back := `{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"m","role":"assistant","toolCalls":[` + strings.Join(calls, ",") + `]}]}`
		return slices.Concat([]string{started(0), all, back}, times(n, `{"type":"TOOL_CALL_RESULT","messageId":"r%[1]d","toolCallId":"c%[1]d","content":"x"}`), []string{finished(0)})
	},
	"a snapshot of one id": func(n int) []string {
		m := `{"id":"m","role":"user","content":"x"}`
		return []string{started(0), `{"type":"MESSAGES_SNAPSHOT","messages":[` + m + strings.Repeat(","+m, n) + `]}`, finished(0)}
	},
	"messages of one id, and an activity in their place": func(n int) []string {
		m := `{"id":"m","role":"user","content":"x"}`
		return slices.Concat([]string{started(0), `{"type":"MESSAGES_SNAPSHOT","messages":[` + m + strings.Repeat(","+m, n) + `]}`},
			times(n, `{"type":"ACTIVITY_SNAPSHOT","messageId":"m","activityType":"t","content":{}}`), []string{finished(0)})
	},
	"thinking": func(n int) []string {
		return inRun(n, `{"type":"THINKING_TEXT_MESSAGE_START"}`, `{"type":"THINKING_TEXT_MESSAGE_END"}`)
	},
	"custom events in the middle of what is closed": func(n int) []string {
		return slices.Concat([]string{started(0)},
			times(n, `{"type":"TEXT_MESSAGE_START","messageId":"l%d"}`), []string{`{"type":"TEXT_MESSAGE_START","messageId":"m"}`},
			times(n, `{"type":"TEXT_MESSAGE_END","messageId":"l%d"}`), times(n, `{"type":"CUSTOM","name":"n"}`), []string{finished(0)})
	},
}

func started(i int) string {
	return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"r%d"}`, i)
}
func finished(i int) string {
	return fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":"r%d"}`, i)
}

// times lists events n times over, with 0, 1, … in them where they want it.
func times(n int, events ...string) []string {
	out := make([]string, 0, n*len(events))
	for i := range n {
		for _, e := range events {
			if strings.Contains(e, "%") {
				e = fmt.Sprintf(e, i)
			}
			out = append(out, e)
		}
	}
	return out
}

// inRun is a run with events n times over, and a message m.
func inRun(n int, events ...string) []string {
	return slices.Concat([]string{started(0), `{"type":"TEXT_MESSAGE_START","messageId":"m"}`}, times(n, events...), []string{`{"type":"TEXT_MESSAGE_END","messageId":"m"}`, finished(0)})
}

func noEnd(events []string) []string { return events[:len(events)-1] }

// A stream four times as long takes about four times as long, whatever it is
// made of.
func TestHostileStreams(t *testing.T) {
	for _, profile := range []fold.Profile{fold.Durable, fold.Reference} {
		for name, events := range hostile {
			t.Run(profile.String()+"/"+name, func(t *testing.T) {
				small, large := events(1000), events(4000)
				cost := func(events []string) time.Duration {
					return cputime.Of(func() {
						fold.Stream(lines(events), fold.Options{Profile: profile}, 0).AppendJSON(nil)
					})
				}
				a, b := cost(small), cost(large)
				// A machine with other things to do is slower now and then, never faster.
				for range 9 {
					if b <= 8*a+20*time.Millisecond {
						return
					}
					a, b = min(a, cost(small)), min(b, cost(large))
				}
				t.Errorf("%v, and %v for four times as much", a, b)
			})
		}
	}
}

func lines(events []string) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, e := range events {
			if !yield([]byte(e)) {
				return
			}
		}
	}
}
