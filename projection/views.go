package projection

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

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
	// Pause is how long [Views.Run] lets commits gather before it folds them; 0 is
	// 50 ms. After is the clock for it; nil is time.After.
	Pause time.Duration
	After func(time.Duration) <-chan time.Time
	// Failed, if given, is told why a view was not stored. Nothing is lost by it:
	// the next one is stored, or it is folded from the log.
	Failed func(thread eventlog.ThreadKey, err error)
}

// Views keeps the views of threads: in memory those at the heads of threads that
// were asked for most recently, and, if the log keeps derived rows
// (eventlog.Derived), checkpoints beside it. It is safe for concurrent use.
type Views struct {
	log  Source
	rows eventlog.Derived // nil: nothing is stored
	opts Options

	mu     sync.Mutex
	open   map[eventlog.ThreadKey]*list.Element // of *kept
	recent *list.List                           // the latest used in front

	applied applied
	always  bool // store views whether it is worth it or not: for tests
}

// kept is what is in memory of one thread.
type kept struct {
	thread eventlog.ThreadKey
	users  int // guarded by Views.mu: while there are some, it stays

	mu       sync.Mutex
	head     *follower          // nil: to be made
	lineage  []agui.Segment     // what the fold follows
	seq      uint64             // up to where
	removals uint64             // of the thread, that the fold knows of
	next     [fold.Lists]uint64 // numbers of the next rows of entries; 0: to be looked up
	looked   uint64             // up to which seq runs that have ended were looked for
}

// New makes views of the threads of log.
func New(log Source, opts Options) *Views {
	if opts.Open <= 0 {
		opts.Open = 256
	}
	if opts.Pause <= 0 {
		opts.Pause = 50 * time.Millisecond
	}
	if opts.After == nil {
		opts.After = time.After
	}
	v := &Views{log: log, opts: opts, open: make(map[eventlog.ThreadKey]*list.Element), recent: list.New()}
	v.rows, _ = log.(eventlog.Derived)
	v.applied.changed = make(chan struct{})
	return v
}

// Head gives the view at the head of a thread, true at the last record that was
// durable when it was called. ErrThreadNotFound if there is no such thread.
func (v *Views) Head(ctx context.Context, thread eventlog.ThreadKey) (view *fold.View, err error) {
	err = v.with(ctx, thread, func(k *kept, info eventlog.Thread, _ []agui.Run) error {
		view = k.head.fold.View()
		view.Thread, view.Seq = thread.Thread, info.LastSeq
		return nil
	})
	return view, err
}

// Forget drops what is kept in memory of a thread.
func (v *Views) Forget(thread eventlog.ThreadKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.open[thread]; ok && e.Value.(*kept).users == 0 {
		v.recent.Remove(e)
		delete(v.open, thread)
	}
}

// with calls do with the fold at the head of a thread, and with what the thread
// and its runs are then.
func (v *Views) with(ctx context.Context, thread eventlog.ThreadKey, do func(*kept, eventlog.Thread, []agui.Run) error) error {
	k := v.keep(thread)
	defer v.release(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	for attempt := 0; ; attempt++ {
		// Read under the lock, so that no call folds on from a later point than
		// another one that waits for it.
		info, runs, err := v.catchUp(ctx, k)
		if err == nil {
			return do(k, info, runs)
		}
		// A gap that was not there when the thread was asked for: it was cleared
		// in between.
		if !errors.Is(err, eventlog.ErrGap) || attempt == 10 {
			return err
		}
	}
}

// catchUp folds what has come since, and stores the fold if it is worth it.
func (v *Views) catchUp(ctx context.Context, k *kept) (eventlog.Thread, []agui.Run, error) {
	info, err := v.log.Thread(ctx, k.thread)
	if err != nil {
		k.head = nil // an erased thread's must not stay
		return info, nil, err
	}
	runs, err := v.log.Runs(ctx, k.thread)
	if err != nil {
		return info, nil, err
	}
	tree := eventlog.Tree(runs)
	lineage := agui.Lineage(tree, info.Head)
	if k.removals != info.Removals {
		k.next, k.removals = [fold.Lists]uint64{}, info.Removals
		k.head = nil
	}
	if k.head == nil || k.head.stale || !continues(k.lineage, k.seq, lineage, tree) {
		if k.head, err = v.openAt(ctx, k, lineage, tree, info.LastSeq); err != nil {
			return info, nil, err
		}
		k.seq = k.head.last
	}
	k.lineage = lineage
	if k.seq < info.LastSeq {
		if err := k.head.feed(ctx, v.log, k.thread, info.Head, k.seq, info.LastSeq); err != nil {
			k.head = nil // it holds part of what was to be added
			return info, nil, err
		}
		k.seq = info.LastSeq
	}
	v.storeIfDue(ctx, k, k.head, runOf(tree, info.Head))
	return info, tree, nil
}

// runOf finds a run; nil if there is none, as before the first.
func runOf(tree []agui.Run, key agui.RunKey) *agui.Run {
	for i := len(tree) - 1; i >= 0; i-- {
		if tree[i].Key == key {
			return &tree[i]
		}
	}
	return nil
}

// keep gives the entry of a thread, to be released, and drops the one used
// longest ago when there are too many.
func (v *Views) keep(thread eventlog.ThreadKey) *kept {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e, ok := v.open[thread]; ok {
		v.recent.MoveToFront(e)
		k := e.Value.(*kept)
		k.users++
		return k
	}
	k := &kept{thread: thread, users: 1}
	v.open[thread] = v.recent.PushFront(k)
	for e := v.recent.Back(); v.recent.Len() > v.opts.Open && e != nil; {
		before := e.Prev()
		// One in use has a writer: there must not be two of one thread.
		if last := e.Value.(*kept); last.users == 0 {
			v.recent.Remove(e)
			delete(v.open, last.thread)
		}
		e = before
	}
	return k
}

func (v *Views) release(k *kept) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k.users--
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
