package projection

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/agstore/agstore/eventlog"
)

// ofThreads brings the states of the threads of some commits to a position.
func (p *Reduced) ofThreads(ctx context.Context, b build, commits []eventlog.Commit, position uint64) error {
	seen := make(map[eventlog.ThreadKey]bool)
	for _, c := range commits {
		if seen[c.Thread] {
			continue
		}
		seen[c.Thread] = true
		if err := p.bring(ctx, b, c.Thread, position); err != nil {
			return err
		}
	}
	return nil
}

// bringAttempts is how often a thread is tried that is removed from meanwhile.
const bringAttempts = 100

// bring makes the state of a thread true at a position, or finds that it is. Where
// nothing is stored, as after a removal, it begins with the thread's first record.
func (p *Reduced) bring(ctx context.Context, b build, key eventlog.ThreadKey, position uint64) error {
	p.work.Lock()
	defer p.work.Unlock()
	var err error
	for range bringAttempts {
		err = p.bringOnce(ctx, b, key, position)
		switch {
		case errors.Is(err, eventlog.ErrErased), errors.Is(err, eventlog.ErrThreadNotFound):
			return nil // its rows are gone with it
		case isDamage(err):
			// A derived row, or else the same is found again.
			if dropErr := p.log.DerivedDrop(ctx, p.space(b, key.Scope, key.Thread)); dropErr != nil {
				return dropErr
			}
			return p.bringOnce(ctx, b, key, position)
		case errors.Is(err, eventlog.ErrStale), errors.Is(err, eventlog.ErrGap):
			continue // something was removed from it
		}
		return err
	}
	return err
}

func isDamage(err error) bool {
	var reducer *ReducerError
	return errors.Is(err, eventlog.ErrCorrupt) && !errors.As(err, &reducer)
}

func (p *Reduced) bringOnce(ctx context.Context, b build, key eventlog.ThreadKey, position uint64) error {
	info, err := p.log.Thread(ctx, key)
	if err != nil {
		return err
	}
	space := p.space(b, key.Scope, key.Thread)
	at, err := p.log.DerivedAt(ctx, space)
	if err != nil || at.Position >= position {
		return err
	}
	rows := newRows(ctx, p.log, space, at)
	seq := uint64(0)
	if kept, ok := rows.get(ownKey); ok {
		seq, _ = binary.Uvarint(kept)
	}
	if rows.err != nil {
		return rows.err
	}
	opts, next := eventlog.ReadOptions{}, seq
	if seq > 0 {
		opts.From = seq + 1
	}
	to := eventlog.At{Removals: info.Removals}
	write := func(position uint64) error {
		if next != seq {
			rows.put(ownKey, change{value: binary.AppendUvarint(nil, next)})
		}
		to.Position = position
		return rows.write(to)
	}
	before := uint64(0) // position of the record before
	for r, err := range p.log.Read(ctx, key, opts) {
		if err != nil {
			return err
		}
		if r.Position > position {
			break
		}
		if r.Position != before && before != 0 && rows.full() {
			if err := write(before); err != nil {
				return err
			}
		}
		if err := p.reducer.reduce(rows, Input{Thread: key, Record: r}, r.Position); err != nil {
			return err
		}
		before, next = r.Position, r.Seq
	}
	if next == seq && !rows.anew {
		return nil // nothing of it concerns the state
	}
	return write(position)
}
