package projection

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// Feedable is what [Views.Run] needs of a log beside [Source].
type Feedable interface {
	Commits(ctx context.Context, from uint64) iter.Seq2[eventlog.Commit, error]
	Watermark() uint64
	Wait(ctx context.Context, position uint64) (uint64, error)
}

// applied is how far Run has come.
type applied struct {
	mu       sync.Mutex
	position uint64
	changed  chan struct{} // closed, and replaced, when position grows
}

func (a *applied) set(position uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.position = position
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *applied) get() (uint64, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.position, a.changed
}

// Wait returns when Run has gone through the commits up to a position, so that
// what they have ended is stored. It ends with ctx.
func (v *Views) Wait(ctx context.Context, position uint64) error {
	for {
		at, changed := v.applied.get()
		if at >= position {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run stores views behind the log: it folds what is committed from now on, and
// writes checkpoints where runs end, and inside long ones. It returns when ctx
// ends, or the log is closed. Nothing depends on it but how much is read when a
// view is opened: whatever it has missed, before it began or when it failed, is
// folded then.
func (v *Views) Run(ctx context.Context, log Feedable) {
	seen := log.Watermark()
	v.applied.set(seen)
	for {
		mark, err := log.Wait(ctx, seen+1)
		if err != nil {
			return
		}
		select {
		case <-v.opts.After(v.opts.Pause):
		case <-ctx.Done():
			return
		}
		var threads []eventlog.ThreadKey
		known := make(map[eventlog.ThreadKey]bool)
		for c, err := range log.Commits(ctx, seen+1) {
			if err != nil {
				if ctx.Err() != nil {
					return
				}
				v.failed(c.Thread, err)
				break // what they were of is folded when it is asked for
			}
			mark = max(mark, c.Position)
			if c.Stream == eventlog.StreamEvents && !known[c.Thread] {
				known[c.Thread] = true
				threads = append(threads, c.Thread)
			}
		}
		for _, thread := range threads {
			if err := v.apply(ctx, thread); err != nil && !gone(err) && ctx.Err() == nil {
				v.failed(thread, err)
			}
		}
		seen = mark
		v.applied.set(seen)
	}
}

// gone reports whether a thread is not there any more: nothing is wrong then.
func gone(err error) bool {
	return errors.Is(err, eventlog.ErrThreadNotFound) || errors.Is(err, eventlog.ErrErased) || errors.Is(err, eventlog.ErrGap)
}

// apply brings the views of a thread up to date: that of the head, and of the
// runs off its lineage that have ended since the last time.
func (v *Views) apply(ctx context.Context, thread eventlog.ThreadKey) error {
	if v.rows == nil {
		return nil
	}
	return v.with(ctx, thread, func(k *kept, info eventlog.Thread, runs []agui.Run) error {
		after := k.looked
		k.looked = info.LastSeq
		if after == 0 {
			return nil
		}
		for i := range runs {
			run := &runs[i]
			if run.LastSeq <= after || run.Running() || slices.ContainsFunc(k.lineage, func(s agui.Segment) bool { return s.Run == run.Key }) {
				continue
			}
			f, err := v.openAt(ctx, k, agui.Lineage(runs, run.Key), runs, run.LastSeq)
			if err != nil {
				return err
			}
			if err := f.feed(ctx, v.log, thread, run.Key, f.last, run.LastSeq); err != nil {
				return err
			}
			v.storeIfDue(ctx, k, f, run)
		}
		return nil
	})
}
