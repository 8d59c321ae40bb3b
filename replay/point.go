package replay

import (
	"context"
	"iter"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
	"github.com/agstore/agstore/projection"
)

// Point is a place in a thread's history.
type Point struct {
	run *agui.RunKey
	seq uint64
	set bool
}

// AtHead is where the thread is now.
func AtHead() Point { return Point{} }

// AtRun is the end of a run, or where it is now.
func AtRun(run agui.RunKey) Point { return Point{run: &run} }

// AtSeq is the head of the thread when it had seq records.
func AtSeq(seq uint64) Point { return Point{seq: seq, set: true} }

// selection is what a point means in one thread.
type selection struct {
	lineage agui.RunKey // the zero key: only what belongs to no run
	to      uint64      // the last seq; 0: nothing
}

func (p Point) resolve(ctx context.Context, log projection.Source, thread eventlog.ThreadKey) (selection, error) {
	info, err := log.Thread(ctx, thread)
	if err != nil {
		return selection{}, err
	}
	if p.run == nil && !p.set {
		return selection{info.Head, info.LastSeq}, nil
	}
	if p.seq > 0 && p.seq < info.FirstSeq {
		gap := &eventlog.GapError{From: p.seq, To: info.FirstSeq - 1, Reason: eventlog.RemovalClear}
		return selection{}, &eventlog.Error{Op: "read", Key: thread, Seq: p.seq, Err: gap}
	}
	if p.seq > info.LastSeq {
		return selection{}, &eventlog.Error{
			Op: "read", Key: thread, Seq: p.seq, Err: eventlog.ErrNotFound,
			Hint: "the last record of the thread is " + formatSeq(info.LastSeq),
		}
	}
	runs, err := log.Runs(ctx, thread)
	if err != nil {
		return selection{}, err
	}
	if p.run == nil {
		at := selection{to: p.seq}
		for _, r := range runs {
			if r.FirstSeq <= p.seq {
				at.lineage = r.Key
			}
		}
		return at, nil
	}
	for _, r := range runs {
		if r.Key == *p.run {
			return selection{r.Key, r.LastSeq}, nil
		}
	}
	return selection{}, &eventlog.Error{Op: "read", Key: thread, Run: *p.run, Err: eventlog.ErrRunNotFound}
}

// View gives the view at a point: the lineage that leads there, folded from the
// newest checkpoint in it that the log keeps, or from its beginning. Errors:
// ErrThreadNotFound, ErrRunNotFound, ErrNotFound for a seq behind the end, those
// of reading.
func View(ctx context.Context, log projection.Source, thread eventlog.ThreadKey, at Point, opts fold.Options) (*fold.View, error) {
	s, err := at.resolve(ctx, log, thread)
	if err != nil {
		return nil, err
	}
	f := fold.New(opts)
	if s.to > 0 {
		if f, err = projection.Fold(ctx, log, thread, s.lineage, s.to, opts); err != nil {
			return nil, err
		}
	}
	return s.view(thread, f), nil
}

// Anew is View from the records alone, whatever is stored beside them.
func Anew(ctx context.Context, log projection.Source, thread eventlog.ThreadKey, at Point, opts fold.Options) (*fold.View, error) {
	s, err := at.resolve(ctx, log, thread)
	if err != nil {
		return nil, err
	}
	f := fold.New(opts)
	if err := projection.Feed(f, s.read(ctx, log, thread, 0)); err != nil {
		return nil, err
	}
	return s.view(thread, f), nil
}

func (s selection) view(thread eventlog.ThreadKey, f *fold.Fold) *fold.View {
	view := f.View()
	view.Thread, view.Seq = thread.Thread, s.to
	return view
}

// Records yields the records of the lineage that leads to a point, from seq
// from on. Errors as View.
func Records(ctx context.Context, log projection.Source, thread eventlog.ThreadKey, at Point, from uint64) iter.Seq2[eventlog.Record, error] {
	return func(yield func(eventlog.Record, error) bool) {
		s, err := at.resolve(ctx, log, thread)
		if err != nil {
			yield(eventlog.Record{}, err)
			return
		}
		s.read(ctx, log, thread, from)(yield)
	}
}

func (s selection) read(ctx context.Context, log projection.Source, thread eventlog.ThreadKey, from uint64) iter.Seq2[eventlog.Record, error] {
	if s.to == 0 {
		return func(func(eventlog.Record, error) bool) {}
	}
	return log.Read(ctx, thread, eventlog.ReadOptions{From: from, To: s.to, Lineage: &s.lineage})
}
