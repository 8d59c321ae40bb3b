package pebblelog

import (
	"container/list"
	"context"
	"sync"

	"github.com/agstore/agstore/eventlog"
)

// eventBytes is what an event needs in memory beside its payload.
const eventBytes = 512

// charge is what a call with so many events, of so many bytes together, counts
// against the bounds.
func charge(bytes, events int) int { return bytes + eventBytes*(events+1) }

// Backlog is what the appends of a log have under way: taken, and not yet
// durable. Sizes are in bytes, and count 512 for each call and event beside the
// payloads.
type Backlog struct {
	Bytes   int // now
	Peak    int // the most there was since the log was opened
	Limit   int // beyond which appends wait
	Waiting int // appends that do
}

// Backlog tells what is under way at the moment.
func (l *Log) Backlog() Backlog { return l.budget.look() }

// budget bounds what all appends together have under way. Who finds no room
// waits in line: nobody who comes later, however small, goes before. One that is
// larger than the whole budget goes when it is alone.
type budget struct {
	mu     sync.Mutex
	limit  int
	held   int
	peak   int
	line   list.List // of *turn
	closed chan struct{}
}

// turn is that of one in the line.
type turn struct {
	size  int
	given chan struct{} // closed once it has its room
}

func newBudget(limit int) *budget { return &budget{limit: limit, closed: make(chan struct{})} }

// take takes room if there is some and nobody waits for it; else it gives a
// place in the line.
func (b *budget) take(size int) *list.Element {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line.Len() == 0 && b.fits(size) {
		b.add(size)
		return nil
	}
	return b.line.PushBack(&turn{size: size, given: make(chan struct{})})
}

func (b *budget) fits(size int) bool { return b.held == 0 || b.held+size <= b.limit }

func (b *budget) add(size int) {
	b.held += size
	b.peak = max(b.peak, b.held)
}

// release gives room back, and hands it to those in front of the line.
func (b *budget) release(size int) {
	if size == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= size
	b.serve()
}

func (b *budget) serve() {
	for e := b.line.Front(); e != nil; e = b.line.Front() {
		p := e.Value.(*turn)
		if !b.fits(p.size) {
			return
		}
		b.add(p.size)
		b.line.Remove(e)
		close(p.given)
	}
}

// leave gives up a turn, or the room that was given meanwhile.
func (b *budget) leave(e *list.Element) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := e.Value.(*turn)
	select {
	case <-p.given:
		b.held -= p.size
	default:
		b.line.Remove(e)
	}
	b.serve()
}

// close sends everybody in the line away.
func (b *budget) close() { close(b.closed) }

func (b *budget) look() Backlog {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Backlog{Bytes: b.held, Peak: b.peak, Limit: b.limit, Waiting: b.line.Len()}
}

// admit waits until there is room for an append, before anything of it is
// copied. Who is refused has written nothing.
func (l *Log) admit(ctx context.Context, op string, key eventlog.ThreadKey, size int) error {
	e := l.budget.take(size)
	if e == nil {
		return nil
	}
	refuse := func(err error, hint string) error {
		l.budget.leave(e)
		return &eventlog.Error{Op: op, Key: key, Err: err, Hint: hint}
	}
	select {
	case <-e.Value.(*turn).given:
		return nil
	case <-ctx.Done():
		return refuse(ctx.Err(), "nothing was written: it waited for appends before it to become durable")
	case <-l.budget.closed:
		return refuse(eventlog.ErrClosed, "nothing was written")
	case <-l.failure.happened():
		err := l.failure.last()
		return refuse(err, hintPoisoned+l.advice(err))
	}
}
