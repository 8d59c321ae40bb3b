package projection

import (
	"context"
	"errors"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// How many commits a projection takes in one step, and how long it waits for a
// disk that fails.
const (
	stepCommits = 1024
	waitFirst   = 50 * time.Millisecond
	waitLast    = 2 * time.Second
)

// errRedo: states of scopes are to be made anew before it goes on.
var errRedo = errors.New("states are to be made anew")

// isPassing reports whether a projection goes on by itself after an error.
func isPassing(err error) bool { return errors.Is(err, eventlog.ErrUnavailable) }

// loop keeps the projection up to date.
func (p *Reduced) loop(ctx context.Context) {
	wait := waitFirst
	for ctx.Err() == nil {
		err := p.advance(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, eventlog.ErrClosed):
			return
		case err == nil:
			wait = waitFirst
			p.idle(ctx)
			continue
		case errors.Is(err, eventlog.ErrStale):
			// Rows were lost with the disk, or somebody else writes them: it goes on
			// from what is stored.
			if err = p.load(ctx); err == nil {
				p.pause(ctx, wait)
			}
		case isPassing(err):
			p.update(func(st *Status) { st.Err = err })
			p.pause(ctx, wait)
		default:
			p.stop(ctx, err)
			continue
		}
		wait = min(2*wait, waitLast)
	}
}

// stop waits for somebody to ask for the projection anew.
func (p *Reduced) stop(ctx context.Context, err error) {
	if p.opts.Failed != nil {
		p.opts.Failed(p.reducer.Name, err)
	}
	p.update(func(st *Status) {
		if !p.rebuild {
			st.Err, st.Building = err, p.control.Next.Number != 0
		}
	})
	p.until(ctx, func(ctx context.Context) { <-ctx.Done() })
}

// pause waits a while.
func (p *Reduced) pause(ctx context.Context, d time.Duration) {
	fired, stop := p.opts.After(d)
	select {
	case <-fired:
	case <-ctx.Done():
		stop()
	}
}

// idle waits for a commit behind those that have gone into the projection.
func (p *Reduced) idle(ctx context.Context) {
	position := p.Status().Position
	p.until(ctx, func(ctx context.Context) { _, _ = p.log.Wait(ctx, position+1) })
}

// until waits for something, or for a request.
func (p *Reduced) until(ctx context.Context, wait func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.mu.Lock()
	asked := p.rebuild
	p.wake = cancel
	p.mu.Unlock()
	if !asked {
		wait(ctx)
	}
	p.mu.Lock()
	p.wake = nil
	p.mu.Unlock()
}

// advance takes in all that there is.
func (p *Reduced) advance(ctx context.Context) error {
	for {
		if err := p.prepare(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		b := p.control.current()
		p.mu.Unlock()
		at, err := p.log.DerivedAt(ctx, p.space(b, "", ""))
		if err != nil {
			return err
		}
		if p.reducer.Global {
			if err := p.redo(ctx, b, at); err != nil {
				return err
			}
		}
		position, more, err := p.step(ctx, b, at)
		if errors.Is(err, errRedo) {
			continue // before anybody takes it to be that far
		}
		if err != nil {
			return err
		}
		switched, err := p.arrived(ctx, position)
		if err != nil {
			return err
		}
		p.update(func(st *Status) {
			st.Err = nil
			if !p.rebuild {
				st.Position = position
			}
			st.Building, st.Serving, st.Target = p.control.Next.Number != 0 || p.rebuild, p.control.Active.Version, p.control.Target
		})
		p.mu.Lock()
		asked := p.rebuild
		p.mu.Unlock()
		if !more && !switched && !asked {
			return nil
		}
	}
}

// step takes in some commits, and gives up to where; more: there are others.
func (p *Reduced) step(ctx context.Context, b build, at eventlog.At) (position uint64, more bool, err error) {
	mark := p.log.Watermark()
	position = at.Position
	if position >= mark {
		return position, false, nil
	}
	commits := make([]eventlog.Commit, 0, min(stepCommits, mark-position))
	for c, err := range p.log.Commits(ctx, position+1) {
		if err != nil {
			return position, false, err
		}
		commits = append(commits, c)
		if len(commits) == stepCommits {
			break
		}
	}
	if len(commits) == 0 {
		return position, false, nil
	}
	position = commits[len(commits)-1].Position
	var own []eventlog.DerivedChange
	redo := false
	if p.reducer.Global {
		own, redo, err = p.ofScopes(ctx, b, commits)
	} else {
		err = p.ofThreads(ctx, b, commits, position)
	}
	if err != nil {
		return at.Position, false, err
	}
	batch := eventlog.DerivedBatch{From: at, To: eventlog.At{Position: position}, Changes: own}
	if err := p.log.DerivedWrite(ctx, p.space(b, "", ""), batch); err != nil {
		return at.Position, false, err
	}
	if redo {
		return position, true, errRedo
	}
	return position, position < p.log.Watermark(), nil
}
