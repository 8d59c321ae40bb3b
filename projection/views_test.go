package projection_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
	"github.com/agstore/agstore/replay"
)

func openLog(t rapid.TB) eventlog.Log {
	log, err := pebblelog.Open("", pebblelog.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// A view that was kept and folded on equals the view folded from the whole log,
// whatever came in between: runs, branches, overlaps, late events, other threads
// that push it out of memory (invariant 4).
func TestKeptViewsAreFoldsOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := openLog(t)
		defer log.Close()
		ctx := t.Context()
		views := projection.New(log, projection.Options{Open: 1})
		runs, messages := 0, 0
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			thread := eventlog.ThreadKey{Scope: "s", Thread: rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "thread")}
			var batch eventlog.Batch
			for range rapid.IntRange(1, 4).Draw(t, "events") {
				var event string
				switch rapid.IntRange(0, 5).Draw(t, "kind") {
				case 0:
					runs++
					event = fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"r%d","input":{"threadId":"t","runId":"r","messages":[{"id":"u%d","role":"user","content":"turn"}]}}`, runs, runs)
				case 1:
					runs++
					event = fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"r%d","parentRunId":"r%d"}`, runs, rapid.IntRange(0, runs).Draw(t, "parent"))
				case 2:
					event = fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":"r%d"}`, rapid.IntRange(0, runs).Draw(t, "run"))
				case 3:
					messages++
					event = fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, messages)
				case 4:
					event = fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"x"}`, rapid.IntRange(0, messages).Draw(t, "message"))
				case 5:
					event = fmt.Sprintf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k%d","value":%d}]}`, rapid.IntRange(0, 3).Draw(t, "key"), messages)
				}
				batch.Events = append(batch.Events, []byte(event))
			}
			batch.Origin = eventlog.OriginImport
			if _, err := log.Append(ctx, thread, batch); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "look") {
				kept, err := views.Head(ctx, thread)
				if err != nil {
					t.Fatal(err)
				}
				fresh, err := replay.Anew(ctx, log, thread, replay.AtHead(), fold.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if a, b := string(kept.AppendJSON(nil)), string(fresh.AppendJSON(nil)); a != b {
					t.Fatalf("kept  %s\nfresh %s", a, b)
				}
			}
		}
	})
}

// The view at a seq is the view the head had when the thread was that long.
func TestViewAtASeqIsWhatTheHeadWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := openLog(t)
		defer log.Close()
		ctx, thread := t.Context(), eventlog.ThreadKey{Scope: "s", Thread: "t"}
		var then []string
		for i := range rapid.IntRange(1, 20).Draw(t, "events") {
			event := rapid.SampledFrom([]string{
				`{"type":"RUN_STARTED","threadId":"t","runId":"a"}`,
				`{"type":"RUN_STARTED","threadId":"t","runId":"b","parentRunId":"a"}`,
				`{"type":"RUN_FINISHED","threadId":"t","runId":"a"}`,
				`{"type":"RUN_ERROR","message":"x"}`,
				`{"type":"TEXT_MESSAGE_START","messageId":"m"}`,
				`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`,
				`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
			}).Draw(t, fmt.Sprint("event ", i))
			if _, err := log.Append(ctx, thread, eventlog.Batch{Events: [][]byte{[]byte(event)}, Origin: eventlog.OriginImport}); err != nil {
				t.Fatal(err)
			}
			view, err := replay.Anew(ctx, log, thread, replay.AtHead(), fold.Options{})
			if err != nil {
				t.Fatal(err)
			}
			then = append(then, string(view.AppendJSON(nil)))
		}
		for i, want := range then {
			view, err := replay.View(ctx, log, thread, replay.AtSeq(uint64(i+1)), fold.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(view.AppendJSON(nil)); got != want {
				t.Fatalf("at %d\ngot  %s\nwant %s", i+1, got, want)
			}
		}
	})
}

func TestUnknownPoints(t *testing.T) {
	log := openLog(t)
	defer log.Close()
	ctx, thread := t.Context(), eventlog.ThreadKey{Scope: "s", Thread: "t"}
	if _, err := projection.New(log, projection.Options{}).Head(ctx, thread); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("no thread: %v", err)
	}
	if _, err := log.Append(ctx, thread, eventlog.Batch{Events: [][]byte{[]byte(`{"type":"X"}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.View(ctx, log, thread, replay.AtSeq(2), fold.Options{}); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("behind the end: %v", err)
	}
	if _, err := replay.View(ctx, log, thread, replay.AtRun(agui.RunKey{ID: "r", Attempt: 1}), fold.Options{}); !errors.Is(err, eventlog.ErrRunNotFound) {
		t.Errorf("no run: %v", err)
	}
	for _, err := range replay.Records(ctx, log, thread, replay.AtSeq(9), 0) {
		if !errors.Is(err, eventlog.ErrNotFound) {
			t.Errorf("records behind the end: %v", err)
		}
	}
}
