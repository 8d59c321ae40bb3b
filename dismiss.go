package agstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// Dismissed says what a dismissal did.
type Dismissed struct {
	Run         agui.RunKey // that cancelled them
	Interrupts  []string    // their ids
	First, Last uint64      // seqs of the run's start and end
}

// CodeDismissFailed is the code of the RUN_ERROR that ends a dismissal which
// could not be written whole. Its interrupts are pending as before.
const CodeDismissFailed = "AGSTORE_DISMISS_FAILED"

// Dismiss takes back questions without asking an agent: a run whose input
// answers these interrupts with status cancelled, and which ends as cancelled
// (DESIGN decision 18). Without interrupts all that are pending. Errors:
// ErrThreadNotFound; ErrNotFound if there is no such interrupt, or nothing
// pending; ErrConflict if a run has answered one already, which it names;
// ErrRunActive while the head's run is being written; those of writing.
func (s *Scope) Dismiss(ctx context.Context, thread string, interrupts ...string) (Dismissed, error) {
	view, err := s.View(ctx, thread)
	if err != nil {
		return Dismissed{}, err
	}
	if err := s.dismissable(view, &interrupts); err != nil {
		return Dismissed{}, err
	}
	run, err := s.BeginRun(ctx, thread, RunInput{Resume: cancellations(interrupts)})
	if err != nil {
		return Dismissed{}, err
	}
	id := run.Lease().Run.ID
	end := fmt.Appendf(nil, `{"type":"RUN_FINISHED","threadId":%s,"runId":%s,"outcome":{"type":"cancelled"}}`, agui.Quote(thread), agui.Quote(id))
	done, err := run.Append(ctx, end)
	if err != nil {
		// Else the thread would wait for it. If this cannot be written either, it is
		// closed when the store is opened again.
		_ = run.End(context.WithoutCancel(ctx), CodeDismissFailed, "the dismissal was not written")
		return Dismissed{}, err
	}
	return Dismissed{Run: run.Lease().Run, Interrupts: interrupts, First: run.First(), Last: done.Last}, nil
}

// dismissable checks that a view knows the interrupts; if none are named, it
// names those that are pending.
func (s *Scope) dismissable(view *fold.View, interrupts *[]string) error {
	var pending []string
	for i := range view.PendingInterrupts {
		pending = append(pending, view.PendingInterrupts[i].ID)
	}
	fail := func(reason, hint string) error {
		return &eventlog.Error{Op: "dismiss " + reason + " of", Key: s.key(view.Thread), Err: eventlog.ErrNotFound, Hint: hint}
	}
	if len(*interrupts) == 0 {
		if len(pending) == 0 {
			return fail("the interrupts", "nothing is pending in the thread")
		}
		*interrupts = pending
		return nil
	}
	var once []string
	for _, id := range *interrupts {
		if !slices.ContainsFunc(view.InterruptHistory, func(in fold.Interrupt) bool { return in.ID == id }) {
			hint := "nothing is pending in the thread"
			if len(pending) > 0 {
				hint = "pending are " + strings.Join(pending, " ")
			}
			return fail("interrupt "+id, hint)
		}
		if !slices.Contains(once, id) {
			once = append(once, id)
		}
	}
	*interrupts = once
	return nil
}

// cancellations is the resume that cancels interrupts.
func cancellations(interrupts []string) []byte {
	out := []byte{'['}
	for i, id := range interrupts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, `{"interruptId":`...), agui.Quote(id)...), `,"status":"cancelled"}`...)
	}
	return append(out, ']')
}
