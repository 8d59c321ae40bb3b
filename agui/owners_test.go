package agui

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/internal/cputime"
)

// owns is the rule in its plain form: whether an event is about something that
// this run has started.
func (o *openIDs) owns(h *Header) bool {
	has := func(m map[string]uint64, id []byte) bool {
		if id == nil {
			return false
		}
		_, ok := m[string(id)]
		return ok
	}
	switch h.Type {
	case TypeStepStarted:
		return false // step names come again in every run
	case TypeTextMessageStart, TypeReasoningMessageStart:
		return false // see TypeToolCallStart
	case TypeToolCallStart:
		// What begins an id once more is rather a later run, which takes up what a
		// dead one has left or numbers its calls as that did, than the run that
		// has begun it already.
		return !has(o.calls, h.ToolCallID) && has(o.texts, h.ParentMessageID)
	case TypeStepFinished:
		return o.steps[stepOf(h)] != 0
	case TypeReasoningStart, TypeReasoningEnd:
		return has(o.spans, h.MessageID)
	case TypeReasoningMessageContent, TypeReasoningMessageEnd, TypeReasoningMessageChunk:
		return has(o.reasonings, h.MessageID)
	}
	return has(o.calls, h.ToolCallID) || has(o.texts, h.MessageID) || has(o.texts, h.ParentMessageID)
}

// linear looks through all running runs, the last started first.
func (t *Tracker) linear(h *Header) int {
	for _, o := range slices.Backward(t.open.list) {
		if !o.closed && o.ids.owns(h) {
			return o.index
		}
	}
	return -1
}

// lineal looks through the whole lineage for a running run.
func (t *Tracker) lineal(of RunKey) bool {
	return slices.ContainsFunc(Lineage(t.runs, of), func(s Segment) bool { return t.runs[t.at(s.Run)].Running() })
}

// Whose an event is, and whether a run overlaps with another, is what looking
// through everything would find.
func TestTrackerLooksUpWhatIsThere(t *testing.T) {
	types := []Type{
		TypeRunStarted, TypeRunStarted, TypeRunFinished, TypeTextMessageStart, TypeTextMessageContent, TypeTextMessageChunk,
		TypeToolCallStart, TypeToolCallStart, TypeToolCallArgs, TypeToolCallChunk, TypeToolCallResult, TypeActivitySnapshot,
		TypeReasoningStart, TypeReasoningEnd, TypeReasoningMessageStart, TypeReasoningMessageContent, TypeReasoningMessageChunk,
		TypeStepStarted, TypeStepFinished, TypeStepFinished, TypeCustom,
	}
	rapid.Check(t, func(rt *rapid.T) {
		tr := NewTracker(nil, RunKey{})
		id := func(name string, of ...string) []byte {
			if rapid.IntRange(0, 2).Draw(rt, "no "+name) == 0 {
				return nil
			}
			return []byte(rapid.SampledFrom(of).Draw(rt, name))
		}
		for seq := uint64(1); seq <= 80; seq++ {
			h := Header{Type: rapid.SampledFrom(types).Draw(rt, "type")}
			h.MessageID, h.ParentMessageID, h.ToolCallID = id("message", "", "m", "n"), id("parent", "", "m"), id("call", "", "c", "m")
			h.StepName, h.SubagentRunID = id("step", "s", "t"), id("subagent", "")
			switch h.Type {
			case TypeRunStarted, TypeRunFinished:
				h.RunID = []byte(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(rt, "run"))
				h.ParentRunID = id("parent run", "a", "b", "c")
			default:
				h.RunID = id("run", "a", "b", "x")
			}
			if tr.OpenCount() > 1 {
				if got, want := tr.owners.of(&h), tr.linear(&h); got != want {
					rt.Fatalf("seq %d: %+v belongs to run %d, want %d", seq, h, got, want)
				}
			}
			peeked := tr.Peek(&h, Claim{})
			switch rapid.IntRange(0, 9).Draw(rt, "other") {
			case 0:
				tr = tr.Clone()
			case 1:
				if tr.Len() > 0 {
					tr.SetHead(tr.runs[rapid.IntRange(0, tr.Len()-1).Draw(rt, "head")].Key)
				}
			}
			a := tr.Assign(&h, seq, Claim{})
			if h.Type != TypeRunStarted && a.Run != peeked {
				rt.Fatalf("seq %d: %v was to be expected, it is %v", seq, peeked, a.Run)
			}
			for _, r := range tr.runs {
				if got, want := tr.nearest(r.Key) >= 0, tr.lineal(r.Key); got != want {
					rt.Fatalf("seq %d: a run is running in the lineage of %v: %v, want %v", seq, r.Key, got, want)
				}
				running := slices.DeleteFunc(Lineage(tr.runs, r.Key), func(s Segment) bool { return !tr.runs[tr.at(s.Run)].Running() })
				if !slices.EqualFunc(tr.Running(r.Key), running, func(k RunKey, s Segment) bool { return k == s.Run }) {
					rt.Fatalf("running in the lineage of %v: %v, want %v", r.Key, tr.Running(r.Key), running)
				}
			}
			if len(tr.OpenRuns()) != tr.OpenCount() {
				rt.Fatal("the count of open runs is wrong")
			}
		}
		for what, runs := range tr.owners {
			if len(runs) == 0 || !slices.IsSorted(runs) {
				rt.Fatalf("owners of %v: %v", what, runs)
			}
		}
	})
}

// Neither a run beside an open one nor an event among many open runs costs what
// there are of them.
func TestTrackerCostOfOpenRuns(t *testing.T) {
	for name, stream := range map[string]func(tr *Tracker, n int){
		"runs beside an open one": func(tr *Tracker, n int) {
			tr.Assign(&Header{Type: TypeRunStarted, RunID: []byte("open")}, 1, Claim{})
			for i := range n {
				id := fmt.Appendf(nil, "r%d", i)
				tr.Assign(&Header{Type: TypeRunStarted, RunID: id}, uint64(2*i+2), Claim{})
				tr.Assign(&Header{Type: TypeRunFinished, RunID: id}, uint64(2*i+3), Claim{})
			}
		},
		"open runs": func(tr *Tracker, n int) {
			for i := range n {
				tr.Assign(&Header{Type: TypeRunStarted, RunID: fmt.Appendf(nil, "r%d", i)}, uint64(i+1), Claim{})
				tr.Assign(&Header{Type: TypeTextMessageStart, MessageID: fmt.Appendf(nil, "m%d", i)}, uint64(i+1), Claim{})
			}
			for i := range n {
				tr.Assign(&Header{Type: TypeTextMessageContent, MessageID: fmt.Appendf(nil, "m%d", i)}, uint64(n+i), Claim{})
				tr.Assign(&Header{Type: TypeStepFinished, StepName: []byte("s")}, uint64(n+i), Claim{})
			}
			for i := range n {
				tr.Assign(&Header{Type: TypeRunFinished, RunID: fmt.Appendf(nil, "r%d", i)}, uint64(2*n+i), Claim{})
			}
		},
		"calls of one parent": func(tr *Tracker, n int) {
			message := []byte("m")
			for i := range n {
				tr.Assign(&Header{Type: TypeRunStarted, RunID: fmt.Appendf(nil, "r%d", i)}, uint64(2*i+1), Claim{})
				tr.Assign(&Header{Type: TypeTextMessageStart, MessageID: message}, uint64(2*i+2), Claim{})
			}
			for i := range n {
				tr.Assign(&Header{Type: TypeToolCallStart, ToolCallID: []byte("c"), ParentMessageID: message}, uint64(2*n+i), Claim{})
			}
		},
		"attempts": func(tr *Tracker, n int) {
			first := RunKey{ID: "r", Attempt: 1}
			for i := range n {
				tr.Assign(&Header{Type: TypeRunStarted, RunID: []byte("r")}, uint64(3*i+1), Claim{})
				tr.Assign(&Header{Type: TypeRunFinished}, uint64(3*i+2), Claim{})
				tr.Assign(&Header{Type: TypeCustom}, uint64(3*i+3), Claim{Run: first})
			}
		},
	} {
		cost := func(n int) time.Duration {
			return cputime.Of(func() { stream(NewTracker(nil, RunKey{}), n) })
		}
		within := func(small, large time.Duration) bool { return large <= 40*small+20*time.Millisecond }
		// A machine with other things to do is slower now and then, never faster.
		small, large := cost(1000), cost(16_000)
		for range 9 {
			if within(small, large) {
				break
			}
			small, large = min(small, cost(1000)), min(large, cost(16_000))
		}
		if !within(small, large) {
			t.Errorf("%s: %v, and %v for sixteen times as much", name, small, large)
		}
	}
}
