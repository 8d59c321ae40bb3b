package agstore

import (
	"context"
	"iter"

	"github.com/agstore/agstore/eventlog"
	"github.com/agstore/agstore/projection"
)

// Projections says where the projections of Options are, in their order, and
// behind them those that the store has only the rows of, by name: another program
// keeps them, or none any more.
func (s *Store) Projections(ctx context.Context) ([]projection.Status, error) {
	return s.reducers.Stored(ctx)
}

// RebuildProjection makes a projection anew, with answers from what there is
// meanwhile, and returns when that is done. progress, if given, is told how far it
// is. One that Options do not have is made anew when the program that has it opens
// the store; ErrNotFound if nothing is stored of it either.
func (s *Store) RebuildProjection(ctx context.Context, name string, progress func(projection.Status)) error {
	return s.reducers.Rebuild(ctx, name, progress)
}

// WaitProjected returns once a projection has everything up to a position of the
// log, as Appended.Position: then it answers with one's own write. A projection
// that has stopped gives the reason.
func (s *Store) WaitProjected(ctx context.Context, name string, position uint64) error {
	p, err := s.reducers.Get(name)
	if err != nil {
		return err
	}
	return p.WaitFor(ctx, position)
}

// Projected gives the state that a projection has of a thread, or, if it is
// global, of the scope: thread is empty then. See projection.Reduced.State.
func (s *Scope) Projected(ctx context.Context, name, thread string) (projection.State, error) {
	p, err := s.store.reducers.Get(name)
	if err != nil {
		return projection.State{}, err
	}
	return p.State(ctx, s.name, thread)
}

// ProjectedRow gives one row of a projection that has rows.
func (s *Scope) ProjectedRow(ctx context.Context, name, thread, key string) (projection.State, error) {
	p, err := s.store.reducers.Get(name)
	if err != nil {
		return projection.State{}, err
	}
	return p.Row(ctx, s.name, thread, key)
}

// ProjectedRows yields the rows of a projection whose keys begin with a prefix.
func (s *Scope) ProjectedRows(ctx context.Context, name, thread, prefix string) iter.Seq2[projection.Row, error] {
	p, err := s.store.reducers.Get(name)
	if err != nil {
		return func(yield func(projection.Row, error) bool) { yield(projection.Row{}, err) }
	}
	return p.Rows(ctx, s.name, thread, prefix)
}

// unproject returns once no projection holds any more what a removal took away.
func (s *Scope) unproject(ctx context.Context, r eventlog.Receipt, err error) (eventlog.Receipt, error) {
	if err == nil && r.Number != 0 {
		err = s.store.reducers.Removed(ctx, r)
	}
	return r, err
}
