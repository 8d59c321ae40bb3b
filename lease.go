package agstore

import (
	"context"
	"iter"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// TakeRun gives a new lease on a run that has not ended, whoever holds it: to go
// on writing it, or to end it. Its former writer gets ErrFenced. See
// eventlog.Log.TakeRun.
func (s *Scope) TakeRun(ctx context.Context, thread string, run agui.RunKey, holder eventlog.Holder) (eventlog.Writer, error) {
	return s.store.log.TakeRun(ctx, s.key(thread), run, holder)
}

// Attach gives a writer for a lease of a run of this scope that was given
// before: to another call, or before a restart. See eventlog.Log.Attach.
func (s *Scope) Attach(ctx context.Context, lease eventlog.Lease) (eventlog.Writer, error) {
	lease.Thread.Scope = s.name
	return s.store.log.Attach(ctx, lease)
}

// AppendCompanion writes to the companion stream of a thread: what belongs to a
// conversation and is no AG-UI event. See eventlog.Entry.
func (s *Scope) AppendCompanion(ctx context.Context, thread string, b eventlog.CompanionBatch) (eventlog.Appended, error) {
	return s.store.log.AppendCompanion(ctx, s.key(thread), b)
}

// Companion yields the entries of a thread's companion stream from seq from to
// seq to; 0 is the first and the last. See eventlog.Log.Companion.
func (s *Scope) Companion(ctx context.Context, thread string, from, to uint64) iter.Seq2[eventlog.Entry, error] {
	return s.store.log.Companion(ctx, s.key(thread), from, to)
}
