package projection

import (
	"context"
	"errors"
	"slices"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/fold"
)

// reader reads the checkpoints of one thread.
type reader struct {
	ctx      context.Context
	rows     eventlog.Derived
	space    eventlog.Space
	removals uint64 // rows of another number of removals are passed over
	opts     fold.Options

	checkpoints map[place]*checkpoint
	bodies      map[body][][]byte
	read        int // rows
}

func newReader(ctx context.Context, rows eventlog.Derived, thread eventlog.ThreadKey, removals uint64, opts fold.Options) *reader {
	return &reader{
		ctx: ctx, rows: rows, removals: removals, opts: opts,
		space:       eventlog.Space{Scope: thread.Scope, Thread: thread.Thread, Owner: owner},
		checkpoints: make(map[place]*checkpoint), bodies: make(map[body][][]byte),
	}
}

// unusable reports whether an error says that stored rows cannot be used, and
// the log must be.
func unusable(err error) bool {
	return errors.Is(err, errRow) || errors.Is(err, fold.ErrSnapshot) || errors.Is(err, eventlog.ErrCorrupt) ||
		errors.Is(err, eventlog.ErrNotFound) && !errors.Is(err, eventlog.ErrThreadNotFound)
}

// find gives the newest checkpoint of a lineage that is true at a seq up to to;
// nil if there is none. runs are those of the thread.
func (r *reader) find(lineage []agui.Segment, runs []agui.Run, to uint64) (*checkpoint, error) {
	first := make(map[agui.RunKey]uint64, len(runs))
	for _, run := range runs {
		first[run.Key] = run.FirstSeq
	}
	// Of a checkpoint true at seq all later runs of the lineage begin behind seq.
	bound := to
	for i := len(lineage) - 1; i >= -1; i-- {
		at := uint64(0)
		if i >= 0 {
			at = first[lineage[i].Run]
			bound = min(bound, lineage[i].Through)
		}
		c, err := r.latest(at, bound)
		if err != nil || c != nil {
			return c, err
		}
		if i >= 0 {
			bound = min(bound, at-1)
		}
	}
	return nil, nil
}

// latest gives the newest checkpoint of a run up to a seq, nil if there is none.
func (r *reader) latest(run, to uint64) (*checkpoint, error) {
	scan := eventlog.ScanOptions{From: place{run, 0}.key(), To: append(place{run, to}.key(), 0), Reverse: true, Limit: 1}
	for row, err := range r.rows.DerivedScan(r.ctx, r.space, scan) {
		if err != nil {
			return nil, err
		}
		r.read++
		at, ok := placeOf(row.Key)
		if !ok {
			return nil, errRow
		}
		if row.At.Removals != r.removals {
			return nil, errRow
		}
		return r.keep(at, row.Value)
	}
	return nil, nil
}

func (r *reader) keep(at place, value []byte) (*checkpoint, error) {
	c, err := decodeCheckpoint(at, value, r.opts)
	if err == nil {
		r.checkpoints[at] = c
	}
	return c, err
}

// at gives the checkpoint of a place.
func (r *reader) at(p place) (*checkpoint, error) {
	if c := r.checkpoints[p]; c != nil {
		return c, nil
	}
	row, err := r.rows.DerivedGet(r.ctx, r.space, p.key())
	if err != nil {
		return nil, err
	}
	r.read++
	if row.At.Removals != r.removals {
		return nil, errRow
	}
	return r.keep(p, row.Value)
}

// locate appends where the entries from from to to of a list are: in which rows.
func (r *reader) locate(out []piece, c *checkpoint, l fold.List, from, to int) ([]piece, error) {
	for _, p := range cut(nil, c.lists[l], from, to) {
		if p.row != 0 {
			out = append(out, p)
			continue
		}
		parent, err := r.at(*c.parent)
		if err != nil {
			return nil, err
		}
		if parent.seq >= c.seq {
			return nil, errRow // it would never end
		}
		if out, err = r.locate(out, parent, l, p.from, p.from+p.n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// scanned is how many rows are passed over to save one look-up.
const scanned = 4

// fetch reads the rows of pieces of a list.
func (r *reader) fetch(l fold.List, pieces []piece) error {
	var rows []uint64
	for _, p := range pieces {
		if r.bodies[body{l, p.row}] == nil {
			rows = append(rows, p.row)
		}
	}
	slices.Sort(rows)
	rows = slices.Compact(rows)
	for len(rows) > 0 {
		// Rows that lie near each other are read in one go.
		n := 1
		for n < len(rows) && rows[n]-rows[n-1] <= scanned {
			n++
		}
		if n == 1 {
			row, err := r.rows.DerivedGet(r.ctx, r.space, body{l, rows[0]}.key())
			if err != nil {
				return err
			}
			if err := r.body(body{l, rows[0]}, row); err != nil {
				return err
			}
		} else if err := r.scan(l, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

func (r *reader) scan(l fold.List, rows []uint64) error {
	want := 0
	scan := eventlog.ScanOptions{From: body{l, rows[0]}.key(), To: body{l, rows[len(rows)-1] + 1}.key()}
	for row, err := range r.rows.DerivedScan(r.ctx, r.space, scan) {
		if err != nil {
			return err
		}
		at, ok := bodyOf(row.Key)
		if !ok {
			return errRow
		}
		switch {
		case want < len(rows) && at.number == rows[want]:
			if err := r.body(at, row); err != nil {
				return err
			}
			want++
		default:
			r.read++
		}
	}
	if want < len(rows) {
		return errRow // one is missing
	}
	return nil
}

func (r *reader) body(at body, row eventlog.DerivedRow) error {
	r.read++
	if row.At.Removals != r.removals {
		return errRow
	}
	entries, err := decodeBody(row.Value)
	if err == nil {
		r.bodies[at] = entries
	}
	return err
}

// entries gives the entries from from to to of a list.
func (r *reader) entries(c *checkpoint, l fold.List, from, to int) ([][]byte, error) {
	pieces, err := r.locate(nil, c, l, from, to)
	if err != nil {
		return nil, err
	}
	if err := r.fetch(l, pieces); err != nil {
		return nil, err
	}
	var out [][]byte
	for _, p := range pieces {
		entries := r.bodies[body{l, p.row}]
		if p.from+p.n > len(entries) {
			return nil, errRow
		}
		out = append(out, entries[p.from:p.from+p.n]...)
	}
	if len(out) != to-from {
		return nil, errRow
	}
	return out, nil
}

// restore makes the fold of a checkpoint.
func (r *reader) restore(c *checkpoint) (*fold.Fold, error) {
	e := &fold.Entries{fold.ListRest: {c.rest}}
	for i := range e {
		l := fold.List(i)
		if l == fold.ListRest {
			continue
		}
		var err error
		if e[l], err = r.entries(c, l, 0, c.count(l)); err != nil {
			return nil, err
		}
	}
	return fold.RestoreEntries(e, r.opts)
}
