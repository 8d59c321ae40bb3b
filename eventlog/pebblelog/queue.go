package pebblelog

import (
	"runtime"
	"sync"
	"time"
)

// When the committer takes what waits. A group shares one sync, so the more
// calls are in it the less each costs: as long as a sync is under way calls
// gather for the next, unless there are so many that their group should be made
// meanwhile.
const (
	groupItems     = 4096 // calls and writers that share one batch
	groupsInFlight = 3    // groups applied and not yet settled
	groupEarly     = 128  // weight that need not wait for the group before
)

// queue holds what the committer has to do, and says when it is time for it. Its
// length is bounded by its callers: each waits for its call, and a writer stands
// in it once.
type queue struct {
	mu     sync.Mutex
	items  []work
	weight int    // of the items
	spare  []work // room that can be used again
	flying int    // groups sent and not yet settled
	roused bool   // pop is to return, with work or without
	closed bool
	signal chan struct{}
}

// work is a call, or a writer that has calls waiting.
type work struct {
	call   *call
	writer *writer
}

// weight is one for the call or the writer and one for each event of a call.
func (w work) weight() int {
	if w.call == nil {
		return 1
	}
	return 1 + len(w.call.events)
}

func newQueue() *queue { return &queue{signal: make(chan struct{}, 1)} }

// push reports whether the item was taken; it is not once the queue is closed.
func (q *queue) push(w work) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.addLocked(w)
	return true
}

// again puts a writer back that has more than one commit may hold, even if the
// queue has been closed meanwhile.
func (q *queue) again(w *writer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(work{writer: w})
}

func (q *queue) addLocked(w work) {
	q.items = append(q.items, w)
	q.weight += w.weight()
	q.wakeLocked()
}

// sent and settled count the groups under way.
func (q *queue) sent() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying++
}

func (q *queue) settled() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flying--
	q.wakeLocked()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wakeLocked()
}

// rouse has the committer look at more than its work.
func (q *queue) rouse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.roused = true
	q.signalLocked()
}

// readyLocked reports whether it is time for the next group.
func (q *queue) readyLocked() bool {
	if len(q.items) == 0 {
		return false
	}
	return q.flying == 0 || q.flying < groupsInFlight && q.weight >= groupEarly
}

// wakeLocked wakes the committer if there is something to do for it.
func (q *queue) wakeLocked() {
	if q.readyLocked() || q.closed {
		q.signalLocked()
	}
}

func (q *queue) signalLocked() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// pop waits for work, to be roused, or for a tick, and takes up to n items, which
// are valid until the next call. Nothing more will come when open is false.
func (q *queue) pop(n int, tick <-chan time.Time) (items []work, ticked, open bool) {
	for {
		q.mu.Lock()
		ready, ended, roused := q.readyLocked(), q.closed && len(q.items) == 0, q.roused
		q.roused = false
		q.mu.Unlock()
		if ended {
			return nil, false, false
		}
		if ready {
			break
		}
		if roused {
			return nil, false, true
		}
		select {
		case <-q.signal:
		case <-tick:
			return nil, true, true
		}
	}
	// Those whose calls have just been answered are about to come with the next
	// ones: let them run before the group is closed. Twice, as the first lets
	// only those run that were woken on this processor. It costs nothing when
	// nobody else can run.
	runtime.Gosched()
	runtime.Gosched()
	return q.take(n), false, true
}

func (q *queue) take(n int) []work {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.items
	clear(q.spare)
	q.items = q.spare[:0]
	if len(taken) > n {
		q.items = append(q.items, taken[n:]...)
		clear(taken[n:])
		taken = taken[:n]
	}
	q.weight = 0
	for _, w := range q.items {
		q.weight += w.weight()
	}
	q.spare = taken
	return taken
}
