package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
	"github.com/agstore/agstore/replay"
)

func viewRows() []row {
	return []row{
		{id: "P-V1", run: openView},
		{id: "P-V2", run: viewAtRun},
		{id: "P-V4", run: viewBytes},
	}
}

// turn is a run of 200 events: text, a tool call with its result, state, text.
func turn(r *rand.Rand, n int) [][]byte {
	s := new(stream)
	s.addf(`{"type":"RUN_STARTED","threadId":"thread-1","runId":"run-%d","input":{"threadId":"thread-1","runId":"run-%d","messages":[{"id":"user-%d","role":"user","content":"And the next one?"}],"tools":[],"context":[]}}`, n, n, n)
	words := func(message string, deltas int) {
		s.open(message)
		for range deltas {
			s.delta(message, text(r))
		}
		s.close(message)
	}
	words(messageID(2*n), 80)
	s.addf(`{"type":"TOOL_CALL_START","toolCallId":"call-%d","toolCallName":"search","parentMessageId":%q}`, n, messageID(2*n))
	for i := range 20 {
		s.addf(`{"type":"TOOL_CALL_ARGS","toolCallId":"call-%d","delta":"%d "}`, n, i)
	}
	s.addf(`{"type":"TOOL_CALL_END","toolCallId":"call-%d"}`, n)
	s.addf(`{"type":"TOOL_CALL_RESULT","messageId":"result-%d","toolCallId":"call-%d","content":"found 3"}`, n, n)
	s.addf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/step","value":%d}]}`, n)
	words(messageID(2*n+1), 89)
	s.addf(`{"type":"RUN_FINISHED","threadId":"thread-1","runId":"run-%d"}`, n)
	return s.events
}

// storedThread makes a store with one thread whose runs are these, with the view
// stored at the end of each, and gives its directory.
func (b *bench) storedThread(ctx context.Context, runs int, events func(run int) [][]byte) (dir string, err error) {
	l, dir, err := b.openLog()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	views := projection.New(l, projection.Options{})
	for n := range runs {
		if _, err := l.Append(ctx, threadKey(0), eventlog.Batch{Events: events(n), Origin: eventlog.OriginImport}); err != nil {
			return dir, err
		}
		if _, err := views.Head(ctx, threadKey(0)); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// turns is a thread of 1,000 runs of 200 events.
func (b *bench) turns(ctx context.Context) (dir string, runs int, err error) {
	r := rand.New(rand.NewPCG(seed, 0))
	runs = b.n(1000)
	dir, err = b.storedThread(ctx, runs, func(n int) [][]byte { return turn(r, n) })
	return dir, runs, err
}

// opened is how long something takes of a store that has just been opened.
func opened(dir string, read func(l *pebblelog.Log) error) (took time.Duration, err error) {
	l, err := pebblelog.Open(dir, pebblelog.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	began := time.Now()
	err = read(l)
	return time.Since(began), err
}

// openView is P-V1: a view of a long thread in a store that has just been opened.
func openView(ctx context.Context, b *bench) (_ []Result, err error) {
	dir, runs, err := b.turns(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var page, whole []time.Duration
	rows := 0
	for range b.rounds(7) {
		took, err := opened(dir, func(l *pebblelog.Log) error {
			p, err := projection.New(l, projection.Options{}).Page(ctx, threadKey(0), projection.PageOptions{Count: 50})
			if err == nil && (len(p.View.Messages) < min(50, 4*runs) || p.Rows == 0) {
				err = fmt.Errorf("%d messages from %d rows", len(p.View.Messages), p.Rows)
			}
			if err == nil {
				rows = p.Rows
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		page = append(page, took)
		if took, err = opened(dir, func(l *pebblelog.Log) error {
			v, err := projection.New(l, projection.Options{}).Head(ctx, threadKey(0))
			if err == nil && len(v.Messages) != 4*runs {
				err = fmt.Errorf("%d messages", len(v.Messages))
			}
			return err
		}); err != nil {
			return nil, err
		}
		whole = append(whole, took)
	}
	a, c := median(page), median(whole)
	return []Result{
		result(fmt.Sprintf("newest 50 messages, state and questions of %d runs, just opened (%d rows)", runs, rows), "≤ 3 ms").
			got(took(a)).atMost(a.Seconds(), 0.003),
		result(fmt.Sprintf("whole transcript of %d runs, just opened", runs), "≤ 10 ms").
			got(took(c)).atMost(c.Seconds(), 0.010),
	}, nil
}

// viewAtRun is P-V2: the view at a run of that thread.
func viewAtRun(ctx context.Context, b *bench) (_ []Result, err error) {
	dir, runs, err := b.turns(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := rand.New(rand.NewPCG(seed, 1))
	var times []time.Duration
	_, err = opened(dir, func(l *pebblelog.Log) error {
		for range b.n(100) {
			at := replay.AtRun(agui.RunKey{ID: fmt.Sprintf("run-%d", r.IntN(runs)), Attempt: 1})
			began := time.Now()
			if _, err := replay.View(ctx, l, threadKey(0), at, fold.Options{}); err != nil {
				return err
			}
			times = append(times, time.Since(began))
		}
		return nil
	})
	m := median(times)
	return []Result{
		result(fmt.Sprintf("view at a random run of %d", runs), "≤ 10 ms").got(took(m)).atMost(m.Seconds(), 0.010),
	}, err
}

// written counts the bytes of rows derived from a log.
type written struct {
	*pebblelog.Log
	bytes int
}

func (w *written) DerivedWrite(ctx context.Context, s eventlog.Space, batch eventlog.DerivedBatch) error {
	for _, c := range batch.Changes {
		w.bytes += len(c.Key) + len(c.Value)
	}
	return w.Log.DerivedWrite(ctx, s, batch)
}

// viewBytes is P-V4: what is written to keep views.
func viewBytes(ctx context.Context, b *bench) ([]Result, error) {
	keep := func(runs int, events func(n int) [][]byte) (kept int, err error) {
		l, dir, err := b.openLog()
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, l.Close(), os.RemoveAll(dir)) }()
		w := &written{Log: l}
		views := projection.New(w, projection.Options{})
		for n := range runs {
			if _, err := l.Append(ctx, threadKey(0), eventlog.Batch{Events: events(n), Origin: eventlog.OriginImport}); err != nil {
				return 0, err
			}
			if _, err := views.Head(ctx, threadKey(0)); err != nil {
				return 0, err
			}
		}
		return w.bytes, nil
	}
	r := rand.New(rand.NewPCG(seed, 0))
	given := 0
	text, err := keep(b.n(500), func(n int) [][]byte {
		events := turn(r, n)
		for _, e := range events {
			given += len(e)
		}
		return events
	})
	if err != nil {
		return nil, err
	}
	content := 0
	var messages []string
	snapshots, err := keep(b.n(500), func(n int) [][]byte {
		said := strings.Repeat(fmt.Sprintf("word %d ", n), 100)
		content += len(said)
		messages = append(messages, fmt.Sprintf(`{"id":"message-%d","role":"user","content":%q}`, n, said))
		s := new(stream)
		s.addf(`{"type":"RUN_STARTED","threadId":"thread-1","runId":"run-%d"}`, n)
		s.addf(`{"type":"MESSAGES_SNAPSHOT","messages":[%s]}`, strings.Join(messages, ","))
		s.addf(`{"type":"RUN_FINISHED","threadId":"thread-1","runId":"run-%d"}`, n)
		return s.events
	})
	if err != nil {
		return nil, err
	}
	a, c := float64(text)/float64(given), float64(snapshots)/float64(content)
	return []Result{
		result("bytes written to keep the view of a thread, per event byte", "≤ 1").got(short(a)).atMost(a, 1),
		result("the same where every run ends with a snapshot of all, per byte of distinct content", "≤ 3").got(short(c)).atMost(c, 3),
	}, nil
}
