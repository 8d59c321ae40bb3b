package pebblelog

import (
	"container/list"
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
	idle   *list.List // of *thread without pins, latest used first
	places map[*thread]*list.Element
	weight int // of the idle ones
}

func newCache(l *Log, bound int) *cache {
	return &cache{
		log: l, bound: bound, idle: list.New(),
		byKey: make(map[eventlog.ThreadKey]*thread), places: make(map[*thread]*list.Element),
	}
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
	if place, ok := c.places[t]; ok {
		c.idle.Remove(place)
		delete(c.places, t)
		c.weight -= t.weight
	}
}

func (c *cache) pin(t *thread) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pinLocked(t)
}

func (c *cache) release(t *thread) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c.weight += t.weight
	c.places[t] = c.idle.PushFront(t)
	for c.weight > c.bound && c.idle.Len() > 1 {
		last := c.idle.Back()
		old := c.idle.Remove(last).(*thread)
		delete(c.places, old)
		delete(c.byKey, old.key)
		c.weight -= old.weight
	}
}
