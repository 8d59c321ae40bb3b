package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agstoretest"
	"github.com/agstore/agstore/agui"
	apiclient "github.com/agstore/agstore/api/client"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

var connectModes = []string{"raw", "compact", "snapshot"}

// pieces is a run in the order of what is open in it: the test stands still behind each of them.
func pieces(in runInput) [][]step {
	id := func(kind string) string { return kind + "-" + in.RunID }
	return [][]step{
		send(event{"type": "RUN_STARTED", "threadId": in.ThreadID, "runId": in.RunID},
			event{"type": "STATE_SNAPSHOT", "snapshot": event{"n": 1, "list": []int{1}}}),
		send(event{"type": "REASONING_START", "messageId": id("thought")},
			event{"type": "REASONING_MESSAGE_START", "messageId": id("thought"), "role": "reasoning"},
			event{"type": "REASONING_MESSAGE_CONTENT", "messageId": id("thought"), "delta": "The weather"}),
		send(event{"type": "REASONING_MESSAGE_CONTENT", "messageId": id("thought"), "delta": ", then."},
			event{"type": "REASONING_MESSAGE_END", "messageId": id("thought")},
			event{"type": "REASONING_END", "messageId": id("thought")},
			event{"type": "TOOL_CALL_START", "toolCallId": id("call"), "toolCallName": "weather"},
			event{"type": "TOOL_CALL_ARGS", "toolCallId": id("call"), "delta": `{"city":`}),
		send(event{"type": "TOOL_CALL_ARGS", "toolCallId": id("call"), "delta": `"Köln"}`},
			event{"type": "TOOL_CALL_END", "toolCallId": id("call")},
			event{"type": "TOOL_CALL_RESULT", "messageId": id("result"), "toolCallId": id("call"), "content": "rain"},
			event{"type": "TEXT_MESSAGE_START", "messageId": id("text"), "role": "assistant"},
			event{"type": "TEXT_MESSAGE_CONTENT", "messageId": id("text"), "delta": "It rains"}),
		send(event{"type": "TEXT_MESSAGE_CONTENT", "messageId": id("text"), "delta": " in Köln."},
			event{"type": "TEXT_MESSAGE_END", "messageId": id("text")},
			event{"type": "STATE_DELTA", "delta": []event{{"op": "add", "path": "/list/-", "value": 2}}},
			event{"type": "TEXT_MESSAGE_CHUNK", "messageId": id("chunk"), "role": "assistant", "delta": "Take an"}),
		send(event{"type": "TEXT_MESSAGE_CHUNK", "delta": " umbrella"},
			event{"type": "TOOL_CALL_CHUNK", "toolCallId": id("buy"), "toolCallName": "buy", "delta": `{"what":`}),
		send(event{"type": "TOOL_CALL_CHUNK", "delta": `"umbrella"}`},
			event{"type": "RUN_FINISHED", "threadId": in.ThreadID, "runId": in.RunID, "outcome": event{"type": "interrupt",
				"interrupts": []event{{"id": id("ask"), "reason": "approval", "toolCallId": id("buy")}}}}),
	}
}

// TestConnectModes: clients that come in every mode while a run stands still at each place, and one that comes when it is over,
// hold in the end, which is a question, what the others hold. All of them run in one process of Node.
func TestConnectModes(t *testing.T) {
	needClient(t)
	places := len(pieces(runInput{})) - 1
	stand, open := make(chan struct{}, places), make(chan struct{})
	a := startAgent(t, func(in runInput) []step {
		all := pieces(in)
		var place int
		if n, _ := fmt.Sscanf(in.ThreadID, "t%d", &place); n == 0 || in.RunID == "r1" {
			return slices.Concat(opening(in), closing(in))
		}
		return slices.Concat(slices.Concat(all[:place+1]...), hold(open), slices.Concat(all[place+1:]...))
	})
	s := startServer(t, t.TempDir(), a)
	c := apiclient.New(s.url, apiclient.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, places)
	run := func(thread, id string, seen func(n int)) error {
		n := 0
		for _, err := range c.Run(ctx, "scripted", fmt.Appendf(nil, `{"threadId":%q,"runId":%q,"messages":[{"id":"u-%[2]s","role":"user","content":"Weather?"}]}`, thread, id)) {
			if err != nil {
				return err
			}
			n++
			seen(n)
		}
		return nil
	}
	type join struct {
		URL      string `json:"url"`
		ThreadID string `json:"threadId"`
	}
	var joins []join
	for place := range places {
		thread := fmt.Sprint("t", place)
		if err := run(thread, "r1", func(int) {}); err != nil {
			t.Fatal(err)
		}
		events := 1 // the store's own RUN_STARTED
		for _, piece := range pieces(runInput{})[:place+1] {
			events += len(piece)
		}
		go func() {
			ended <- run(thread, "r2", func(n int) {
				if n == events {
					stand <- struct{}{}
				}
			})
		}()
		for _, mode := range connectModes {
			joins = append(joins, join{s.connectURL() + "?mode=" + mode, thread})
		}
	}
	for range places {
		select {
		case <-stand:
		case err := <-ended:
			t.Fatalf("a run did not come to its place: %v", err)
		}
	}
	got := joinAll(t, joins, func() { close(open) })
	for range places {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	after := joinAll(t, joins[:len(connectModes)], func() {})
	want := after[0]
	if want.Error != nil || len(want.PendingInterrupts) != 1 || len(want.Messages) != 12 {
		t.Fatalf("who comes afterwards has %d interrupts and %d messages: %v", len(want.PendingInterrupts), len(want.Messages), want)
	}
	for i, o := range append(got, after...) {
		who := fmt.Sprintf("who joined thread %s by %s", append(joins, joins...)[i].ThreadID, append(joins, joins...)[i].URL)
		if o.Error != nil {
			t.Errorf("%s failed: %s", who, *o.Error)
		}
		same(t, who, o, want)
	}
}

// joinAll runs joins.mjs, calls then when each has joined, and gives what each holds in the end.
func joinAll[T any](t *testing.T, joins []T, then func()) []outcome {
	t.Helper()
	arg, err := json.Marshal(joins)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "joins.mjs", string(arg))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := make([]outcome, len(joins))
	joined, left := 0, 0
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var line struct {
			Joined, Left *int
			Holds        outcome
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if line.Joined != nil {
			if joined++; joined == len(joins) {
				then()
			}
		}
		if line.Left != nil {
			out[*line.Left] = line.Holds
			left++
		}
	}
	if err := cmd.Wait(); err != nil || left != len(joins) {
		t.Fatalf("of %d clients %d came to their end: %v\n%s", len(joins), left, err, stderr.String())
	}
	return out
}

// TestSnapshotInTheClient: the official client is given random streams whole, and from the middle with a snapshot in place of
// what was before, at every place where the view is what it holds itself. It ends the same.
func TestSnapshotInTheClient(t *testing.T) {
	needClient(t)
	client := startOfficial(t)
	store := agstoretest.Open(t, "", agstore.Options{})
	scope, ctx := store.Scope("s"), context.Background()
	// Not yet any seed: of streams whose ids are as odd as these, some hundreds in, others have a place from which the client
	// ends otherwise (1, 2 and 3 do).
	seed := number(t, "AGSTORE_DIFF_SEED", 77)
	t.Logf("AGSTORE_DIFF_SEED=%d", seed)
	joined, strangers := 0, 0
	for n := range min(streamsWanted(t)/4, 500) {
		s := newWriter(rand.New(rand.NewPCG(seed, n))).write(30)
		s = legal(s)
		thread := fmt.Sprint("t", n)
		batch := eventlog.Batch{Origin: eventlog.OriginImport}
		for _, line := range s {
			batch.Events = append(batch.Events, []byte(line))
		}
		if len(s) == 0 || strings.Contains(strings.Join(s, ""), "THINKING") {
			continue // each reader makes up its own ids for it
		}
		if _, err := scope.AppendBatch(ctx, thread, batch); err != nil {
			t.Fatal(err)
		}
		streams := []stream{s}
		var places []int
		for join := 1; join <= len(s); join++ {
			view, err := scope.ViewAt(ctx, thread, replay.AtSeq(uint64(join)))
			if err != nil {
				t.Fatal(err)
			}
			if !agree(view, asRead(s[:join])) {
				continue
			}
			o, err := replay.Snapshot(ctx, store.Log(), eventlog.ThreadKey{Scope: "s", Thread: thread}, view)
			if err != nil {
				t.Fatal(err)
			}
			var joinedHere stream
			for _, e := range o.Events {
				joinedHere = append(joinedHere, string(e))
			}
			whole := append(joinedHere, s[join:]...)
			if foreign(whole) && len(view.Runs) == 1 {
				strangers++ // docs/http.md says so
				continue
			}
			streams, places = append(streams, whole), append(places, join)
		}
		answers, err := client.fold(streams...)
		if err != nil {
			t.Fatal(err)
		}
		want := ending(answers[0])
		for i, got := range answers[1:] {
			joined++
			if ending(got) != want {
				t.Fatalf("stream %d joined at %d: the client ends with %s, want %s\n%s\nof\n%s", n, places[i], ending(got), want, streams[i+1].joined(), s.joined())
			}
		}
	}
	if joined < 40 || strangers > joined/5 {
		t.Errorf("%d places were tried, %d were not", joined, strangers)
	}
	t.Logf("%d places, and %d at which the client would not let an agent go on with another's message", joined, strangers)
}

// foreign reports whether the client refuses a stream because an agent goes on
// with what is another's (V-10).
func foreign(s stream) bool {
	f := fold.New(fold.Options{Profile: fold.Reference})
	for i, line := range s {
		f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(line)})
	}
	stop := f.View().Reference.Error
	if stop == nil {
		return false
	}
	violation, ok := errors.AsType[*agui.Violation](stop.Err)
	return ok && violation.Rule == "V-10"
}

// ending is what is held at an answer's end, without the number of the event.
func ending(a answer) string {
	_, held, _ := strings.Cut(a[len(a)-1], " ")
	return held
}

// legal is a stream up to where the client would stop.
func legal(s stream) stream {
	f := fold.New(fold.Options{Profile: fold.Reference})
	for i, line := range s {
		if f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(line)}); f.View().Reference.Error != nil {
			return s[:i]
		}
	}
	return s
}

func asRead(s stream) *fold.View {
	f := fold.New(fold.Options{Profile: fold.Reference})
	for i, line := range s {
		f.Apply(fold.Record{Seq: uint64(i + 1), Raw: []byte(line)})
	}
	return f.View()
}

// agree reports whether two views show the same messages, state and interrupts.
func agree(a, b *fold.View) bool {
	text := func(v *fold.View) string {
		var out []byte
		for i := range v.Messages {
			out = v.Messages[i].AppendJSON(out)
		}
		for i := range v.PendingInterrupts {
			out = v.PendingInterrupts[i].JSON().AppendJSON(out)
		}
		if v.State == nil {
			return string(out) + "{}"
		}
		return string(out) + string(v.State)
	}
	return text(a) == text(b)
}
