package projection_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
	"github.com/agstore/agstore/replay"
)

// counting counts what is written beside the log, and to it.
type counting struct {
	*pebblelog.Log
	rows, bytes, events int
}

func (c *counting) DerivedWrite(ctx context.Context, space eventlog.Space, b eventlog.DerivedBatch) error {
	for _, change := range b.Changes {
		c.rows++
		c.bytes += len(change.Key) + len(change.Value)
	}
	return c.Log.DerivedWrite(ctx, space, b)
}

// stored is a thread that is stored as it grows.
type stored struct {
	t     *testing.T
	log   *counting
	views *projection.Views
}

func newStored(t *testing.T) *stored {
	log, err := pebblelog.Open("", pebblelog.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	s := &stored{t: t, log: &counting{Log: log}}
	s.views = projection.New(s.log, projection.Options{Failed: func(_ eventlog.ThreadKey, err error) { t.Error(err) }})
	return s
}

// add appends events and stores the view as Run does.
func (s *stored) add(events ...string) {
	b := eventlog.Batch{Origin: eventlog.OriginImport}
	for _, e := range events {
		b.Events = append(b.Events, []byte(e))
		s.log.events += len(e)
	}
	if _, err := s.log.Append(s.t.Context(), theThread, b); err != nil {
		s.t.Fatal(err)
	}
	if err := s.views.Apply(s.t.Context(), theThread); err != nil {
		s.t.Fatal(err)
	}
}

// check wants the stored view to be the fold of the log.
func (s *stored) check() {
	s.t.Helper()
	for _, at := range []replay.Point{replay.AtHead(), replay.AtSeq(s.last() / 2)} {
		view, err := replay.View(s.t.Context(), s.log, theThread, at, fold.Options{})
		if err != nil {
			s.t.Fatal(err)
		}
		anew, err := replay.Anew(s.t.Context(), s.log, theThread, at, fold.Options{})
		if err != nil {
			s.t.Fatal(err)
		}
		if string(view.AppendJSON(nil)) != string(anew.AppendJSON(nil)) {
			s.t.Error("the stored view is not the fold of the log")
		}
	}
}

func (s *stored) last() uint64 {
	info, err := s.log.Thread(s.t.Context(), theThread)
	if err != nil {
		s.t.Fatal(err)
	}
	return info.LastSeq
}

// Every run ends with the whole conversation once more: bytes written stay near
// what is new (field-lessons L8, speed P-V4).
func TestSnapshotsOfTheWholeAreNotStoredAgain(t *testing.T) {
	runs := 500
	if testing.Short() {
		runs = 100
	}
	s := newStored(t)
	var messages []string
	distinct := 0
	for i := range runs {
		text := strings.Repeat(fmt.Sprintf("word%d ", i), 30)
		distinct += len(text)
		messages = append(messages, fmt.Sprintf(`{"id":"message-%d","role":"user","content":%q}`, i, text))
		whole := "[" + strings.Join(messages, ",") + "]"
		s.add(fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"run-%d","input":{"threadId":"t","runId":"run-%d","messages":%s,"tools":[],"context":[]}}`, i, i, whole),
			`{"type":"MESSAGES_SNAPSHOT","messages":`+whole+`}`,
			fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":"run-%d"}`, i))
	}
	t.Logf("%d bytes of events, %d of distinct content, %d written in %d rows", s.log.events, distinct, s.log.bytes, s.log.rows)
	if s.log.bytes > 3*distinct {
		t.Errorf("%d bytes written for %d of content", s.log.bytes, distinct)
	}
	s.check()
}

// Views of runs of text take no more than their events (speed P-V4), also if the
// runs are short, or one is very long.
func TestStoredViewsOfText(t *testing.T) {
	for name, c := range map[string]struct{ runs, deltas, append int }{
		"runs of 200 events": {100, 196, 50},
		"short runs":         {1000, 1, 5},
		"one long run":       {1, 60_000, 500},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				c.runs = (c.runs + 4) / 5
			}
			s := newStored(t)
			var events []string
			for i := range c.runs {
				events = append(events, fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"thread-1","runId":"run-%d","input":{"threadId":"t","runId":"r","messages":[{"id":"user-%d","role":"user","content":"What is it?"}]}}`, i, i),
					fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"message-%d","role":"assistant"}`, i))
				for range c.deltas {
					events = append(events, fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"message-%d","delta":"four or five words "}`, i))
				}
				events = append(events, fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":"message-%d"}`, i),
					fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"thread-1","runId":"run-%d"}`, i))
				for len(events) > 0 {
					n := min(c.append, len(events))
					s.add(events[:n]...)
					events = events[n:]
				}
			}
			t.Logf("%d bytes of events, %d written in %d rows: %.2f", s.log.events, s.log.bytes, s.log.rows, float64(s.log.bytes)/float64(s.log.events))
			if s.log.bytes > s.log.events {
				t.Errorf("%d bytes written for %d of events", s.log.bytes, s.log.events)
			}
			s.check()
		})
	}
}

// The newest 50 of very many messages are found without the others (issue 5,
// must hold 4).
func TestPageOfALongThread(t *testing.T) {
	runs, each := 1000, 100
	if testing.Short() {
		runs = 200
	}
	s := newStored(t)
	n := 0
	run := func(i, messages int) {
		var list []string
		for range messages {
			list = append(list, fmt.Sprintf(`{"id":"m%d","role":"user","content":"hello"}`, n))
			n++
		}
		s.add(fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"r%d","input":{"threadId":"t","runId":"r","messages":[%s]}}`, i, strings.Join(list, ",")),
			`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/n","value":1}]}`, `{"type":"CUSTOM","name":"c","value":1}`,
			fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":"r%d"}`, i))
	}
	for i := range runs {
		run(i, each)
	}
	for i := range 100 {
		run(runs+i, 1) // as seldom as it gets: one message in a row
	}
	cold := projection.New(s.log, projection.Options{})
	for _, before := range []int{0, n / 2, 60} {
		page, err := cold.Page(t.Context(), theThread, projection.PageOptions{Before: before})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d rows read for 50 before %d of %d messages", page.Rows, before, page.Total)
		if page.Total != n || len(page.View.Messages) != 50 || page.Rows == 0 || page.Rows > 200 {
			t.Errorf("before %d: %d messages of %d, %d rows read", before, len(page.View.Messages), page.Total, page.Rows)
		}
		if want := fmt.Sprintf("m%d", page.From); page.View.Messages[0].ID != want {
			t.Errorf("the first is %s, want %s", page.View.Messages[0].ID, want)
		}
	}
}

// A branch costs what it points with, however long what it shares is
// (field-lessons L49).
func TestBranchesAreCheap(t *testing.T) {
	branches := 1000
	if testing.Short() {
		branches = 100
	}
	s := newStored(t)
	s.views.StoreAlways()
	var messages []string
	for i := range 500 {
		messages = append(messages, fmt.Sprintf(`{"id":"m%d","role":"user","content":%q}`, i, strings.Repeat("word ", 20)))
	}
	s.add(`{"type":"RUN_STARTED","threadId":"t","runId":"trunk","input":{"threadId":"t","runId":"trunk","messages":[`+strings.Join(messages, ",")+`]}}`,
		`{"type":"RUN_FINISHED","threadId":"t","runId":"trunk"}`)
	before := s.log.bytes
	for i := range branches {
		s.add(fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":"b%d","parentRunId":"trunk"}`, i),
			fmt.Sprintf(`{"type":"RUN_FINISHED","threadId":"t","runId":"b%d"}`, i))
	}
	each := (s.log.bytes - before) / branches
	t.Logf("%d bytes for the trunk, %d for each branch", before, each)
	if each > 300 {
		t.Errorf("%d bytes for each branch", each)
	}
	s.check()
}

// Run stores what is committed, behind the log, until it is ended.
func TestRunStoresViews(t *testing.T) {
	log, err := pebblelog.Open("", pebblelog.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	now := make(chan time.Time)
	close(now)
	views := projection.New(log, projection.Options{
		After:  func(time.Duration) <-chan time.Time { return now },
		Failed: func(_ eventlog.ThreadKey, err error) { t.Error(err) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		views.Run(ctx, log)
	}()
	cold := projection.New(log, projection.Options{})
	for i := range 3 {
		added, err := log.Append(ctx, theThread, eventlog.Batch{Origin: eventlog.OriginImport, Events: [][]byte{
			fmt.Appendf(nil, `{"type":"RUN_STARTED","threadId":"t","runId":"r%d"}`, i),
			fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m%d","delta":%q}`, i, strings.Repeat("word ", 100)),
			fmt.Appendf(nil, `{"type":"RUN_FINISHED","threadId":"t","runId":"r%d"}`, i),
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := views.Wait(ctx, added.Position); err != nil {
			t.Fatal(err)
		}
		page, err := cold.Page(ctx, theThread, projection.PageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if page.Rows == 0 || page.Total != i+1 {
			t.Errorf("after run %d: %d messages, %d rows read: it is not stored", i, page.Total, page.Rows)
		}
		cold = projection.New(log, projection.Options{})
	}
	if _, err := log.Erase(ctx, theThread, eventlog.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := views.Wait(ctx, log.Watermark()); err != nil {
		t.Fatal(err)
	}
	if _, err := cold.Page(ctx, theThread, projection.PageOptions{}); !errors.Is(err, eventlog.ErrErased) {
		t.Errorf("a page of an erased thread: %v", err)
	}
	cancel()
	<-done
	if err := views.Wait(ctx, log.Watermark()+1); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for what will not come: %v", err)
	}
}
