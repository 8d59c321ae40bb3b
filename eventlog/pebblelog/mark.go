package pebblelog

import (
	"context"
	"sync"

	"github.com/agstore/agstore/eventlog"
)

// watermark is the position up to which all is durable, and who waits for it.
type watermark struct {
	mu       sync.Mutex
	position uint64
	closed   bool
	changed  chan struct{} // closed at the next change; nil: nobody waits
}

func newWatermark(position uint64) *watermark { return &watermark{position: position} }

func (m *watermark) get() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.position
}

func (m *watermark) advance(position uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.position = position
	m.tellLocked()
}

func (m *watermark) tellLocked() {
	if m.changed != nil {
		close(m.changed)
		m.changed = nil
	}
}

func (m *watermark) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.tellLocked()
}

func (m *watermark) wait(ctx context.Context, position uint64) (uint64, error) {
	for {
		now, closed, changed := m.next(position)
		if closed {
			return now, eventlog.ErrClosed
		}
		if changed == nil {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// next gives the mark and, as long as position is above it, what is closed at
// its next change.
func (m *watermark) next(position uint64) (now uint64, closed bool, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.position >= position {
		return m.position, m.closed, nil
	}
	if m.changed == nil {
		m.changed = make(chan struct{})
	}
	return m.position, false, m.changed
}

// life guards the engine, which panics when it is used after it was closed. A
// log has one engine after the other.
type life struct {
	mu      sync.Mutex
	users   int
	closed  bool
	idle    chan struct{} // closed once closed and without users
	down    error         // why there is no engine
	busy    chan struct{} // not nil: the engine is being exchanged; closed afterwards
	drained chan struct{} // not nil: closed when there are no users
}

func newLife() *life { return &life{idle: make(chan struct{})} }

// enter gives the engine to be used until leave is called, or says why there is
// none. It waits while one is being exchanged for another; whoever has entered
// must not wait for the committer.
func (l *life) enter() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.busy != nil && !l.closed {
		busy := l.busy
		l.mu.Unlock()
		<-busy
		l.mu.Lock()
	}
	if l.closed {
		return eventlog.ErrClosed
	}
	if l.down != nil {
		return l.down
	}
	l.users++
	return nil
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users > 0 {
		return
	}
	if l.closed {
		close(l.idle)
	}
	if l.drained != nil {
		close(l.drained)
		l.drained = nil
	}
}

// exchange keeps users out until exchanged is called, and waits until those that
// are in have left.
func (l *life) exchange() {
	l.mu.Lock()
	l.busy = make(chan struct{})
	if l.users == 0 {
		l.mu.Unlock()
		return
	}
	drained := make(chan struct{})
	l.drained = drained
	l.mu.Unlock()
	<-drained
}

// exchanged lets users in again, or tells them from now on why there is no
// engine.
func (l *life) exchanged(down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	close(l.busy)
	l.busy = nil
}

func (l *life) closing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// end lets nobody in any more; false if that was so before.
func (l *life) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	if l.users == 0 {
		close(l.idle)
	}
	return true
}
