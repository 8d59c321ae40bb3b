package pebblelog

import (
	"sync"

	"github.com/agstore/agstore/eventlog"
)

// cache keeps threads that are in use, and the latest used of the others up to
// a bound.
type cache struct {
	log    *Log
	bound  int
	mu     sync.Mutex
	byKey  map[eventlog.ThreadKey]*thread
	idle   thread // the ring of threads without pins, latest used first
	weight int    // of the idle ones
}

func newCache(l *Log, bound int) *cache {
	c := &cache{log: l, bound: bound, byKey: make(map[eventlog.ThreadKey]*thread)}
	c.idle.prev, c.idle.next = &c.idle, &c.idle
	return c
}

// acquire gives the loaded thread, pinned. It must be released, also when err is
// not nil.
func (c *cache) acquire(key eventlog.ThreadKey) (*thread, error) {
	c.mu.Lock()
	t, known := c.byKey[key]
	if !known {
		t = &thread{key: key, ready: make(chan struct{})}
		c.byKey[key] = t
	}
	c.pinLocked(t)
	c.mu.Unlock()
	if !known {
		t.err = t.load(c.log)
		close(t.ready)
	}
	<-t.ready
	return t, t.err
}

// cached gives the thread, pinned, if it is in memory.
func (c *cache) cached(key eventlog.ThreadKey) (*thread, bool) {
	c.mu.Lock()
	t, known := c.byKey[key]
	if known {
		c.pinLocked(t)
	}
	c.mu.Unlock()
	if known {
		<-t.ready
	}
	return t, known
}

func (c *cache) pinLocked(t *thread) {
	t.pins++
	if t.next != nil {
		c.unlinkLocked(t)
	}
}

// linkLocked puts a thread in front of the idle ones.
func (c *cache) linkLocked(t *thread) {
	t.prev, t.next = &c.idle, c.idle.next
	t.prev.next, t.next.prev = t, t
	c.weight += t.weight
}

func (c *cache) unlinkLocked(t *thread) {
	t.prev.next, t.next.prev = t.next, t.prev
	t.prev, t.next = nil, nil
	c.weight -= t.weight
}

func (c *cache) pin(t *thread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinLocked(t)
}

// release gives back one pin of each thread.
func (c *cache) release(threads ...*thread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range threads {
		c.releaseLocked(t)
	}
	for last := c.idle.prev; c.weight > c.bound && last != c.idle.next; last = c.idle.prev {
		c.unlinkLocked(last)
		delete(c.byKey, last.key)
	}
}

func (c *cache) releaseLocked(t *thread) {
	t.pins--
	if t.pins > 0 {
		return
	}
	t.mu.RLock()
	exists, runs := t.published.exists, len(t.published.runs)
	t.mu.RUnlock()
	if t.err != nil || !exists {
		delete(c.byKey, t.key)
		return
	}
	t.weight = 16 + runs
	c.linkLocked(t)
}
