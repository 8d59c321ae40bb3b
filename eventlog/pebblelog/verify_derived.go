package pebblelog

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/eventlog"
)

// derivedCheck looks at derived rows, space by space. What is wrong with one is
// mended by removing the space: it is made anew.
type derivedCheck struct {
	v      *verifier
	thread eventlog.ThreadKey // whose they are; zero: of a scope
	space  []byte             // the prefix of the space at hand
	head   eventlog.At        // the zero value: it has none that is sound
	latest uint64             // position of the latest commit that is there
}

// rows walks the rows behind a prefix. skip says that one need not agree with
// anything.
func (c *derivedCheck) rows(r pebble.Reader, from, prefix []byte, skip func(at eventlog.At) bool) (next []byte) {
	c.latest = c.v.mark
	c.v.lastCommit(r, &c.latest)
	return c.v.walk(r, from, after(prefix), func(key, value []byte) bool {
		c.v.done.Bytes += uint64(len(value))
		base := baseOf(key)
		owner, ok := ownerOf(key[len(base):])
		if base == nil || !ok {
			c.v.strange(key)
			return true
		}
		space := key[:len(base)+1+len(owner)]
		first := !bytes.Equal(space, c.space)
		if first {
			c.space, c.head = bytes.Clone(space), eventlog.At{}
		}
		c.row(key, value, first, skip)
		return true
	})
}

func (c *derivedCheck) row(key, value []byte, first bool, skip func(at eventlog.At) bool) {
	at, _, err := c.v.dec.derived(value)
	if err == nil && skip(at) {
		c.head = at
		return
	}
	isHead := len(key) == len(c.space)
	switch {
	case err != nil:
		c.fault(key, "a derived row is damaged: "+err.Error())
	case isHead:
		c.head = at
	case first:
		c.fault(key, "derived rows have no head")
	case c.head != (eventlog.At{}) && at.Removals != c.head.Removals:
		c.fault(key, "a derived row is of another time than its head")
	}
	if err == nil && at.Position > c.latest {
		c.fault(key, "a derived row is ahead of the log")
	}
}

func (c *derivedCheck) fault(key []byte, detail string) {
	c.v.fault(eventlog.Fault{Kind: eventlog.FaultView, Thread: c.thread, Place: place(key), Detail: detail}, fix{c.space, nil})
}

// lastCommit gives the position of the latest commit, if that can be read.
func (v *verifier) lastCommit(r pebble.Reader, position *uint64) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixCommit}, UpperBound: []byte{prefixCommit + 1}})
	if err != nil {
		return
	}
	defer it.Close()
	if it.Last() && len(it.Key()) == 9 {
		*position = max(*position, commitPosition(it.Key()))
	}
}

// spaces walks what was derived from the thread.
func (t *threadCheck) spaces(r pebble.Reader) (done bool) {
	v := t.v
	prefix := threadSpaces(t.ord)
	if t.from == nil {
		t.from, t.derivedRows = prefix, derivedCheck{v: v, thread: t.row.key}
	}
	receipts, err := lastReceipt(r, t.ord)
	_, pending, _ := v.get(r, pendingKey(t.ord, receipts))
	remains := 0
	t.from = t.derivedRows.rows(r, t.from, prefix, func(at eventlog.At) bool {
		if err != nil || at.Removals >= receipts && t.row.state != stateErased {
			return false
		}
		if !pending && !t.moving() {
			remains++
		}
		return true
	})
	if remains > 0 {
		t.fault(eventlog.FaultRemains, eventlog.Fault{Place: place(prefix)}, "%d derived rows are still stored that were made of what was removed", remains)
	}
	return t.from == nil
}

// ofScopes looks at what was derived from scopes.
func (v *verifier) ofScopes() error {
	next := []byte{prefixOfScope}
	check := derivedCheck{v: v}
	return v.each(func(r pebble.Reader) bool {
		next = check.rows(r, next, []byte{prefixOfScope}, func(eventlog.At) bool { return false })
		return next == nil
	})
}
