package projection_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
	"github.com/agstore/agstore/replay"
)

var theThread = eventlog.ThreadKey{Scope: "s", Thread: "t"}

// grove is a thread that grows, and its stored views.
type grove struct {
	t     *rapid.T
	fs    *vfs.MemFS
	log   *pebblelog.Log
	views *projection.Views

	runs, messages int
}

func (g *grove) open(fs *vfs.MemFS) {
	log, err := pebblelog.Open("store", pebblelog.Options{FS: fs})
	if err != nil {
		g.t.Fatal(err)
	}
	g.fs, g.log, g.views = fs, log, projection.New(log, projection.Options{Open: 1})
	g.views.StoreAlways()
}

// event draws an event of the thread: runs after each other, beside each other,
// and from each other, and whatever may be in them or late.
func (g *grove) event() string {
	t := g.t
	run := func() string { return fmt.Sprintf("r%d", rapid.IntRange(max(g.runs-3, 0), g.runs).Draw(t, "run")) }
	message := func() string {
		return fmt.Sprintf("m%d", rapid.IntRange(max(g.messages-4, 0), g.messages).Draw(t, "message"))
	}
	switch rapid.IntRange(0, 14).Draw(t, "kind") {
	case 0, 1:
		g.runs++
		return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"r%d","input":{"threadId":"t","runId":"r","messages":[{"id":"u%d","role":"user","content":"turn"}],"resume":[{"interruptId":"i","status":"resolved"}]}}`, g.runs, g.runs)
	case 2:
		parent := run()
		g.runs++
		return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"r%d","parentRunId":%q}`, g.runs, parent)
	case 3, 4:
		return fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":%q}`, run())
	case 5:
		return fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":%q,"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"q"}]}}`, run())
	case 6:
		g.messages++
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, g.messages)
	case 7, 8:
		return fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":%q,"delta":"x"}`, message())
	case 9:
		return fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":%q,"toolCallName":"f","parentMessageId":%q}`, message(), message())
	case 10:
		return fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":"x%s","toolCallId":%q,"content":"ok"}`, message(), message())
	case 11:
		var list []string
		for i := range rapid.IntRange(0, 3).Draw(t, "messages") {
			list = append(list, fmt.Sprintf(`{"id":"m%d","role":"assistant","content":"said %d"}`, max(g.messages-i, 0), i))
		}
		return `{"type":"MESSAGES_SNAPSHOT","messages":[` + strings.Join(list, ",") + `]}`
	case 12:
		return fmt.Sprintf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k%d","value":%d}]}`, rapid.IntRange(0, 3).Draw(t, "key"), g.messages)
	case 13:
		return `{"type":"STEP_STARTED","stepName":"s"}`
	}
	return `{"type":"CUSTOM","name":"c","value":[1]}`
}

func (g *grove) grow() {
	b := eventlog.Batch{Origin: eventlog.OriginImport}
	for range rapid.IntRange(1, 5).Draw(g.t, "events") {
		b.Events = append(b.Events, []byte(g.event()))
	}
	if _, err := g.log.Append(g.t.Context(), theThread, b); err != nil {
		g.t.Fatal(err)
	}
}

func (g *grove) space() eventlog.Space {
	return eventlog.Space{Scope: theThread.Scope, Thread: theThread.Thread, Owner: "view"}
}

// harm loses or spoils some of the stored rows.
func (g *grove) harm() {
	ctx := g.t.Context()
	at, err := g.log.DerivedAt(ctx, g.space())
	if err != nil {
		g.t.Fatal(err)
	}
	if rapid.IntRange(0, 3).Draw(g.t, "harm") == 0 {
		if err := g.log.DerivedDrop(ctx, g.space()); err != nil {
			g.t.Fatal(err)
		}
		return
	}
	batch := eventlog.DerivedBatch{From: at, To: at}
	var rows []eventlog.DerivedRow
	for row, err := range g.log.DerivedScan(ctx, g.space(), eventlog.ScanOptions{}) {
		if err != nil {
			g.t.Fatal(err)
		}
		rows = append(rows, row)
	}
	for i, row := range rows {
		switch rapid.IntRange(0, 5).Draw(g.t, "row") {
		case 0:
			// The last row of a list is not lost alone: its number would be given again.
			if i+1 == len(rows) || !bytes.Equal(row.Key[:2], rows[i+1].Key[:2]) {
				continue
			}
			batch.Changes = append(batch.Changes, eventlog.DerivedChange{Key: row.Key, Delete: true})
		case 1:
			cut := rapid.IntRange(0, len(row.Value)).Draw(g.t, "cut")
			batch.Changes = append(batch.Changes, eventlog.DerivedChange{Key: row.Key, Value: row.Value[:cut]})
		}
	}
	if len(batch.Changes) > 0 {
		if err := g.log.DerivedWrite(ctx, g.space(), batch); err != nil {
			g.t.Fatal(err)
		}
	}
	g.views = projection.New(g.log, projection.Options{Open: 1})
	g.views.StoreAlways()
}

// redact takes away what a message says.
func (g *grove) redact() {
	what := eventlog.Redaction{Message: fmt.Sprintf("m%d", g.messages)}
	if _, err := g.log.Redact(g.t.Context(), theThread, what, eventlog.RemoveOptions{}); err != nil && !errors.Is(err, eventlog.ErrNotFound) {
		g.t.Fatal(err)
	}
}

// crash loses what was not synced, or part of it, and opens what is left.
func (g *grove) crash() {
	seed := rapid.Uint64().Draw(g.t, "seed")
	cut := g.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.IntRange(0, 100).Draw(g.t, "unsynced"), RNG: rand.New(rand.NewPCG(seed, 1))})
	if err := g.log.Close(); err != nil {
		g.t.Fatal(err)
	}
	g.open(cut)
}

// check compares the stored views with views folded from the records: at the
// head, at every run, and at some seqs.
func (g *grove) check() {
	t, ctx := g.t, g.t.Context()
	info, err := g.log.Thread(ctx, theThread)
	if errors.Is(err, eventlog.ErrThreadNotFound) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	runs, err := g.log.Runs(ctx, theThread)
	if err != nil {
		t.Fatal(err)
	}
	head, err := g.views.Head(ctx, theThread)
	if err != nil {
		t.Fatal(err)
	}
	g.equal("the head", head, replay.AtHead())
	g.pages(head)
	compare := func(what string, at replay.Point) {
		view, err := replay.View(ctx, g.log, theThread, at, fold.Options{})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		g.equal(what, view, at)
	}
	for _, r := range runs {
		compare("run "+r.Key.String(), replay.AtRun(r.Key))
	}
	for seq := info.FirstSeq; seq <= info.LastSeq; seq += uint64(rapid.IntRange(1, 10).Draw(t, "skip")) {
		compare(fmt.Sprint("seq ", seq), replay.AtSeq(seq))
	}
}

// pages reads the transcript page by page from its end, once from what is stored
// and once from memory: joined they are the transcript, and none parts a result
// from its call without saying so (field-lessons L11).
func (g *grove) pages(head *fold.View) {
	cold := projection.New(g.log, projection.Options{})
	for name, views := range map[string]*projection.Views{"stored": cold, "in memory": g.views} {
		var joined []agui.Message
		count := rapid.IntRange(1, 4).Draw(g.t, "count")
		for before := 0; ; {
			page, err := views.Page(g.t.Context(), theThread, projection.PageOptions{Before: before, Count: count})
			if err != nil {
				g.t.Fatal(err)
			}
			end := page.Total
			if before > 0 {
				end = before
			}
			if got := len(page.View.Messages); page.Total != len(head.Messages) || got != end-page.From || got < min(count, end) {
				g.t.Fatalf("%s: a page of %d messages from %d on, of %d", name, len(page.View.Messages), page.From, page.Total)
			}
			if m := page.View.Messages; len(m) > 0 && page.Parted != (m[0].Role == agui.RoleTool) {
				g.t.Fatalf("%s: parted: %v, and the first is %s", name, page.Parted, m[0].Role)
			}
			if page.Parted && page.From > 0 && len(page.View.Messages) < 100 {
				g.t.Fatalf("%s: a result is parted from its call", name)
			}
			if string(page.View.State) != string(head.State) || len(page.View.PendingInterrupts) != len(head.PendingInterrupts) {
				g.t.Fatalf("%s: state %s, %d questions", name, page.View.State, len(page.View.PendingInterrupts))
			}
			joined = append(slices.Clone(page.View.Messages), joined...)
			if before = page.From; before == 0 {
				break
			}
		}
		a, b := (&fold.View{Messages: joined}).AppendJSON(nil), (&fold.View{Messages: head.Messages}).AppendJSON(nil)
		if string(a) != string(b) {
			g.t.Fatalf("%s: pages joined\n%s\nare not\n%s", name, a, b)
		}
	}
}

func (g *grove) equal(what string, view *fold.View, at replay.Point) {
	fresh, err := replay.Anew(g.t.Context(), g.log, theThread, at, fold.Options{})
	if err != nil {
		g.t.Fatal(err)
	}
	if a, b := string(view.AppendJSON(nil)), string(fresh.AppendJSON(nil)); a != b {
		g.t.Fatalf("%s: stored\n%s\nfolded\n%s", what, a, b)
	}
}

// A stored view is the fold of its lineage: at the head, at every run and at
// every seq, while the thread grows, branches, overlaps and is cleared, after a
// crash, and whatever has become of the rows (issue 5, must hold 1).
func TestStoredViewsAreFoldsOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &grove{t: t}
		g.open(vfs.NewCrashableMem())
		defer func() { g.log.Close() }()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			g.grow()
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				g.harm()
			case 1:
				g.crash()
			case 2:
				g.redact()
				if rapid.Bool().Draw(t, "clear") {
					continue
				}
				if _, err := g.log.Clear(t.Context(), theThread, eventlog.RemoveOptions{}); err != nil {
					t.Fatal(err)
				}
			case 3, 4:
				g.check()
			case 8, 9:
				if err := g.views.Apply(t.Context(), theThread); err != nil && !errors.Is(err, eventlog.ErrThreadNotFound) {
					t.Fatal(err)
				}
			case 5, 6, 7:
				if _, err := g.views.Head(t.Context(), theThread); err != nil {
					t.Fatal(err)
				}
			}
		}
		g.check()
		g.crash()
		g.check()
	})
}

// Killed after any write, of the log or of the view, the view is what the log
// folds to (field-lessons L7).
func TestViewAfterACrashAtAnyWrite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &grove{t: t}
		g.open(vfs.NewCrashableMem())
		defer func() { g.log.Close() }()
		for range rapid.IntRange(0, 8).Draw(t, "steps before") {
			g.grow()
			if _, err := g.views.Head(t.Context(), theThread); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 2).Draw(t, "steps") {
			g.grow()
			var cuts []*vfs.MemFS
			cut := func() {
				seed := rapid.Uint64().Draw(t, "seed")
				cuts = append(cuts, g.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "unsynced"), RNG: rand.New(rand.NewPCG(seed, 2))}))
			}
			cut()
			if _, err := g.views.Head(t.Context(), theThread); err != nil {
				t.Fatal(err)
			}
			cut()
			for _, fs := range cuts {
				after := &grove{t: t, runs: g.runs, messages: g.messages}
				after.open(fs)
				after.check()
				if err := after.log.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
