package agstore

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/eventlog/pebblelog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/replay"
)

// Finding is one thing that Verify has found: a fault, or else a note.
type Finding struct {
	Fault *eventlog.Fault
	Note  *Note
}

// Note is something that a fold of a thread has remarked on: mostly that its
// producer broke a rule of the protocol. The store is sound all the same.
type Note struct {
	Thread eventlog.ThreadKey
	fold.Diagnostic
}

// Verify looks for damage in the whole store, of all scopes, or in one thread:
// in the log, as eventlog.Verifier says, and then in the kept views, which are
// compared with views folded anew. It yields every fault, and as notes what the
// folds remark on. A view of a thread whose log is damaged may be beyond a look:
// that is told as a fault too.
func (s *Store) Verify(ctx context.Context, opts eventlog.VerifyOptions) iter.Seq2[Finding, error] {
	return func(yield func(Finding, error) bool) {
		v, ok := s.log.(eventlog.Verifier)
		if !ok {
			yield(Finding{}, &eventlog.Error{Op: "verify", Err: &eventlog.InvalidError{Reason: "this log cannot be verified"}})
			return
		}
		for f, err := range v.Verify(ctx, opts) {
			if !yield(Finding{Fault: &f}, err) || err != nil {
				return
			}
		}
		for key, err := range s.verified(ctx, opts.Thread) {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			if err != nil {
				if errors.Is(err, eventlog.ErrCorrupt) {
					return // told with the commits
				}
				yield(Finding{}, err)
				return
			}
			if !s.verifyView(ctx, key, yield) {
				return
			}
		}
	}
}

// verified yields the threads whose views are looked at.
func (s *Store) verified(ctx context.Context, only *eventlog.ThreadKey) iter.Seq2[eventlog.ThreadKey, error] {
	return func(yield func(eventlog.ThreadKey, error) bool) {
		if only != nil {
			yield(*only, nil)
			return
		}
		seen := make(map[eventlog.ThreadKey]bool)
		for c, err := range s.log.Commits(ctx, 1) {
			if err == nil && seen[c.Thread] {
				continue
			}
			seen[c.Thread] = true
			if !yield(c.Thread, err) || err != nil {
				return
			}
		}
	}
}

// verifyView compares the kept view of a thread with one folded anew; false: no
// more is wanted.
func (s *Store) verifyView(ctx context.Context, key eventlog.ThreadKey, yield func(Finding, error) bool) bool {
	scope := s.Scope(key.Scope)
	fault := func(detail string, args ...any) bool {
		return yield(Finding{Fault: &eventlog.Fault{Kind: eventlog.FaultView, Thread: key, Place: "view", Detail: fmt.Sprintf(detail, args...)}}, nil)
	}
	which := ""
	for range 3 { // a thread that is being written moves on
		kept, err := scope.View(ctx, key.Thread)
		var stored, anew *fold.View
		if err == nil {
			stored, err = scope.ViewAt(ctx, key.Thread, replay.AtHead())
		}
		if err == nil {
			anew, err = replay.Anew(ctx, s.log, key, replay.AtHead(), s.opts.Fold)
		}
		switch {
		case errors.Is(err, eventlog.ErrNotFound), errors.Is(err, eventlog.ErrErased), errors.Is(err, eventlog.ErrGap):
			return true
		case ctx.Err() != nil:
			return yield(Finding{}, ctx.Err())
		case err != nil:
			return fault("it cannot be folded: %v", err)
		}
		right := string(anew.AppendJSON(nil))
		if string(kept.AppendJSON(nil)) != right {
			which = "kept"
			continue
		}
		if string(stored.AppendJSON(nil)) != right {
			which = "stored"
			continue
		}
		for _, d := range anew.Diagnostics {
			if !yield(Finding{Note: &Note{Thread: key, Diagnostic: d}}, nil) {
				return false
			}
		}
		return true
	}
	return fault("the %s view is not what its records fold to", which)
}

// VerifyDir looks for faults in the log of a store that no process holds, and
// that perhaps cannot be opened. It writes nothing. See pebblelog.VerifyDir.
func VerifyDir(ctx context.Context, dir string, opts eventlog.VerifyOptions) iter.Seq2[eventlog.Fault, error] {
	return pebblelog.VerifyDir(ctx, dir, pebblelog.Options{}, opts)
}

// Repair looks for faults in the log of a store that no process holds, and
// writes anew what is derived. See pebblelog.Repair.
func Repair(ctx context.Context, dir string, opts eventlog.VerifyOptions) iter.Seq2[eventlog.Mended, error] {
	return pebblelog.Repair(ctx, dir, pebblelog.Options{}, opts)
}
