package fold_test

import (
	"fmt"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
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
