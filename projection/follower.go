package projection

import (
	"context"
	"errors"
	"iter"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// follower is a fold that follows a lineage, and what it takes to store it.
type follower struct {
	fold     *fold.Fold
	last     uint64 // seq of the last record in it
	position uint64 // of that record's commit; 0: not known

	stored *checkpoint // that Changes are told against; nil: none
	broken bool        // it cannot be stored
	stale  bool        // another one is to be made of what is stored
	tail   int         // bytes of the events since
	cost   int         // about how long the row of the next checkpoint will be
	wrote  int         // bytes of all its rows
}

// Feed applies records to a fold until they end.
func Feed(f *fold.Fold, records iter.Seq2[eventlog.Record, error]) error {
	return (&follower{fold: f}).apply(records)
}

func (f *follower) apply(records iter.Seq2[eventlog.Record, error]) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		f.fold.Apply(fold.Record{
			Seq: r.Seq, Run: r.Run, Echo: r.Echo, UnknownParent: r.UnknownParent, Raw: r.Event,
		})
		f.last, f.position = r.Seq, r.Position
		f.tail += len(r.Event)
	}
	return nil
}

// feed applies the records of a lineage behind seq after, up to to.
func (f *follower) feed(ctx context.Context, log Source, thread eventlog.ThreadKey, lineage agui.RunKey, after, to uint64) error {
	opts := eventlog.ReadOptions{From: after + 1, To: to, Lineage: &lineage}
	if after == 0 {
		opts.From = 0
	}
	return f.apply(log.Read(ctx, thread, opts))
}

// Fold folds the lineage of a run up to seq to, from the newest checkpoint on
// that there is in it, if log keeps some. The zero key is the lineage of what
// belongs to no run; to is not 0. Errors: those of reading.
func Fold(ctx context.Context, log Source, thread eventlog.ThreadKey, lineage agui.RunKey, to uint64, opts fold.Options) (*fold.Fold, error) {
	f := &follower{fold: fold.New(opts)}
	if rows, ok := log.(eventlog.Derived); ok {
		info, err := log.Thread(ctx, thread)
		if err != nil {
			return nil, err
		}
		runs, err := log.Runs(ctx, thread)
		if err != nil {
			return nil, err
		}
		tree := eventlog.Tree(runs)
		found, err := begin(newReader(ctx, rows, thread, info.Removals, opts), agui.Lineage(tree, lineage), tree, to)
		switch {
		case err == nil:
			f = found
		case !unusable(err):
			return nil, err
		}
	}
	if err := f.feed(ctx, log, thread, lineage, f.last, to); err != nil {
		return nil, err
	}
	return f.fold, nil
}

// begin makes the follower of a lineage of its newest checkpoint, or of nothing.
func begin(r *reader, lineage []agui.Segment, tree []agui.Run, to uint64) (*follower, error) {
	c, err := r.find(lineage, tree, to)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return &follower{fold: fold.New(r.opts)}, nil
	}
	restored, err := r.restore(c)
	if err != nil {
		return nil, err
	}
	return &follower{fold: restored, last: c.seq, stored: c, cost: rowCost(c), wrote: rowCost(c)}, nil
}

// openAt makes the follower of a lineage. Rows that cannot be used are dropped:
// all are then made anew.
func (v *Views) openAt(ctx context.Context, k *kept, lineage []agui.Segment, tree []agui.Run, to uint64) (*follower, error) {
	if v.rows == nil {
		return &follower{fold: fold.New(v.opts.Fold), broken: true}, nil
	}
	r := newReader(ctx, v.rows, k.thread, k.removals, v.opts.Fold)
	f, err := begin(r, lineage, tree, to)
	if err == nil || !unusable(err) {
		return f, err
	}
	v.failed(k.thread, err)
	f = &follower{fold: fold.New(v.opts.Fold)}
	k.next = [fold.Lists]uint64{}
	if k.head != nil { // what it goes on from is gone
		k.head.broken, k.head.stale = true, true
	}
	if err := v.rows.DerivedDrop(ctx, r.space); err != nil {
		v.failed(k.thread, err)
		f.broken = true
	}
	return f, nil
}

func (v *Views) failed(thread eventlog.ThreadKey, err error) {
	if v.opts.Failed != nil {
		v.opts.Failed(thread, err)
	}
}

// Inside a run, a fold is stored when the events since the last checkpoint are
// so many bytes, and so many times what that one took.
const (
	farBehind  = 256 << 10
	timesWrote = 4
)

// storeIfDue writes a checkpoint if it is worth its bytes: at the end of a run
// unless it were larger than the events since, and inside a run far more seldom.
func (v *Views) storeIfDue(ctx context.Context, k *kept, f *follower, run *agui.Run) {
	switch {
	case f.broken || f.position == 0 || f.tail == 0:
		return
	case v.always:
	case run == nil || !run.Running():
		if f.tail < f.cost {
			return
		}
	case f.tail < max(farBehind, timesWrote*f.wrote):
		return
	}
	first := uint64(0)
	if run != nil {
		first = run.FirstSeq
	}
	if err := v.store(ctx, k, f, place{first, f.last}); err != nil {
		// Its Changes have been told.
		f.broken, f.stale = true, errors.Is(err, eventlog.ErrStale)
		if !errors.Is(err, eventlog.ErrReadOnly) {
			v.failed(k.thread, err)
		}
	}
}

// Rows of entries hold so many bytes and entries, unless one is larger.
const (
	bodyBytes   = 16 << 10
	bodyEntries = 64
)

// store writes a checkpoint: what has changed since the last one.
func (v *Views) store(ctx context.Context, k *kept, f *follower, at place) error {
	r := newReader(ctx, v.rows, k.thread, k.removals, v.opts.Fold)
	if _, err := r.at(at); err == nil {
		f.broken, f.stale = true, true // it is there, by another way; its children mean its lists
		return nil
	}
	from, err := v.rows.DerivedAt(ctx, r.space)
	if err != nil {
		return err
	}
	batch := eventlog.DerivedBatch{From: from, To: eventlog.At{Position: max(from.Position, f.position), Removals: k.removals}}
	changes := f.fold.Changes()
	c := &checkpoint{place: at, rest: changes[fold.ListRest][0].New[0]}
	if f.stored != nil {
		c.parent = &f.stored.place
	}
	wrote := 0
	for i, list := range changes {
		l := fold.List(i)
		if l == fold.ListRest {
			continue
		}
		if k.next[l] == 0 {
			if k.next[l], err = r.nextRow(l); err != nil {
				return err
			}
		}
		for _, s := range list {
			if s.New == nil {
				c.lists[l] = append(c.lists[l], piece{0, s.From, s.To - s.From})
			}
			for rest := s.New; len(rest) > 0; {
				n := bodySize(rest)
				value := encodeBody(rest[:n])
				batch.Changes = append(batch.Changes, eventlog.DerivedChange{Key: body{l, k.next[l]}.key(), Value: value})
				c.lists[l] = append(c.lists[l], piece{k.next[l], 0, n})
				wrote += len(value)
				k.next[l]++
				rest = rest[n:]
			}
		}
	}
	value, err := r.seal(c, f.stored)
	if err != nil {
		return err
	}
	batch.Changes = append(batch.Changes, eventlog.DerivedChange{Key: at.key(), Value: value})
	if err := v.rows.DerivedWrite(ctx, r.space, batch); err != nil {
		k.next = [fold.Lists]uint64{}
		return err
	}
	f.stored, f.tail, f.cost, f.wrote = c, 0, rowCost(c), wrote+len(value)
	return nil
}

// rowCost is about how long the row of the checkpoint behind c will be.
func rowCost(c *checkpoint) int { return len(c.rest) + 64 }

// bodySize is how many entries go into one row.
func bodySize(entries [][]byte) int {
	n, size := 0, 0
	for n < len(entries) && n < bodyEntries && (n == 0 || size+len(entries[n]) <= bodyBytes) {
		size += len(entries[n])
		n++
	}
	return n
}

// leastBase is how long checkpoints may be together, at least, before a base is
// written again.
const leastBase = 512

// seal gives the value of a checkpoint's row. It is told by its parent, the
// checkpoint before it, or by one further back, so that there are never many on
// the way to the base; and without one, as a base itself, if those since the last
// base are longer than that was.
func (r *reader) seal(c, parent *checkpoint) ([]byte, error) {
	if parent != nil {
		r.checkpoints[parent.place] = parent
		c.depth, c.since, c.base = parent.depth+1, parent.since, parent.base
		if err := r.inline(c, skipTo(c.depth)); err != nil {
			return nil, err
		}
		if c.since += len(c.encode(r.opts)); c.since <= max(c.base, leastBase) {
			return c.encode(r.opts), nil
		}
		if err := r.inline(c, -1); err != nil {
			return nil, err
		}
		c.depth, c.since = 0, 0
	}
	c.base = len(c.encode(r.opts))
	return c.encode(r.opts), nil
}

// fan is how many checkpoints follow each other before one is told by what was
// there before them all; as many of those, and so on.
const fan = 8

// skipTo is the depth of the checkpoint that one of a depth is told by.
func skipTo(depth int) int {
	step := 1
	for depth%(step*fan) == 0 {
		step *= fan
	}
	return depth - step
}

// inline tells c by the ancestor of a depth instead of its parent; -1: by none.
func (r *reader) inline(c *checkpoint, depth int) error {
	for c.parent != nil {
		parent, err := r.at(*c.parent)
		if err != nil {
			return err
		}
		if parent.depth <= depth {
			break
		}
		for l, list := range c.lists {
			var out []piece
			for _, p := range list {
				if p.row != 0 {
					out = append(out, p)
				} else {
					out = cut(out, parent.lists[l], p.from, p.from+p.n)
				}
			}
			c.lists[l] = join(out)
		}
		c.parent = parent.parent
	}
	return nil
}

// cut appends the part of a list from from to to.
func cut(out, list []piece, from, to int) []piece {
	at := 0
	for _, p := range list {
		if a, b := max(from, at), min(to, at+p.n); a < b {
			out = append(out, piece{p.row, p.from + a - at, b - a})
		}
		at += p.n
	}
	return out
}

// join makes one of pieces that follow each other in one row.
func join(list []piece) []piece {
	out := list[:0]
	for _, p := range list {
		if n := len(out); n > 0 && out[n-1].row == p.row && out[n-1].from+out[n-1].n == p.from {
			out[n-1].n += p.n
			continue
		}
		out = append(out, p)
	}
	return out
}

// nextRow is the number of the next row of entries of a list.
func (r *reader) nextRow(l fold.List) (uint64, error) {
	scan := eventlog.ScanOptions{From: body{l, 0}.key(), To: body{l + 1, 0}.key(), Reverse: true, Limit: 1}
	for row, err := range r.rows.DerivedScan(r.ctx, r.space, scan) {
		if err != nil {
			return 0, err
		}
		at, ok := bodyOf(row.Key)
		if !ok {
			return 0, errRow
		}
		return at.number + 1, nil
	}
	return 1, nil
}
