package fold_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/fold"
)

// broth makes streams in which snapshots meet much that stays: of a few ids, so
// that everything meets everything, and of more, so that there is an order.
type broth struct {
	pick func(n int) int // one of 0 to n-1
	ids  int
}

func (b *broth) one(of ...string) string { return of[b.pick(len(of))] }
func (b *broth) id() string {
	if b.pick(12) == 0 {
		return b.one("m1~text", "m0~2", "c0~2", "c0", "m1~tool", "c0~2~3")
	}
	return fmt.Sprintf("m%d", b.pick(b.ids))
}
func (b *broth) call() string {
	if b.pick(2) == 0 {
		return "c0"
	}
	return fmt.Sprintf("c%d", b.pick(b.ids))
}

func (b *broth) message() string {
	id := b.id()
	switch b.pick(12) {
	case 0, 1, 2:
		return fmt.Sprintf(`{"id":%q,"role":"assistant","content":"s"}`, id)
	case 3, 4, 5:
		var calls []string
		for range b.pick(4) {
			calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":"f","arguments":"s"}}`, b.call()))
		}
		return fmt.Sprintf(`{"id":%q,"role":"assistant","toolCalls":[%s]}`, id, strings.Join(calls, ","))
	case 6, 7, 8:
		return fmt.Sprintf(`{"id":%q,"role":"tool","toolCallId":%q,"content":"s"}`, b.one(id, id+"r"), b.call())
	case 9:
		return fmt.Sprintf(`{"id":%q,"role":"reasoning","content":"s"}`, id)
	case 10:
		return fmt.Sprintf(`{"id":%q,"role":"activity","activityType":%q,"content":{}}`, id, b.one("A", "B", "C"))
	}
	return b.one(`{"id":%q,"role":"ghost"}`, `{"id":%q}`, `{"id":%q,"role":"tool","content":5}`, `{"id":%q,"role":"assistant","toolCalls":[{"id":5}]}`,
		`{"id":%q,"role":"user","content":[{"type":"text"}]}`, `[%q]`)
}

func (b *broth) snapshot() string {
	var messages []string
	for range b.pick(2 + b.ids) {
		m := b.message()
		if strings.Contains(m, "%q") {
			m = fmt.Sprintf(m, b.id())
		}
		messages = append(messages, m)
	}
	metadata := ""
	if b.pick(2) == 0 {
		metadata = `,"metadata":` + b.one(`{"@ag-ui/client":{"authoritativeActivityTypes":["A"]}}`, `{"@ag-ui/client":{"authoritativeActivityTypes":null}}`,
			`{"@ag-ui/client":{"authoritativeActivityTypes":["B","A","X"]}}`, `{"@ag-ui/client":{"authoritativeActivityTypes":[]}}`, `{"@ag-ui/client":{}}`,
			`{"@ag-ui/client":5}`, `{"@ag-ui/client":{"authoritativeActivityTypes":["A",1]}}`)
	}
	return `{"type":"MESSAGES_SNAPSHOT","messages":[` + strings.Join(messages, ",") + `]` + metadata + `}`
}

func (b *broth) event() string {
	id, call := b.id(), b.call()
	switch b.pick(24) {
	case 0, 1, 2:
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":%q}`, id)
	case 3, 4:
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":%q}`, id)
	case 5:
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":"t"}`, id)
	case 6:
		return fmt.Sprintf(`{"type":"REASONING_MESSAGE_START","messageId":%q}`, id)
	case 7:
		return fmt.Sprintf(`{"type":"REASONING_MESSAGE_END","messageId":%q}`, id)
	case 8:
		return fmt.Sprintf(`{"type":"ACTIVITY_SNAPSHOT","messageId":%q,"activityType":%q,"content":{"n":1}}`, id, b.one("A", "B", "C"))
	case 9:
		return fmt.Sprintf(`{"type":"ACTIVITY_DELTA","messageId":%q,"activityType":%q,"patch":[]}`, id, b.one("A", "B", "C"))
	case 10, 11, 12:
		return fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":%q,"toolCallName":"f"%s}`, call, b.one("", fmt.Sprintf(`,"parentMessageId":%q`, id)))
	case 13:
		return fmt.Sprintf(`{"type":"TOOL_CALL_ARGS","toolCallId":%q,"delta":"t"}`, call)
	case 14:
		return fmt.Sprintf(`{"type":"TOOL_CALL_END","toolCallId":%q}`, call)
	case 15, 16, 17:
		return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":%q,"toolCallId":%q,"content":"t"}`, b.one(id, id+"r"), call)
	case 18:
		return fmt.Sprintf(`{"type":"TOOL_CALL_CHUNK","toolCallId":%q,"toolCallName":"f","delta":"t"}`, call)
	case 19:
		return b.one(`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m0","delta":"t"}`, `{"type":"CUSTOM","name":"n","value":1}`,
			`{"type":"RUN_STARTED","threadId":"t","runId":"q","input":{"messages":[`+fmt.Sprintf(`{"id":%q,"role":"tool","toolCallId":%q,"content":"s"}`, id, call)+`]}}`,
			`{"type":"RUN_FINISHED","threadId":"t","runId":"q"}`, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`, `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)
	}
	return b.snapshot()
}

func (b *broth) stream(n int) [][]byte {
	out := [][]byte{[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)}
	for range n {
		out = append(out, []byte(b.event()))
	}
	return out
}

// sameAsSlow folds a stream as it is and slowly, event by event, and wants the
// same of both: what they show, and what they remember. From some point on a
// third one goes on from a snapshot of the first.
func sameAsSlow(t tester, lines [][]byte, at int) {
	t.Helper()
	records := recordsOf(lines, fold.Durable)
	fast, slow := fold.New(fold.Options{}), fold.New(fold.Options{})
	for _, profile := range []fold.Options{{Profile: fold.Reference}, {Profile: fold.Reference, NoVerify: true}} {
		referenceAsSlow(t, lines, profile)
	}
	var restored *fold.Fold
	for i, r := range records {
		fast.Apply(r)
		fold.ApplySlowly(slow, r)
		if i%8 == 0 || i == len(records)-1 {
			consistent(t, fast, fold.Durable)
		}
		equal(t, fmt.Sprintf("after event %d, %s, the fold", r.Seq, r.Raw), fast, slow)
		if restored != nil {
			restored.Apply(r)
			equal(t, fmt.Sprintf("after event %d, %s, the restored fold", r.Seq, r.Raw), restored, slow)
		}
		if i == at {
			restored = restore(t, fast.Snapshot(nil), fold.Durable)
		}
	}
}

// referenceAsSlow is the same for Reference. What a slow fold believes may be
// twice is what it need not remember alike.
func referenceAsSlow(t tester, lines [][]byte, opts fold.Options) {
	t.Helper()
	fast, slow := fold.New(opts), fold.New(opts)
	for i, r := range recordsOf(lines, fold.Reference) {
		fast.Apply(r)
		fold.ApplySlowly(slow, r)
		if i%8 == 0 || i == len(lines)-1 {
			consistent(t, fast, fold.Reference)
		}
		if a, b := shown(fast), shown(slow); !bytes.Equal(a, b) {
			t.Fatalf("after event %d, %s, Reference shows\n%s\nslowly\n%s", r.Seq, r.Raw, a, b)
		}
	}
}

// A snapshot that walks past what stays leaves what one that goes through the
// whole transcript would leave.
func TestSnapshotsLeaveWhatSlowOnesLeave(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := broth{pick: func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "pick") }}
		b.ids = rapid.SampledFrom([]int{2, 4, 9}).Draw(rt, "ids")
		lines := b.stream(rapid.IntRange(1, 40).Draw(rt, "events"))
		sameAsSlow(rt, lines, rapid.IntRange(0, len(lines)).Draw(rt, "restored"))
	})
}

// The same for more and longer streams than are drawn above, where the
// transcript is long enough for both ways of finding an order.
func TestSnapshotsOfLongStreams(t *testing.T) {
	streams := uint64(25)
	switch {
	case os.Getenv("AGSTORE_LONG") != "":
		streams = 5000
	case testing.Short():
		streams = 10
	}
	for seed := range streams {
		rnd := rand.New(rand.NewPCG(seed, 9))
		b := broth{pick: rnd.IntN, ids: 3 + rnd.IntN(40)}
		lines := b.stream(150)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { sameAsSlow(t, lines, rnd.IntN(len(lines))) })
	}
}

// And for the streams of every other random test.
func TestSnapshotsOfSoups(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lines := soup(rt)
		sameAsSlow(rt, lines, rapid.IntRange(0, len(lines)).Draw(rt, "restored"))
	})
	for _, file := range caseFiles(t) {
		if lines := readLines(t, file); len(lines) <= 300 {
			t.Run(file, func(t *testing.T) { sameAsSlow(t, lines, len(lines)/2) })
		}
	}
}

// FuzzDurableSnapshots makes streams of bytes that each choose one thing.
func FuzzDurableSnapshots(f *testing.F) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		choices := make([]byte, 100+rnd.IntN(400))
		for i := range choices {
			choices[i] = byte(rnd.IntN(256))
		}
		f.Add(choices)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		if len(choices) > 4000 {
			choices = choices[:4000]
		}
		b := broth{ids: 2}
		b.pick = func(n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := choices[0]
			choices = choices[1:]
			return int(c) % n
		}
		b.ids += b.pick(12)
		at := b.pick(100)
		lines := [][]byte{[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)}
		for len(choices) > 0 && len(lines) < 100 {
			lines = append(lines, []byte(b.event()))
		}
		sameAsSlow(t, lines, at)
	})
}
