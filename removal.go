package agstore

import (
	"context"
	"iter"

	"github.com/agstore/agstore/eventlog"
)

// Erase removes a thread for good and gives the receipt. See eventlog.Log.Erase.
// It returns once the projections of Options do not answer with it any more, as
// Clear and Redact do.
func (s *Scope) Erase(ctx context.Context, thread string, opts eventlog.RemoveOptions) (eventlog.Receipt, error) {
	defer s.forget(thread, opts)
	r, err := s.store.log.Erase(ctx, s.key(thread), opts)
	return s.unproject(ctx, r, err)
}

// Clear removes what a thread holds until now; the thread goes on. See
// eventlog.Log.Clear.
func (s *Scope) Clear(ctx context.Context, thread string, opts eventlog.RemoveOptions) (eventlog.Receipt, error) {
	defer s.forget(thread, opts)
	r, err := s.store.log.Clear(ctx, s.key(thread), opts)
	return s.unproject(ctx, r, err)
}

// Redact replaces what one message of a thread says by a marker. See
// eventlog.Log.Redact.
func (s *Scope) Redact(ctx context.Context, thread string, what eventlog.Redaction, opts eventlog.RemoveOptions) (eventlog.Receipt, error) {
	defer s.forget(thread, opts)
	r, err := s.store.log.Redact(ctx, s.key(thread), what, opts)
	return s.unproject(ctx, r, err)
}

// Receipts yields the receipts of a thread, also of one that was erased; of all
// threads of the scope if thread is empty.
func (s *Scope) Receipts(ctx context.Context, thread string) iter.Seq2[eventlog.Receipt, error] {
	return s.store.log.Receipts(ctx, s.name, thread)
}

// forget drops the view of a thread from memory, which may hold what was removed.
func (s *Scope) forget(thread string, opts eventlog.RemoveOptions) {
	if !opts.DryRun {
		s.store.views.Forget(s.key(thread))
	}
}
