package fold_test

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/fold"
)

// A piece of text comes to the same whether its event is taken the quick way or
// not: a member that means nothing keeps it from that.
func TestQuickIsTheSame(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := soup(rt)
		slow := slices.Clone(lines)
		for i, line := range slow {
			if bytes.Contains(line, []byte(`_CONTENT"`)) || bytes.Contains(line, []byte(`"TOOL_CALL_ARGS"`)) {
				slow[i] = append([]byte(`{"x":0,`), line[1:]...)
			}
		}
		a := fold.Stream(slices.Values(lines), fold.Options{}, 0).AppendJSON(nil)
		b := fold.Stream(slices.Values(slow), fold.Options{}, 0).AppendJSON(nil)
		if !bytes.Equal(a, b) {
			rt.Fatalf("quick:\n%s\nslow:\n%s", a, b)
		}
	})
}

// Most events are taken the quick way: they allocate nothing of their own.
func TestTextAllocatesNothing(t *testing.T) {
	f := fold.New(fold.Options{})
	seq := uint64(0)
	apply := func(raw []byte) {
		seq++
		f.Apply(fold.Record{Seq: seq, Run: agui.RunKey{ID: "r", Attempt: 1}, Raw: raw})
	}
	for _, event := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"m"}`,
		`{"type":"REASONING_MESSAGE_START","messageId":"m","role":"reasoning"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f"}`,
	} {
		apply([]byte(event))
	}
	for _, event := range []string{
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"some words"}`,
		`{"type":"REASONING_MESSAGE_CONTENT","messageId":"m","delta":"some \"escaped\" words, 世界"}`,
		`{ "toolCallId" : "c", "delta" : "{", "type" : "TOOL_CALL_ARGS" }`,
	} {
		raw := []byte(event)
		if n := testing.AllocsPerRun(10_000, func() { apply(raw) }); n > 0.1 {
			t.Errorf("%s: %v allocations", event, n)
		}
	}
}
