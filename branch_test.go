package agstore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/replay"
)

// runs records n runs r1 … rn, each with a turn and an answer.
func record(t *testing.T, s *agstore.Scope, n int) {
	t.Helper()
	ctx := timed(t)
	for i := 1; i <= n; i++ {
		run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: fmt.Sprint("r", i), Messages: []json.RawMessage{message(fmt.Sprint("u", i), fmt.Sprint("turn ", i))}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Append(ctx, say(fmt.Sprint("a", i), fmt.Sprint("answer ", i))...); err != nil {
			t.Fatal(err)
		}
		finish(t, ctx, run)
	}
}

func lastSeq(t *testing.T, s *agstore.Scope) uint64 {
	t.Helper()
	info, err := s.Thread(timed(t), "t")
	if err != nil {
		t.Fatal(err)
	}
	return info.LastSeq
}

// Many callers that take turns on one thread: each run continues the one before,
// so that no turn is missing from the conversation.
func TestRunsFollowEachOther(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	const callers, turns = 6, 20
	var wg sync.WaitGroup
	for c := range callers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; n < turns; {
				run, err := s.BeginRun(ctx, "t", agstore.RunInput{Messages: []json.RawMessage{message(fmt.Sprintf("u%d-%d", c, n), "x")}})
				if errors.Is(err, eventlog.ErrRunActive) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				finish(t, ctx, run)
				n++
			}
		}()
	}
	wg.Wait()
	view, err := s.View(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if len(view.Messages) != callers*turns {
		t.Errorf("the conversation has %d of %d turns", len(view.Messages), callers*turns)
	}
	if s := string(view.AppendJSON(nil)); strings.Contains(s, "unknown_parent") {
		t.Error("a parent is not what the record says")
	}
}

// A run on the head closes what an import left open in its lineage, not only the
// head (DESIGN decision 4).
func TestTakeoverOfAnImport(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	var events [][]byte
	for _, e := range []string{
		`{"type":"RUN_STARTED","threadId":"t","runId":"a"}`,
		`{"type":"RUN_STARTED","threadId":"t","runId":"b"}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"b"}`,
	} {
		events = append(events, []byte(e))
	}
	if _, err := s.AppendBatch(ctx, "t", eventlog.Batch{Events: events, Origin: eventlog.OriginImport}); err != nil {
		t.Fatal(err)
	}
	run, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "n"})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, run)
	runs, err := s.Runs(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if runs[0].Status != agui.RunAbandoned || runs[2].Parent.ID != "b" || runs[2].ParentSeq == 0 {
		t.Errorf("runs %+v", runs)
	}
}

// A branch of a file: its own start counts, with the turn and the state in it.
func TestBranchKeepsTheWordsOfItsFile(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	record(t, s, 2)
	file := [][]byte{
		[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"b","input":{"threadId":"t","runId":"b","messages":[{"id":"ub","role":"user","content":"other words"}],"state":{"n":1}}}`),
		[]byte(`{"type":"STATE_DELTA","delta":[{"op":"replace","path":"/n","value":2}]}`),
	}
	root := agui.RunKey{}
	done, err := s.Branch(ctx, "t", root, agstore.BranchInput{Events: file})
	if err != nil || done.Run.ID != "b" {
		t.Fatalf("%+v, %v", done, err)
	}
	view, err := s.View(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if out := string(view.AppendJSON(nil)); !strings.Contains(out, "other words") || string(view.State) != `{"n":2}` || view.Status != agui.RunSuccess || strings.Contains(out, "turn 1") {
		t.Errorf("the view is %s", out)
	}
	next := done.First
	for r, err := range s.Read(ctx, "t", eventlog.ReadOptions{From: done.First}) {
		if err != nil {
			t.Fatal(err)
		}
		if i := int(r.Seq - done.First); r.Echo || i < len(file) && string(r.Event) != string(file[i]) {
			t.Errorf("seq %d is %s, echo %v", r.Seq, r.Event, r.Echo)
		}
		next = r.Seq
	}
	if next != done.Last {
		t.Errorf("the last seq is %d, the answer says %d", next, done.Last)
	}
}

// A branch that is refused writes nothing and moves nothing.
func TestRefusedBranchWritesNothing(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	record(t, s, 2)
	before := lastSeq(t, s)
	r1, r9 := agui.RunKey{ID: "r1", Attempt: 1}, agui.RunKey{ID: "r9", Attempt: 1}
	good := []byte(`{"type":"CUSTOM","name":"n","value":1}`)
	for name, c := range map[string]struct {
		from agui.RunKey
		in   agstore.BranchInput
		want error
		line int
	}{
		"not an event":    {r1, agstore.BranchInput{Events: [][]byte{good, []byte(`{"no":1}`)}}, eventlog.ErrInvalidEvent, 2},
		"too large":       {r1, agstore.BranchInput{Events: [][]byte{good, make([]byte, 33<<20)}}, eventlog.ErrInvalidEvent, 2},
		"a used id":       {r1, agstore.BranchInput{RunID: "r2"}, eventlog.ErrRunExists, 0},
		"an unknown run":  {r9, agstore.BranchInput{}, eventlog.ErrRunNotFound, 0},
		"two run ids":     {r1, agstore.BranchInput{RunID: "x", Events: [][]byte{[]byte(`{"type":"RUN_STARTED","runId":"y"}`)}}, eventlog.ErrInvalid, 1},
		"a bad message":   {r1, agstore.BranchInput{Messages: []json.RawMessage{[]byte(`[]`)}}, eventlog.ErrInvalid, 0},
		"too many events": {r1, agstore.BranchInput{Events: repeat(good, 10_001)}, eventlog.ErrTooLarge, 0},
	} {
		_, err := s.Branch(ctx, "t", c.from, c.in)
		e := (*eventlog.Error)(nil)
		if !errors.Is(err, c.want) || !errors.As(err, &e) || e.Line != c.line {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := lastSeq(t, s); after != before {
		t.Errorf("%d records were written", after-before)
	}
	if info, _ := s.Thread(ctx, "t"); info.Head.ID != "r2" {
		t.Errorf("the head is %v", info.Head)
	}
}

func repeat(event []byte, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = event
	}
	return out
}

// What is pasted into a record must be what it says.
func TestBadRunInput(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	for name, in := range map[string]agstore.RunInput{
		"state adds members": {State: []byte(`{}},"x":{"y":1`)},
		"state is cut":       {State: []byte(`{"a":`)},
		"tools no list":      {Tools: []byte(`{}`)},
		"context no list":    {Context: []byte(`1`)},
		"resume no list":     {Resume: []byte(`null`)},
		"message null":       {Messages: []json.RawMessage{[]byte(`null`)}},
		"message a list":     {Messages: []json.RawMessage{[]byte(`[]`)}},
		"invalid UTF-8":      {State: []byte("\"\xff\"")},
	} {
		invalid := (*eventlog.InvalidError)(nil)
		if _, err := s.BeginRun(ctx, "t", in); !errors.As(err, &invalid) || invalid.Reason == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.BeginRun(ctx, "", agstore.RunInput{}); !errors.Is(err, eventlog.ErrInvalid) || !strings.Contains(err.Error(), "thread id") {
		t.Errorf("an empty thread id: %v", err)
	}
	if _, err := s.Append(ctx, "t\xff", []byte(`{"type":"X"}`)); !errors.Is(err, eventlog.ErrInvalid) {
		t.Errorf("a thread id that is no text: %v", err)
	}
	if _, err := s.Append(ctx, "t\xed\xa0\x80", []byte(`{"type":"X"}`)); err != nil {
		t.Errorf("a thread id with a lone surrogate: %v", err)
	}
	if _, err := s.Thread(ctx, "t"); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("a refused start left a thread: %v", err)
	}
}

// A branch that says its own parent otherwise than asked for is marked.
func TestBranchOfAFileWithAnotherParent(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	record(t, s, 2)
	r1 := agui.RunKey{ID: "r1", Attempt: 1}
	file := [][]byte{[]byte(`{"type":"RUN_STARTED","threadId":"t","runId":"b","parentRunId":"r2"}`)}
	if _, err := s.Branch(ctx, "t", r1, agstore.BranchInput{Events: file}); err != nil {
		t.Fatal(err)
	}
	if out := shown(t, ctx, s, replay.AtHead()); !strings.Contains(out, "unknown_parent") || strings.Contains(out, "turn 2") {
		t.Errorf("the view is %s", out)
	}
}
