package pebblelog

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
)

// What a batch would do to runs that are held is known without trying it, or
// tried: never is another answer given than that of trying.
func TestPeekIsWhatATrialSays(t *testing.T) {
	sure, held := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		event := func(types ...agui.Type) agui.Header {
			id := func(name string) []byte {
				return rapid.SampledFrom([][]byte{nil, []byte("a"), []byte("b")}).Draw(rt, name)
			}
			return agui.Header{
				Type: rapid.SampledFrom(types).Draw(rt, "type"), RunID: id("run"), MessageID: id("message"), ParentMessageID: id("parent"),
				ToolCallID: id("call"), StepName: []byte("s"),
			}
		}
		types := []agui.Type{
			agui.TypeTextMessageStart, agui.TypeTextMessageContent, agui.TypeToolCallStart, agui.TypeToolCallStart, agui.TypeToolCallChunk,
			agui.TypeToolCallArgs, agui.TypeStepStarted, agui.TypeStepFinished, agui.TypeCustom,
		}
		tracker := agui.NewTracker(nil, agui.RunKey{})
		seq := uint64(0)
		for i := range rapid.IntRange(1, 4).Draw(rt, "runs") {
			seq++
			tracker.Assign(&agui.Header{Type: agui.TypeRunStarted, RunID: fmt.Appendf(nil, "%c", 'a'+i)}, seq, agui.Claim{})
			for range rapid.IntRange(0, 4).Draw(rt, "events") {
				h := event(types...)
				seq++
				tracker.Assign(&h, seq, agui.Claim{})
			}
		}
		isHeld := make(map[agui.RunKey]bool)
		for _, r := range tracker.Runs() {
			isHeld[r.Key] = rapid.Bool().Draw(rt, "held")
		}
		c := new(call)
		if rapid.IntRange(0, 4).Draw(rt, "explicit") == 0 {
			c.run = tracker.Runs()[0].Key
		}
		for range rapid.IntRange(1, 5).Draw(rt, "batch") {
			c.events = append(c.events, withHead(event(append(slices.Clone(types), agui.TypeRunFinished)...)))
		}
		run, ok := peek(tracker, c, func(k agui.RunKey) bool { return isHeld[k] })
		if !ok {
			return
		}
		sure++
		var want agui.RunKey
		trial := tracker.Clone()
		for i := range c.events {
			if a := trial.Assign(&c.events[i].head, seq+1+uint64(i), agui.Claim{Run: c.run}); isHeld[a.Run] {
				want = a.Run
				held++
				break
			}
		}
		if isHeld[run] != isHeld[want] || isHeld[run] && run != want {
			rt.Fatalf("run %v is held, a trial says %v", run, want)
		}
	})
	if sure == 0 || held == 0 {
		t.Errorf("sure %d times, of a held run %d times: nothing was compared", sure, held)
	}
}

func withHead(h agui.Header) event { return event{head: h} }
