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
	changed  chan struct{}
}

func newWatermark(position uint64) *watermark {
	return &watermark{position: position, changed: make(chan struct{})}
}

func (m *watermark) get() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.position
}

func (m *watermark) advance(position uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.position = position
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *watermark) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

func (m *watermark) wait(ctx context.Context, position uint64) (uint64, error) {
	for {
		m.mu.Lock()
		now, closed, changed := m.position, m.closed, m.changed
		m.mu.Unlock()
		if closed {
			return now, eventlog.ErrClosed
		}
		if now >= position {
			return now, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// life guards the engine, which panics when it is used after it was closed.
type life struct {
	mu     sync.Mutex
	users  int
	closed bool
	idle   chan struct{} // closed once closed and without users
}

func newLife() *life { return &life{idle: make(chan struct{})} }

// enter reports whether the engine may be used until leave is called.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.users++
	return true
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.closed && l.users == 0 {
		close(l.idle)
	}
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
