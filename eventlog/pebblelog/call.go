package pebblelog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

// event is one checked event of a call. The header's ids alias raw.
type event struct {
	raw    []byte
	head   agui.Header
	digest [chainBytes]byte // of raw
}

type callKind uint8

const (
	callAppend callKind = iota
	callBegin
	callWrite     // events through a lease
	callEnd       // a lease is given back
	callRenew     // a lease is renewed
	callLeased    // events through a lease, without a writer
	callTake      // a lease is given on a run that is there
	callAttach    // a writer is wanted for a lease that was given
	callExpire    // runs whose leases have expired are closed
	callRecover   // runs of a process that died are closed
	callRows      // rows that belong to no commit
	callCompanion // entries of the companion stream
)

// call is one write on its way through the committer.
type call struct {
	kind   callKind
	op     string
	state  atomic.Int32
	key    eventlog.ThreadKey
	events []event
	bytes  int

	origin eventlog.Origin
	run    agui.RunKey
	parent *agui.RunKey
	expect eventlog.Expect
	idem   string
	digest [16]byte // of the events for idem; of the input for callBegin

	lease    eventlog.Lease   // callAttach and callLeased
	holder   eventlog.Holder  // callBegin and callTake
	takeOver bool             // callBegin
	entries  []eventlog.Entry // callCompanion

	writer        *writer                                 // callWrite, callEnd, callRenew; the answer to callBegin, callTake, callAttach
	code, message string                                  // callEnd
	rows          func(put func(key, value []byte)) error // callRows; a nil value deletes

	// The answer, to be read once done is closed.
	done chan struct{}
	res  eventlog.Appended
	err  error
	// expires is when a lease that was used ends now; 0: it does not expire.
	expires int64
}

// The states of a call. It can be withdrawn only while it is queued.
const (
	callQueued = iota
	callTaken
	callWithdrawn
)

func newCall(kind callKind, op string, key eventlog.ThreadKey) *call {
	return &call{kind: kind, op: op, key: key, done: make(chan struct{})}
}

func (c *call) take() bool     { return c.state.CompareAndSwap(callQueued, callTaken) }
func (c *call) withdraw() bool { return c.state.CompareAndSwap(callQueued, callWithdrawn) }

// fail is err as the answer to this call.
func (c *call) fail(err error) error {
	return &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: err}
}

// wait gives the answer, or the end of the context.
func (c *call) wait(ctx context.Context) (eventlog.Appended, error) {
	select {
	case <-c.done:
		return c.res, c.err
	default:
	}
	select {
	case <-c.done:
		return c.res, c.err
	case <-ctx.Done():
	}
	e := &eventlog.Error{Op: c.op, Key: c.key, Run: c.run, Err: ctx.Err(), Hint: "nothing was written"}
	if !c.withdraw() {
		e.Hint = hintUnknown
	}
	return eventlog.Appended{}, e
}

// check copies and checks events: what it returns no longer depends on the
// caller's memory.
func (l *Log) check(op string, key eventlog.ThreadKey, events [][]byte) ([]event, int, error) {
	refuse := func(line int, err error) error {
		return &eventlog.Error{Op: op, Key: key, Line: line, Err: err}
	}
	limits := &l.opts.Limits
	if len(events) > limits.BatchEvents {
		return nil, 0, refuse(0, &eventlog.TooLargeError{What: "batch events", Size: len(events), Limit: limits.BatchEvents})
	}
	size := 0
	for i, raw := range events {
		n := len(trim(raw))
		if n > limits.EventBytes {
			return nil, 0, refuse(i+1, &eventlog.TooLargeError{What: "event", Size: n, Limit: limits.EventBytes})
		}
		size += n
	}
	if size > limits.BatchBytes {
		return nil, 0, refuse(0, &eventlog.TooLargeError{What: "batch", Size: size, Limit: limits.BatchBytes})
	}
	store := make([]byte, 0, size)
	out := make([]event, len(events))
	for i, raw := range events {
		from := len(store)
		store = append(store, trim(raw)...)
		out[i].raw = store[from:len(store):len(store)]
		if err := agui.ReadHeader(out[i].raw, &out[i].head); err != nil {
			return nil, 0, refuse(i+1, err)
		}
		out[i].digest = payloadDigest(out[i].raw)
	}
	return out, size, nil
}

// trim takes off the white space that JSON allows around a text.
func trim(raw []byte) []byte { return bytes.Trim(raw, " \t\r\n") }

func (l *Log) checkKey(op string, key eventlog.ThreadKey) error {
	for _, id := range []struct{ what, text string }{{"scope", key.Scope}, {"thread id", key.Thread}} {
		if id.text == "" {
			return &eventlog.Error{Op: op, Key: key, Err: &eventlog.InvalidError{Reason: "the " + id.what + " is empty"}}
		}
		if !agui.IsText(id.text) {
			return &eventlog.Error{Op: op, Err: &eventlog.InvalidError{Reason: "the " + id.what + " is not UTF-8"}}
		}
		if len(id.text) > l.opts.Limits.IDBytes {
			return &eventlog.Error{Op: op, Err: &eventlog.TooLargeError{What: id.what, Size: len(id.text), Limit: l.opts.Limits.IDBytes}}
		}
	}
	return nil
}

// digestOf tells the events of one batch from those of another.
func digestOf(events []event) (out [16]byte) {
	h := sha256.New()
	var size [8]byte
	for i := range events {
		binary.BigEndian.PutUint64(size[:], uint64(len(events[i].raw)))
		h.Write(size[:])
		h.Write(events[i].raw)
	}
	copy(out[:], h.Sum(nil))
	return out
}

// queue holds what the committer has to do. Its length is bounded by its
// callers: each waits for its call, and a writer stands in it once.
type queue struct {
	mu     sync.Mutex
	items  []work
	closed bool
	signal chan struct{}
}

// work is a call, or a writer that has calls waiting.
type work struct {
	call   *call
	writer *writer
}

func newQueue() *queue { return &queue{signal: make(chan struct{}, 1)} }

// push reports whether the item was taken; it is not once the queue is closed.
func (q *queue) push(w work) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, w)
	q.wake()
	return true
}

func (q *queue) wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

// pop waits for work and takes up to n items. Nothing more will come when it
// gives none.
func (q *queue) pop(n int) []work {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			n = min(n, len(q.items))
			out := q.items[:n:n]
			q.items = q.items[n:]
			if len(q.items) == 0 {
				q.items = nil
			} else {
				q.wake()
			}
			q.mu.Unlock()
			return out
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return nil
		}
		<-q.signal
	}
}
