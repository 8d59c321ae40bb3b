package projection

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// Log is what user projections need of a log: to read it, and to keep rows beside
// it.
type Log interface {
	Source
	eventlog.Derived
	Commits(ctx context.Context, from uint64) iter.Seq2[eventlog.Commit, error]
	Receipts(ctx context.Context, scope, thread string) iter.Seq2[eventlog.Receipt, error]
	Watermark() uint64
	Wait(ctx context.Context, position uint64) (uint64, error)
}

// ReducersOptions for Keep. The zero value is a good choice.
type ReducersOptions struct {
	// ReadOnly keeps nothing up to date: what was stored is read as it is.
	ReadOnly bool
	// Failed, if given, is told when a projection stops, with a *ReducerError or
	// what is wrong with the store.
	Failed func(name string, err error)
	// After is a timer with what gives it up, for tests; nil is package time's.
	After func(d time.Duration) (fired <-chan time.Time, stop func() bool)
}

// Reducers keeps user projections up to date, each by a goroutine of its own,
// until it is closed.
type Reducers struct {
	log    Log
	all    []*Reduced
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// Keep begins to keep projections. ErrInvalid for one that cannot be, or two of a
// name. It does not wait for any of them.
func Keep(log Log, reducers []Reducer, opts ReducersOptions) (*Reducers, error) {
	if opts.After == nil {
		opts.After = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Reducers{log: log, cancel: cancel}
	for _, r := range reducers {
		err := r.check()
		if err == nil && s.find(r.Name) != nil {
			err = &eventlog.Error{Op: "keep the projection " + r.Name, Err: &eventlog.InvalidError{Reason: "there are two of that name"}}
		}
		if err != nil {
			cancel()
			return nil, err
		}
		p := &Reduced{reducer: r, log: log, opts: opts, changed: make(chan struct{})}
		p.status = Status{Name: r.Name, Version: r.Version, Global: r.Global, Kept: true}
		s.all = append(s.all, p)
	}
	for _, p := range s.all {
		if err := p.load(ctx); err != nil {
			cancel()
			return nil, err
		}
	}
	if opts.ReadOnly {
		return s, nil
	}
	for _, p := range s.all {
		s.ended.Go(func() { p.loop(ctx) })
	}
	return s, nil
}

// Close ends the goroutines. What they were at goes on when the projections are
// kept again.
func (s *Reducers) Close() {
	s.cancel()
	s.ended.Wait()
	for _, p := range s.all {
		p.update(func(st *Status) {
			if st.Err == nil {
				st.Err = &eventlog.Error{Op: "keep the projection " + st.Name, Err: eventlog.ErrClosed}
			}
		})
	}
}

func (s *Reducers) find(name string) *Reduced {
	for _, p := range s.all {
		if p.reducer.Name == name {
			return p
		}
	}
	return nil
}

// Get gives the projection of a name; ErrNotFound if there is none.
func (s *Reducers) Get(name string) (*Reduced, error) {
	if p := s.find(name); p != nil {
		return p, nil
	}
	return nil, &eventlog.Error{
		Op: "find the projection " + name, Err: eventlog.ErrNotFound,
		Hint: "the program that opens the store registers its projections",
	}
}

// All are the projections, in the order in which they were registered.
func (s *Reducers) All() []*Reduced { return append([]*Reduced(nil), s.all...) }

// Removed returns once no global projection has any more of what a removal took
// away: each has seen it, or, if it has stopped, its state of the scope is dropped.
func (s *Reducers) Removed(ctx context.Context, r eventlog.Receipt) error {
	for _, p := range s.all {
		if err := p.removed(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// Status is where a projection is.
type Status struct {
	Name    string
	Version int
	Global  bool
	// Kept: it is kept up to date here. Not, if there are only its rows.
	Kept bool
	// Position up to which all commits have gone into it.
	Position uint64
	// Building: it is being made anew, because there was none of its version or
	// somebody asked for it, and is answered from once it has reached Target.
	Building bool
	Target   uint64
	// Serving is the version of the reducer whose state is answered with; 0: none
	// is, until it is built.
	Serving int
	// Err is why it goes no further; nil: it does. With eventlog.ErrUnavailable it
	// goes on by itself once the disk does.
	Err error
}

// Reduced is one user projection. It is safe for concurrent use.
type Reduced struct {
	reducer Reducer
	log     Log
	opts    ReducersOptions

	work sync.Mutex // the turn at the reducer

	mu      sync.Mutex
	status  Status
	control control
	saved   control            // as stored
	rebuild bool               // somebody asked for it
	wake    context.CancelFunc // ends the wait for commits; nil: there is none
	changed chan struct{}      // closed at the next change of status
}

// Status says where the projection is.
func (p *Reduced) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// update changes the status and tells who waits.
func (p *Reduced) update(change func(st *Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.status)
	close(p.changed)
	p.changed = make(chan struct{})
}

// watch gives the status and what is closed when it changes.
func (p *Reduced) watch() (Status, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.changed
}

// WaitFor returns once everything up to a position of the log has gone into the
// projection (read your writes: Appended.Position), and it is answered from. It
// ends with the reason if the projection has stopped.
func (p *Reduced) WaitFor(ctx context.Context, position uint64) error {
	return p.await(ctx, nil, func(st Status) bool { return st.Position >= position && !st.Building })
}

func (p *Reduced) await(ctx context.Context, progress func(Status), done func(st Status) bool) error {
	op := "wait for the projection " + p.reducer.Name
	if p.opts.ReadOnly {
		return &eventlog.Error{Op: op, Err: eventlog.ErrReadOnly}
	}
	for {
		st, changed := p.watch()
		if progress != nil {
			progress(st)
		}
		if done(st) {
			return nil
		}
		if st.Err != nil && !isPassing(st.Err) {
			return st.Err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return &eventlog.Error{Op: op, Err: ctx.Err()}
		}
	}
}

// Rebuild makes the projection anew, in the background of answers from what there
// is, and returns when that is done. progress, if given, is told how far it is. It
// goes on if ctx ends the wait. A projection that has stopped is tried again.
func (p *Reduced) Rebuild(ctx context.Context, progress func(Status)) error {
	p.mu.Lock()
	p.rebuild = true
	p.status.Building = true // so that nobody takes what is for what will be
	if !isPassing(p.status.Err) && !p.opts.ReadOnly {
		p.status.Err = nil
	}
	if p.wake != nil {
		p.wake()
	}
	p.mu.Unlock()
	return p.await(ctx, progress, func(st Status) bool { return !st.Building })
}
