package agstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// Policy says which threads of a scope are removed because of their age.
type Policy struct {
	// Scope whose threads it is for; empty is DefaultScope.
	Scope string
	// IdleFor is how long ago a thread's latest commit must be, above 0. A
	// thread with a run that is being written is never removed.
	IdleFor time.Duration
	// Action is RemovalClear, which leaves an empty thread that goes on, or
	// RemovalErase, for good.
	Action eventlog.Removal
}

// check refuses a policy that says nothing that can be done.
func (p Policy) check() error {
	if p.IdleFor <= 0 {
		return &eventlog.Error{Op: "read a retention policy", Err: &eventlog.InvalidError{Reason: "the age is not above 0"}}
	}
	if p.Action != eventlog.RemovalClear && p.Action != eventlog.RemovalErase {
		return &eventlog.Error{Op: "read a retention policy", Err: &eventlog.InvalidError{Reason: "the action is neither clear nor erase"}}
	}
	return nil
}

func (p Policy) scope() string {
	if p.Scope == "" {
		return DefaultScope
	}
	return p.Scope
}

// Retain applies a policy once, now, and yields the receipts of what it removed;
// with dryRun of what it would remove, with the bytes. A thread that is written
// to meanwhile is left alone. It ends with the first error.
func (s *Store) Retain(ctx context.Context, p Policy, dryRun bool) iter.Seq2[eventlog.Receipt, error] {
	return func(yield func(eventlog.Receipt, error) bool) {
		if err := p.check(); err != nil {
			yield(eventlog.Receipt{}, err)
			return
		}
		scope := s.Scope(p.scope())
		var last eventlog.Receipt
		defer func() {
			// Projections are waited for once: one that is made anew for a removal is
			// not for each of them. What is not waited for they see all the same.
			_, _ = scope.unproject(ctx, last, nil)
		}()
		for t, err := range scope.Threads(ctx, "") {
			if err != nil {
				yield(eventlog.Receipt{}, err)
				return
			}
			r, done, err := scope.retire(ctx, t, p, dryRun)
			if err != nil || done {
				if err == nil {
					last = r
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// retire removes a thread if a policy says so, and reports whether it did.
func (s *Scope) retire(ctx context.Context, t eventlog.Thread, p Policy, dryRun bool) (r eventlog.Receipt, done bool, err error) {
	if s.store.opts.Now().Sub(t.Updated) < p.IdleFor {
		return r, false, nil
	}
	if p.Action == eventlog.RemovalClear && t.LastSeq < t.FirstSeq {
		return r, false, nil // it is empty
	}
	runs, err := s.Runs(ctx, t.Key.Thread)
	if err == nil {
		for _, run := range runs {
			if run.Held {
				return r, false, nil
			}
		}
		opts := eventlog.RemoveOptions{
			Reason: fmt.Sprintf("retention: idle for %v", p.IdleFor), Actor: "agstore retention",
			DryRun: dryRun, Expect: eventlog.LastSeq(t.LastSeq),
		}
		if p.Action == eventlog.RemovalErase {
			r, err = s.store.log.Erase(ctx, t.Key, opts)
		} else {
			r, err = s.store.log.Clear(ctx, t.Key, opts)
		}
		s.forget(t.Key.Thread, opts)
	}
	switch {
	case errors.Is(err, eventlog.ErrConflict), errors.Is(err, eventlog.ErrRunActive),
		errors.Is(err, eventlog.ErrErased), errors.Is(err, eventlog.ErrThreadNotFound):
		return r, false, nil // somebody was there meanwhile
	case err != nil:
		return r, false, err
	}
	return r, true, nil
}

// retention applies the store's policies now and then.
type retention struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// keep begins to apply the policies of the store's options, each a first time at
// once.
func (s *Store) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	s.retention.cancel = cancel
	if len(s.opts.Retention) == 0 {
		return
	}
	s.retention.ended.Go(func() {
		for {
			s.retainAll(ctx)
			fired, stop := s.opts.After(s.opts.RetentionEvery)
			select {
			case <-fired:
			case <-ctx.Done():
				stop()
				return
			}
		}
	})
}

// retainBatch is how many threads one pass of a policy removes at most.
const retainBatch = 1000

// retainAll applies all policies once.
func (s *Store) retainAll(ctx context.Context) {
	for _, p := range s.opts.Retention {
		n := 0
		for r, err := range s.Retain(ctx, p, false) {
			if ctx.Err() != nil {
				return
			}
			if s.opts.Retained != nil {
				s.opts.Retained(r, err)
			}
			if n++; n == retainBatch {
				break
			}
		}
	}
}

// endRetention ends the job and waits for it.
func (s *Store) endRetention() {
	s.retention.cancel()
	s.retention.ended.Wait()
}
