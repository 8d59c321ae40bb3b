package projection

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// Source is what views need of a log.
type Source interface {
	Thread(ctx context.Context, thread eventlog.ThreadKey) (eventlog.Thread, error)
	Runs(ctx context.Context, thread eventlog.ThreadKey) ([]eventlog.Run, error)
	Read(ctx context.Context, thread eventlog.ThreadKey, opts eventlog.ReadOptions) iter.Seq2[eventlog.Record, error]
}

// Options for New.
type Options struct {
	Fold fold.Options
	// Open is how many threads' folds are kept in memory; 0 is 256.
	Open int
}

// Views keeps the views at the heads of threads. It is safe for concurrent use.
type Views struct {
	log  Source
	opts Options

	mu     sync.Mutex
	open   map[eventlog.ThreadKey]*list.Element // of *kept
	recent *list.List                           // the latest used in front
}

// kept is the fold of one thread.
type kept struct {
	thread eventlog.ThreadKey

	mu      sync.Mutex
	fold    *fold.Fold     // nil: to be made
	lineage []agui.Segment // what the fold follows
	seq     uint64         // up to where

	removals uint64 // of the thread, that the fold knows of
}

// New makes views of the threads of log.
func New(log Source, opts Options) *Views {
	if opts.Open <= 0 {
		opts.Open = 256
	}
	return &Views{log: log, opts: opts, open: make(map[eventlog.ThreadKey]*list.Element), recent: list.New()}
}

// Head gives the view at the head of a thread, true at the last record that was
// durable when it was called. ErrThreadNotFound if there is no such thread.
func (v *Views) Head(ctx context.Context, thread eventlog.ThreadKey) (*fold.View, error) {
	for attempt := 0; ; attempt++ {
		view, err := v.head(ctx, thread)
		// A gap that was not there when the thread was asked for: it was cleared
		// in between.
		if !errors.Is(err, eventlog.ErrGap) || attempt == 10 {
			return view, err
		}
	}
}

// Forget drops what is kept in memory of a thread.
func (v *Views) Forget(thread eventlog.ThreadKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.open[thread]; ok {
		v.recent.Remove(e)
		delete(v.open, thread)
	}
}

func (v *Views) head(ctx context.Context, thread eventlog.ThreadKey) (*fold.View, error) {
	k := v.keep(thread)
	k.mu.Lock()
	defer k.mu.Unlock()
	// Read under the lock, so that no call folds on from a later point than
	// another one that waits for it.
	info, err := v.log.Thread(ctx, thread)
	if err != nil {
		k.fold = nil // an erased thread's must not stay
		return nil, err
	}
	runs, err := v.log.Runs(ctx, thread)
	if err != nil {
		return nil, err
	}
	tree := eventlog.Tree(runs)
	lineage := agui.Lineage(tree, info.Head)
	if k.fold == nil || k.removals != info.Removals || !continues(k.lineage, k.seq, lineage, tree) {
		k.fold, k.seq = fold.New(v.opts.Fold), 0
	}
	k.lineage, k.removals = lineage, info.Removals
	opts := eventlog.ReadOptions{From: k.seq + 1, To: info.LastSeq, Lineage: &info.Head}
	if k.seq == 0 {
		opts.From = 0
	}
	if k.seq < info.LastSeq {
		if err := Feed(k.fold, v.log.Read(ctx, thread, opts)); err != nil {
			k.fold = nil // it holds part of what was to be added
			return nil, err
		}
		k.seq = info.LastSeq
	}
	view := k.fold.View()
	view.Thread, view.Seq = thread.Thread, info.LastSeq
	return view, nil
}

// keep gives the entry of a thread and drops the one used longest ago when
// there are too many.
func (v *Views) keep(thread eventlog.ThreadKey) *kept {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.open[thread]; ok {
		v.recent.MoveToFront(e)
		return e.Value.(*kept)
	}
	k := &kept{thread: thread}
	v.open[thread] = v.recent.PushFront(k)
	if v.recent.Len() > v.opts.Open {
		last := v.recent.Back()
		v.recent.Remove(last)
		delete(v.open, last.Value.(*kept).thread)
	}
	return k
}

// continues reports whether a fold of lineage old up to seq, fed with the
// records of lineage now behind seq, is the fold of lineage now.
func continues(old []agui.Segment, seq uint64, now []agui.Segment, runs []agui.Run) bool {
	if len(old) > len(now) {
		return false
	}
	for i, s := range old {
		// The fold holds the run's records up to applied.
		applied := min(s.Through, seq)
		if now[i].Run != s.Run || min(now[i].Through, seq) != applied {
			return false
		}
	}
	for _, s := range now[len(old):] {
		i := slices.IndexFunc(runs, func(r agui.Run) bool { return r.Key == s.Run })
		if i < 0 || runs[i].FirstSeq <= seq {
			return false
		}
	}
	return true
}

// Feed applies records to a fold until they end.
func Feed(f *fold.Fold, records iter.Seq2[eventlog.Record, error]) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		f.Apply(fold.Record{
			Seq: r.Seq, Run: r.Run, Echo: r.Echo, UnknownParent: r.UnknownParent, Raw: r.Event,
		})
	}
	return nil
}
