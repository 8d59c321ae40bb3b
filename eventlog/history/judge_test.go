package history_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/history"
)

// case is a history with the store that it left.
type scene struct {
	h history.History
	s *history.Store
	t *history.Thread
}

var thread = eventlog.ThreadKey{Scope: "s", Thread: "t"}

func custom(n int) string { return fmt.Sprintf(`{"type":"CUSTOM","value":%d}`, n) }

func started(run string) string { return fmt.Sprintf(`{"type":"RUN_STARTED","runId":%q}`, run) }

// good is what two clients did to one thread, and all went well:
//
//	1     p1/w1 appends event 1
//	2, 3  p2/w1 appends events 2 and 3 under key k, hears nothing, and repeats it
//	4     p1/w1 begins run r, epoch 1
//	5     p1/w1 enqueues event 4, and later waits for it
//	6     p1/w1 writes event 5
//	7     p1/w1 ends the run: the store closes it
//	8     p2/w1 begins run q on it, epoch 2
//
// and then reads all of it, and once more from seq 6 on. Before, p2/w1 was refused
// event 9, p1/w1 was fenced with event 10, and p2/w2 never heard of event 11.
func good() *scene {
	record := func(seq, position uint64, run string, origin eventlog.Origin, event string) eventlog.Record {
		r := eventlog.Record{Seq: seq, Position: position, Origin: origin, Event: []byte(event)}
		if run != "" {
			r.Run = agui.RunKey{ID: run, Attempt: 1}
		}
		return r
	}
	t := &history.Thread{Last: 8, Records: []eventlog.Record{
		record(1, 1, "", eventlog.OriginAppend, custom(1)),
		record(2, 2, "", eventlog.OriginAppend, custom(2)),
		record(3, 2, "", eventlog.OriginAppend, custom(3)),
		record(4, 3, "r", eventlog.OriginStore, started("r")),
		record(5, 4, "r", eventlog.OriginAgent, custom(4)),
		record(6, 4, "r", eventlog.OriginAgent, custom(5)),
		record(7, 5, "r", eventlog.OriginStore, `{"type":"RUN_ERROR"}`),
		record(8, 6, "q", eventlog.OriginStore, started("q")),
	}, Runs: []eventlog.Run{
		{Run: agui.Run{Key: agui.RunKey{ID: "r", Attempt: 1}, FirstSeq: 4, LastSeq: 7, EndSeq: 7, Status: agui.RunFailed}},
		{Run: agui.Run{Key: agui.RunKey{ID: "q", Attempt: 1}, FirstSeq: 8, LastSeq: 8}},
	}}
	const p1, p2 = "p1/w1", "p2/w1"
	ok := history.OutcomeOK
	h := history.History{
		{Client: p1, N: 1, Begun: 1, Ended: 2, Op: history.OpAppend, Events: []string{custom(1)}, Outcome: ok, First: 1, Last: 1, Position: 1},
		{Client: p2, N: 1, Begun: 3, Op: history.OpAppend, Key: "k", Events: []string{custom(2), custom(3)}},
		{Client: p2, N: 2, Begun: 4, Ended: 5, Op: history.OpAppend, Key: "k", Events: []string{custom(2), custom(3)}, Outcome: ok, First: 2, Last: 3, Position: 2, Duplicate: true},
		{Client: p1, N: 2, Begun: 6, Ended: 7, Op: history.OpBegin, Run: "r", Attempt: 1, Epoch: 1, Events: []string{started("r")}, Outcome: ok, First: 4, Last: 4, Position: 3},
		{Client: p1, N: 3, Begun: 8, Ended: 12, Op: history.OpEnqueue, Run: "r", Attempt: 1, Epoch: 1, Events: []string{custom(4)}, Outcome: ok},
		{Client: p1, N: 4, Begun: 9, Ended: 11, Op: history.OpWrite, Run: "r", Attempt: 1, Epoch: 1, Events: []string{custom(5)}, Outcome: ok, First: 6, Last: 6, Position: 4},
		{Client: p2, N: 3, Begun: 10, Ended: 11, Op: history.OpAppend, Events: []string{custom(9)}, Outcome: history.OutcomeRefused, Error: "a run is active"},
		{Client: p1, N: 5, Begun: 13, Ended: 14, Op: history.OpEnd, Run: "r", Attempt: 1, Epoch: 1, Outcome: ok},
		{Client: p1, N: 6, Begun: 15, Ended: 16, Op: history.OpWrite, Run: "r", Attempt: 1, Epoch: 1, Events: []string{custom(10)}, Outcome: history.OutcomeFenced},
		{Client: "p2/w2", N: 1, Begun: 16, Op: history.OpAppend, Events: []string{custom(11)}},
		{Client: p2, N: 4, Begun: 17, Ended: 18, Op: history.OpBegin, Run: "q", Attempt: 1, Epoch: 2, Events: []string{started("q")}, Outcome: ok, First: 8, Last: 8, Position: 6},
		{Client: p2, N: 5, Begun: 19, Ended: 20, Op: history.OpRead, Outcome: ok},
		{Client: p2, N: 6, Begun: 21, Ended: 22, Op: history.OpRead, Outcome: ok, From: 6},
	}
	for i := range h {
		h[i].Scope, h[i].Thread = thread.Scope, thread.Thread
	}
	for _, r := range t.Records {
		h[11].Seen = append(h[11].Seen, history.Seen{Seq: r.Seq, Event: string(r.Event)})
	}
	h[12].Seen = append(h[12].Seen, h[11].Seen[5:]...)
	return &scene{h: h, t: t, s: &history.Store{Threads: map[eventlog.ThreadKey]*history.Thread{thread: t}}}
}

func TestGoodHistory(t *testing.T) {
	c := good()
	for _, fault := range history.Judge(c.h, c.s) {
		t.Error(fault)
	}
	// The same without the tail that nobody was told of, and with the operation
	// that had no answer.
	c.t.Records = append(c.t.Records, eventlog.Record{Seq: 9, Position: 7, Event: []byte(custom(11))})
	c.t.Last = 9
	for _, fault := range history.Judge(c.h, c.s) {
		t.Error("with the unknown one:", fault)
	}
}

// renumber gives the records of a thread new seqs after a change.
func (c *scene) renumber() {
	for i := range c.t.Records {
		c.t.Records[i].Seq = uint64(i + 1)
	}
	c.t.Last = uint64(len(c.t.Records))
}

func (c *scene) remove(seq int) {
	c.t.Records = append(c.t.Records[:seq-1:seq-1], c.t.Records[seq:]...)
	c.renumber()
}

func (c *scene) add(position uint64, origin eventlog.Origin, event string) {
	c.t.Records = append(c.t.Records, eventlog.Record{Position: position, Origin: origin, Event: []byte(event)})
	c.renumber()
}

// Each validator rejects what breaks its promise.
func TestBadHistories(t *testing.T) {
	for _, test := range []struct {
		name    string
		promise error
		says    string
		spoil   func(c *scene)
	}{
		{"a hole", history.ErrOrdered, "where seq 6 should be", func(c *scene) {
			c.t.Records = append(c.t.Records[:5:5], c.t.Records[6:]...)
		}},
		{"a seq twice", history.ErrOrdered, "where seq 3 should be", func(c *scene) { c.t.Records[2].Seq = 2 }},
		{"commits back in time", history.ErrOrdered, "before commit 3", func(c *scene) { c.t.Records[4].Position = 2 }},
		{"a last seq of nothing", history.ErrOrdered, "its last record is 8", func(c *scene) { c.t.Last = 9 }},
		{"later, and before", history.ErrOrdered, "it began when seq 3 had been acknowledged", func(c *scene) {
			c.h[3].First, c.h[3].Last = 3, 3
		}},
		{"a position behind", history.ErrOrdered, "its position 1 is before 2", func(c *scene) { c.h[3].Position = 1 }},
		{"a writer's events swapped", history.ErrOrdered, "the same writer wrote earlier", func(c *scene) {
			c.t.Records[4].Event, c.t.Records[5].Event = c.t.Records[5].Event, c.t.Records[4].Event
		}},

		{"half a batch", history.ErrAtomic, "event 2 0 times", func(c *scene) { c.remove(3) }},
		{"half of what was not acknowledged", history.ErrAtomic, "event 2 0 times", func(c *scene) {
			c.h = c.h[:2]
			c.t.Records = c.t.Records[:2]
			c.t.Last = 2
		}},
		{"a batch in two commits", history.ErrAtomic, "more than one commit", func(c *scene) { c.t.Records[1].Position = 1 }},
		{"something in between", history.ErrAtomic, "event 2 of a batch that begins at seq 2", func(c *scene) {
			c.t.Records[2].Event, c.t.Records[4].Event = c.t.Records[4].Event, c.t.Records[2].Event
		}},
		{"refused and there", history.ErrAtomic, "it was refused", func(c *scene) { c.add(7, eventlog.OriginAppend, custom(9)) }},

		{"a retry that wrote", history.ErrUnique, "is there 2 times, and was written 1 times", func(c *scene) {
			c.add(7, eventlog.OriginAppend, custom(2))
			c.add(7, eventlog.OriginAppend, custom(3))
		}},
		{"another answer for a key", history.ErrUnique, "before", func(c *scene) {
			c.h[1].Outcome, c.h[1].Ended, c.h[1].First, c.h[1].Last = history.OutcomeOK, 4, 5, 6
		}},
		{"two who wrote under one key", history.ErrUnique, "2 attempts say", func(c *scene) {
			c.h[2].Duplicate = false
			c.h[1].Outcome, c.h[1].Ended, c.h[1].First, c.h[1].Last = history.OutcomeOK, 4, 2, 3
		}},
		{"a record of nobody", history.ErrUnique, "nobody wrote", func(c *scene) { c.add(7, eventlog.OriginAgent, custom(12)) }},
		{"a seq given twice", history.ErrUnique, "given to another append too", func(c *scene) { c.h[5].First, c.h[5].Last = 8, 8 }},

		{"an acknowledged one gone", history.ErrDurable, "it is gone", func(c *scene) {
			c.t.Records = c.t.Records[:7]
			c.t.Last = 7
		}},
		{"the whole thread gone", history.ErrDurable, "it is gone", func(c *scene) { c.s.Threads[thread] = nil }},
		{"other bytes", history.ErrDurable, "it was " + custom(1), func(c *scene) { c.t.Records[0].Event = []byte(custom(11)) }},
		{"another commit", history.ErrDurable, "it was of 6", func(c *scene) { c.t.Records[7].Position = 7 }},
		{"enqueued, synced and gone", history.ErrDurable, "is there 0 times", func(c *scene) { c.remove(5) }},
		{"shown and taken back", history.ErrDurable, "it is gone", func(c *scene) {
			c.h = append(c.h[:10:10], c.h[11:]...) // nobody was told that q had begun but the reader
			c.t.Records = c.t.Records[:7]
			c.t.Runs = c.t.Runs[:1]
			c.t.Last = 7
		}},
		{"a run that was ended runs", history.ErrDurable, "its end was acknowledged", func(c *scene) {
			c.t.Runs[0].EndSeq, c.t.Runs[0].Status = 0, agui.RunRunning
		}},
		{"gone without a clear", history.ErrDurable, "it is gone", func(c *scene) {
			c.t.First, c.t.Records = 3, c.t.Records[2:]
		}},
		{"cleared and there", history.ErrDurable, "it was cleared up to seq 8", func(c *scene) {
			c.h = append(c.h, history.Entry{Client: "p", N: 1, Begun: 30, Ended: 31, Op: history.OpClear, Scope: "s", Thread: "t", Outcome: history.OutcomeOK, Last: 8})
		}},
		{"erased and there", history.ErrDurable, "was erased", func(c *scene) {
			c.h = append(c.h, history.Entry{Client: "p", N: 1, Begun: 30, Ended: 31, Op: history.OpErase, Scope: "s", Thread: "t", Outcome: history.OutcomeOK})
		}},

		{"a fenced writer wrote", history.ErrFenced, "its lease was gone", func(c *scene) { c.add(7, eventlog.OriginAppend, custom(10)) }},
		{"a writer behind the end of its run", history.ErrFenced, "the run ended at seq 7", func(c *scene) {
			c.add(7, eventlog.OriginAgent, custom(11))
			c.t.Records[8].Run = agui.RunKey{ID: "r", Attempt: 1}
		}},
		{"acknowledged behind the end", history.ErrFenced, "had been ended", func(c *scene) {
			c.h[8].Outcome = history.OutcomeOK
		}},
		{"one epoch for two", history.ErrFenced, "epoch 1 has two holders", func(c *scene) { c.h[10].Epoch = 1 }},
		{"an epoch that does not grow", history.ErrFenced, "epoch 2 was given behind 3", func(c *scene) {
			c.h[3].Epoch, c.h[4].Epoch, c.h[5].Epoch = 3, 3, 3
		}},
		{"an old epoch behind a new one", history.ErrFenced, "written under epoch 1 when epoch 4", func(c *scene) {
			c.h[3].Epoch, c.h[10].Epoch = 4, 5
		}},
		{"two live runs at the head", history.ErrFenced, "which had not ended", func(c *scene) { c.t.Runs[0].EndSeq = 9 }},

		{"a read with a hole", history.ErrResumable, "where seq 2 was due", func(c *scene) {
			c.h[11].Seen = append(c.h[11].Seen[:1:1], c.h[11].Seen[2:]...)
		}},
		{"a read that repeats", history.ErrResumable, "where seq 6 was due", func(c *scene) {
			c.h[12].Seen = append(c.h[11].Seen[4:5:5], c.h[12].Seen...)
		}},
		{"a read that ends too early", history.ErrResumable, "the read ended before it", func(c *scene) {
			c.h[12].Seen = c.h[12].Seen[:1]
		}},
		{"a read of other words", history.ErrResumable, "it was shown as", func(c *scene) {
			c.h[11].Seen[0].Event = custom(11)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := good()
			test.spoil(c)
			for _, fault := range history.Judge(c.h, c.s) {
				var broken *history.Broken
				if !errors.As(fault, &broken) {
					t.Fatalf("%T is no Broken", fault)
				}
				if errors.Is(fault, test.promise) && strings.Contains(fault.Error(), test.says) {
					return
				}
			}
			t.Errorf("want %v: … %s; got %v", test.promise, test.says, history.Judge(c.h, c.s))
		})
	}
}

// What was cleared or erased on purpose breaks nothing.
func TestRemovals(t *testing.T) {
	c := good()
	c.h = append(c.h, history.Entry{Client: "p", N: 1, Begun: 30, Ended: 31, Op: history.OpClear, Scope: "s", Thread: "t", Outcome: history.OutcomeOK, Last: 7})
	c.t.First, c.t.Records, c.t.Runs = 8, c.t.Records[7:], c.t.Runs[1:]
	for _, fault := range history.Judge(c.h, c.s) {
		t.Error("cleared:", fault)
	}
	c.h = append(c.h, history.Entry{Client: "p", N: 2, Begun: 40, Op: history.OpErase, Scope: "s", Thread: "t"})
	c.t.Records, c.t.Runs, c.t.Erased, c.t.First, c.t.Last = nil, nil, true, 9, 8
	for _, fault := range history.Judge(c.h, c.s) {
		t.Error("erased, unknown to whom:", fault)
	}
}
