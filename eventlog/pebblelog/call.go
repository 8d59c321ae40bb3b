package pebblelog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
	callDo        // something of the log's own
)

// call is one write on its way through the committer.
type call struct {
	kind   callKind
	op     string
	state  atomic.Int32
	key    eventlog.ThreadKey
	events []event
	bytes  int
	charge int // of the log's budget, until it is settled

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

	do func(g *group, t *thread) error // callDo

	// The answer, to be read once something has come out of done.
	done     chan struct{}
	answered bool // it was waited for
	res      eventlog.Appended
	err      error

	// expires is when a lease that was used ends now; 0: it does not expire.
	expires int64

	room room
}

// room is memory for checked events. It can be used again once their call is
// answered: what of them is kept beyond that is copied.
type room struct {
	events []event
	bytes  []byte
}

// What is kept of a room that is not in use.
const (
	roomEvents = 16
	roomBytes  = 16 << 10
)

// The states of a call. It can be withdrawn only while it is queued.
const (
	callQueued = iota
	callTaken
	callWithdrawn
)

func newCall(kind callKind, op string, key eventlog.ThreadKey) *call {
	return &call{kind: kind, op: op, key: key, done: make(chan struct{}, 1)}
}

// borrow gives a call with room for its events, to be given back by who waits
// for its answer.
func (l *Log) borrow(kind callKind, op string, key eventlog.ThreadKey) *call {
	c := l.calls.Get().(*call)
	c.kind, c.op, c.key = kind, op, key
	return c
}

// giveBack takes a borrowed call that nobody else can look at any more: it was
// never queued, or its answer has been seen.
func (l *Log) giveBack(c *call) {
	r := c.room
	if cap(r.events) > roomEvents || cap(r.bytes) > roomBytes {
		r = room{}
	}
	clear(r.events[:cap(r.events)])
	*c = call{done: c.done, room: r}
	l.calls.Put(c)
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
		c.answered = true
		return c.res, c.err
	default:
	}
	select {
	case <-c.done:
		c.answered = true
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
//
// It waits for room in the log's budget; what it returns without an error is
// charged to it.
func (l *Log) check(ctx context.Context, op string, key eventlog.ThreadKey, events [][]byte) ([]event, int, error) {
	return l.checkInto(ctx, new(room), op, key, events)
}

func (l *Log) checkInto(ctx context.Context, r *room, op string, key eventlog.ThreadKey, events [][]byte) ([]event, int, error) {
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
	if err := l.admit(ctx, op, key, charge(size, len(events))); err != nil {
		return nil, 0, err
	}
	if cap(r.bytes) < size || cap(r.events) < len(events) {
		r.bytes, r.events = make([]byte, 0, size), make([]event, len(events))
	}
	store, out := r.bytes[:0], r.events[:len(events)]
	for i, raw := range events {
		from := len(store)
		store = append(store, trim(raw)...)
		out[i].raw = store[from:len(store):len(store)]
		if err := agui.ReadHeader(out[i].raw, &out[i].head); err != nil {
			l.budget.release(charge(size, len(events)))
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
