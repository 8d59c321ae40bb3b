package projection

import (
	"context"
	"errors"

	"github.com/agstore/agstore/eventlog"
)

// Keys of a build's own rows: a scope that it has a state of, and one whose state
// is to be made anew.
const (
	knownScope = "s\x00"
	redoScope  = "r\x00"
)

// sweep is one pass over commits for the states of scopes.
type sweep struct {
	p      *Reduced
	ctx    context.Context
	build  build
	scopes map[string]*Rows
	last   map[string]uint64 // position of the latest commit given to each
	redo   map[string]bool   // scopes from which something was removed
	again  bool              // it is made anew: what was removed is gone already
	only   map[string]bool   // nil: all
}

// ofScopes gives commits to the states of their scopes, and what is to be noted of
// them with the position: redo, if some are to be made anew.
func (p *Reduced) ofScopes(ctx context.Context, b build, commits []eventlog.Commit) (own []eventlog.DerivedChange, redo bool, err error) {
	p.work.Lock()
	defer p.work.Unlock()
	w := &sweep{p: p, ctx: ctx, build: b, scopes: make(map[string]*Rows), last: make(map[string]uint64), redo: make(map[string]bool)}
	for _, c := range commits {
		if err := w.commit(c); err != nil {
			return nil, false, err
		}
	}
	if err := w.write(commits[len(commits)-1].Position); err != nil {
		return nil, false, err
	}
	for scope := range w.last {
		own = append(own, eventlog.DerivedChange{Key: []byte(knownScope + scope)})
	}
	for scope := range w.redo {
		// Gone before the position says that the removal was seen.
		if err := p.log.DerivedDrop(ctx, p.space(b, scope, "")); err != nil {
			return nil, false, err
		}
		own = append(own, eventlog.DerivedChange{Key: []byte(knownScope + scope)}, eventlog.DerivedChange{Key: []byte(redoScope + scope)})
	}
	return own, len(w.redo) > 0, nil
}

// rows gives the state of a scope, as stored and changed since.
func (w *sweep) rows(scope string) (*Rows, error) {
	if rows := w.scopes[scope]; rows != nil {
		return rows, nil
	}
	space := w.p.space(w.build, scope, "")
	at, err := w.p.log.DerivedAt(w.ctx, space)
	if err != nil {
		return nil, err
	}
	if at == (eventlog.At{}) && !w.again {
		_, err := w.p.log.DerivedGet(w.ctx, w.p.space(w.build, "", ""), []byte(knownScope+scope))
		if err == nil {
			w.redo[scope] = true // it had one, which is lost
		} else if !errors.Is(err, eventlog.ErrNotFound) {
			return nil, err
		}
	}
	rows := newRows(w.ctx, w.p.log, space, at)
	w.scopes[scope] = rows
	return rows, nil
}

// commit gives one commit to the state of its scope, unless it has it.
func (w *sweep) commit(c eventlog.Commit) error {
	scope := c.Thread.Scope
	if w.only != nil && !w.only[scope] || c.Stream == eventlog.StreamCompanion {
		return nil
	}
	rows, err := w.rows(scope)
	if err != nil || w.redo[scope] || c.Position <= rows.at.Position {
		return err
	}
	if rows.full() && w.last[scope] > rows.at.Position {
		if err := rows.write(eventlog.At{Position: w.last[scope]}); err != nil {
			return err
		}
	}
	w.last[scope] = c.Position
	if c.Stream == eventlog.StreamControl {
		return w.control(rows, c)
	}
	if c.Count == 0 {
		return nil
	}
	opts := eventlog.ReadOptions{From: c.First, To: c.First + uint64(c.Count) - 1}
	for r, err := range w.p.log.Read(w.ctx, c.Thread, opts) {
		switch {
		case errors.Is(err, eventlog.ErrGap):
			continue // cleared since; what there is behind it comes
		case errors.Is(err, eventlog.ErrErased), errors.Is(err, eventlog.ErrThreadNotFound):
			return nil
		case err != nil:
			return err
		}
		if err := w.p.reducer.reduce(rows, Input{Thread: c.Thread, Record: r}, c.Position); err != nil {
			return err
		}
	}
	return nil
}

// control looks whether a commit has removed something.
func (w *sweep) control(rows *Rows, c eventlog.Commit) error {
	if w.p.reducer.Removals == RemovalsIgnored {
		return nil
	}
	for r, err := range w.p.log.Receipts(w.ctx, c.Thread.Scope, c.Thread.Thread) {
		if err != nil {
			return err
		}
		if r.Position != c.Position {
			continue
		}
		if w.p.reducer.Removals == RemovalsTold {
			return w.p.reducer.reduce(rows, Input{Thread: c.Thread, Removed: &r}, c.Position)
		}
		if !w.again {
			w.redo[c.Thread.Scope] = true
		}
	}
	return nil
}

// write stores all states, true at a position.
func (w *sweep) write(position uint64) error {
	for scope, rows := range w.scopes {
		if w.redo[scope] || w.last[scope] <= rows.at.Position {
			continue
		}
		if err := rows.write(eventlog.At{Position: position}); err != nil {
			return err
		}
	}
	return nil
}

// redoOptions select the scopes that are noted to be made anew; as many as are
// made so at once.
func redoOptions() eventlog.ScanOptions {
	return eventlog.ScanOptions{From: []byte(redoScope), To: []byte(redoScope[:1] + "\x01"), Limit: stepCommits}
}

// redoing reports whether there are any.
func (p *Reduced) redoing(ctx context.Context, b build) (bool, error) {
	for _, err := range p.log.DerivedScan(ctx, p.space(b, "", ""), redoOptions()) {
		return true, err
	}
	return false, nil
}

// redo makes the states of scopes anew that are noted for it, up to where the
// build is.
func (p *Reduced) redo(ctx context.Context, b build, at eventlog.At) error {
	own := p.space(b, "", "")
	only := make(map[string]bool)
	var done []eventlog.DerivedChange
	for row, err := range p.log.DerivedScan(ctx, own, redoOptions()) {
		if err != nil {
			return err
		}
		only[string(row.Key[len(redoScope):])] = true
		done = append(done, eventlog.DerivedChange{Key: row.Key, Delete: true})
	}
	if len(only) == 0 {
		return nil
	}
	p.work.Lock()
	defer p.work.Unlock()
	for scope := range only {
		if err := p.log.DerivedDrop(ctx, p.space(b, scope, "")); err != nil {
			return err
		}
	}
	w := &sweep{
		p: p, ctx: ctx, build: b, scopes: make(map[string]*Rows), last: make(map[string]uint64), redo: make(map[string]bool),
		again: true, only: only,
	}
	for c, err := range p.log.Commits(ctx, 1) {
		if err != nil {
			return err
		}
		if c.Position > at.Position {
			break
		}
		if err := w.commit(c); err != nil {
			return err
		}
	}
	if err := w.write(at.Position); err != nil {
		return err
	}
	return p.log.DerivedWrite(ctx, own, eventlog.DerivedBatch{From: at, To: at, Changes: done})
}

// removed is Reducers.Removed for one of them.
func (p *Reduced) removed(ctx context.Context, r eventlog.Receipt) error {
	if !p.reducer.Global || p.reducer.Removals == RemovalsIgnored || p.opts.ReadOnly || r.Position == 0 {
		return nil
	}
	p.mu.Lock()
	if p.control.Next.Number != 0 {
		p.control.Target = max(p.control.Target, r.Position)
	}
	c := p.control
	p.mu.Unlock()
	if c.Next.Number != 0 {
		// What is answered from nobody brings up to date any more, and the next
		// build takes over when it has seen the removal.
		return p.dropScope(ctx, c.Active, r.Thread.Scope)
	}
	err := p.await(ctx, nil, func(st Status) bool { return st.Position >= r.Position })
	if err == nil || ctx.Err() != nil || errors.Is(err, eventlog.ErrClosed) {
		return err
	}
	return p.dropScope(ctx, c.Active, r.Thread.Scope) // it has stopped
}

func (p *Reduced) dropScope(ctx context.Context, b build, scope string) error {
	if b.Number == 0 {
		return nil
	}
	return p.log.DerivedDrop(ctx, p.space(b, scope, ""))
}
