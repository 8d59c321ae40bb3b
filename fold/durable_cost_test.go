package fold_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/internal/cputime"
)

// long is a fold of a thread with so many turns, its last run still running.
func long(turns int) (*fold.Fold, func(event string)) {
	f := fold.New(fold.Options{})
	seq, key := uint64(0), agui.RunKey{Attempt: 1}
	apply := func(event string) {
		seq++
		f.Apply(fold.Record{Seq: seq, Run: key, Raw: []byte(event)})
	}
	start := func(n int) {
		key.ID = fmt.Sprintf("r%d", n)
		apply(fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":%q,"input":{"messages":[{"id":"u%d","role":"user","content":"Hi"}]}}`, key.ID, n))
	}
	for n := range turns {
		start(n)
		// Providers number their calls anew: the same id in every turn.
		apply(`{"type":"TOOL_CALL_START","toolCallId":"call_0","toolCallName":"f"}`)
		apply(`{"type":"TOOL_CALL_END","toolCallId":"call_0"}`)
		apply(`{"type":"TOOL_CALL_RESULT","messageId":"result","toolCallId":"call_0","content":"1"}`)
		apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"a%d"}`, n))
		apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a%d","delta":"Hello"}`, n))
		apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":"a%d"}`, n))
		apply(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/n","value":1}]}`)
		apply(fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":%q}`, key.ID))
	}
	start(turns)
	return f, apply
}

// A token, a patch, a call and its result allocate no more in a long thread
// than in a short one.
func TestEventsCostTheSameInALongThread(t *testing.T) {
	measure := func(turns int) float64 {
		_, apply := long(turns)
		apply(`{"type":"TEXT_MESSAGE_START","messageId":"a"}`)
		n := 0
		return testing.AllocsPerRun(200, func() {
			n++
			apply(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x"}`)
			apply(`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}`)
			apply(fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"f","parentMessageId":"a"}`, n))
			apply(fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":"t%d","toolCallId":"c%d","content":"r"}`, n, n))
		})
	}
	short, longer := measure(10), measure(5000)
	if longer > short+5 {
		t.Errorf("%v allocations in a short thread, %v in a long one", short, longer)
	}
}

// What an event costs does not grow with what came before it, whatever that
// was. Growing maps and buffers cost a constant factor; a scan or a copy per
// event would cost twenty times as much here.
func TestCostPerEvent(t *testing.T) {
	loads := map[string]func(i int) string{
		"messages": func(i int) string {
			return fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"n%d"}`, i)
		},
		"text": func(int) string { return `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"some words"}` },
		"late content": func(int) string {
			return `{"type":"TEXT_MESSAGE_CONTENT","messageId":"u0","delta":"some words"}`
		},
		"calls": func(i int) string {
			return fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"f","parentMessageId":"m"}`, i)
		},
		"results in one row": func(i int) string {
			return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":"t%d","toolCallId":"call_0","content":"r"}`, i)
		},
		"ids that are taken": func(i int) string {
			return [...]string{
				`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_END","toolCallId":"c"}`,
				`{"type":"TOOL_CALL_RESULT","messageId":"t","toolCallId":"c","content":"r"}`,
			}[i%3]
		},
		"calls announced again": func(i int) string {
			return [...]string{
				`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`, `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"x"}`,
				`{"type":"TOOL_CALL_END","toolCallId":"c"}`,
			}[i%3]
		},
		"owners of chunks": func(i int) string {
			return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"l%d","subagentRunId":"s%d","delta":"d"}`, i, i)
		},
		"calls in chunks": func(i int) string {
			return fmt.Sprintf(`{"type":"TOOL_CALL_CHUNK","toolCallId":"k%d","toolCallName":"f","parentMessageId":"m","delta":"d"}`, i%2)
		},
		"custom events between": func(i int) string {
			return [...]string{`{"type":"CUSTOM","name":"n","value":1}`, `{"type":"STEP_STARTED","stepName":"s"}`, `{"type":"STEP_FINISHED","stepName":"s"}`}[i%3]
		},
		"state": func(i int) string {
			return fmt.Sprintf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k%d","value":[1]},{"op":"replace","path":"/n","value":%d}]}`, i, i)
		},
		"echoes": func(i int) string {
			return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"x%d"}`, i)
		},
	}
	for name, event := range loads {
		t.Run(name, func(t *testing.T) {
			small, large := costPerEvent(2000, 9, event), costPerEvent(40_000, 3, event)
			if large > 5*small+time.Microsecond {
				t.Errorf("an event costs %v in a short stream, %v in one twenty times as long", small, large)
			}
		})
	}
}

// costPerEvent is the least that an event of a load costs in several tries: a
// machine that has other things to do is slower, not faster.
func costPerEvent(events, tries int, event func(i int) string) time.Duration {
	least := time.Duration(math.MaxInt64)
	for range tries {
		_, apply := long(1)
		apply(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`)
		lines := make([]string, events)
		for i := range lines {
			lines[i] = event(i)
		}
		took := cputime.Of(func() {
			for _, line := range lines {
				apply(line)
			}
		})
		least = min(least, took/time.Duration(events))
	}
	return least
}

func BenchmarkDurableToken(b *testing.B) {
	for _, turns := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			_, apply := long(turns)
			apply(`{"type":"TEXT_MESSAGE_START","messageId":"a"}`)
			for b.Loop() {
				apply(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"some words "}`)
			}
		})
	}
}

func BenchmarkDurableTurn(b *testing.B) {
	for _, turns := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("turns=%d", turns), func(b *testing.B) {
			for b.Loop() {
				long(turns)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(turns), "ns/turn")
		})
	}
}

func BenchmarkDurableView(b *testing.B) {
	f, apply := long(10_000)
	apply(`{"type":"TEXT_MESSAGE_START","messageId":"a"}`)
	for b.Loop() {
		apply(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"a","delta":"x"}`)
		f.View()
	}
}
