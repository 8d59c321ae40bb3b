package agstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// ask leaves a thread that waits for the answer to the interrupt "i".
func ask(t *testing.T, ctx context.Context, s *agstore.Scope, run string) {
	t.Helper()
	w, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: run})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(ctx, fmt.Appendf(nil, `{"type":"RUN_FINISHED","threadId":"t","runId":%q,"outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"tool_call"}]}}`, run)); err != nil {
		t.Fatal(err)
	}
}

func resume(ctx context.Context, s *agstore.Scope, run string) (*agstore.Run, error) {
	return s.BeginRun(ctx, "t", agstore.RunInput{RunID: run, Resume: json.RawMessage(`[{"interruptId":"i","status":"resolved"}]`)})
}

// L3, decision 5: of many who answer one interrupt, one run begins, and whoever
// comes while it runs or later is told which.
func TestInterruptIsAnsweredOnce(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	ask(t, ctx, s, "ask")
	const callers = 16
	runs, errs := make([]*agstore.Run, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			if runs[i], errs[i] = resume(ctx, s, fmt.Sprint("r", i)); errs[i] == nil && i%2 == 0 {
				finish(t, ctx, runs[i]) // some losers come when it has ended
			}
		})
	}
	wg.Wait()
	var winner *agstore.Run
	var ended bool
	for i := range callers {
		if errs[i] == nil && winner != nil {
			t.Fatalf("%v and %v answer it", winner.Lease().Run, runs[i].Lease().Run)
		} else if errs[i] == nil {
			winner, ended = runs[i], i%2 == 0
		}
	}
	if winner == nil {
		t.Fatal(errs)
	}
	key := winner.Lease().Run
	for _, err := range errs {
		active, conflict := (*eventlog.RunActiveError)(nil), (*eventlog.ConflictError)(nil)
		switch {
		case err == nil:
		case errors.As(err, &active) && active.Run == key && active.Owner == winner.Lease().Owner:
		case errors.As(err, &conflict) && conflict.Run == key && conflict.Expected == winner.First()-1:
		default:
			t.Errorf("a loser is told %v; %v has answered", err, key)
		}
	}
	if !ended {
		finish(t, ctx, winner)
	}
	_, err := resume(ctx, s, "late")
	conflict := (*eventlog.ConflictError)(nil)
	if !errors.Is(err, eventlog.ErrConflict) || !errors.As(err, &conflict) || conflict.Run != key || conflict.Expected != winner.First()-1 || conflict.Actual <= conflict.Expected {
		t.Errorf("who is late is told %v; %v has answered at seq %d", err, key, winner.First())
	}
	if all, err := s.Runs(ctx, "t"); err != nil || len(all) != 2 {
		t.Errorf("runs %+v, %v", all, err)
	}
}

// An answer whose run fails leaves the question open, and one that is asked again
// can be answered again.
func TestInterruptIsOpenAgain(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	ask(t, ctx, s, "ask")
	failed, err := resume(ctx, s, "fails")
	if err != nil {
		t.Fatal(err)
	}
	if err := failed.End(ctx, agui.CodeAbandoned, "gone"); err != nil {
		t.Fatal(err)
	}
	again, err := resume(ctx, s, "again")
	if err != nil {
		t.Fatalf("the first answer has failed: %v", err)
	}
	finish(t, ctx, again)
	ask(t, ctx, s, "ask again")
	last, err := resume(ctx, s, "last")
	if err != nil {
		t.Fatalf("it was asked again: %v", err)
	}
	finish(t, ctx, last)
	if _, err := resume(ctx, s, "late"); !errors.Is(err, eventlog.ErrConflict) {
		t.Errorf("who is late is told %v", err)
	}
	// What names no interrupt of the thread is recorded, and told by the view.
	other, err := s.BeginRun(ctx, "t", agstore.RunInput{Resume: json.RawMessage(`[{"interruptId":"none"},7]`)})
	if err != nil {
		t.Fatal(err)
	}
	finish(t, ctx, other)
}
