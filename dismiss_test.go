package agstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agstore/agstore"
	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

// A dismissal is a run that cancels, which an AG-UI client accepts; the question
// is gone, and its history says how. It stays so when the store is opened again.
func TestDismiss(t *testing.T) {
	ctx, dir := timed(t), t.TempDir()
	s := open(t, dir)
	ask(t, ctx, s, "ask")
	done, err := s.Dismiss(ctx, "t", "i", "i")
	if err != nil || fmt.Sprint(done.Interrupts) != "[i]" || done.First != 3 || done.Last != 4 {
		t.Fatalf("dismissed %+v, %v", done, err)
	}
	closeStore(t, s)
	s = open(t, dir)
	view, err := s.View(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	if len(view.PendingInterrupts) != 0 || len(view.InterruptHistory) != 1 || view.Status != agui.RunCancelled || view.Run != done.Run {
		t.Fatalf("the view is %s", view.AppendJSON(nil))
	}
	if in := view.InterruptHistory[0]; !in.Answered || len(in.Answers) != 1 || in.Answers[0].Status != "cancelled" || in.Answers[0].Run != done.Run {
		t.Errorf("its history is %+v", in)
	}
	reference, err := s.ViewAs(ctx, "t", replay.AtHead(), fold.Options{Profile: fold.Reference})
	if err != nil || reference.Reference.Error != nil || len(reference.PendingInterrupts) != 0 {
		t.Errorf("the official client: %+v, %v", reference.Reference, err)
	}
	// Neither is it dismissed again nor answered.
	conflict := (*eventlog.ConflictError)(nil)
	if _, err := s.Dismiss(ctx, "t", "i"); !errors.As(err, &conflict) || conflict.Run != done.Run {
		t.Errorf("dismissed again: %v", err)
	}
	if _, err := resume(ctx, s, "late"); !errors.As(err, &conflict) || conflict.Run != done.Run {
		t.Errorf("answered behind: %v", err)
	}
	if _, err := s.Dismiss(ctx, "t"); !errors.Is(err, eventlog.ErrNotFound) {
		t.Errorf("nothing is pending: %v", err)
	}
	if runs, err := s.Runs(ctx, "t"); err != nil || len(runs) != 2 || runs[1].Origin != eventlog.OriginStore {
		t.Errorf("runs %+v, %v", runs, err)
	}
}

func TestDismissRefuses(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	if _, err := s.Dismiss(ctx, "t"); !errors.Is(err, eventlog.ErrThreadNotFound) {
		t.Errorf("no thread: %v", err)
	}
	ask(t, ctx, s, "ask")
	var e *eventlog.Error
	if _, err := s.Dismiss(ctx, "t", "i", "other"); !errors.Is(err, eventlog.ErrNotFound) || !errors.As(err, &e) || !strings.Contains(e.Hint, "pending are i") {
		t.Errorf("no such interrupt: %v", err)
	}
	run, err := resume(ctx, s, "answers")
	if err != nil {
		t.Fatal(err)
	}
	active := (*eventlog.RunActiveError)(nil)
	if _, err := s.Dismiss(ctx, "t"); !errors.As(err, &active) || active.Run.ID != "answers" {
		t.Errorf("while it is answered: %v", err)
	}
	finish(t, ctx, run)
	conflict := (*eventlog.ConflictError)(nil)
	if _, err := s.Dismiss(ctx, "t", "i"); !errors.As(err, &conflict) || conflict.Run.ID != "answers" {
		t.Errorf("answered already: %v", err)
	}
	if runs, err := s.Runs(ctx, "t"); err != nil || len(runs) != 2 {
		t.Errorf("runs %+v, %v", runs, err)
	}
}

// Of several of them some can be dismissed; the others wait on.
func TestDismissSome(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	w, err := s.BeginRun(ctx, "t", agstore.RunInput{RunID: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Append(ctx, []byte(`{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"a","reason":"x"},{"id":"b","reason":"x"},{"id":"\ud83c","reason":"x"}]}}`)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dismiss []string
		left    int
	}{{[]string{"b"}, 2}, {[]string{"\xed\xa0\xbc"}, 1}, {nil, 0}} {
		if _, err := s.Dismiss(ctx, "t", c.dismiss...); err != nil {
			t.Fatalf("%q: %v", c.dismiss, err)
		}
		if view, err := s.View(ctx, "t"); err != nil || len(view.PendingInterrupts) != c.left {
			t.Errorf("%q: %d are left, want %d; %v", c.dismiss, len(view.PendingInterrupts), c.left, err)
		}
	}
}

// Of many who dismiss at once one run is written; each loser is told which.
func TestDismissAtOnce(t *testing.T) {
	ctx, s := timed(t), open(t, "")
	ask(t, ctx, s, "ask")
	const callers = 12
	dones, errs := make([]agstore.Dismissed, callers), make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() { dones[i], errs[i] = s.Dismiss(ctx, "t", "i") })
	}
	wg.Wait()
	var winner agui.RunKey
	for i := range callers {
		if errs[i] == nil {
			if !winner.IsZero() {
				t.Fatalf("%v and %v have dismissed it", winner, dones[i].Run)
			}
			winner = dones[i].Run
		}
	}
	for _, err := range errs {
		active, conflict := (*eventlog.RunActiveError)(nil), (*eventlog.ConflictError)(nil)
		switch {
		case err == nil:
		case errors.As(err, &active) && active.Run == winner:
		case errors.As(err, &conflict) && conflict.Run == winner:
		default:
			t.Errorf("a loser is told %v; %v has dismissed it", err, winner)
		}
	}
	if runs, err := s.Runs(ctx, "t"); err != nil || len(runs) != 2 {
		t.Errorf("runs %+v, %v", runs, err)
	}
}
