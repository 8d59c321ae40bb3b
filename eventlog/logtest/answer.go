package logtest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/agstore/agstore/eventlog"
)

// L3: several answer the same question at the same expected seq. One run is
// stored; the others learn the seq they should have had, and who has answered.
func testOneAnswer(t *testing.T, p *place) {
	p.open()
	asked := [][]byte{
		started("ask"),
		[]byte(`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"tool_call"}]}}`),
	}
	resume := func(run string) []byte {
		return fmt.Appendf(nil, `{"type":"RUN_STARTED","runId":%q,"input":{"resume":[{"interruptId":"i","status":"resolved"}]}}`, run)
	}
	answers := map[string]func(k eventlog.ThreadKey, run string) error{
		"Append": func(k eventlog.ThreadKey, run string) error {
			_, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{resume(run)}, Expect: eventlog.LastSeq(2)})
			return err
		},
		// A run that has ended when the loser comes: one that runs would be in its
		// way, and would be named by ErrRunActive.
		"Batch": func(k eventlog.ThreadKey, run string) error {
			_, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{resume(run), finished(run)}, Expect: eventlog.LastSeq(2)})
			return err
		},
		"BeginRun": func(k eventlog.ThreadKey, run string) error {
			_, err := p.log.BeginRun(p.ctx, k, eventlog.RunStart{
				Started: resume(run), Expect: eventlog.LastSeq(2), Holder: eventlog.Holder{Owner: "the holder of " + run},
			})
			return err
		},
	}
	for how, answer := range answers {
		k := key(how)
		p.append(k, eventlog.Batch{Events: asked})
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wg.Go(func() { errs[i] = answer(k, fmt.Sprint("r", i)) })
		}
		wg.Wait()
		runs := p.runs(k)
		if len(runs) != 2 || errs[0] == nil && runs[1].Key.ID != "r0" {
			t.Fatalf("%s: runs %+v", how, runs)
		}
		winner, won := runs[1], 0
		for i, err := range errs {
			if err == nil {
				if won++; winner.Key.ID != fmt.Sprint("r", i) {
					t.Errorf("%s: r%d was told that it has answered, and %s has", how, i, winner.Key)
				}
				continue
			}
			if how == "BeginRun" {
				if e := wantAs[*eventlog.RunActiveError](t, how, err, eventlog.ErrRunActive); e.Run != winner.Key || e.Owner != winner.Owner {
					t.Errorf("%s: the loser is told of %+v", how, e)
				}
				continue
			}
			e := wantAs[*eventlog.ConflictError](t, how, err, eventlog.ErrConflict)
			if e.Expected != 2 || e.Actual != winner.LastSeq || e.Run != winner.Key || e.Owner != "" {
				t.Errorf("%s: the loser is told %+v", how, e)
			}
		}
		if won != 1 {
			t.Errorf("%s: %d have answered", how, won)
		}
	}
	// Later the run that has answered is still the one behind that seq, whoever
	// came after it, and whoever held it.
	k := key("BeginRun")
	holder := p.runs(k)[1]
	if _, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{started("later")}, Parent: &holder.Parent}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{resume("late")}, Expect: eventlog.LastSeq(2)})
		e := wantAs[*eventlog.ConflictError](t, "late", err, eventlog.ErrConflict)
		if last := p.thread(k).LastSeq; e.Expected != 2 || e.Actual != last || e.Run != holder.Key || e.Owner != "the holder of "+holder.Key.ID {
			t.Errorf("who is late is told %+v, the last seq is %d", e, last)
		}
		p.reopen()
	}
	// Nobody has started anything behind the end.
	_, err := p.log.Append(p.ctx, k, eventlog.Batch{Events: [][]byte{resume("late")}, Expect: eventlog.LastSeq(99)})
	if e := wantAs[*eventlog.ConflictError](t, "ahead", err, eventlog.ErrConflict); !e.Run.IsZero() || e.Owner != "" {
		t.Errorf("who is ahead is told %+v", e)
	}
}
