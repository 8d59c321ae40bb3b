package pebblelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/agstore/agstore/agui"
	"github.com/agstore/agstore/eventlog"
)

var _ eventlog.Derived = (*Log)(nil)

// How derived rows are written. They do not go through the committer: a write is
// one engine batch that nobody syncs. The write-ahead log is in order, so that a
// row that is found after a crash has before it all that was durable when it was
// written, which is what it was derived from. Writes take turns (derivedWrites),
// and look at the published state of their thread in their turn; whoever removes
// rows waits for a turn first, so that what was let in before the removal was
// published lies below what removes it.
//
// Each space has a head, the row of the empty key: where its rows are. It is
// written with every change, and a space without one has no rows, whatever there
// is.

// derivedWrites is whose turn it is to write derived rows.
type derivedWrites struct {
	mu  sync.Mutex
	enc *encoder
	dec *decoder
}

// barrier waits for the write whose turn it is.
func (w *derivedWrites) barrier() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// derivedPlace is a space in the store.
type derivedPlace struct {
	base     []byte // of the keys of all owners
	prefix   []byte // of its keys
	receipts uint64 // of its thread; 0 in a scope
}

// live reports whether rows of that head are to be seen.
func (p *derivedPlace) live(at eventlog.At) bool { return at.Removals == p.receipts }

// checkSpace refuses a space that cannot be.
func (l *Log) checkSpace(op string, s eventlog.Space) error {
	key := eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}
	if key.Thread == "" {
		key.Thread = "-" // any that can be
		if key.Scope == "" {
			key.Scope = "-"
		}
	}
	if err := l.checkKey(op, key); err != nil {
		return err
	}
	refuse := func(err error) error {
		return &eventlog.Error{Op: op, Key: eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}, Err: err}
	}
	switch {
	case s.Owner == "":
		return refuse(&eventlog.InvalidError{Reason: "the owner of derived rows is empty"})
	case len(s.Owner) > eventlog.DerivedOwnerBytes:
		return refuse(&eventlog.TooLargeError{What: "owner of derived rows", Size: len(s.Owner), Limit: eventlog.DerivedOwnerBytes})
	case !agui.IsText(s.Owner):
		return refuse(&eventlog.InvalidError{Reason: "the owner of derived rows is not UTF-8"})
	}
	return nil
}

// inSpace does something with a space, whose thread stays in memory meanwhile.
func (l *Log) inSpace(op string, s eventlog.Space, do func(see func() (derivedPlace, error)) error) error {
	if err := l.checkSpace(op, s); err != nil {
		return err
	}
	key := eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}
	return l.reading(op, key, func() error {
		if s.Thread == "" {
			base := scopeSpaces(s.Scope)
			return do(func() (derivedPlace, error) { return derivedPlace{base: base, prefix: appendOwner(base, s.Owner)}, nil })
		}
		t, err := l.cache.acquire(key)
		defer l.cache.release(t)
		if err != nil {
			return err
		}
		return do(func() (derivedPlace, error) {
			t.mu.RLock()
			defer t.mu.RUnlock()
			switch p := &t.published; {
			case !p.exists:
				return derivedPlace{}, eventlog.ErrThreadNotFound
			case p.erased != nil:
				return derivedPlace{}, p.erased
			default:
				base := threadSpaces(p.ord)
				return derivedPlace{base: base, prefix: appendOwner(base, s.Owner), receipts: p.receipts}, nil
			}
		})
	})
}

// readSpace is inSpace for who reads.
func (l *Log) readSpace(op string, s eventlog.Space, do func(p derivedPlace) error) error {
	return l.inSpace(op, s, func(see func() (derivedPlace, error)) error {
		p, err := see()
		if err != nil {
			return err
		}
		return do(p)
	})
}

// head gives where the rows of a space are. Those of what was removed since, and
// those behind a damaged head, are as if they were not there.
func (l *Log) head(p derivedPlace, d *decoder) (at eventlog.At, err error) {
	value, ok, err := l.get(p.prefix)
	if err != nil || !ok {
		return at, err
	}
	at, _, err = d.derived(value)
	if errors.Is(err, errDamaged) || err == nil && !p.live(at) {
		return eventlog.At{}, nil
	}
	return at, err
}

// DerivedAt implements [eventlog.Derived].
func (l *Log) DerivedAt(_ context.Context, s eventlog.Space) (at eventlog.At, err error) {
	err = l.readSpace("look at derived rows", s, func(p derivedPlace) (err error) {
		at, err = l.head(p, newDecoder())
		return err
	})
	return at, err
}

// DerivedGet implements [eventlog.Derived].
func (l *Log) DerivedGet(_ context.Context, s eventlog.Space, key []byte) (row eventlog.DerivedRow, err error) {
	const op = "read a derived row"
	err = l.readSpace(op, s, func(p derivedPlace) error {
		d := newDecoder()
		at, err := l.head(p, d)
		if err != nil {
			return err
		}
		value, ok, err := l.get(append(bytes.Clone(p.prefix), key...))
		if err != nil {
			return err
		}
		if at == (eventlog.At{}) || !ok || len(key) == 0 {
			return fmt.Errorf("derived row %w", eventlog.ErrNotFound)
		}
		if row.At, row.Value, err = d.derived(value); err != nil {
			return err
		}
		if !p.live(row.At) {
			return fmt.Errorf("derived row %w", eventlog.ErrNotFound) // a removal came in between
		}
		row.Key = bytes.Clone(key)
		return nil
	})
	return row, err
}

// DerivedScan implements [eventlog.Derived].
func (l *Log) DerivedScan(ctx context.Context, s eventlog.Space, opts eventlog.ScanOptions) iter.Seq2[eventlog.DerivedRow, error] {
	const op = "scan derived rows"
	opts.From, opts.To = bytes.Clone(opts.From), bytes.Clone(opts.To)
	return func(yield func(eventlog.DerivedRow, error) bool) {
		fail := func(err error) { yield(eventlog.DerivedRow{}, err) }
		c := derivedScan{opts: opts, left: opts.Limit, items: derivedFirst, dec: newDecoder()}
		for !c.done {
			if ctx.Err() != nil {
				fail(&eventlog.Error{Op: op, Key: eventlog.ThreadKey{Scope: s.Scope, Thread: s.Thread}, Err: ctx.Err()})
				return
			}
			var chunk []eventlog.DerivedRow
			err := l.readSpace(op, s, func(p derivedPlace) (err error) {
				chunk, err = c.chunk(l, p)
				return err
			})
			for _, row := range chunk {
				if !yield(row, nil) {
					return
				}
			}
			if err != nil {
				fail(err)
				return
			}
		}
	}
}

// derivedFirst is how many rows the first step of a scan reads; each further one
// reads twice as many.
const derivedFirst = 64

// derivedScan is where a scan is.
type derivedScan struct {
	opts  eventlog.ScanOptions // From and To are what is left
	left  int                  // rows; with a limit
	items int                  // of the next step
	done  bool
	dec   *decoder
}

func (c *derivedScan) chunk(l *Log, p derivedPlace) (out []eventlog.DerivedRow, err error) {
	at, err := l.head(p, c.dec)
	if err != nil || at == (eventlog.At{}) {
		c.done = true
		return nil, err
	}
	bounds := &pebble.IterOptions{LowerBound: append(bytes.Clone(p.prefix), 0), UpperBound: after(p.prefix)}
	if len(c.opts.From) > 0 {
		bounds.LowerBound = append(bytes.Clone(p.prefix), c.opts.From...)
	}
	if c.opts.To != nil {
		bounds.UpperBound = append(bytes.Clone(p.prefix), c.opts.To...)
	}
	if bytes.Compare(bounds.LowerBound, bounds.UpperBound) >= 0 {
		c.done = true
		return nil, nil
	}
	it, err := l.db.NewIter(bounds)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	first, next := it.First, it.Next
	if c.opts.Reverse {
		first, next = it.Last, it.Prev
	}
	size := 0
	for ok := first(); ok; ok = next() {
		if len(out) >= c.items || size >= chunkBytes {
			c.items = min(2*c.items, chunkItems)
			return out, nil
		}
		at, value, err := c.dec.derived(it.Value())
		if err != nil {
			return out, fmt.Errorf("%s: %w", place(it.Key()), err)
		}
		key := bytes.Clone(it.Key()[len(p.prefix):])
		if c.opts.Reverse {
			c.opts.To = key
		} else {
			c.opts.From = append(bytes.Clone(key), 0)
		}
		if !p.live(at) {
			continue
		}
		out = append(out, eventlog.DerivedRow{Key: key, Value: bytes.Clone(value), At: at})
		size += len(value)
		if c.left > 0 {
			if c.left--; c.left == 0 {
				c.done = true
				return out, nil
			}
		}
	}
	c.done = true
	return out, it.Error()
}

// DerivedSpaces implements [eventlog.Derived].
func (l *Log) DerivedSpaces(ctx context.Context, scope, thread string) iter.Seq2[eventlog.DerivedSpace, error] {
	const op = "list derived rows"
	s := eventlog.Space{Scope: scope, Thread: thread, Owner: "-"} // any that can be
	return func(yield func(eventlog.DerivedSpace, error) bool) {
		var out []eventlog.DerivedSpace
		err := l.readSpace(op, s, func(p derivedPlace) error {
			return l.eachSpace(p.base, func(prefix []byte, owner string) error {
				own := p
				own.prefix = prefix
				at, err := l.head(own, newDecoder())
				if err != nil || at == (eventlog.At{}) {
					return err
				}
				out = append(out, eventlog.DerivedSpace{Space: eventlog.Space{Scope: scope, Thread: thread, Owner: owner}, At: at})
				return ctx.Err()
			})
		})
		for _, space := range out {
			if !yield(space, nil) {
				return
			}
		}
		if err != nil {
			yield(eventlog.DerivedSpace{}, err)
		}
	}
}

// eachSpace visits the spaces behind a prefix that ends before the owner. The
// prefix that visit gets is its to keep.
func (l *Log) eachSpace(base []byte, visit func(prefix []byte, owner string) error) error {
	it, err := l.iterate(base)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; {
		owner, ok2 := ownerOf(it.Key()[len(base):])
		if !ok2 {
			ok = it.Next() // verify tells of it
			continue
		}
		prefix := appendOwner(base, owner)
		if err := visit(prefix, owner); err != nil {
			return err
		}
		ok = it.SeekGE(after(prefix))
	}
	return it.Error()
}
