package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agstore/agstore/api"
	"github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

var modes = []api.ConnectMode{api.ConnectRaw, api.ConnectCompact, api.ConnectSnapshot}

// held is what the official client holds after events.
func holds(t *testing.T, events []string) string {
	t.Helper()
	f := fold.New(fold.Options{Profile: fold.Reference})
	for i, e := range events {
		f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(e)})
	}
	v := f.View()
	if v.Reference.Error != nil {
		t.Fatalf("the client stops: %v\n%s", v.Reference.Error, strings.Join(events, "\n"))
	}
	var out strings.Builder
	for i := range v.Messages {
		fmt.Fprintf(&out, "%s\n", v.Messages[i].AppendJSON(nil))
	}
	fmt.Fprintf(&out, "%s\n", v.State)
	for i := range v.PendingInterrupts {
		fmt.Fprintf(&out, "%s\n", v.PendingInterrupts[i].JSON().AppendJSON(nil))
	}
	return out.String()
}

// story is runs with all that can be open, and between them a failure and a
// question.
func story() []string {
	out := []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"s1","input":{"threadId":"t","runId":"s1","messages":[{"id":"u1","role":"user","content":"Hi"}],"tools":[],"context":[],"forwardedProps":{}}}`,
		`{"type":"STATE_SNAPSHOT","snapshot":{"n":1.0}}`,
		`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/list","value":[9007199254740993]}]}`,
	}
	out = append(out, text("m1", "one")...)
	out = append(out,
		`{"type":"RUN_ERROR","message":"it fell over"}`,
		`{"type":"RUN_STARTED","threadId":"t","runId":"s2"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"pay"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"eur\":"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"5}"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"c1"}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"s2","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"approval","toolCallId":"c1"}]}}`,
		`{"type":"RUN_STARTED","threadId":"t","runId":"s3","input":{"threadId":"t","runId":"s3","messages":[],"tools":[],"context":[],"forwardedProps":{},"resume":[{"interruptId":"i1","status":"resolved","payload":true}]}}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"t1","toolCallId":"c1","content":"paid"}`,
		`{"type":"STEP_STARTED","stepName":"think"}`,
		`{"type":"REASONING_START","messageId":"g1"}`,
		`{"type":"REASONING_MESSAGE_START","messageId":"g1","role":"reasoning"}`,
		`{"type":"REASONING_MESSAGE_CONTENT","messageId":"g1","delta":"Hm"}`,
		`{"type":"REASONING_MESSAGE_CONTENT","messageId":"g1","delta":"mm"}`,
		`{"type":"REASONING_MESSAGE_END","messageId":"g1"}`,
		`{"type":"REASONING_END","messageId":"g1"}`,
		`{"type":"STEP_FINISHED","stepName":"think"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m2","role":"assistant","delta":"party \ud83c"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","delta":"\udf89"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","delta":" now"}`,
		`{"type":"TOOL_CALL_CHUNK","toolCallId":"c2","toolCallName":"book","delta":"{"}`,
		`{"type":"TOOL_CALL_CHUNK","delta":"}"}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"s3","outcome":{"type":"interrupt","interrupts":[{"id":"i2","reason":"approval","toolCallId":"c2"}]}}`,
	)
	return out
}

// Whoever joins, after whatever event and in whatever mode, ends with what a
// client has that saw every event. The events behind the join are written when
// the client has what was before.
func TestConnectModesAtEveryPoint(t *testing.T) {
	all := story()
	for join := 1; join <= len(all); join++ {
		for _, mode := range modes {
			b := newBench(t, says())
			if _, err := b.scope.Append(b.ctx, "t", bytesOf(all[:join])...); err != nil {
				t.Fatal(err)
			}
			var got []string
			var last uint64
			for e, err := range b.client.Connect(b.ctx, "helper", []byte(input("t", "x")), client.ConnectOptions{Mode: mode}) {
				if err != nil {
					t.Fatal(err)
				}
				if len(e.Data) > 0 {
					got = append(got, string(e.Data))
				}
				if e.Seq < uint64(join) || last >= uint64(join) {
					last = max(last, e.Seq)
					continue
				}
				last = e.Seq
				// The history is there; if a run is live, go on with it to its end.
				rest := all[join : join+1+slices.IndexFunc(append(all[join:], `RUN_ERROR`), isTerminal)]
				if isTerminal(all[join-1]) {
					rest = nil
				}
				for _, line := range rest {
					if _, err := b.scope.Append(b.ctx, "t", []byte(line)); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := all[:last]
			if last < uint64(join) || last > uint64(join) && !isTerminal(all[last-1]) {
				t.Errorf("%s joined at %d: the last id is %d", mode, join, last)
			}
			if a, b := holds(t, got), holds(t, want); a != b {
				t.Errorf("%s joined at %d: the client has\n%swant\n%sof\n%s", mode, join, a, b, strings.Join(got, "\n"))
			}
		}
	}
}

func bytesOf(lines []string) [][]byte {
	out := make([][]byte, len(lines))
	for i, l := range lines {
		out[i] = []byte(l)
	}
	return out
}

func isTerminal(line string) bool {
	return strings.Contains(line, "RUN_FINISHED") || strings.Contains(line, "RUN_ERROR")
}

// A client that is cut off after any frame and has an id goes on from it; one
// that has none yet begins anew. Nothing is lost or comes twice.
func TestConnectModesCutAnywhere(t *testing.T) {
	all := story()
	b := newBench(t, says())
	if _, err := b.scope.Append(b.ctx, "t", bytesOf(all)...); err != nil {
		t.Fatal(err)
	}
	want := holds(t, all)
	for _, mode := range modes {
		path := "/v1/agents/helper/connect?mode=" + string(mode)
		whole := b.frames(b.post(path, input("t", "x")))
		if id := whole[len(whole)-1].id; id != strconv.Itoa(len(all)) {
			t.Errorf("%s: the last id is %s, of %d", mode, id, len(all))
		}
		for cut := range whole {
			var got []string
			headers := []string{}
			if cut > 0 && whole[cut-1].id != "" {
				headers = []string{"Last-Event-ID", whole[cut-1].id}
				for _, f := range whole[:cut] {
					got = append(got, f.data)
				}
			}
			for _, f := range b.frames(b.post(path, input("t", "x"), headers...)) {
				got = append(got, f.data)
			}
			if a := holds(t, got); a != want {
				t.Errorf("%s, cut after %d: the client has\n%swant\n%s", mode, cut, a, want)
			}
		}
	}
}

// What a reconnect costs is the transcript in the mode snapshot, and less than
// the history in compact.
func TestConnectModesCost(t *testing.T) {
	b := newBench(t, says())
	lines := []string{started("s1"), `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`}
	for range 500 {
		lines = append(lines, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"word "}`, `{"type":"STATE_SNAPSHOT","snapshot":{"n":1}}`)
	}
	lines = append(lines, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`, finished("s1"))
	if _, err := b.scope.Append(b.ctx, "t", bytesOf(lines)...); err != nil {
		t.Fatal(err)
	}
	for mode, most := range map[api.ConnectMode]int{api.ConnectRaw: len(lines), api.ConnectCompact: 6, api.ConnectSnapshot: 4} {
		if got := b.frames(b.post("/v1/agents/helper/connect?mode="+string(mode), input("t", "x"))); len(got) != most {
			t.Errorf("%s sends %d events, want %d: %s", mode, len(got), most, kinds(got))
		}
	}
}

// A snapshot has the transcript in the order that the issue names, and in the
// middle of a run what is open is opened behind it.
func TestConnectSnapshotOrder(t *testing.T) {
	b := newBench(t, says())
	all := story()
	if _, err := b.scope.Append(b.ctx, "t", bytesOf(all)...); err != nil {
		t.Fatal(err)
	}
	got := b.frames(b.post("/v1/agents/helper/connect?mode=snapshot", input("t", "x")))
	if kinds(got) != "RUN_STARTED MESSAGES_SNAPSHOT STATE_SNAPSHOT RUN_FINISHED" {
		t.Errorf("got %s", kinds(got))
	}
	if end := got[len(got)-1]; end.data != all[len(all)-1] {
		t.Errorf("the end is %s, not the stored one", end.data)
	}
}

func TestConnectModeErrors(t *testing.T) {
	b := newBench(t, says())
	resp := b.post("/v1/agents/helper/connect?mode=fast", input("t", "x"))
	if p := problemOf(t, resp); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an unknown mode: %v", p)
	}
	for _, mode := range modes {
		if got := b.frames(b.post("/v1/agents/helper/connect?mode="+string(mode), input("nobody", "x"))); len(got) != 0 {
			t.Errorf("%s of an unknown thread: %v", mode, got)
		}
		if _, err := b.scope.Append(b.ctx, "t", []byte(started("s"+string(mode))), []byte(finished("s"+string(mode)))); err != nil {
			t.Fatal(err)
		}
		var failed error
		for _, err := range b.client.Connect(b.ctx, "helper", []byte(input("t", "x")), client.ConnectOptions{Mode: mode, After: 99}) {
			failed = err
		}
		if !errors.Is(failed, eventlog.ErrConflict) {
			t.Errorf("%s with a cursor of another life: %v", mode, failed)
		}
	}
}

// Clients join in every mode while a run is written as fast as it can be: each
// ends with every piece once.
func TestConnectModesWhileARunIsWritten(t *testing.T) {
	const pieces = 400
	b := newBench(t, says())
	all := []string{started("s1"), `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`, `{"type":"STATE_SNAPSHOT","snapshot":{"l":[]}}`}
	for i := range pieces {
		all = append(all, fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%d "}`, i), fmt.Sprintf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/l/-","value":%d}]}`, i))
	}
	all = append(all, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`, finished("s1"))
	want := holds(t, all)
	var wg sync.WaitGroup
	got := make([][]string, 9)
	join := func(n int) {
		for e, err := range b.client.Connect(b.ctx, "helper", []byte(input("t", "x")), client.ConnectOptions{Mode: modes[n%3]}) {
			if err != nil {
				t.Error(err)
				return
			}
			if len(e.Data) > 0 {
				got[n] = append(got[n], string(e.Data))
			}
		}
	}
	for i, line := range all {
		if _, err := b.scope.Append(b.ctx, "t", []byte(line)); err != nil {
			t.Fatal(err)
		}
		if n := i / 80; i%80 == 40 && n < len(got) {
			wg.Go(func() { join(n) })
		}
	}
	wg.Wait()
	for n, events := range got {
		if held := holds(t, events); held != want {
			t.Errorf("client %d, %s: it has\n%s", n, modes[n%3], held)
		}
	}
}
