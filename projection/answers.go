package projection

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/agstore/agstore/eventlog"
)

// ErrBuilding: the projection is being made for the first time, and there is
// nothing to answer with yet. WaitFor waits for it.
var ErrBuilding = errors.New("the projection is being built")

// State is what a projection holds of a thread or a scope.
type State struct {
	Value []byte // nil: none
	// Position up to which the log has gone into it, or a later one.
	Position uint64
	// Version of the reducer that made it: an older one while the next is built.
	Version int
}

// State gives the state of a thread, or of a scope for a global projection: thread
// is empty then. ErrBuilding, ErrThreadNotFound, ErrErased; ErrInvalid for a
// projection of rows.
func (p *Reduced) State(ctx context.Context, scope, thread string) (State, error) {
	if p.reducer.Rows != nil {
		return State{}, p.refuse(scope, thread, &eventlog.InvalidError{Reason: "its state is rows; ask for a row"})
	}
	return p.Row(ctx, scope, thread, stateKey)
}

// Row gives the row of a key, as State does.
func (p *Reduced) Row(ctx context.Context, scope, thread, key string) (State, error) {
	space, state, err := p.answer(ctx, scope, thread)
	if err != nil {
		return State{}, err
	}
	row, err := p.log.DerivedGet(ctx, space, []byte(userKey+key))
	if errors.Is(err, eventlog.ErrNotFound) && !errors.Is(err, eventlog.ErrThreadNotFound) {
		return state, nil
	}
	state.Value = row.Value
	if err == nil && state.Value == nil {
		state.Value = []byte{}
	}
	return state, err
}

// Rows yields the rows whose keys begin with a prefix, in order. Many rows are read
// in several steps, between which they may change.
func (p *Reduced) Rows(ctx context.Context, scope, thread, prefix string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		space, _, err := p.answer(ctx, scope, thread)
		if err != nil {
			yield(Row{}, err)
			return
		}
		from := []byte(userKey + prefix)
		for row, err := range p.log.DerivedScan(ctx, space, eventlog.ScanOptions{From: from}) {
			if err == nil && !bytes.HasPrefix(row.Key, from) {
				return
			}
			out := Row{Value: row.Value}
			if err == nil {
				out.Key = string(row.Key[len(userKey):])
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// Row is one row of a projection.
type Row struct {
	Key   string
	Value []byte
}

func (p *Reduced) refuse(scope, thread string, err error) error {
	return &eventlog.Error{Op: "ask the projection " + p.reducer.Name + " of", Key: eventlog.ThreadKey{Scope: scope, Thread: thread}, Err: err}
}

// answer finds the rows to answer from, of a thread that has some.
func (p *Reduced) answer(ctx context.Context, scope, thread string) (eventlog.Space, State, error) {
	p.mu.Lock()
	active, current, position := p.control.Active, p.control.Next.Number == 0, p.status.Position
	p.mu.Unlock()
	switch {
	case p.reducer.Global && thread != "":
		return eventlog.Space{}, State{}, p.refuse(scope, thread, &eventlog.InvalidError{Reason: "it has one state for all threads of a scope"})
	case !p.reducer.Global && thread == "":
		return eventlog.Space{}, State{}, p.refuse(scope, thread, &eventlog.InvalidError{Reason: "it has a state for each thread; name one"})
	case scope == "":
		return eventlog.Space{}, State{}, p.refuse(scope, thread, &eventlog.InvalidError{Reason: "the scope is empty"})
	case active.Number == 0:
		return eventlog.Space{}, State{}, p.refuse(scope, thread, ErrBuilding)
	}
	space := p.space(active, scope, thread)
	at, err := p.log.DerivedAt(ctx, space)
	if err != nil {
		return space, State{}, err
	}
	// Rows that a removal has swept away, or that were damaged, are made anew as
	// the thread comes by next, or now.
	if at == (eventlog.At{}) && thread != "" && current && position > 0 && !p.opts.ReadOnly {
		if err := p.bring(ctx, active, eventlog.ThreadKey{Scope: scope, Thread: thread}, position); err != nil {
			return space, State{}, err
		}
	}
	state := State{Position: at.Position, Version: active.Version}
	if current {
		state.Position = max(position, at.Position)
	}
	return space, state, nil
}
