package projection

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/agstore/agstore/eventlog"
)

// Keys of a projection's rows: what it keeps for itself, and the reducer's, of
// which the state of Reduce is the one of the empty key.
const (
	ownKey   = "\x00"
	userKey  = "\x01"
	stateKey = ""
)

// Rows are the rows of a projection as a reducer sees and changes them. What it
// changes is stored with the position of the record, or not at all.
type Rows struct {
	ctx     context.Context
	store   eventlog.Derived
	space   eventlog.Space
	at      eventlog.At // where the stored rows are
	anew    bool        // as if nothing were stored
	changed map[string]change
	bytes   int
	err     error // of the store
}

type change struct {
	value   []byte
	deleted bool
}

func newRows(ctx context.Context, store eventlog.Derived, space eventlog.Space, at eventlog.At) *Rows {
	return &Rows{ctx: ctx, store: store, space: space, at: at, anew: at == (eventlog.At{}), changed: make(map[string]change)}
}

// Get gives the row of a key, and whether there is one. It is the caller's to
// change; Put stores it.
func (r *Rows) Get(key string) ([]byte, bool) { return r.get(userKey + key) }

func (r *Rows) get(key string) ([]byte, bool) {
	if c, ok := r.changed[key]; ok {
		return c.value, !c.deleted
	}
	if r.anew || r.err != nil {
		return nil, false
	}
	row, err := r.store.DerivedGet(r.ctx, r.space, []byte(key))
	if err != nil {
		if !errors.Is(err, eventlog.ErrNotFound) {
			r.err = err
		}
		return nil, false
	}
	return row.Value, true
}

// Put writes the row of a key. The value is the projection's from then on.
func (r *Rows) Put(key string, value []byte) { r.put(userKey+key, change{value: value}) }

// Delete removes the row of a key, if there is one.
func (r *Rows) Delete(key string) { r.put(userKey+key, change{deleted: true}) }

func (r *Rows) put(key string, c change) {
	r.bytes += len(key) + len(c.value)
	r.changed[key] = c
}

// Scan yields the rows whose keys begin with a prefix, in order. It holds all of
// them in memory.
func (r *Rows) Scan(prefix string) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		all := make(map[string][]byte)
		if !r.anew && r.err == nil {
			from := []byte(userKey + prefix)
			for row, err := range r.store.DerivedScan(r.ctx, r.space, eventlog.ScanOptions{From: from}) {
				if err != nil {
					r.err = err
					return
				}
				if !bytes.HasPrefix(row.Key, from) {
					break
				}
				all[string(row.Key[len(userKey):])] = row.Value
			}
		}
		for key, c := range r.changed {
			own, ok := strings.CutPrefix(key, userKey)
			if !ok || !strings.HasPrefix(own, prefix) {
				continue
			}
			if c.deleted {
				delete(all, own)
			} else {
				all[own] = c.value
			}
		}
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if !yield(key, all[key]) {
				return
			}
		}
	}
}

// store writes what was changed, and goes on from there.
func (r *Rows) write(to eventlog.At) error {
	b := eventlog.DerivedBatch{From: r.at, To: to, Anew: r.anew}
	for _, key := range slices.Sorted(maps.Keys(r.changed)) {
		c := r.changed[key]
		b.Changes = append(b.Changes, eventlog.DerivedChange{Key: []byte(key), Value: c.value, Delete: c.deleted})
	}
	if err := r.store.DerivedWrite(r.ctx, r.space, b); err != nil {
		return err
	}
	r.at, r.anew, r.bytes = to, false, 0
	clear(r.changed)
	return nil
}

// full reports whether so much was changed that it is to be written.
func (r *Rows) full() bool { return r.bytes > rowsBytes }

// rowsBytes bounds what is changed in memory before it is written, at the end of a
// commit.
const rowsBytes = 4 << 20
