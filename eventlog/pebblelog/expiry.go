package pebblelog

import (
	"container/heap"
	"sync"
	"time"

	"github.com/agstore/agstore/eventlog"
)

// leaseID names the lease of one run of the store.
type leaseID struct {
	ord uint64
	run uint32 // run ordinal
}

// deadline is when a lease is to be looked at. It may have been renewed since:
// the committer knows.
type deadline struct {
	id    leaseID
	key   eventlog.ThreadKey
	at    int64 // microseconds since 1970
	place int   // in the heap
}

// deadlines are those of all leases that expire, of threads in memory or not.
type deadlines struct {
	mu      sync.Mutex
	heap    dueHeap
	byID    map[leaseID]*deadline
	changed chan struct{} // has a value when the earliest has come earlier
	ended   chan struct{} // closed to end the loop
	idle    chan struct{} // closed by the loop when it has ended
}

func newDeadlines() *deadlines {
	return &deadlines{
		byID: make(map[leaseID]*deadline), changed: make(chan struct{}, 1),
		ended: make(chan struct{}), idle: make(chan struct{}),
	}
}

// end ends the loop that waits for deadlines, once nobody else is left.
func (d *deadlines) end() {
	close(d.ended)
	<-d.idle
}

// watch has a lease looked at then, and not at another time told before.
func (d *deadlines) watch(id leaseID, key eventlog.ThreadKey, at int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.byID[id]; one != nil {
		one.at = at
		heap.Fix(&d.heap, one.place)
	} else {
		one = &deadline{id: id, key: key, at: at}
		d.byID[id] = one
		heap.Push(&d.heap, one)
	}
	if d.heap[0].id == id {
		select {
		case d.changed <- struct{}{}:
		default:
		}
	}
}

// forget is for a lease that has ended or does not expire.
func (d *deadlines) forget(id leaseID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.byID[id]; one != nil {
		d.remove(one)
	}
}

func (d *deadlines) remove(one *deadline) {
	heap.Remove(&d.heap, one.place)
	delete(d.byID, one.id)
}

// next is the earliest deadline.
func (d *deadlines) next() (at int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.heap) == 0 {
		return 0, false
	}
	return d.heap[0].at, true
}

// take takes out deadlines up to now, not too many at once.
func (d *deadlines) take(now int64) []*deadline {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*deadline
	for len(out) < recoverThreads && len(d.heap) > 0 && d.heap[0].at <= now {
		one := d.heap[0]
		d.remove(one)
		out = append(out, one)
	}
	return out
}

// dueHeap has the earliest deadline in front.
type dueHeap []*deadline

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push and Pop are for package heap.
func (h *dueHeap) Push(x any) {
	one := x.(*deadline)
	one.place = len(*h)
	*h = append(*h, one)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	one := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return one
}

// expiryRetry is when a run is looked at again whose end could not be written.
const expiryRetry = time.Second

// expireLoop closes the runs whose leases have expired, when they do, so that
// who follows them sees the end although nobody starts another. It waits for
// the earliest deadline and for nothing else.
func (l *Log) expireLoop() {
	defer close(l.due.idle)
	for {
		var fired <-chan time.Time
		stop := func() bool { return false }
		if at, ok := l.due.next(); ok {
			wait := time.Duration(at-l.opts.Now().UnixMicro()) * time.Microsecond
			if wait <= 0 {
				l.closeExpired()
				continue
			}
			fired, stop = l.opts.After(wait)
		}
		select {
		case <-fired:
		case <-l.due.changed:
		case <-l.due.ended:
			stop()
			return
		}
		stop()
	}
}

// closeExpired has the committer look at the threads that are due. It tells of
// leases that go on when they are due next.
func (l *Log) closeExpired() {
	now := l.opts.Now().UnixMicro()
	due := l.due.take(now)
	calls := make(map[eventlog.ThreadKey]*call, len(due))
	for _, one := range due {
		if calls[one.key] != nil {
			continue
		}
		c := newCall(callExpire, "expire", one.key)
		if !l.queue.push(work{call: c}) {
			return // the log is closed: the next open finds them
		}
		calls[one.key] = c
	}
	for _, one := range due {
		c := calls[one.key]
		if !c.answered { // of several leases of one thread
			<-c.done
			c.answered = true
		}
		if c.err != nil {
			l.due.watch(one.id, one.key, now+expiryRetry.Microseconds())
		}
	}
}
