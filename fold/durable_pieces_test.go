package fold_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// Pieces for many messages come to the same whether they are taken the quick way
// or not, whenever one looks: some are for what is closed, of another kind, not
// there, or larger than what is put off together, and a view or a snapshot comes
// between.
func TestPiecesOfManyMessages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		quick, slow := fold.New(fold.Options{}), fold.New(fold.Options{})
		seq := uint64(0)
		apply := func(event string) {
			seq++
			r := fold.Record{Seq: seq, Run: agui.RunKey{ID: "r", Attempt: 1}, Raw: []byte(event)}
			quick.Apply(r)
			r.Raw = append([]byte(`{"x":0,`), event[1:]...)
			slow.Apply(r)
		}
		apply(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
		n := rapid.IntRange(1, 300).Draw(rt, "messages")
		for i := range n {
			apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, i))
			switch i % 5 {
			case 1:
				apply(fmt.Sprintf(`{"type":"REASONING_MESSAGE_START","messageId":"m%d","role":"reasoning"}`, i))
			case 2:
				apply(fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"m%d","toolCallName":"f","parentMessageId":"m%d"}`, i, i-1))
			case 3:
				apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":"m%d"}`, i))
			}
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		for range rapid.IntRange(0, 600).Draw(rt, "pieces") {
			text := [...]string{"", "a", "some words ", `\ud83c`, `\udf89`, "世界"}[r.IntN(6)]
			if r.IntN(300) == 0 {
				text = strings.Repeat("long ", 5000)
			}
			id := fmt.Sprintf("m%d", r.IntN(n+n/50+1))
			switch r.IntN(3) {
			case 0:
				apply(fmt.Sprintf(`{"type":"TOOL_CALL_ARGS","toolCallId":%q,"delta":"%s"}`, id, text))
			case 1:
				apply(fmt.Sprintf(`{"type":"REASONING_MESSAGE_CONTENT","messageId":%q,"delta":"%s","subagentRunId":"s"}`, id, text))
			default:
				apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":"%s"}`, id, text))
			}
			switch r.IntN(200) {
			case 0:
				sameView(rt, quick, slow)
			case 1:
				if a, b := quick.Snapshot(nil), slow.Snapshot(nil); !bytes.Equal(a, b) {
					rt.Fatalf("the snapshots differ:\n%x\n%x", a, b)
				}
			case 2:
				apply(fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":%q}`, id))
			}
		}
		sameView(rt, quick, slow)
		if err := fold.CheckDurable(quick); err != nil {
			rt.Fatal(err)
		}
	})
}

func sameView(rt *rapid.T, quick, slow *fold.Fold) {
	if a, b := quick.View().AppendJSON(nil), slow.View().AppendJSON(nil); !bytes.Equal(a, b) {
		rt.Fatalf("quick:\n%s\nslow:\n%s", a, b)
	}
}
